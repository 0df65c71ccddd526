"""Rabenseifner's algorithm: log2(n) steps with ever nearer, then ever farther partners, and no more data than a ring.

Recursive halving: partners exchange halves of what they still hold and add, so that each holds the sum of one segment
after log2(p) steps; recursive doubling gathers the segments on the way back (Thakur, Rabenseifner and Gropp, IJHPCA
2005). p is the largest power of two among n ranks. Of the first 2 (n - p) ranks the even ones hand all
they have to their odd neighbours before, and get the result from them after: an all-reduce takes two more steps then,
and twice the data more on those links.

All-gather and reduce-scatter fold in the same way, an odd rank acting for its neighbour's block too. We deviate from
MPICH twice: its all-gather of an odd number of ranks is Bruck's algorithm, and its all-reduce halves with the nearest
partner first, so that the largest messages stay near; here the farthest comes first, which leaves segments in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.collectives.program import Add, Program, Programs, Receive, Send, World
from workloads.collectives.steps import edge, span, together


@dataclass(frozen=True)
class Fold:
    """Who takes part: of the first 2 `extra` ranks the odd ones, and all after them; `power` in number."""

    power: int
    extra: int

    def place(self, rank: int) -> int | None:
        """A rank's number among those that take part; None: its neighbour acts for it."""
        if rank >= 2 * self.extra:
            return rank - self.extra
        return rank // 2 if rank % 2 else None

    def rank(self, place: int) -> int:
        """The rank at a place."""
        return 2 * place + 1 if place < self.extra else place + self.extra

    def first(self, place: int) -> int:
        """The first rank that the one at a place acts for; of place `power`, the number of ranks."""
        return 2 * place if place < self.extra else place + self.extra

    def acts_for(self, place: int) -> tuple[int, ...]:
        """The rank, if any, that does not take part and for which the one at a place acts."""
        return (2 * place,) if place < self.extra else ()


def fold(ranks: int) -> Fold:
    """To the largest power of two."""
    power = 1 << ranks.bit_length() - 1
    return Fold(power, ranks - power)


def all_reduce(world: World) -> Programs:
    """Each of p ranks sends 2 (p-1)/p of the data in 2 log2(p) steps; those that fold, the data once more."""
    return {rank: [_all_reduce(world.buffers[rank], rank, fold(world.ranks))] for rank in range(world.ranks)}


def _all_reduce(data: np.ndarray, rank: int, folded: Fold) -> Program:
    place = folded.place(rank)
    if place is None:
        yield from together(Send(rank + 1, data))
        yield from together(Receive(rank + 1, data))
        return
    edges = [edge(len(data), folded.power, index) for index in range(folded.power + 1)]
    yield from together(*(Add(even, data) for even in folded.acts_for(place)))
    yield from _halve(data, edges, folded, place)
    yield from _double(data, edges, folded, place)
    yield from together(*(Send(even, data) for even in folded.acts_for(place)))


def reduce_scatter(world: World) -> Programs:
    """Each of p ranks sends (p-1)/p of the data in log2(p) steps; those that fold, all of it and a block more."""
    return {rank: [_reduce_scatter(world, rank, fold(world.ranks))] for rank in range(world.ranks)}


def _reduce_scatter(world: World, rank: int, folded: Fold) -> Program:
    data, place = world.buffers[rank], folded.place(rank)
    if place is None:
        yield from together(Send(rank + 1, data))
        yield from together(Receive(rank + 1, span(data, world.ranks, rank, rank + 1)))
        return
    yield from together(*(Add(even, data) for even in folded.acts_for(place)))
    yield from _halve(data, _edges_of_blocks(data, world.ranks, folded), folded, place)
    yield from together(*(Send(even, span(data, world.ranks, even, rank)) for even in folded.acts_for(place)))


def all_gather(world: World) -> Programs:
    """Each of p ranks sends (p-1)/p of the data in log2(p) steps; those that fold, a block and all others more."""
    return {rank: [_all_gather(world, rank, fold(world.ranks))] for rank in range(world.ranks)}


def _all_gather(world: World, rank: int, folded: Fold) -> Program:
    data, place = world.buffers[rank], folded.place(rank)
    if place is None:
        yield from together(Send(rank + 1, span(data, world.ranks, rank, rank + 1)))
        yield from together(*(Receive(rank + 1, part) for part in _without(data, world.ranks, rank)))
        return
    acts_for = folded.acts_for(place)
    yield from together(*(Receive(even, span(data, world.ranks, even, rank)) for even in acts_for))
    yield from _double(data, _edges_of_blocks(data, world.ranks, folded), folded, place)
    yield from together(*(Send(even, part) for even in acts_for for part in _without(data, world.ranks, even)))


def _edges_of_blocks(data: np.ndarray, ranks: int, folded: Fold) -> list[int]:
    return [edge(len(data), ranks, folded.first(place)) for place in range(folded.power + 1)]


def _without(data: np.ndarray, ranks: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    return span(data, ranks, 0, block), span(data, ranks, block + 1, ranks)


def _halve(data: np.ndarray, edges: Sequence[int], folded: Fold, place: int) -> Program:
    """`data` between edges[place] and the next becomes the sum of all that take part."""
    first, distance = 0, folded.power // 2
    while distance:
        lower, upper = _pair(data, edges, first, distance)
        peer = folded.rank(place ^ distance)
        kept, given = (upper, lower) if place & distance else (lower, upper)
        yield from together(Send(peer, given), Add(peer, kept))
        first += place & distance
        distance //= 2


def _double(data: np.ndarray, edges: Sequence[int], folded: Fold, place: int) -> Program:
    """What all that take part have between their edges becomes all of `data`."""
    distance = 1
    while distance < folded.power:
        lower, upper = _pair(data, edges, place & -(2 * distance), distance)
        peer = folded.rank(place ^ distance)
        mine, theirs = (upper, lower) if place & distance else (lower, upper)
        yield from together(Send(peer, mine), Receive(peer, theirs))
        distance *= 2


def _pair(data: np.ndarray, edges: Sequence[int], first: int, distance: int) -> tuple[np.ndarray, np.ndarray]:
    """The segments of `distance` places from `first` on, and of as many after them."""
    middle, end = edges[first + distance], edges[first + 2 * distance]
    return data[edges[first] : middle], data[middle:end]
