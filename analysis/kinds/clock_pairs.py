"""The same spec run on both clocks: what each run tells, their ratio, and whether that is within a tolerance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Callable

from analysis import text
from analysis.fidelity import judge, quantity
from analysis.measures import kernel_timeouts, queue_bytes, ratio, retransmits
from analysis.run import Run
from analysis.shaping_ports import shaped_ports
from analysis.verdicts import NOT_PROVEN, goodput_bps, incast_verdict, median_seconds, total_drops

VIRTUAL, REAL = "virtual", "real"
GOODPUT = "goodput"
# A limiter whose timer comes late saves up as much of the line as it missed: what is left of the error is rounding.
RATE_TOLERANCE = 0.02
# What chance decides is no nearer than two seeds of one clock are: of twelve in virtual time, 20 collapsed rounds each
# at 100 Mb/s, the greatest lay above the least by 19 % in goodput, 24 % in drops, 25 % in packets sent again, 41 % in
# timeouts. Goodput has to be nearer than that: a comparison of clocks promises it.
GOODPUT_TOLERANCE, LOSS_TOLERANCE, TIMEOUT_TOLERANCE = 0.15, 0.25, 0.4
_QUEUE_FRAMES = 2  # on the real clock queues are sampled every 250 us, in which 100 Mb/s send two frames
_BESIDE = ("label", "clock")  # keys in which the two runs of a pair may differ


@dataclass(frozen=True)
class Quantity:
    """One quantity of a pair: what both runs tell of it (None: nothing), how it reads, the tolerance of real over
    virtual as a share, and whether it is one of those that decide whether the clocks agree."""

    name: str
    virtual: float | None
    real: float | None
    form: Callable[[float | None], str]
    tolerance: float
    decides: bool = False

    @property
    def ratio(self) -> float | None:
        """Real over virtual; None where either is missing, or the virtual one is zero."""
        return ratio(self.real, self.virtual)

    @property
    def agrees(self) -> bool | None:
        """Whether the two are within the tolerance; None where one is missing."""
        if self.virtual is None or self.real is None:
            return None
        return abs(self.real - self.virtual) <= self.tolerance * self.virtual


@dataclass(frozen=True)
class Pair:
    """The two runs of one spec."""

    virtual: Run
    real: Run

    @property
    def name(self) -> str:
        """What sets the pair apart: the rate of its links."""
        return text.rate(self.virtual.parameters.path.rate_bps)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """What both runs tell, in the order of a table."""
        return tuple(
            Quantity(name, tell(self.virtual), tell(self.real), form, tolerance or _frames(self.virtual), decides)
            for name, tell, form, tolerance, decides in _TOLD
        )

    @cached_property
    def verdicts(self) -> tuple[str, str]:
        """What each run is said to show: virtual, real."""
        return incast_verdict(self.virtual).verdict, incast_verdict(self.real).verdict

    @property
    def same_verdict(self) -> bool | None:
        """Whether both are said to show the same; None where nothing is proven of one, as of an unfaithful run."""
        virtual, real = self.verdicts
        return None if NOT_PROVEN in self.verdicts else virtual == real

    @property
    def guard(self) -> str:
        """What the fidelity guard says of the run on the real clock."""
        return fidelity_words(self.real)

    @property
    def guard_words(self) -> str:
        """The same with the limits that broke, and what was measured of them: "unfaithful: shaper accuracy 5.8 %"."""
        judged = judge(self.real)
        broken = [f"{limit.name} {quantity(limit.measured, limit.unit)}" for limit in judged.broken] if judged else []
        return f"{self.guard}: {', '.join(broken)}" if broken else self.guard

    @property
    def by_chance(self) -> str:
        """By how much goodput, which chance decides, is apart where the port's rate and the verdict agree: "18 %
        less", than in virtual time; else empty."""
        decisive = {each.name: each for each in self.quantities if each.decides}
        goodput = decisive.pop(GOODPUT)
        agreeing = (self.same_verdict, *(each.agrees for each in decisive.values()))
        if goodput.agrees is not False or goodput.ratio is None or not all(agreeing):
            return ""
        off = text.digits(100 * abs(goodput.ratio - 1))
        return f"{off} % {'less' if goodput.ratio < 1 else 'more'}"

    @property
    def agrees(self) -> bool | None:
        """Whether everything that decides agrees; None where nothing differs and something is missing."""
        found = [self.same_verdict, *(each.agrees for each in self.quantities if each.decides)]
        return False if False in found else None if None in found else True

    @property
    def apart(self) -> list[str]:
        """The quantities that do not agree."""
        names = [each.name for each in self.quantities if each.agrees is False]
        return [*names, *(["verdict"] if self.same_verdict is False else [])]


@lru_cache(maxsize=64)  # a report asks many times
def busy_rate_bps(run: Run) -> float | None:
    """Bits per second that left the hot port while others waited there, headers included: of an incast's ports it alone
    is captured. None without its capture and those of senders, and where too few frames waited."""
    ports, _ = shaped_ports(run)
    return ports[0].rate_bps if ports else None


def _queue(run: Run, key: str) -> float | None:
    return (queue_bytes(run) or {}).get(key)


# name, how a run tells it, how it reads, its tolerance (None: frames of the buffer), whether it decides
_TOLD: Sequence[tuple[str, Callable[[Run], float | None], Callable[[float | None], str], float | None, bool]] = (
    ("rate of the busy port", busy_rate_bps, text.rate, RATE_TOLERANCE, True),
    (GOODPUT, lambda run: goodput_bps(run.rounds), text.rate, GOODPUT_TOLERANCE, True),
    ("median round", lambda run: median_seconds(run.rounds), text.seconds, GOODPUT_TOLERANCE, False),
    ("timeouts", kernel_timeouts, text.count, TIMEOUT_TOLERANCE, False),
    ("drops", total_drops, text.count, LOSS_TOLERANCE, False),
    ("packets sent again", retransmits, text.count, LOSS_TOLERANCE, False),
    ("longest queue", lambda run: _queue(run, "max"), text.size, None, False),
    ("queue while busy, p99", lambda run: _queue(run, "p99"), text.size, None, False),
)


def _frames(run: Run) -> float:
    """Some frames as a share of the buffer."""
    return _QUEUE_FRAMES * run.parameters.path.frame_bytes / run.parameters.buffer_bytes


def fidelity_words(run: Run) -> str:
    """What the fidelity guard says of a run; a dash in virtual time, which needs none."""
    found = judge(run)
    return text.NOTHING if found is None else found.verdict


def clock(run: Run) -> str:
    """The clock that a run was on."""
    return str(run.spec.get("clock"))


def pairs(run: Run) -> list[Pair]:
    """The run and its cases, two by two: those whose specs differ in nothing but the clock."""
    asked: dict[str, dict[str, Run]] = {}
    for each in (run, *run.cases.values()):
        spec = {key: value for key, value in each.spec.items() if key not in _BESIDE}
        asked.setdefault(json.dumps(spec, sort_keys=True, default=str), {}).setdefault(clock(each), each)
    return [Pair(found[VIRTUAL], found[REAL]) for found in asked.values() if {VIRTUAL, REAL} <= set(found)]
