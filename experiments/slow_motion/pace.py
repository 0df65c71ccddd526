"""Time that runs slower (pure): what becomes of each kind of value of a spec.

Durations grow by so many times, rates shrink by as many, sizes and counts stay: then every product and every quotient
without a time in it, bytes in flight, packets in a buffer, timeouts in round trips, is what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

_RATE_STEP_BPS = 8  # links take whole bytes per second


@dataclass(frozen=True)
class Pace:
    """How many times longer durations are, and by how much rates are divided: the same, but for what it takes to divide
    all links' rates without a rest."""

    durations: Fraction
    rates: Fraction


def timeless(value: Any, pace: Pace) -> Any:
    """What has no time in it stays as it is."""
    return value


def duration_ns(value_ns: int, pace: Pace) -> int:
    """A duration, to the nearest nanosecond."""
    return round(value_ns * pace.durations)


def rate_bps(value_bps: int, pace: Pace) -> int:
    """A rate, to the nearest byte per second; never nothing."""
    return max(1, round(value_bps / (_RATE_STEP_BPS * pace.rates))) * _RATE_STEP_BPS


def events(schedule: Sequence[Any], pace: Pace) -> tuple[Any, ...]:
    """Events, each with its `time_ns`."""
    return tuple(replace(event, time_ns=duration_ns(event.time_ns, pace)) for event in schedule)


def spans(schedule: Sequence[Any], pace: Pace) -> tuple[Any, ...]:
    """Spans, each with its `begin_ns` and its `end_ns`, which may be open (None)."""
    return tuple(
        replace(
            span,
            begin_ns=duration_ns(span.begin_ns, pace),
            end_ns=None if span.end_ns is None else duration_ns(span.end_ns, pace),
        )
        for span in schedule
    )


def host_rates(pairs: Sequence[tuple[str, int]], pace: Pace) -> tuple[tuple[str, int], ...]:
    """Hosts, each with the rate of its link."""
    return tuple((host, rate_bps(value_bps, pace)) for host, value_bps in pairs)
