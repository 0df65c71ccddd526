"""Rings and chains: every rank sends to the next one only.

All-reduce is a reduce-scatter and an all-gather of n - 1 steps each, in each of which every rank sends one of the n
segments: 2 (n-1)/n of the data, the least that any algorithm can (Patarasuk and Yuan, "Bandwidth optimal all-reduce
algorithms for clusters of workstations", JPDC 2009; the alpha-beta terms: Thakur, Rabenseifner and Gropp, IJHPCA 2005).
Broadcast and reduce are a chain from or to rank 0, which need not close.

Segments travel whole, whatever the longest message may be: every link carries a segment in every step anyhow. With
alpha for a message's latency and s for a segment's time on the link, a step takes alpha + s; in k pieces that follow
each other (as NCCL cuts) it would take max(s, alpha + s/k). That saves at most alpha of alpha + s, little wherever
segments are long enough to be cut (256 KiB at 100 Gb/s: s = 21 us, alpha about 5 us), for k times the messages; and
whole segments are what the published terms describe. A chain has idle ranks until the first piece reaches them: there
the data is cut into k chunks, and takes n - 2 + k steps of a k-th instead of n - 1 steps of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workloads.collectives.program import Add, Program, Programs, Receive, Send, World, chunks, segments
from workloads.collectives.steps import relay, together


def all_reduce(world: World) -> Programs:
    """Every rank sends 2 (n-1)/n of the data in 2 (n-1) steps."""
    ring = range(world.ranks)
    return {rank: [all_reduce_on(ring, rank, segments(world.buffers[rank], world.ranks))] for rank in ring}


def reduce_scatter(world: World) -> Programs:
    """Every rank sends (n-1)/n of the data in n - 1 steps."""
    ring = range(world.ranks)
    return {rank: [reduce_scatter_on(ring, rank, segments(world.buffers[rank], world.ranks))] for rank in ring}


def all_gather(world: World) -> Programs:
    """Every rank sends (n-1)/n of the data in n - 1 steps."""
    ring = range(world.ranks)
    return {rank: [all_gather_on(ring, rank, segments(world.buffers[rank], world.ranks))] for rank in ring}


def broadcast(world: World) -> Programs:
    """Chunks go from rank 0 along the chain; every rank but the last sends the data once."""
    return {rank: [_along(world, rank, Receive, rank - 1, rank + 1)] for rank in range(world.ranks)}


def reduce(world: World) -> Programs:
    """Chunks come along the chain to rank 0, added up on the way; every rank but rank 0 sends the data once."""
    return {rank: [_along(world, rank, Add, rank + 1, rank - 1)] for rank in range(world.ranks)}


def _along(world: World, rank: int, kind: type[Receive] | type[Add], source: int, target: int) -> Program:
    there = range(world.ranks)
    sources, targets = [source] if source in there else [], [target] if target in there else []
    return relay(chunks(world.buffers[rank], world.chunk_items), kind, sources, targets)


def all_reduce_on(ring: Sequence[int], place: int, parts: Sequence[np.ndarray], lane: int = 0) -> Program:
    """Party ring[place] of an all-reduce of `parts`, as many as the ring has parties, among those of the ring."""
    yield from reduce_scatter_on(ring, place, parts, lane)
    yield from all_gather_on(ring, place, parts, lane)


def reduce_scatter_on(ring: Sequence[int], place: int, parts: Sequence[np.ndarray], lane: int = 0) -> Program:
    """Party ring[place]: its parts[place] becomes the sum of all parties'; its other parts, partial sums."""
    count = len(ring)
    after, before = ring[(place + 1) % count], ring[place - 1]
    for step in range(1, count):
        mine, theirs = parts[(place - step) % count], parts[(place - step - 1) % count]
        yield from together(Send(after, mine, lane), Add(before, theirs, lane))


def all_gather_on(ring: Sequence[int], place: int, parts: Sequence[np.ndarray], lane: int = 0) -> Program:
    """Party ring[place]: its parts[i] becomes that of party ring[i]."""
    count = len(ring)
    after, before = ring[(place + 1) % count], ring[place - 1]
    for step in range(count - 1):
        mine, theirs = parts[(place - step) % count], parts[(place - step - 1) % count]
        yield from together(Send(after, mine, lane), Receive(before, theirs, lane))
