"""Hierarchical all-reduce: inside each server first, where links are fast, then between servers, then inside again.

Servers hold `group` ranks that follow each other. A ring reduce-scatter inside a server leaves each of its g ranks the
sum of a g-th of the data; ranks of the same place in their servers (a rail) all-reduce that by a ring; a ring
all-gather inside ends it. So a rank sends 2 (g-1)/g of the data inside and only 2 (m-1)/m of a g-th of it to other
servers, with m servers, in 2 (g-1) + 2 (m-1) steps (Horovod's hierarchical all-reduce with NCCL inside and MPI between;
NCCL on NVLink pods is alike).

We deviate by pipelining: the data is cut into pieces of n times the longest message, so that a message between servers
is as long as allowed, and while one piece is between servers the next is inside. Every stage works on two pieces at
once, each in lanes of its own, so that one's latency is behind the other's transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from topologies.units import BadRequest
from workloads.collectives.program import Await, Program, Programs, Signal, World, chunks, segments
from workloads.collectives.ring import all_gather_on, all_reduce_on, reduce_scatter_on

Stage = Callable[[np.ndarray, int], Program]  # what is done with a piece, on a lane

_AT_ONCE = 2


def all_reduce(world: World) -> Programs:
    """Raises BadRequest when the ranks do not fill servers of `group`."""
    if world.group < 1 or world.ranks % world.group:
        raise BadRequest(f"group: {world.group} is given with ranks={world.ranks}; allowed: a divisor of that")
    return {rank: [*_stages(world, rank)] for rank in range(world.ranks)}


def _stages(world: World, rank: int) -> Iterator[Program]:
    server, place = divmod(rank, world.group)
    inside = range(rank - place, rank - place + world.group)
    rail = range(place, world.ranks, world.group)

    def reduce_inside(piece: np.ndarray, lane: int) -> Program:
        return reduce_scatter_on(inside, place, segments(piece, len(inside)), lane)

    def between(piece: np.ndarray, lane: int) -> Program:
        return all_reduce_on(rail, server, segments(segments(piece, len(inside))[place], len(rail)), lane)

    def gather_inside(piece: np.ndarray, lane: int) -> Program:
        return all_gather_on(inside, place, segments(piece, len(inside)), lane)

    pieces = chunks(world.buffers[rank], world.chunk_items * world.ranks)
    for turn in range(min(_AT_ONCE, len(pieces))):
        yield from _in_turn(pieces[turn::_AT_ONCE], turn, (reduce_inside, between, gather_inside))


def _in_turn(pieces: Sequence[np.ndarray], turn: int, stages: Sequence[Stage]) -> Iterator[Program]:
    """A program for each stage, which takes each piece when the stage before has done it."""
    ready = [Signal() for _ in pieces]
    for signal in ready:
        signal.set()
    for number, stage in enumerate(stages):
        done = [Signal() for _ in pieces]
        yield _stage(pieces, stage, number * _AT_ONCE + turn, ready, done)
        ready = done


def _stage(
    pieces: Sequence[np.ndarray], stage: Stage, lane: int, ready: Sequence[Signal], done: Sequence[Signal]
) -> Program:
    for piece, begin, end in zip(pieces, ready, done):
        yield Await([begin])
        yield from stage(piece, lane)
        end.set()
