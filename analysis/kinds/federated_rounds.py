"""What a run of federated learning did, from its run directory: rounds, what each was made of, uploads, convergence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import numpy as np

from analysis.run import Run
from topologies.units import parse_duration_ns

PHASES = ("broadcast", "training", "waiting for stragglers", "upload")
_ROUND_KEYS = ("start_ns", "broadcast_end_ns", "computed_ns", "trained_ns", "arrived_ns", "dropped", "accuracy")
_ETHERNET_BYTES, _TCP_BYTES, _ROCE_BYTES = 14, 52, 58  # headers of a full packet: L2; IP and TCP; IP, UDP, BTH, CRC
_TAIL = 99


@dataclass(frozen=True)
class Cast:
    """Who takes part, and how long an update is before and after compression, in bytes; parent: of everybody but the
    root."""

    root: str
    edges: tuple[str, ...]
    clients: tuple[str, ...]
    parent: dict[str, str]
    update_bytes: int
    sent_bytes: int

    def children(self, aggregator: str) -> list[str]:
        """Those who send to it."""
        return [child for child, parent in self.parent.items() if parent == aggregator]

    @property
    def aggregators(self) -> tuple[str, ...]:
        """The root and the edges."""
        return (self.root, *self.edges)


def cast_of(run: Run) -> Cast | None:
    """Who took part; None for a run that was interrupted before it began."""
    told = run.measured.get("federated")
    if told is None:
        return None
    sizes = (told["update_bytes"], told["sent_bytes"])
    return Cast(told["root"], tuple(told["edges"]), tuple(told["clients"]), dict(told["parent"]), *sizes)


def finished(run: Run) -> list[dict[str, Any]]:
    """The rounds that the root has averaged, in order, as measured.json has them."""
    return [each for each in run.entries("fl_rounds", _ROUND_KEYS) if each.get("end_ns") is not None]


def seconds(run: Run) -> list[float]:
    """How long each finished round took."""
    return [(each["end_ns"] - each["start_ns"]) / 1e9 for each in finished(run)]


def round_s(run: Run) -> float | None:
    """The median round; None without any."""
    return median(seconds(run)) if finished(run) else None


def target(run: Run) -> float:
    """The accuracy at which it has converged."""
    return float(run.spec["target"])


def best_accuracy(run: Run) -> float | None:
    """Of any round; None without any."""
    return max((each["accuracy"] for each in finished(run)), default=None)


def rounds_to_target(run: Run) -> int | None:
    """The first round, counted from one, whose model is as good as asked; None when there is none."""
    reached = (number for number, each in enumerate(finished(run), 1) if each["accuracy"] >= target(run))
    return next(reached, None)


def time_to_target_s(run: Run) -> float | None:
    """From the first round's start to the end of that round."""
    number = rounds_to_target(run)
    done = finished(run)
    return None if number is None else (done[number - 1]["end_ns"] - done[0]["start_ns"]) / 1e9


def upload_seconds(run: Run) -> list[float]:
    """From the end of a client's training until its update has arrived, in all finished rounds, late ones too."""
    cast = cast_of(run)
    return [
        (each["arrived_ns"][client] - each["trained_ns"][client]) / 1e9
        for each in finished(run)
        for client in (cast.clients if cast else ())
        if client in each["arrived_ns"] and client in each["trained_ns"]
    ]


def tail_upload_s(run: Run) -> float | None:
    """The 99th percentile of the uploads."""
    found = upload_seconds(run)
    return float(np.percentile(found, _TAIL)) if found else None


def tail_round_s(run: Run) -> float | None:
    """The 99th percentile of the rounds."""
    found = seconds(run)
    return float(np.percentile(found, _TAIL)) if found else None


def arrivals_s(run: Run) -> list[float]:
    """When clients' updates were at their aggregators, since their round's start; late ones too."""
    clients = set(cast_of(run).clients) if cast_of(run) else set()  # type: ignore[union-attr]
    return sorted(
        (time_ns - each["start_ns"]) / 1e9
        for each in finished(run)
        for host, time_ns in each["arrived_ns"].items()
        if host in clients
    )


def edge_rounds(run: Run) -> int:
    """How often clients train in a round."""
    told = run.spec.get("edge_rounds")
    return told if isinstance(told, int) else 1


def dropped(run: Run) -> int:
    """Updates that came too late, over all finished rounds."""
    return sum(len(each["dropped"]) for each in finished(run))


# --- what a round is made of


def split(run: Run) -> dict[str, float] | None:
    """The mean round by PHASES, in seconds; None without a finished round."""
    parts = list(_parts(run))
    return {phase: mean(part[phase] for part in parts) for phase in PHASES} if parts else None


def _parts(run: Run) -> Iterator[dict[str, float]]:
    """Each round along the way of the client whose update ended it: until it had the model; as long as half of the
    clients computed; for how much longer it did; all the rest, models and updates between edges and clients that train
    several times among it."""
    cast, is_once = cast_of(run), edge_rounds(run) == 1
    for each in finished(run):
        last = _last(cast, each) if cast else None
        if last is None:
            continue
        got_ns, computed_ns = each["broadcast_end_ns"][last], each["computed_ns"][last]
        # Who got the model while it was busy with an older one began later, and that is waiting too.
        spent_ns = each["trained_ns"][last] - got_ns if is_once else computed_ns
        usual_ns = min(int(median(each["computed_ns"].values())), spent_ns)
        spans_ns = (got_ns - each["start_ns"], usual_ns, spent_ns - usual_ns, each["end_ns"] - got_ns - spent_ns)
        yield {phase: span_ns / 1e9 for phase, span_ns in zip(PHASES, spans_ns)}


def _last(cast: Cast, each: dict[str, Any]) -> str | None:
    """The client that a round waited for last: of those below the edge that it waited for last."""
    above, found = cast.root, None
    while found is None or found in cast.edges:
        counted = [child for child in cast.children(found or above) if _counts(child, each)]
        if not counted:
            return None
        found = max(counted, key=lambda child: each["arrived_ns"][child])
    return found if found in each["broadcast_end_ns"] and found in each["trained_ns"] else None


def _counts(child: str, each: dict[str, Any]) -> bool:
    return child in each["arrived_ns"] and child not in each["dropped"] and each["arrived_ns"][child] <= each["end_ns"]


# --- what a round would take


def ideal_s(run: Run) -> float | None:
    """A round without loss, stragglers and processors: every aggregator's link carries each byte once, one tier after
    the other, and all clients compute for as long as the median does. None for a run that did not begin."""
    cast = cast_of(run)
    if cast is None:
        return None
    compute_s = parse_duration_ns(run.spec["compute"], "compute") / 1e9
    own_s = {each: _both_ways_s(run, cast, each) for each in cast.aggregators}
    if not cast.edges:
        return own_s[cast.root] + compute_s
    return own_s[cast.root] + edge_rounds(run) * (max(own_s[edge] for edge in cast.edges) + compute_s)


def _both_ways_s(run: Run, cast: Cast, aggregator: str) -> float:
    """Models to all children of an aggregator, and updates of all of them, through its link."""
    packet_bytes = run.parameters.path.roce_mtu_bytes or run.parameters.path.mtu_bytes - _TCP_BYTES
    header_bytes = _ETHERNET_BYTES + (_ROCE_BYTES if run.parameters.is_roce else _TCP_BYTES)
    wire_bytes = sum(
        size_bytes + math.ceil(size_bytes / packet_bytes) * header_bytes
        for size_bytes in (cast.update_bytes, cast.sent_bytes)
    )
    return len(cast.children(aggregator)) * wire_bytes * 8 / run.parameters.path.rate_bps


def ratio_of_compression(run: Run) -> float | None:
    """How many times shorter an update is that is sent."""
    cast = cast_of(run)
    return cast.update_bytes / cast.sent_bytes if cast else None
