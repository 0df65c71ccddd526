"""Which packets of a flow bring what was skipped before: lost on the way to the capture point, or late.

A packet that begins beyond the highest position seen so far leaves a gap. One that later brings bytes of a gap shows
that they were lost, or overtaken, before they came to this point; one that brings bytes that had been seen repeats
them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from analysis.capture.packets import Packets
from analysis.explain.causes_afar import counts_packets
from analysis.transport.sent import Sent
from analysis.transport.sequences import unwrap
from analysis.transport.spans import Span

_ID_BITS = 16


class Gaps:
    """The positions that were skipped and have not been seen yet, in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def skip(self, start: int, end: int) -> None:
        """[start, end) was skipped; it lies above all before."""
        self._starts.append(start)
        self._ends.append(end)

    def fill(self, start: int, end: int) -> int:
        """[start, end) was seen; how many of its positions had been missing."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if first >= last:
            return 0
        starts, ends = self._starts[first:last], self._ends[first:last]
        rest = [(starts[0], start)] if starts[0] < start else []
        rest += [(end, ends[-1])] if ends[-1] > end else []
        self._starts[first:last], self._ends[first:last] = [each[0] for each in rest], [each[1] for each in rest]
        return sum(ends) - sum(starts) - sum(above - below for below, above in rest)

    @property
    def total(self) -> int:
        """How many positions are missing."""
        return sum(self._ends) - sum(self._starts)

    @property
    def spans(self) -> list[Span]:
        """What is missing."""
        return list(zip(self._starts, self._ends))


def filled(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, Gaps]:
    """For packets (n,) with positions [start, end), which of them brought something that had been skipped, and what is
    missing after the last."""
    gaps, brings = Gaps(), np.zeros(len(start), np.bool_)
    if not len(start):
        return brings, gaps
    highest = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    for index in np.flatnonzero(start != highest).tolist():
        if start[index] > highest[index]:
            gaps.skip(int(highest[index]), int(start[index]))
        else:
            brings[index] = gaps.fill(int(start[index]), int(end[index])) > 0
    return brings, gaps


def lost_before(flow: Sent, packets: Packets, brings: np.ndarray) -> np.ndarray:
    """Which packets (n,) of those that fill a gap bring what was lost, as far as can be told: the others were
    overtaken, or came in place of one that was."""
    if not brings.any() or not counts_packets(flow, packets):
        return brings
    number = unwrap(packets.ip_id[flow.send_order], _ID_BITS)
    is_late = number < np.maximum.accumulate(number)
    fills, late = np.flatnonzero(brings & ~is_late), np.flatnonzero(is_late & ~brings)
    originals = dict(zip(flow.send_start[late].tolist(), number[late].tolist()))
    found = np.zeros(len(brings), np.bool_)
    for index, start in zip(fills.tolist(), flow.send_start[fills].tolist()):
        found[index] = start not in originals or originals[start] >= number[index]
    return found
