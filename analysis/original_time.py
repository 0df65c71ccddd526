"""A run whose time had been made to run slower (--scale), told in the time of the spec that was asked for: rates times
the scale, durations by it. Sizes, counts and verdicts are the same in both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from analysis import text
from analysis.run import Run
from analysis.verdicts import goodput_bps, median_seconds
from topologies.units import BadRequest, parse_duration_ns, parse_rate_bps

MOST_TIMES = 1_000_000
_TIME_SCALE = "time_scale"
NAMES = {
    "rate_bps": "rate of hosts' links",
    "goodput_bps": "goodput",
    "median_round_s": "median round",
    "longest_round_s": "longest round",
    "longest_stall_s": "longest stall",
    "rto_min_s": "least timeout (rto_min)",
}


@dataclass(frozen=True)
class Figure:
    """A figure by its key in the summary, as the run had it and in the original time, in base units, and how it is
    written."""

    key: str
    measured: float
    original: float
    words: Callable[[float | None], text.Quantity]


def scale_of(run: Run) -> float | None:
    """How many times slower time ran; None where it ran as asked. Raises BadRequest for a scale that is none."""
    scale = run.spec.get(_TIME_SCALE)
    if scale is None:
        return None
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 1 <= scale <= MOST_TIMES:
        raise BadRequest(f"{run.path / 'spec.yaml'}: {_TIME_SCALE} {scale!r}; allowed: 1 to {MOST_TIMES:,}")
    return float(scale)


def figures(run: Run) -> list[Figure]:
    """The main figures of a run in both times; none where time ran as asked."""
    times = scale_of(run)
    return [] if times is None else list(_figures(run, times))


def _figures(run: Run, times: float) -> Iterator[Figure]:
    goodput = goodput_bps(run.rounds) if any(each.payload_bytes for each in run.rounds) else None
    rates_bps = {"rate_bps": parse_rate_bps(run.spec["rate"]), "goodput_bps": goodput}
    is_tcp = run.spec.get("transport") == "tcp"
    seconds = {
        "median_round_s": median_seconds(run.rounds),
        "longest_round_s": max((each.seconds for each in run.rounds), default=None),
        "longest_stall_s": max((stall.seconds for stall in run.stalls), default=None),
        "rto_min_s": parse_duration_ns(run.spec["rto_min"]) / 1e9 if is_tcp else None,
    }
    yield from (Figure(key, value, value * times, text.rate) for key, value in rates_bps.items() if value is not None)
    yield from (Figure(key, value, value / times, text.seconds) for key, value in seconds.items() if value is not None)


def in_original_time(run: Run) -> dict[str, Any] | None:
    """The scale, and what the figures would be in the original time, as the keys say; None where time ran as asked."""
    times = scale_of(run)
    return None if times is None else {_TIME_SCALE: times, **{each.key: each.original for each in figures(run)}}


def line(run: Run) -> str:
    """The main figures in the original time as one line; empty where time ran as asked."""
    told = ", ".join(f"{NAMES[each.key]} {each.words(each.original)}" for each in figures(run))
    return told and f"in the original time, {text.digits(scale_of(run) or 1)} times faster: {told}"
