"""All-reduce in a GPU pod: what each run measured, the lines through its sizes, and what the model calibrated on them
says of larger pods."""

from __future__ import annotations

from dataclasses import dataclass, replace

from analysis.kinds.collective_calls import SizeRow, algorithm, model_setting, ranks, size_rows
from analysis.kinds.collective_model import Line, Setting, fit, seconds
from analysis.run import Run
from analysis.spec import GPUS_PER_SERVER
from topologies.units import parse_bytes, parse_rate_bps

RING, OVERLAPPED, IN_TURN = "flat ring", "hierarchical, overlapped", "hierarchical, in turn"
_ONE_PIECE_BYTES = 1 << 62  # of a message: in turn, the data is one piece whatever its size


@dataclass(frozen=True)
class Point:
    """A run of the pod: servers, the way in words (RING, OVERLAPPED, IN_TURN), the rates of a GPU's link inside and of
    its NIC, the sizes, the line through them (None: too few), and what the model is asked for."""

    label: str
    servers: int
    way: str
    inside_bps: int
    nic_bps: int
    rows: tuple[SizeRow, ...]
    line: Line | None
    setting: Setting

    @property
    def times_s(self) -> dict[int, float]:
        """Bytes -> measured seconds."""
        return {row.size_bytes: row.seconds for row in self.rows}

    def extrapolated_s(self, size_bytes: float) -> float | None:
        """The line's time for a size that is not sent."""
        return None if self.line is None else self.line.seconds(size_bytes)

    def modelled_s(self, size_bytes: float, servers: int | None = None) -> float:
        """The configuration's model, of so many servers (default: its own)."""
        number = self.setting.ranks if servers is None else servers * GPUS_PER_SERVER
        return seconds(replace(self.setting, ranks=number), size_bytes)

    def calibrated_s(self, size_bytes: float, servers: int) -> float | None:
        """The model of so many servers, times what the line is off the model of as many as ran."""
        own_s = self.extrapolated_s(size_bytes)
        return None if own_s is None else self.modelled_s(size_bytes, servers) * own_s / self.modelled_s(size_bytes)


def points(run: Run) -> list[Point]:
    """The run and its cases on a pod that have calls: by servers, then as they come."""
    runs = [each for each in (run, *run.cases.values()) if each.workload == run.workload]
    found = [point for each in runs if (point := _point(each)) is not None]
    return sorted(found, key=lambda point: point.servers)


def _point(run: Run) -> Point | None:
    rows, asked = size_rows(run), model_setting(run)
    inside = run.spec.get("nvlink_rate")
    if not rows or asked is None or inside in (None, "auto"):
        return None
    way = _way(run, rows[-1].size_bytes)
    return Point(
        label=run.parameters.label,
        servers=-(-ranks(run) // GPUS_PER_SERVER),
        way=way,
        inside_bps=parse_rate_bps(inside, "nvlink_rate"),
        nic_bps=run.parameters.path.rate_bps,
        rows=tuple(rows),
        line=fit([row.size_bytes for row in rows], [row.seconds for row in rows]),
        setting=replace(asked, chunk_bytes=_ONE_PIECE_BYTES) if way == IN_TURN else asked,
    )


def _way(run: Run, largest_bytes: int) -> str:
    """The hierarchical algorithm's pieces are a message for each rank; one that holds all data leaves its stages to
    follow each other."""
    if algorithm(run) == "ring":
        return RING
    chunk = run.spec.get("chunk")
    whole = chunk not in (None, "auto") and parse_bytes(chunk, "chunk") * ranks(run) >= largest_bytes
    return IN_TURN if whole else OVERLAPPED


def pick(found: list[Point], servers: int, way: str, inside_bps: int | None = None) -> Point | None:
    """The point of so many servers that goes this way, with such a link inside (default: the fastest)."""
    fitting = [
        point
        for point in found
        if (point.servers, point.way) == (servers, way) and inside_bps in (None, point.inside_bps)
    ]
    return max(fitting, key=lambda point: point.inside_bps, default=None)


def common_size(one: Point, other: Point) -> int | None:
    """The largest size that both sent."""
    return max(one.times_s.keys() & other.times_s.keys(), default=None)


def most_servers(found: list[Point]) -> int:
    """Of the largest pod that ran."""
    return max((point.servers for point in found), default=1)


def links_inside(found: list[Point]) -> list[Point]:
    """A server alone with each link inside, the fastest first."""
    alone = {point.inside_bps: point for point in found if (point.servers, point.way) == (1, RING)}
    return [alone[rate_bps] for rate_bps in sorted(alone, reverse=True)]


def inside_rate(point: Point) -> float | None:
    """Bytes a second that a GPU's link inside carries each way, from the slope of a server's own all-reduce."""
    return None if point.line is None else _ring_share(GPUS_PER_SERVER) / point.line.beta_s


def between_rate(found: list[Point]) -> float | None:
    """Bytes a second that a server's NICs carry together each way: from what the slope of the largest pod, in turn, has
    beyond that of a server alone."""
    alone, pod = pick(found, 1, RING), pick(found, most_servers(found), IN_TURN)
    if alone is None or pod is None or alone.line is None or pod.line is None or pod.servers < 2:
        return None
    beyond_s = pod.line.beta_s - alone.line.beta_s
    return _ring_share(pod.servers) / beyond_s if beyond_s > 0 else None


def _ring_share(members: int) -> float:
    """What a member of a ring all-reduce sends of the data."""
    return 2 * (members - 1) / members
