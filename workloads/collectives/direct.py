"""Everybody sends to whom it concerns, all at once: the fewest steps, and many senders to one receiver.

A gather, and each half of an all-reduce, is an incast; MPI libraries post the same non-blocking sends and receives for
short messages (Thakur, Rabenseifner and Gropp, IJHPCA 2005, all-to-all), and NCCL's all-to-all is nothing but grouped
sends and receives. A rank begins with the rank after it, so that not all send to the same one first. All-reduce is a
reduce-scatter and an all-gather: two steps, and the same 2 (n-1)/n of the data as a ring.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workloads.collectives.program import Add, Program, Programs, Receive, Send, World, segments
from workloads.collectives.steps import Move, together


def broadcast(world: World) -> Programs:
    """Rank 0 sends all to everybody: n - 1 times the data."""
    return _rooted(world, lambda rank: Send(rank, world.buffers[0]), lambda rank: Receive(0, world.buffers[rank]))


def reduce(world: World) -> Programs:
    """Everybody sends all to rank 0, which gets n - 1 times the data."""
    return _rooted(world, lambda rank: Add(rank, world.buffers[0]), lambda rank: Send(0, world.buffers[rank]))


def scatter(world: World) -> Programs:
    """Rank 0 sends everybody its block."""
    mine = segments(world.buffers[0], world.ranks)
    return _rooted(world, lambda rank: Send(rank, mine[rank]), lambda rank: Receive(0, _own(world, rank)))


def gather(world: World) -> Programs:
    """Everybody sends its block to rank 0."""
    mine = segments(world.buffers[0], world.ranks)
    return _rooted(world, lambda rank: Receive(rank, mine[rank]), lambda rank: Send(0, _own(world, rank)))


def _own(world: World, rank: int) -> np.ndarray:
    return segments(world.buffers[rank], world.ranks)[rank]


def _rooted(world: World, at_root: Callable[[int], Move], at: Callable[[int], Move]) -> Programs:
    """Rank 0 makes a move with each other rank, which makes one with it."""
    others = range(1, world.ranks)
    return {0: [together(*map(at_root, others))], **{rank: [together(at(rank))] for rank in others}}


def all_reduce(world: World) -> Programs:
    """Everybody sends 2 (n-1)/n of the data in two steps."""
    return {rank: [_all_reduce(world, rank)] for rank in range(world.ranks)}


def _all_reduce(world: World, rank: int) -> Program:
    yield from _reduce_scatter(world, rank)
    yield from _all_gather(world, rank)


def reduce_scatter(world: World) -> Programs:
    """Everybody sends (n-1)/n of the data in one step."""
    return {rank: [_reduce_scatter(world, rank)] for rank in range(world.ranks)}


def _reduce_scatter(world: World, rank: int) -> Program:
    blocks, others = segments(world.buffers[rank], world.ranks), _others(world, rank)
    sends = (Send(peer, blocks[peer]) for peer in others)
    return together(*sends, *(Add(peer, blocks[rank]) for peer in others))


def all_gather(world: World) -> Programs:
    """Everybody sends its block n - 1 times in one step."""
    return {rank: [_all_gather(world, rank)] for rank in range(world.ranks)}


def _all_gather(world: World, rank: int) -> Program:
    blocks, others = segments(world.buffers[rank], world.ranks), _others(world, rank)
    sends = (Send(peer, blocks[rank]) for peer in others)
    return together(*sends, *(Receive(peer, blocks[peer]) for peer in others))


def all_to_all(world: World) -> Programs:
    """Everybody sends each other rank another block in one step."""
    return {rank: [_all_to_all(world, rank)] for rank in range(world.ranks)}


def _all_to_all(world: World, rank: int) -> Program:
    given, got = (segments(data, world.ranks) for data in (world.buffers[rank], world.outs[rank]))
    others = _others(world, rank)
    got[rank][:] = given[rank]
    yield from together(*(Send(peer, given[peer]) for peer in others), *(Receive(peer, got[peer]) for peer in others))


def _others(world: World, rank: int) -> list[int]:
    return [(rank + distance) % world.ranks for distance in range(1, world.ranks)]
