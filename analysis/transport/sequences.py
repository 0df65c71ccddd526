"""Sequence numbers as positions: unwrapped, compared around the wrap, and judged for many runs of packets at once.

A run is a stretch of equal flow in columns that are sorted by flow; `begins` are the places where the runs begin.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TypeVar

import numpy as np

_Numbers = TypeVar("_Numbers", int, np.ndarray)
_LARGEST = 2**62
_MOST_HOLES = 1 << 14


def unwrap(numbers: np.ndarray, bits: int = 32) -> np.ndarray:
    """Sequence numbers (n,) of so many bits as 64-bit positions relative to the first.

    Each is taken to lie within half of the space of the one before, on either side (RFC 9293, section 3.4: numbers
    compare modulo 2^32).
    """
    return unwrap_runs(numbers, np.zeros(min(len(numbers), 1), np.int64), bits)


def unwrap_runs(numbers: np.ndarray, begins: np.ndarray, bits: int = 32) -> np.ndarray:
    """As `unwrap`, for each of the runs that begin at `begins` (the first at 0, none empty)."""
    whole = numbers.astype(np.int64)
    steps = distance(whole, np.concatenate([whole[:1], whole[:-1]]), bits)
    steps[begins] = 0
    positions = np.cumsum(steps, dtype=np.int64)
    return positions - np.repeat(positions[begins], run_lengths(begins, len(whole)))


def distance(number: _Numbers, origin: _Numbers, bits: int = 32) -> _Numbers:
    """Signed distance from `origin` to `number` in a sequence space of so many bits."""
    half = 1 << (bits - 1)
    return (number - origin + half) % (2 * half) - half


def run_lengths(begins: np.ndarray, total: int) -> np.ndarray:
    """How long each run is, of `total` entries in all."""
    return np.diff(np.append(begins, total))


def running_max(values: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """The largest value so far (n,), within each run."""
    if not len(values):
        return values
    run = np.repeat(np.arange(len(begins)), run_lengths(begins, len(values)))
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    if span * len(begins) < _LARGEST:  # each run lifted above all before it: one pass for all
        return np.maximum.accumulate(values - lowest + run * span) - run * span + lowest
    order = np.lexsort((values, run))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return values[order[np.maximum.accumulate(rank)]]


def shifted(values: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """The value before each (n,), and 0 at the begin of each run."""
    before = np.concatenate([values[:1], values[:-1]])
    before[begins] = 0
    return before


def differs(values: np.ndarray) -> np.ndarray:
    """Where a value (n,) is another than the one before; the first is."""
    return np.concatenate([np.ones(min(len(values), 1), np.bool_), values[1:] != values[:-1]])


def numbered(values: np.ndarray) -> np.ndarray:
    """The place (n,) of each value among all that there are, in order."""
    return np.searchsorted(np.unique(values), values)


def sorting(numbers: np.ndarray) -> np.ndarray:
    """What sorts numbers from 0 on and keeps the order of equal ones; NumPy sorts small ones in linear time."""
    small = int(numbers.max(initial=0)) < 2**16
    return np.argsort(numbers.astype(np.uint16) if small else numbers, kind="stable")


class Holes:
    """The bytes below the highest one seen that were not seen themselves, while a flow's segments come by; of more than
    _MOST_HOLES, which no sender leaves open, the oldest are forgotten."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def opened(self, start: int, end: int) -> None:
        """A segment began beyond the highest byte: what lies between is missing."""
        self._starts.append(start)
        self._ends.append(end)
        if len(self._starts) > _MOST_HOLES:
            del self._starts[: _MOST_HOLES // 2], self._ends[: _MOST_HOLES // 2]

    def filled(self, start: int, end: int) -> bool:
        """Whether a segment brought a byte that was missing; it no longer is."""
        first = place = bisect_left(self._ends, start + 1)
        left: list[tuple[int, int]] = []
        while place < len(self._starts) and self._starts[place] < end:
            left += [(self._starts[place], start)] if self._starts[place] < start else []
            left += [(end, self._ends[place])] if self._ends[place] > end else []
            place += 1
        self._starts[first:place] = [begin for begin, _ in left]
        self._ends[first:place] = [stop for _, stop in left]
        return place > first
