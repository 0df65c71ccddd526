"""Parameter servers: every rank pushes its numbers to the servers and pulls the sums back.

Each of m servers adds up its part of the numbers (a shard) of all n ranks (Li et al., "Scaling distributed machine
learning with the parameter server", OSDI 2014): n/m times the data into and out of each, which is what makes the time
grow linearly in n; a rank sends and receives the data once. Chunks are sent back while the next come in, so the two
directions of a server's link are busy at the same time. We deviate: all ranks are waited for in every chunk
(synchronous training), servers keep no parameters, and a worker is never also a server.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topologies.units import BadRequest
from workloads.collectives.program import Add, Program, Programs, Receive, World, chunks, segments
from workloads.collectives.steps import relay


def all_reduce(world: World) -> Programs:
    """Two steps, and one for each further chunk; raises BadRequest without servers."""
    if not world.helpers:
        raise BadRequest("shards: 0 parameter servers; allowed: 1 or more")
    ranks: Programs = {rank: [*_worker(world, rank)] for rank in range(world.ranks)}
    shards = segments(world.buffers[0], len(world.helpers))
    return {**ranks, **{helper: [_server(world, shard)] for helper, shard in zip(world.helpers, shards)}}


def _worker(world: World, rank: int) -> Iterator[Program]:
    for helper, shard in zip(world.helpers, segments(world.buffers[rank], len(world.helpers))):
        pieces = chunks(shard, world.chunk_items)
        yield relay(pieces, Add, (), (helper,))
        yield relay(pieces, Receive, (helper,), ())


def _server(world: World, shard: np.ndarray) -> Program:
    ranks = range(world.ranks)
    yield from relay(chunks(np.zeros_like(shard), world.chunk_items), Add, ranks, ranks)
