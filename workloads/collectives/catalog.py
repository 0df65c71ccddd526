"""Which algorithms a collective has, and the programs of its parties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from topologies.units import BadRequest
from workloads.collectives import direct, halving_doubling, hierarchical, parameter_server, ring, tree
from workloads.collectives.program import Aggregate, Program, Programs, World


def _aggregated(world: World) -> Programs:
    return {rank: [_aggregate(buffer)] for rank, buffer in enumerate(world.buffers)}


def _aggregate(buffer: np.ndarray) -> Program:
    yield Aggregate(buffer)


_BUILDERS: dict[str, dict[str, Callable[[World], Programs]]] = {
    "all_reduce": {
        "ring": ring.all_reduce,
        "tree": tree.all_reduce,
        "halving_doubling": halving_doubling.all_reduce,
        "hierarchical": hierarchical.all_reduce,
        "parameter_server": parameter_server.all_reduce,
        "in_network": _aggregated,
        "direct": direct.all_reduce,
    },
    "broadcast": {"tree": tree.broadcast, "ring": ring.broadcast, "direct": direct.broadcast},
    "reduce": {"tree": tree.reduce, "ring": ring.reduce, "direct": direct.reduce},
    "scatter": {"direct": direct.scatter, "tree": tree.scatter},
    "gather": {"direct": direct.gather, "tree": tree.gather},
    "all_gather": {
        "ring": ring.all_gather,
        "halving_doubling": halving_doubling.all_gather,
        "direct": direct.all_gather,
    },
    "reduce_scatter": {
        "ring": ring.reduce_scatter,
        "halving_doubling": halving_doubling.reduce_scatter,
        "direct": direct.reduce_scatter,
    },
    "all_to_all": {"direct": direct.all_to_all},
}


def choices(collective: str) -> list[str]:
    """The algorithms that a collective has; raises BadRequest naming the collectives."""
    if collective not in _BUILDERS:
        raise BadRequest(f"collective: {collective}; allowed: {', '.join(_BUILDERS)}")
    return list(_BUILDERS[collective])


def programs(collective: str, algorithm: str, world: World) -> Programs:
    """What each party of the world does, by its number; raises BadRequest naming what there is."""
    allowed = choices(collective)
    if algorithm not in allowed:
        raise BadRequest(f"algorithm: {algorithm} is given with collective={collective}; allowed: {', '.join(allowed)}")
    return _BUILDERS[collective][algorithm](world)
