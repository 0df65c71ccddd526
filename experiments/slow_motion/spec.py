"""Slower time (pure): a spec that is too fast for the real clock, with everything in it that has a time so many times
slower.

Rates are divided and durations multiplied by the scale; sizes, counts and thresholds stay. What follows from them alone
is kept: bytes in flight, packets in a buffer, timeouts in round trips. What is not in the spec goes on at its own pace;
kept_and_lost.py tells both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from experiments import limits
from experiments.slow_motion.pace import Pace
from experiments.spec import TRANSFERS, Spec, applies, as_typed, known
from topologies.units import BadRequest

MOST_TIMES = 1_000_000
_ALLOWED = f"how many times slower, 1 to {MOST_TIMES:,}, such as 1000 or 2.5"
_TIMES = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,6})?")
_CLOSE = Fraction(1, 1000)  # a scale that whole rates need may differ by so much
_SET_UP_S = 60  # what a run on the real clock may need beside its rounds
_WATCHDOG_STEP_S = 60


@dataclass(frozen=True)
class Change:
    """A key of the spec with its value as text, before and after."""

    key: str
    before: str
    after: str


def read_times(text: str) -> Fraction:
    """The scale in a text such as "4000"; raises BadRequest when it is none."""
    times = Fraction(text) if _TIMES.fullmatch(text) else Fraction(0)
    if not 1 <= times <= MOST_TIMES:
        raise BadRequest(f"--scale: {text!r} is given; allowed: {_ALLOWED}")
    return times


def as_number(times: Fraction) -> int | float:
    """The scale as JSON has it."""
    return times.numerator if times.denominator == 1 else float(times)


def slowed(spec: Spec, times: Fraction) -> Spec:
    """A resolved spec, `times` slower and resolved; raises BadRequest when such a fabric or workload cannot be."""
    pace = Pace(times, _whole_rates(spec, times))
    values: dict[str, Any] = {
        item.name: item.metadata["kind"].slowed(getattr(spec, item.name), pace)
        for item in fields(spec)
        if applies(spec, item)
    }
    try:
        return limits.resolve(_within_bounds(replace(spec, **values)))
    except BadRequest as error:
        raise BadRequest(f"--scale: {as_number(times)} is given, with which {error}") from None


def _whole_rates(spec: Spec, times: Fraction) -> Fraction:
    """The scale next to `times` with which every link has whole bytes per second, so that links keep their ratios."""
    shared = math.gcd(*spec.link_rates_bps) // 8
    found = Fraction(shared, max(1, round(shared / times)))
    if abs(found / times - 1) > _CLOSE:
        raise BadRequest(
            f"--scale: {as_number(times)} is given, and links of all rates take whole bytes per second;"
            f" allowed: a scale such as {float(found):.6g}, with which they do"
        )
    return found


def _within_bounds(spec: Spec) -> Spec:
    """Timeouts in whole ticks, and no longer than the kernel waits; a controller no slower than one may be."""
    ticks = max(1, round(spec.rto_min_ns / limits.TICK_NS))
    latency_ns = spec.control_latency_ns
    return replace(
        spec,
        rto_min_ns=min(ticks * limits.TICK_NS, limits.MOST_RTO_NS),
        control_latency_ns=None if latency_ns is None else min(latency_ns, limits.MOST_CONTROL_LATENCY_NS),
    )


def changes(before: Spec, after: Spec) -> Iterator[Change]:
    """Every key that the scale has changed."""
    told, now = before.as_text(), after.as_text()
    return (Change(key, as_typed(value), as_typed(now[key])) for key, value in told.items() if now[key] != value)


# --- how long it takes


def ideal_s(spec: Spec) -> float | None:
    """Seconds that a run's workload takes at the least by its spec alone, all rounds together; None where that follows
    from a program, or from how it is answered."""
    if spec.workload in TRANSFERS:
        flows = _flows_to_one(spec)
        last_begins_s = spec.jitter_ns / 1e9 * flows / (flows + 1)  # the mean of the largest of so many
        return spec.rounds * max(spec.sru_bytes * flows * 8 / spec.rate_bps, last_begins_s)
    if spec.workload in ("long_flows", "streams"):
        return known(spec.duration_ns) / 1e9
    if spec.workload == "collective":
        calls = known(spec.iterations) + known(spec.warmup)
        return calls * sum(known(spec.sizes_bytes)) * 8 / spec.rate_bps
    steps = {"training": spec.steps, "federated": spec.rounds}.get(str(spec.workload))
    return None if steps is None else known(steps) * known(spec.compute_ns) / 1e9


def _flows_to_one(spec: Spec) -> int:
    """How many flows share a receiver's link."""
    return {"incast": spec.senders or 1, "all_to_all": known(spec.hosts) - 1}.get(str(spec.workload), 1)


def stalled_s(spec: Spec) -> float | None:
    """Seconds with one timeout in every round or step on top; None where there are none of TCP's, or no rounds."""
    ideal = ideal_s(spec)
    if ideal is None or spec.transport != "tcp":
        return None
    rounds = {"training": spec.steps, "collective": spec.iterations, "federated": spec.rounds}
    times = spec.rounds if spec.workload in TRANSFERS else rounds.get(str(spec.workload)) or 1
    return ideal + times * spec.rto_min_ns / 1e9


def watchdog_s(spec: Spec) -> int | None:
    """The watchdog that a run on the real clock needs, in whole minutes: its rounds, with a timeout in each, and the
    set-up; None where its length is not known."""
    longest = stalled_s(spec) or ideal_s(spec)
    return None if longest is None else math.ceil((longest + _SET_UP_S) / _WATCHDOG_STEP_S) * _WATCHDOG_STEP_S
