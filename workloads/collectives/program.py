"""What a party of a collective does, as a generator of steps (pure).

Parties are numbered: ranks from 0, helpers (parameter servers) after them. A party has one program or several, which
run at the same time. A program yields an operation, or a tuple of operations that begin together, and goes on when all
of them are done: `yield Send(right, mine), Add(left, theirs)`. Between two yields it computes, which takes no time;
`yield from` puts programs together.

What one party sends to another on one lane arrives in the order in which it was sent, each message whole: the receiver
asks for as many numbers as were sent. Programs of a party that talk to the same peer at the same time use lanes of
their own. Arrays are one-dimensional and contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

Channel = tuple[int, int, int]  # sender, receiver, lane


@dataclass(frozen=True, eq=False)
class Send:
    """`data` goes to `peer`; done when the transport has taken all of it and `data` may change."""

    peer: int
    data: np.ndarray
    lane: int = 0


@dataclass(frozen=True, eq=False)
class Receive:
    """A message of `peer` is put into `into`."""

    peer: int
    into: np.ndarray
    lane: int = 0


@dataclass(frozen=True, eq=False)
class Add:
    """A message of `peer` is added to `into`, number by number, in its type."""

    peer: int
    into: np.ndarray
    lane: int = 0


@dataclass(frozen=True, eq=False)
class Aggregate:
    """`data` becomes the sum of the `data` of all ranks, by the aggregator in the network; all ranks ask for the same
    aggregations in the same order."""

    data: np.ndarray


@dataclass(frozen=True)
class Wait:
    """Nothing happens for `duration_ns`: the time that computing would take."""

    duration_ns: int


class Signal:
    """What one program of a party tells the others of the same party, once."""

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: list[Callable[[], object]] = []

    def set(self) -> None:
        """Tell those who wait, and who will ask later."""
        self.is_set = True
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def when_set(self, call: Callable[[], object]) -> None:
        """`call` once it is set, at once when it is."""
        if self.is_set:
            call()
        else:
            self._waiting.append(call)


@dataclass(frozen=True, eq=False)
class Await:
    """Done when `count` of the signals are set (None: all)."""

    signals: Sequence[Signal]
    count: int | None = None

    @property
    def needed(self) -> int:
        """How many must be set."""
        return len(self.signals) if self.count is None else self.count


Operation = Union[Send, Receive, Add, Aggregate, Wait, Await]
Step = Union[Operation, tuple[Operation, ...]]
Program = Generator[Step, None, None]
Programs = dict[int, list[Program]]  # party -> what it does, all at the same time


@dataclass(frozen=True)
class World:
    """What a collective is carried out on: `buffers[r]` is rank r's data, all of one length and type, and is where its
    result will be; all_to_all's is in `outs[r]`. chunk_items: longest piece
    of what is passed on piece by piece. group: ranks per server (hierarchical).
    helpers: the numbers of parameter servers, each with a buffer of its own part of the numbers to add up in.

    Lists of blocks are cut as `segments` says: block r of n belongs to rank r.
    """

    buffers: Sequence[np.ndarray]
    outs: Sequence[np.ndarray] = ()
    chunk_items: int = 1 << 16
    group: int = 1
    helpers: Sequence[int] = ()

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.buffers)


def segments(data: np.ndarray, parts: int) -> list[np.ndarray]:
    """`parts` views that make up `data`, in order, whose lengths differ by one at most (the longer ones first)."""
    return np.array_split(data, parts)


def chunks(data: np.ndarray, most_items: int) -> list[np.ndarray]:
    """Views of at most `most_items` that make up `data`, in order; one empty view of an empty array."""
    return [data[first : first + most_items] for first in range(0, len(data), most_items)] or [data]
