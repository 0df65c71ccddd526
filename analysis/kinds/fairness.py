"""How fairly flows share a link, and how soon after one joins or leaves (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

FAIR_INDEX = 0.95  # from here on rates count as equal: two flows that differ by a factor of 1.6
STEADY_SHARE = 0.5  # of a phase: its second half is where flows are judged, whatever they do there


@dataclass(frozen=True)
class Phase:
    """A time in which no flow joins or leaves: from, to (ns), and the flows that send in all of it."""

    start_ns: int
    end_ns: int
    flows: tuple[str, ...]

    @property
    def length_ns(self) -> int:
        """How long it lasts."""
        return self.end_ns - self.start_ns

    @property
    def steady(self) -> Phase:
        """Its second half: what happens after a change has had as long to settle as it is then measured."""
        return Phase(self.end_ns - int(self.length_ns * STEADY_SHARE), self.end_ns, self.flows)


def jain(rates: Sequence[float]) -> float | None:
    """Jain's index of rates (Jain, Chiu and Hawe, DEC-TR-301, 1984): (sum x)^2 / (n sum x^2), 1 when all are equal and
    1/n when one has everything; None where nobody has anything."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else None


def phases(spans_ns: Mapping[str, tuple[int, int]]) -> list[Phase]:
    """The phases of flows that send from and to these times, in order; those without any flow are left out."""
    changes = sorted({time_ns for span in spans_ns.values() for time_ns in span})
    found = []
    for start_ns, end_ns in zip(changes, changes[1:]):
        flows = tuple(name for name, (begin_ns, stop_ns) in spans_ns.items() if begin_ns <= start_ns < stop_ns)
        found += [Phase(start_ns, end_ns, flows)] if flows else []
    return found


def judged(found: Sequence[Phase]) -> Phase | None:
    """The steady part of the longest phase among those with the most flows; None without any phase."""
    if not found:
        return None
    return max(found, key=lambda phase: (len(phase.flows), phase.length_ns)).steady


def settled_ns(phase: Phase, times_ns: np.ndarray, index: np.ndarray) -> int | None:
    """From the phase's start until Jain's index stays at FAIR_INDEX or above to its end; None where it does not, or
    where no bin lies in the phase.

    times_ns (n,): the begins of equal bins; index (n,): Jain's index of each, NaN where nothing arrived. Only bins
    that lie whole in the phase count.
    """
    width_ns = int(times_ns[1] - times_ns[0]) if len(times_ns) > 1 else 0
    inside = (times_ns >= phase.start_ns) & (times_ns + width_ns <= phase.end_ns)
    fair, begins_ns = index[inside] >= FAIR_INDEX, times_ns[inside]
    if not len(fair) or not fair[-1]:
        return None
    unfair = np.flatnonzero(~fair)
    first = int(unfair[-1]) + 1 if len(unfair) else 0
    return int(begins_ns[first]) - phase.start_ns


def port_fair(ways: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The share of a bottleneck that each flow gets when every switch serves the ports that feed it alike, which is
    what pausing by ingress port leads to, and every sender always has something to send.

    ways: the nodes of each flow from the switch with the bottleneck back to its sender.
    """
    return _port_fair(ways, 1, 1.0)


def _port_fair(ways: Mapping[str, Sequence[str]], depth: int, portion: float) -> dict[str, float]:
    """The portion divided among the nodes at this depth, and further up within each."""
    feeding: dict[str, dict[str, Sequence[str]]] = {}
    for flow, way in ways.items():
        feeding.setdefault(way[depth], {})[flow] = way
    shares: dict[str, float] = {}
    for some in feeding.values():
        part = portion / len(feeding)
        is_last = all(len(way) == depth + 1 for way in some.values())
        shares.update(dict.fromkeys(some, part / len(some)) if is_last else _port_fair(some, depth + 1, part))
    return shares
