"""What long flows got while all of them sent, and the evidence that every verdict on them shares.

Flows are judged in the second half of the longest phase with the most flows (analysis/kinds/fairness.py): the window
follows from the schedule alone, not from what was measured. The bottleneck is the link to the receiver of the most
flows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from analysis import text
from analysis.kinds.arrivals import LongFlow, arrivals, bin_edges_ns, long_flows, trouble, unjudged
from analysis.kinds.fairness import FAIR_INDEX, Phase, jain, judged, phases, settled_ns
from analysis.kinds.signals import pauses
from analysis.queues import QueueStatistics, statistics
from analysis.run import Run
from analysis.verdicts import Evidence, lossless_drops

FULL_SHARE = 0.95  # of what the bottleneck's link can carry of payload
_COUNTERS = "queue counters of measured.json"


class Got(NamedTuple):
    """The goodput of each flow that sends in all of a window, bits/s by name."""

    window: Phase
    goodput_bps: dict[str, float]


def others(run: Run) -> dict[str, Run]:
    """The cases of the same workload, by label."""
    return {label: case for label, case in run.cases.items() if case.workload == run.workload}


def alike(run: Run) -> dict[str, Run]:
    """The run itself, then its cases of the same workload, by label."""
    return {run.parameters.label: run, **others(run)}


@lru_cache(maxsize=64)
def all_phases(run: Run) -> tuple[Phase, ...]:
    """The phases of the run's schedule."""
    return tuple(phases({flow.name: (flow.begin_ns, flow.end_ns) for flow in long_flows(run)}))


@lru_cache(maxsize=64)
def steady(run: Run) -> Got | None:
    """What each flow got where flows are judged; None where the run does not tell."""
    window = judged(all_phases(run))
    return None if window is None or unjudged(run) else got(run, window)


def got(run: Run, window: Phase) -> Got:
    """What the flows of the window got in it."""
    found = arrivals(run)
    return Got(window, {name: found[name].rate_bps(window.start_ns, window.end_ns) for name in window.flows})


def bottleneck(run: Run) -> tuple[LongFlow, ...]:
    """The flows to the receiver that most flows go to (of several the first)."""
    counts = Counter(flow.receiver for flow in long_flows(run))
    receiver = counts.most_common(1)[0][0] if counts else None
    return tuple(flow for flow in long_flows(run) if flow.receiver == receiver)


def bottleneck_rates(run: Run) -> dict[str, float]:
    """What the flows to the bottleneck's receiver got where flows are judged; empty where the run does not tell."""
    found = steady(run)
    return {} if found is None else rates_of(found, bottleneck(run))


def rates_of(found: Got, flows: Sequence[LongFlow]) -> dict[str, float]:
    """The goodput of these flows, those that send in all of the window."""
    return {flow.name: found.goodput_bps[flow.name] for flow in flows if flow.name in found.goodput_bps}


def payload_bps(run: Run, rate_bps: int | None = None) -> float:
    """The most payload that a link can carry (of `rate_bps`, by default a host's), all packets full."""
    path = run.parameters.path
    return (path.rate_bps if rate_bps is None else rate_bps) * path.segment_bytes / path.frame_bytes


def fairness(run: Run) -> float | None:
    """Jain's index of the flows through the bottleneck where flows are judged."""
    return jain(list(bottleneck_rates(run).values()))


def line_share(run: Run) -> float | None:
    """How much of the payload that the bottleneck can carry arrived."""
    rates = bottleneck_rates(run)
    return sum(rates.values()) / payload_bps(run) if rates else None


def queue(run: Run) -> QueueStatistics | None:
    """The hot port's queue where flows are judged; None without samples, or when it was empty."""
    series, window = run.queue(run.hot_port), judged(all_phases(run))
    inside = series.between(window.start_ns, window.end_ns) if series is not None and window is not None else None
    return statistics(inside) if inside is not None and len(inside) else None


def share_words(value: float | None) -> str:
    """A share: "97.3 %"; a dash for None."""
    return text.NOTHING if value is None else f"{text.digits(100 * value)} %"


def index_words(value: float | None) -> str:
    """Jain's index: "0.987"; a dash for None."""
    return text.NOTHING if value is None else f"{value:.3f}"


# --- evidence


def equal(run: Run) -> Evidence:
    """Whether the flows through the bottleneck get the same."""
    index = fairness(run)
    return Evidence(
        name="Jain's index",
        configured=None,
        modelled="1",
        measured=None if index is None else index_words(index),
        unit="",
        tolerance=f"at least {FAIR_INDEX:g}, {window_words(run)}",
        holds=None if index is None else index >= FAIR_INDEX,
        source=_source(run, "nothing arrived where flows are judged" if index is None else ""),
    )


def full(run: Run) -> Evidence:
    """Whether the bottleneck's link is full."""
    rates, best_bps = bottleneck_rates(run), payload_bps(run)
    total_bps = sum(rates.values())
    return Evidence(
        name="goodput through the bottleneck",
        configured=run.parameters.path.rate_bps,
        modelled=best_bps,
        measured=total_bps if rates else None,
        unit="b/s",
        tolerance=f"at least {FULL_SHARE:.0%} of what full packets would carry, {window_words(run)}",
        holds=total_bps >= FULL_SHARE * best_bps if rates else None,
        source=_source(run),
    )


def lossless(run: Run) -> Evidence:
    """Whether the lossless class lost nothing."""
    applies, lost = run.parameters.pfc, lossless_drops(run)
    return Evidence(
        name="lost without room",
        configured=f"pfc {'on' if applies else 'off'}",
        modelled=0 if applies else None,
        measured=lost,
        unit="packets",
        tolerance="none of the lossless class, but for what a watchdog discards",
        holds=None if lost is None else lost == 0,
        source=(_COUNTERS if lost is not None else "measured.json has no ports")
        if applies
        else "not applicable: pfc is off",
        applies=applies,
    )


def unpaused(run: Run) -> Evidence:
    """Whether no port paused its neighbour where flows are judged."""
    applies, window = run.parameters.pfc, judged(all_phases(run))
    count = pauses(run, window.start_ns, window.end_ns) if applies and window else None
    missing = "telemetry/pauses.parquet tells nothing of pauses"
    return Evidence(
        name="pauses in steady state",
        configured=f"pfc {'on' if applies else 'off'}",
        modelled=0 if applies else None,
        measured=count,
        unit="pauses",
        tolerance=f"none, {window_words(run)}",
        holds=None if count is None else count == 0,
        source=("telemetry/pauses.parquet" if count is not None else missing)
        if applies
        else "not applicable: pfc is off",
        applies=applies,
    )


def window_words(run: Run) -> str:
    """Where flows are judged, in words: "from 10 ms to 20 ms"."""
    window = judged(all_phases(run))
    if window is None:
        return "in a steady state"
    begin_ns = min(flow.begin_ns for flow in long_flows(run))
    start, end = (text.seconds((time_ns - begin_ns) / 1e9) for time_ns in (window.start_ns, window.end_ns))
    return f"from {start} to {end}"


def _source(run: Run, missing: str = "") -> str:
    """The file that tells of arrivals, or what is missing."""
    return unjudged(run) or missing or "telemetry/arrivals.parquet"


# --- over time


class Index(NamedTuple):
    """Jain's index over time: the begins (n,) of equal bins in ns, and the index of each, NaN where nothing arrived."""

    times_ns: np.ndarray
    values: np.ndarray


@lru_cache(maxsize=64)
def index_over_time(run: Run) -> Index:
    """Jain's index of the flows to the bottleneck's receiver that send in all of a bin; raises BadRequest where the run
    does not tell what arrived."""
    edges_ns, found = bin_edges_ns(run), arrivals(run)
    flows = bottleneck(run)
    rates = np.array([found[flow.name].rates_bps(edges_ns) for flow in flows])
    sends = np.array([(flow.begin_ns <= edges_ns[:-1]) & (edges_ns[1:] <= flow.end_ns) for flow in flows])
    values = [jain(rates[sends[:, place], place].tolist()) for place in range(len(edges_ns) - 1)]
    return Index(edges_ns[:-1], np.array([np.nan if value is None else value for value in values]))


def settling_s(run: Run) -> list[tuple[Phase, float | None]]:
    """The phases in which several flows share the bottleneck, each with the time from its begin until Jain's index
    stays high; None where it does not."""
    if trouble(run):
        return []
    names = {flow.name for flow in bottleneck(run)}
    shared = [phase for phase in all_phases(run) if len(names.intersection(phase.flows)) > 1]
    times = [settled_ns(phase, *index_over_time(run)) for phase in shared]
    return [(phase, None if time_ns is None else time_ns / 1e9) for phase, time_ns in zip(shared, times)]
