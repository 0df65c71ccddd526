"""Slide 18: RoCEv2 against TCP/IP, figure by figure. Slide 19: 1 GB on the GPUs of one, 8 and 64 servers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Callable, Optional

from analysis import text
from analysis.claims.judging import UNTOLD, near, of_compared, shown, together, told
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED_IF, Claim, Judged, Row
from analysis.claims.shared_runs import CPU_OVERHEAD, HIERARCHY
from analysis.kinds import collective, cpu_overhead
from analysis.kinds.cpu_overhead import BANDWIDTH, GIGABYTE, GIGABYTE_S, LATENCY_S, PROCESSOR
from analysis.kinds.hierarchy_points import IN_TURN, OVERLAPPED, RING, Point, most_servers, pick, points
from analysis.kinds.host_copies import copies_of, ways
from analysis.kinds.published import Compared
from analysis.kinds.slides_hierarchy import CLAIMED_1GB_S, GPUS_BEYOND, ONE_GB, TOLERANCE, beyond, compared
from analysis.run import Run
from analysis.spec import GPUS_PER_SERVER

_Measured = Callable[[Run], Optional[float]]
_HALF = 0.5  # of a copy: copies are told by times


# --- slide 18


def _small_s(run: Run) -> float | None:
    row = cpu_overhead.small(run)
    return None if row is None else row.seconds


def _rate(run: Run) -> float | None:
    row = collective.largest(run)
    return None if row is None else row.algbw


def _busy(run: Run) -> float | None:
    share = cpu_overhead.busy_share(run)
    return None if share is None else 100 * share


_PROCESSOR = {name: 100 * share for name, share in PROCESSOR.items()}


def _figure(
    begins: str, claimed: Mapping[str, float], measured: _Measured, unit: str, of_reduce: bool, figure: str, run: Run
) -> Judged:
    """One of the slide's figures by both paths, each as the report compares it, and how much better RDMA's is."""
    pair = cpu_overhead.pair(run, of_reduce)
    found = {name: each for name in claimed if name in pair for each in _compared(run, begins, name)}
    rows = [
        of_compared(each, claimed[name], measured(pair[name]), unit, _modelled(pair[name], of_reduce), of_reduce)
        for name, each in found.items()
    ]
    verdict, because = together(list(found.values()) if len(found) == len(claimed) else [])
    ratio = _ratio([row.measured for row in rows])
    rows.append(told(f"{begins}: TCP over RDMA", ratio, "x", "both paths", claimed["tcp"] / claimed["rdma"]))
    beside = f"; TCP over RDMA {text.times(ratio)}, claimed {text.times(claimed['tcp'] / claimed['rdma'])}"
    return Judged(verdict, because + (beside if ratio is not None else ""), tuple(rows), shown(run, figure))


def _compared(run: Run, begins: str, name: str) -> list[Compared]:
    """The report's comparison of a figure by one path."""
    return [each for each in cpu_overhead.claims(run) if each.what.startswith(f"{begins} by {name}")]


def _ratio(values: list[float | None]) -> float | None:
    return values[0] / values[1] if len(values) == 2 and values[0] is not None and values[1] else None


def _modelled(run: Run, of_reduce: bool) -> float | None:
    """Of the all-reduce what the links alone need; the rest is told by a model of processors, not of networks."""
    ranks = collective.ranks(run)
    return 8 * 2 * GIGABYTE * (1 - 1 / ranks) / run.parameters.path.rate_bps if of_reduce else None


def _copies(run: Run) -> Judged:
    """How many copies in memory all the processor time of both ends is worth, of this machine's TCP and of hosts whose
    NICs do RDMA; and what is spared where nobody copies."""
    host, rdma = copies_of(run) or {}, cpu_overhead.pair(run, of_reduce=False).get("rdma")
    spent_s, speed = {way.name: way.sender_s + way.receiver_s for way in ways(run)}, host.get("copy_bytes_per_s")
    rows = (
        _count("TCP: all processor time of a byte, in copies", spent_s.get("copy"), speed, 2.0, 4.0),
        _count("RDMA: the same, by the model of its hosts", None if rdma is None else _byte_s(rdma), speed, 0.0, 0.0),
    )
    if any(row.holds is None for row in rows):
        return Judged(NOT_REPRODUCED, UNTOLD, rows)
    spared = 100 * (1 - spent_s["sendfile"] / spent_s["copy"]) if "sendfile" in spent_s else None
    more = told("TCP: processor time spared by sendfile and unread bytes", spared, "%", "host.json")
    by_tcp, by_rdma = (row.measured or 0.0 for row in rows)
    words = f"the processor time of a byte is {by_tcp:.1f} copies of {text.size(speed)}/s by TCP, {by_rdma:.2f} by RDMA"
    if not all(row.holds for row in rows):
        return Judged(NOT_REPRODUCED, words, (*rows, more), shown(run, "copies"))
    because = f"an RDMA NIC moves bytes by itself, as the model of its host's processor has it: {words}"
    return Judged(REPRODUCED_IF, because, (*rows, more), shown(run, "copies"))


def _count(quantity: str, byte_s: float | None, speed: float | None, least: float, most: float) -> Row:
    """A byte's processor time as copies at memory's speed, in a range; half a copy beside it is allowed."""
    measured = None if byte_s is None or speed is None else byte_s * speed
    holds = None if measured is None else least - _HALF <= measured <= most + _HALF
    tolerance = f"{least:g} to {most:g}, within half a copy" if most else "none, within half a copy"
    return Row(quantity, least, None, measured, "copies", tolerance, holds, "host.json, cpu of measured.json")


def _byte_s(run: Run) -> float | None:
    """Processor seconds of a byte at both its ends; each end counts it."""
    told_of = (run.measured.get("cpu") or {}).values()
    moved = sum(each["bytes"] for each in told_of)
    return 2 * sum(each["busy_ns"] for each in told_of) / 1e9 / moved if moved else None


# --- slide 19


def _server(run: Run) -> Judged:
    """8 GPUs: the line through a server's own all-reduce, read at 1 GB."""
    alone = pick(points(run), 1, RING)
    modelled = None if alone is None else alone.modelled_s(ONE_GB)
    measured = None if alone is None else alone.extrapolated_s(ONE_GB)
    return _gigabyte(run, 8, {"a ring inside the server": (measured, modelled)})


def _pod(run: Run) -> Judged:
    """64 GPUs: the lines of eight servers, hierarchical."""
    found = points(run)
    told_of = {way: pick(found, 8, way) for way in (IN_TURN, OVERLAPPED)}
    return _gigabyte(run, 64, {way: _both(point) for way, point in told_of.items() if point is not None})


def _both(point: Point) -> tuple[float | None, float | None]:
    return point.extrapolated_s(ONE_GB), point.modelled_s(ONE_GB)


def _beyond(run: Run) -> Judged:
    """512 GPUs: the model calibrated on the largest pod that ran."""
    found = points(run)
    measured = beyond(found)
    told_of = {way: pick(found, most_servers(found), way) for way in measured}
    servers = GPUS_BEYOND // GPUS_PER_SERVER
    modelled = {way: point.modelled_s(ONE_GB, servers) for way, point in told_of.items() if point is not None}
    return _gigabyte(run, GPUS_BEYOND, {way: (value, modelled.get(way)) for way, value in measured.items()})


def _gigabyte(run: Run, gpus: int, ways_s: Mapping[str, tuple[float | None, float | None]]) -> Judged:
    """The report's comparison, with a row for each way to do it."""
    found = [each for each in compared(points(run)) if each.what == f"1 GB all-reduce, {gpus} GPUs"]
    verdict, because = together(found)
    rows = tuple(
        near(f"1 GB, {gpus} GPUs, {way}", CLAIMED_1GB_S[gpus], measured, "s", TOLERANCE, _source(gpus), modelled, True)
        for way, (measured, modelled) in ways_s.items()
    )
    missing = (Row(f"1 GB, {gpus} GPUs", CLAIMED_1GB_S[gpus], None, None, "s", "", None, UNTOLD, True),)
    return Judged(verdict, because, rows or missing, shown(run, "gpus"))


def _source(gpus: int) -> str:
    return "model calibrated on the largest pod's lines" if gpus == GPUS_BEYOND else "line through four sizes"


# --- claims


def _rocev2(key: str, says: str, figures: str, tolerance: str, judge: Callable[[Run], Judged], model: str) -> Claim:
    return Claim(
        key=key,
        slides="18",
        says=says,
        figures=figures,
        trial=CPU_OVERHEAD,
        model=model,
        tolerance=tolerance,
        judge=judge,
        assumptions=("in virtual time processors cost what a model says (Cai et al., SIGCOMM 2021), one core a host",),
    )


_WITHIN = f"within {cpu_overhead.TOLERANCE:.0%}: the slide names no machine"
_COST = "1 us a message, 870 ns a packet, 93 ps a byte copied, 5 us to wake up, against 300 ns a message"


def _nccl(gpus: int, servers: int, judge: Callable[[Run], Judged], model: str, assumption: str) -> Claim:
    claimed = text.seconds(CLAIMED_1GB_S[gpus])
    return Claim(
        key=f"nccl_{gpus}_gpus",
        slides="19",
        says=f"NCCL reduces 1 GB over {gpus} GPUs ({text.counted(servers, 'node')}) in {claimed}.",
        figures=claimed,
        trial=HIERARCHY,
        model=model,
        tolerance=f"within {TOLERANCE:.0%}",
        judge=judge,
        assumptions=("1 GB is not sent: read off lines through four sizes", assumption),
    )


CLAIMS: tuple[Claim, ...] = (
    _rocev2(
        "roce_latency",
        "A message of 4 KB takes 150 us by TCP, 1.5 us by RoCEv2.",
        "150 us against 1.5 us",
        _WITHIN,
        partial(_figure, "latency of 4 KB", LATENCY_S, _small_s, "s", False, "paths"),
        f"link, switch and: {_COST}",
    ),
    _rocev2(
        "roce_bandwidth",
        "TCP reaches 12 GB/s, RoCEv2 48 GB/s.",
        "12 against 48 GB/s",
        _WITHIN,
        partial(_figure, "bandwidth", BANDWIDTH, _rate, "bytes/s", False, "paths"),
        f"the slower of link and processor: {_COST}",
    ),
    _rocev2(
        "roce_processor",
        "TCP keeps 92 % of the processor busy, RoCEv2 3 %.",
        "92 % against 3 %",
        "within 10 points, of one core",
        partial(_figure, "processor busy", _PROCESSOR, _busy, "%", False, "paths"),
        f"busy time over that of the calls: {_COST}",
    ),
    _rocev2(
        "roce_all_reduce",
        "An all-reduce of 1 GB takes 8.3 s by TCP, 0.9 s by RoCEv2.",
        "8.3 s against 0.9 s",
        _WITHIN,
        partial(_figure, "1 GB all-reduce", GIGABYTE_S, cpu_overhead.gigabyte_s, "s", True, "paths"),
        "line through the sizes of a ring of 8; the links need 2 (n-1)/n S / B",
    ),
    _rocev2(
        "roce_copies",
        "TCP copies data 2 to 4 times, RoCEv2 never.",
        "2 to 4 against 0",
        "in the range, within half a copy",
        _copies,
        "processor time a byte over that of a copy in memory",
    ),
    _nccl(8, 1, _server, "2 (n-1)/n S / B, B = 450 GB/s each way", "a ring over NVLink 4.0"),
    _nccl(64, 8, _pod, "inside 2 (g-1)/g S / B, between 2 (m-1)/m S/g / b: one after the other, or the slower of both",
          "8 GPUs a server, a 400 Gb/s NIC each"),
    _nccl(512, 64, _beyond, "a flat ring leaves each server by one NIC: 2 (n-1)/n S / b",
          "64 servers do not run: the model, times what it is off on 64 GPUs"),
)  # fmt: skip
