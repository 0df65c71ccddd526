"""What both forms of capture files give: records, a batch at a time, as columns."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

LARGEST_RECORD_BYTES = 262_144  # libpcap's MAXIMUM_SNAPLEN: a longer record is damage, not a packet
UNKNOWN_LINK = -1
FEW_ALIKE = 16  # so many records of one length, and it is worth looking for more at once
_FIRST_LOOK = 256
_FARTHER = 8


@dataclass(frozen=True, eq=False)
class Records:
    """Records (n,) of one batch: their frames begin at `begin` in `data` and have `captured` bytes there.

    interface counts over the whole file; link_type is that of all of them, or of each (n,), UNKNOWN_LINK where the file
    does not tell. is_untimed: records without a time stamp, whose time_ns is nothing; None when there are none.
    """

    data: np.ndarray
    begin: np.ndarray
    captured: np.ndarray
    wire_bytes: np.ndarray
    time_ns: np.ndarray
    interface: np.ndarray
    link_type: int | np.ndarray
    is_untimed: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.begin)

    def part(self, which: slice) -> Records:
        """Those that a slice picks."""
        arrays = {name: value[which] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **{**arrays, "data": self.data})


@dataclass
class Ending:
    """How a file came to its end: inside a record or not, and the bytes in it that are no record."""

    is_truncated: bool = False
    garbage_bytes: int = 0


class Walk(NamedTuple):
    """The places of records that follow each other, where the next one would be, and whether that is none: damage, or
    something to be looked at by itself."""

    places: np.ndarray
    at: int
    is_over: bool = False

    def until(self, bad: np.ndarray) -> Walk:
        """Only up to the first that a mask (n,) says is none."""
        if not bad.any():
            return self
        first = int(np.argmax(bad))
        return Walk(self.places[:first], int(self.places[first]), is_over=True)

    def whole(self, end: int) -> Walk:
        """Without the last one where it reaches beyond `end`."""
        return Walk(self.places[:-1], int(self.places[-1])) if self.at > end else self


class Places:
    """Collects the places of records: one by one with `add`, or many of equal length at a time."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._singles: list[int] = []
        self.add = self._singles.append

    def add_run(self, data: bytearray, start: int, end: int, stride: int, alike: tuple[tuple[int, int], ...]) -> int:
        """Add all whole records from `start` on that lie `stride` bytes apart and have, at each (offset, size) of
        `alike`, the bytes of the record before them; where the first other one begins."""
        room = max((end - start) // stride, 0)
        found, more = 0, min(_FIRST_LOOK, room)
        while more:
            here = _count_alike(data, start + found * stride, stride, more, alike)
            found += here
            more = min(more * _FARTHER, room - found) if here == more else 0
        self._flush()
        self._parts.append(start + stride * np.arange(found, dtype=np.int64))
        return start + found * stride

    def _flush(self) -> None:
        self._parts.append(np.array(self._singles, np.int64))
        self._singles.clear()

    def all(self) -> np.ndarray:
        """All places so far, in order."""
        self._flush()
        return np.concatenate(self._parts)


def _count_alike(data: bytearray, start: int, stride: int, count: int, alike: tuple[tuple[int, int], ...]) -> int:
    """How many of `count` records, from the first on, have the bytes of the record before them."""
    same = np.ones(count, np.bool_)
    for offset, size in alike:
        every = np.ndarray((count + 1,), f"u{size}", memoryview(data), start - stride + offset, (stride,))
        same &= every[1:] == every[:-1]
    return count if same.all() else int(np.argmin(same))


def gather(data: np.ndarray, at: np.ndarray, layout: np.dtype) -> np.ndarray:
    """A contiguous copy (n,) of the structures at those places of the bytes."""
    size = layout.itemsize
    every = np.ndarray((max(len(data) - size + 1, 0),), f"V{size}", data, strides=(1,))
    return every[at].view(layout)


def unsigned_at(order: str) -> struct.Struct:
    """Reads 32 bits in that byte order."""
    return struct.Struct(order + "I")
