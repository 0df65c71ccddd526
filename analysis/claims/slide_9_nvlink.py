"""Slide 9: what NVLink gives a large model on many servers."""

from __future__ import annotations

from analysis import text
from analysis.claims.judging import UNTOLD, alike, shown, within
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED_IF, Claim, Judged, Row
from analysis.claims.shared_runs import HIERARCHY
from analysis.kinds.hierarchy_points import IN_TURN, OVERLAPPED, RING, Point, most_servers, pick, points
from analysis.kinds.slides_hierarchy import TOLERANCE
from analysis.run import Run
from analysis.spec import GPUS_PER_SERVER

GPT3_BYTES, GPT3_GPUS, GPT3_TIMES = 2 * 175e9, 1024, 7.0  # slide 9; gradients of two bytes
_SERVERS = GPT3_GPUS // GPUS_PER_SERVER
_WITH_NVLINK = (OVERLAPPED, IN_TURN)
_FIGURES = ("gpus", "ways")


def _gpt3(run: Run) -> Judged:
    """All NICs of a server at once behind NVLink, against one flat ring that leaves each server by one NIC."""
    found, largest = points(run), most_servers(points(run))
    ways = {way: point for way in (RING, *_WITH_NVLINK) if (point := pick(found, largest, way)) is not None}
    source = f"model calibrated on {largest * GPUS_PER_SERVER} GPUs"
    times = {way: _faster(ways, way) for way in _WITH_NVLINK}
    rows = (
        *(_seconds_row(way, point, source) for way, point in ways.items()),
        *(_faster_row(way, *times[way], source) for way in _WITH_NVLINK),
    )
    measured = {way: value for way, (_, value) in times.items() if value is not None}
    if len(measured) < len(_WITH_NVLINK):
        return Judged(NOT_REPRODUCED, UNTOLD, rows)
    words = ", ".join(f"{text.times(value)} {way}" for way, value in measured.items())
    fitting = [way for way, value in measured.items() if alike(value, GPT3_TIMES, TOLERANCE)]
    if not fitting:
        return Judged(
            NOT_REPRODUCED, f"faster than one flat ring over the NICs by {words}", rows, shown(run, *_FIGURES)
        )
    because = f"without NVLink it is one flat ring over the NICs, with it {fitting[0]}: {words}"
    return Judged(REPRODUCED_IF, because, rows, shown(run, *_FIGURES))


def _seconds_row(way: str, point: Point, source: str) -> Row:
    modelled_s, measured_s = point.modelled_s(GPT3_BYTES, _SERVERS), point.calibrated_s(GPT3_BYTES, _SERVERS)
    what = f"gradients of GPT-3 on {GPT3_GPUS} GPUs, {way}"
    return Row(what, None, modelled_s, measured_s, "s", "", None, source, extrapolated=True)


def _faster(ways: dict[str, Point], way: str) -> tuple[float | None, float | None]:
    """How many times a flat ring's time this way's is, modelled and calibrated on what was measured."""
    if RING not in ways or way not in ways:
        return None, None
    flat, other = (ways[name].calibrated_s(GPT3_BYTES, _SERVERS) for name in (RING, way))
    modelled = ways[RING].modelled_s(GPT3_BYTES, _SERVERS) / ways[way].modelled_s(GPT3_BYTES, _SERVERS)
    return modelled, flat / other if flat and other else None


def _faster_row(way: str, modelled: float | None, measured: float | None, source: str) -> Row:
    what, holds = f"faster than a flat ring, {way}", alike(measured, GPT3_TIMES, TOLERANCE)
    return Row(what, GPT3_TIMES, modelled, measured, "x", within(TOLERANCE), holds, source, extrapolated=True)


CLAIMS = (
    Claim(
        key="nvlink_gpt3",
        slides="9",
        says="NCCL with NVLink is 7 times faster for GPT-3 175B on 1024 GPUs.",
        figures="7 times, 175 billion parameters, 1024 GPUs",
        trial=HIERARCHY,
        model="flat ring 2 S / b of one NIC; hierarchical 2 S / (8 b), and where it is not hidden 2 (7/8) S / B inside",
        tolerance=f"{within(TOLERANCE)} for one of the two ways",
        judge=_gpt3,
        assumptions=(
            "gradients of two bytes, all reduced at once",
            f"{_SERVERS} servers by the model calibrated on those that ran",
        ),
    ),
)
