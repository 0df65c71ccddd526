"""The runs of one experiment by who marks or pauses, the switch or the controller, and after which latency."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.kinds.shares import bottleneck_rates
from analysis.run import Run
from analysis.spec import CONTROLLER
from analysis.verdicts import lossless_drops

MARKS, PAUSES = "marks", "pauses"


@dataclass(frozen=True)
class Point:
    """One run: what the controller does in it, or the switch does (latency_ns None), and what came of it. None where
    the run does not tell: goodput in bits/s through the bottleneck, the longest queue of all sampled ports in bytes,
    and the packets that the lossless class lost."""

    label: str
    does: str
    latency_ns: int | None
    goodput_bps: float | None
    queue_bytes: int | None
    lost: int | None


def point(run: Run) -> Point:
    """The run as a point."""
    spec = run.parameters
    by_controller = CONTROLLER in (spec.marking, spec.pause)
    does = MARKS if spec.marking == CONTROLLER or (not by_controller and spec.kmin_bytes is not None) else PAUSES
    rates = bottleneck_rates(run)
    return Point(
        spec.label,
        does,
        spec.control_latency_ns if by_controller else None,
        sum(rates.values()) if rates else None,
        run.longest_queue_bytes,
        lossless_drops(run),
    )


def points(run: Run) -> list[Point]:
    """The run and its cases of the same workload, by what they do and their latency, the switch's first."""
    found = [point(each) for each in (run, *run.cases.values()) if each.workload == run.workload]
    return sorted(found, key=lambda each: (each.does, -1 if each.latency_ns is None else each.latency_ns))
