"""Trees: few steps for small data, and for large data all links busy by two trees that share it.

All-reduce is NCCL's double binary tree (its src/graph/trees.cc, since version 2.4): two trees over all ranks, each of
which adds up one half of the data on the way to its root and sends the sum back down. In a tree every other rank is a
leaf, and the second is the first mirrored (an even number of ranks) or moved on by one (odd): a rank that has two
children in one has none in the other. So nobody sends or receives more than twice the data, and a sum is complete
after about 2 log2(n) steps. Chunks follow each other, up and down at the same time.

Broadcast and reduce use two such trees over all ranks but rank 0, which feeds their roots or is fed by them: nobody
sends or receives more than the data once (Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast,
reduction and scan", Parallel Computing 2009). We deviate: their steps are coloured, so that a rank's two parents take
turns; here the transport shares the link between them.

Scatter and gather are binomial trees: log2(n) steps, and the root sends or receives (n-1)/n of the data as it must
(Thakur, Rabenseifner and Gropp, IJHPCA 2005). Blocks of others pass through a rank's own buffer, at their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workloads.collectives.program import Add, Program, Programs, Receive, Send, World, chunks, segments
from workloads.collectives.steps import relay, span, together


@dataclass(frozen=True)
class Node:
    """A rank's place in a tree: the ranks above (none at the root) and below."""

    parents: tuple[int, ...]
    children: tuple[int, ...]


def binary_tree(count: int) -> list[int | None]:
    """The parent of each of `count` places (None: place 0, the root): a place whose lowest set bit is b hangs below the
    one or the other that differs from it by b and is a multiple of 2 b, so odd places are leaves."""
    return [_parent(place, count) for place in range(count)]


def _parent(place: int, count: int) -> int | None:
    bit = place & -place
    above = place ^ bit | bit << 1
    return None if place == 0 else above if above < count else place ^ bit


def double_tree(ranks: Sequence[int]) -> tuple[dict[int, Node], dict[int, Node]]:
    """Two trees over `ranks` of which each rank has children in one at most; but with an odd number of ranks the first
    tree's root, which has one child, may have one in the second tree too."""
    second = list(reversed(ranks)) if len(ranks) % 2 == 0 else [*ranks[1:], *ranks[:1]]
    return _nodes(ranks), _nodes(second)


def _nodes(ranks: Sequence[int]) -> dict[int, Node]:
    parents = binary_tree(len(ranks))
    below: list[list[int]] = [[] for _ in ranks]
    for place, parent in enumerate(parents):
        if parent is not None:
            below[parent].append(ranks[place])
    above = [() if parent is None else (ranks[parent],) for parent in parents]
    return {rank: Node(above[place], tuple(below[place])) for place, rank in enumerate(ranks)}


def all_reduce(world: World) -> Programs:
    """Nobody sends or receives more than twice the data; about 2 log2(n) steps, and one for each further chunk."""
    trees = double_tree(range(world.ranks))
    return {rank: [*_up_and_down(world, rank, trees)] for rank in range(world.ranks)}


def _up_and_down(world: World, rank: int, trees: Sequence[dict[int, Node]]) -> Iterator[Program]:
    for lane, (pieces, nodes) in enumerate(zip(_halves(world, rank), trees)):
        node = nodes[rank]
        if node.parents:
            yield relay(pieces, Add, node.children, node.parents, lane)
            yield relay(pieces, Receive, node.parents, node.children, lane)
        else:
            yield relay(pieces, Add, node.children, node.children, lane)


def _halves(world: World, rank: int) -> list[list[np.ndarray]]:
    return [chunks(half, world.chunk_items) for half in segments(world.buffers[rank], 2)]


def broadcast(world: World) -> Programs:
    """Nobody sends or receives more than the data once; about log2(n) + 1 steps, and one for each further chunk."""
    trees = _below_rank_0(world.ranks)
    return {rank: [*_down(world, rank, trees)] for rank in range(world.ranks)}


def _down(world: World, rank: int, trees: Sequence[dict[int, Node]]) -> Iterator[Program]:
    for lane, (pieces, nodes) in enumerate(zip(_halves(world, rank), trees)):
        yield relay(pieces, Receive, nodes[rank].parents, nodes[rank].children, lane)


def reduce(world: World) -> Programs:
    """Broadcast the other way round, adding: nobody sends or receives more than the data once."""
    trees = _below_rank_0(world.ranks)
    return {rank: [*_up(world, rank, trees)] for rank in range(world.ranks)}


def _up(world: World, rank: int, trees: Sequence[dict[int, Node]]) -> Iterator[Program]:
    for lane, (pieces, nodes) in enumerate(zip(_halves(world, rank), trees)):
        yield relay(pieces, Add, nodes[rank].children, nodes[rank].parents, lane)


def _below_rank_0(ranks: int) -> list[dict[int, Node]]:
    """The two trees over all other ranks, with rank 0 above their roots."""
    return [_hung_below(0, nodes) for nodes in double_tree(range(1, ranks))]


def _hung_below(top: int, nodes: dict[int, Node]) -> dict[int, Node]:
    roots = tuple(rank for rank, node in nodes.items() if not node.parents)
    hung = {rank: Node(node.parents or (top,), node.children) for rank, node in nodes.items()}
    return {top: Node((), roots), **hung}


def scatter(world: World) -> Programs:
    """Rank 0 sends each half, quarter, eighth... of the ranks its blocks, whose first rank does the same."""
    return {rank: [_scatter(world, rank)] for rank in range(world.ranks)}


def _scatter(world: World, rank: int) -> Program:
    blocks, parent, children = _binomial(world, rank)
    if rank:
        yield from together(Receive(parent, blocks(rank)))
    for child in reversed(children):
        yield from together(Send(child, blocks(child)))


def gather(world: World) -> Programs:
    """Scatter the other way round: neighbours first, then pairs, fours..."""
    return {rank: [_gather(world, rank)] for rank in range(world.ranks)}


def _gather(world: World, rank: int) -> Program:
    blocks, parent, children = _binomial(world, rank)
    for child in children:
        yield from together(Receive(child, blocks(child)))
    if rank:
        yield from together(Send(parent, blocks(rank)))


def _binomial(world: World, rank: int) -> tuple[Callable[[int], np.ndarray], int, list[int]]:
    """The blocks of a rank and of all below it, as a view of this rank's buffer; who is above it; who is below it,
    nearest first."""

    def below(top: int) -> int:
        return top & -top or world.ranks

    def blocks(top: int) -> np.ndarray:
        return span(world.buffers[rank], world.ranks, top, min(top + below(top), world.ranks))

    bits = (1 << place for place in range(world.ranks.bit_length()))
    children = [rank + bit for bit in bits if bit < below(rank) and rank + bit < world.ranks]
    return blocks, rank & (rank - 1), children
