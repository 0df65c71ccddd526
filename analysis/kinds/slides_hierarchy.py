"""What the lecture says of links inside and between servers (slides 13, 15, 17, 19), beside what a pod's runs measured:
each figure with what it would need."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import text
from analysis.kinds.hierarchy_points import (
    IN_TURN,
    OVERLAPPED,
    RING,
    Point,
    between_rate,
    inside_rate,
    links_inside,
    most_servers,
    pick,
)
from analysis.kinds.published import Compared
from analysis.spec import GPUS_PER_SERVER

TOLERANCE = 0.10  # of the lecture's figures
_WITHIN = f"within {TOLERANCE:.0%}"
TWENTY_GB, ONE_GB = 20e9, 1e9
CLAIMED_20GB_S = {"NVSwitch": 0.022, "PCIe": 0.150}  # slide 17
CLAIMED_1GB_S = {8: 0.0012, 64: 0.0084, 512: 0.042}  # slide 19: GPUs -> seconds
GPUS_BEYOND = 512
# Slide 15, both directions: rate of a link here, each way -> its name and the figure that it is sold by, in bytes/s.
SOLD = {3_600_000_000_000: ("NVLink 4.0", 900e9), 512_000_000_000: ("PCIe 5", 128e9), 256_000_000_000: ("PCIe 4", 64e9)}
_GAP, _INSIDE, _BETWEEN = 18.0, 7.2e12, 400e9  # slide 13, of a server
_NEEDED = 500e9  # slide 15: what a transformer needs a step
_ALL_REDUCE = 2 * (GPUS_PER_SERVER - 1) / GPUS_PER_SERVER


def compared(found: list[Point]) -> list[Compared]:
    """The lecture's figures beside those of the runs, as far as these tell."""
    return [*_sold(found), *_gap(found), *_twenty_gb(found), *_one_gb(found)]


def _close(measured: float, published: float) -> bool:
    return abs(measured / published - 1) <= TOLERANCE


def _per_s(value: float) -> str:
    return f"{text.size(value)}/s"


def _sold(found: list[Point]) -> Iterator[Compared]:
    """Slide 15: the links inside, both directions counted."""
    for point in links_inside(found):
        name, sold = SOLD.get(point.inside_bps, ("", 0.0))
        rate = inside_rate(point)
        if not sold or rate is None:
            continue
        enough = "more" if 2 * rate >= _NEEDED else "less"
        yield Compared(
            point.label,
            f"{name}'s bandwidth; a transformer needs {_per_s(_NEEDED)}",
            _per_s(sold),
            "slide 15",
            f"{_per_s(point.inside_bps / 8)} each way",
            f"{_per_s(rate)} each way, both together {enough} than is needed",
            _WITHIN,
            _close(2 * rate, sold),
            f"{_per_s(2 * rate)} in both directions",
            "both directions are counted",
        )


def _gap(found: list[Point]) -> Iterator[Compared]:
    """Slide 13: what a server's GPUs have inside, and its NICs between servers."""
    alone, between = pick(found, 1, RING), between_rate(found)
    rate = None if alone is None else inside_rate(alone)
    if rate is None or between is None or alone is None:
        return
    inside = GPUS_PER_SERVER * rate
    yield Compared(
        alone.label,
        "gap between a server's links inside and between",
        f"{_per_s(_INSIDE)} to {_per_s(_BETWEEN)}: {_GAP:.0f}-fold",
        "slide 13",
        f"{alone.inside_bps / alone.nic_bps:.0f}-fold, each way",
        f"{_per_s(inside)} to {_per_s(between)} each way: {inside / between:.1f}-fold",
        _WITHIN,
        _close(2 * inside / between, _GAP),
        f"{2 * inside / between:.1f}-fold with both directions inside, {inside / between:.1f}-fold each way",
        "both directions are counted inside and one between; each way against each way it is "
        f"{inside / between:.1f}-fold",
    )


def _twenty_gb(found: list[Point]) -> Iterator[Compared]:
    """Slide 17: 20 GB on one server, with NVSwitch and over PCIe."""
    links = links_inside(found)
    if not links:
        return
    fast, slow = links[0], next((point for point in links if SOLD.get(point.inside_bps, ("",))[0] == "PCIe 5"), None)
    yield from _one_twenty_gb(fast, "NVSwitch")
    if slow is None:
        return
    yield from _one_twenty_gb(slow, "PCIe")
    fast_s, slow_s = fast.extrapolated_s(TWENTY_GB), slow.extrapolated_s(TWENTY_GB)
    if fast_s and slow_s:
        yield Compared(
            fast.label,
            "20 GB, 8 GPUs: NVSwitch over PCIe 5",
            "7 times faster",
            "slide 17",
            text.times(fast.inside_bps / slow.inside_bps),
            text.times(slow_s / fast_s),
            _WITHIN,
            _close(slow_s / fast_s, 7),
        )


def _one_twenty_gb(point: Point, name: str) -> Iterator[Compared]:
    claimed_s, measured_s = CLAIMED_20GB_S[name], point.extrapolated_s(TWENTY_GB)
    sold = SOLD.get(point.inside_bps, ("", 2 * point.inside_bps / 8))[1]
    if measured_s is None:
        return
    yield Compared(
        point.label,
        f"20 GB all-reduce, 8 GPUs, {name}",
        text.seconds(claimed_s),
        "slide 17",
        text.seconds(point.modelled_s(TWENTY_GB)),
        f"{text.seconds(measured_s)}, by the line {_sent(point)}",
        _WITHIN,
        _close(measured_s, claimed_s),
        _needs(point, TWENTY_GB, claimed_s, sold),
    )


def _sent(point: Point) -> str:
    return f"through {text.size(point.rows[0].size_bytes)} to {text.size(point.rows[-1].size_bytes)}"


def _needs(point: Point, size_bytes: float, claimed_s: float, sold: float) -> str:
    """What a claimed time of one server would need: of a ring, of sums in the switch, and what it is instead."""
    ring, once = _ALL_REDUCE * size_bytes / claimed_s, size_bytes / claimed_s
    is_simple = _close(size_bytes / sold, claimed_s)
    alike = f"; claimed is the size over the {_per_s(sold)} of both directions" if is_simple else ""
    return (
        f"{text.seconds(point.extrapolated_s(size_bytes))}; the claim needs {_per_s(ring)} each way of a ring, or"
        f" {_per_s(once)} where the switch adds up, of a link that has {_per_s(point.inside_bps / 8)}{alike}"
    )


def _one_gb(found: list[Point]) -> Iterator[Compared]:
    """Slide 19: 1 GB on 8, 64 and 512 GPUs."""
    alone = pick(found, 1, RING)
    if alone is not None and (measured_s := alone.extrapolated_s(ONE_GB)) is not None:
        sold = 2 * alone.inside_bps / 8
        yield Compared(
            alone.label,
            "1 GB all-reduce, 8 GPUs",
            text.seconds(CLAIMED_1GB_S[8]),
            "slide 19",
            text.seconds(alone.modelled_s(ONE_GB)),
            f"{text.seconds(measured_s)}, by the line {_sent(alone)}",
            _WITHIN,
            _close(measured_s, CLAIMED_1GB_S[8]),
            _needs(alone, ONE_GB, CLAIMED_1GB_S[8], sold),
        )
    yield from _one_gb_pod(found)
    yield from _one_gb_beyond(found)


def _one_gb_pod(found: list[Point]) -> Iterator[Compared]:
    """64 GPUs, where 8 servers ran: the stages one after the other, or overlapped."""
    turn, overlapped, claimed_s = pick(found, 8, IN_TURN), pick(found, 8, OVERLAPPED), CLAIMED_1GB_S[64]
    turn_s = None if turn is None else turn.extrapolated_s(ONE_GB)
    overlapped_s = None if overlapped is None else overlapped.extrapolated_s(ONE_GB)
    if turn is None or overlapped is None or turn_s is None or overlapped_s is None:
        return
    both = f"{text.seconds(turn_s)} with the stages in turn, {text.seconds(overlapped_s)} with them overlapped"
    yield Compared(
        turn.label,
        "1 GB all-reduce, 64 GPUs",
        text.seconds(claimed_s),
        "slide 19",
        f"{text.seconds(turn.modelled_s(ONE_GB))} in turn, {text.seconds(overlapped.modelled_s(ONE_GB))} overlapped",
        f"{both}, by the lines {_sent(turn)}",
        _WITHIN,
        _close(turn_s, claimed_s) or _close(overlapped_s, claimed_s),
        both,
        ""
        if _close(overlapped_s, claimed_s)
        else f"the stages follow each other; overlapped they need {text.seconds(overlapped_s)}",
    )


def beyond(found: list[Point]) -> dict[str, float]:
    """Way -> seconds of 1 GB on 512 GPUs, by the model calibrated on the largest pod that ran."""
    servers = most_servers(found)
    told = {way: pick(found, servers, way) for way in (RING, IN_TURN, OVERLAPPED)}
    times = {
        way: point.calibrated_s(ONE_GB, GPUS_BEYOND // GPUS_PER_SERVER)
        for way, point in told.items()
        if point is not None and servers > 1
    }
    return {way: value for way, value in times.items() if value is not None}


def _one_gb_beyond(found: list[Point]) -> Iterator[Compared]:
    """512 GPUs, by the calibrated model: as one flat ring, or hierarchical."""
    times, claimed_s = beyond(found), CLAIMED_1GB_S[512]
    if RING not in times:
        return
    told = ", ".join(f"{text.seconds(value)} {way}" for way, value in times.items())
    flat = pick(found, most_servers(found), RING)
    modelled_s = None if flat is None else flat.modelled_s(ONE_GB, GPUS_BEYOND // GPUS_PER_SERVER)
    yield Compared(
        f"calibrated on {most_servers(found) * GPUS_PER_SERVER} GPUs",
        "1 GB all-reduce, 512 GPUs",
        text.seconds(claimed_s),
        "slide 19",
        f"{text.seconds(modelled_s)} {RING}",
        f"not sent; calibrated model: {told}",
        _WITHIN,
        _close(times[RING], claimed_s),
        told,
        "all GPUs are one flat ring, which leaves each server by one NIC; hierarchical it is "
        + text.seconds(min(value for way, value in times.items() if way != RING))
        if len(times) > 1
        else "all GPUs are one flat ring",
    )
