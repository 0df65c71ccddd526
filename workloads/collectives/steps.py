"""What programs are put together from: where segments begin, a step that leaves out what
would move nothing, pieces handed through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import numpy as np

from workloads.collectives.program import Add, Program, Receive, Send

Move = Union[Send, Receive, Add]


def edge(count: int, parts: int, index: int) -> int:
    """Where segment `index` of `parts` of `count` numbers begins; of index `parts`: `count`."""
    least, longer = divmod(count, parts)
    return index * least + min(index, longer)


def span(data: np.ndarray, parts: int, first: int, end: int) -> np.ndarray:
    """The segments from `first` up to but not `end`, of `parts` that make up `data`, as one view."""
    return data[edge(len(data), parts, first) : edge(len(data), parts, end)]


def together(*moves: Move) -> Program:
    """One step of those moves that have numbers to move; none when there are none, at both ends alike."""
    moving = tuple(move for move in moves if len(move.data if isinstance(move, Send) else move.into))
    if moving:
        yield moving


def relay(
    pieces: Sequence[np.ndarray],
    kind: type[Receive] | type[Add],
    sources: Sequence[int],
    targets: Sequence[int],
    lane: int = 0,
) -> Program:
    """Each piece is taken from all sources (received or added), then sent to all targets while the next is taken."""
    nothing = pieces[0][:0]
    for coming, going in zip([*pieces, nothing], [nothing, *pieces]):
        taken = (kind(peer, coming, lane) for peer in sources)
        yield from together(*taken, *(Send(peer, going, lane) for peer in targets))
