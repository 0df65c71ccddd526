"""What collectives, training, federated learning and launched programs need of the lab's memory: their connections, and
what they keep and send. All of it is what they may need at most."""

from __future__ import annotations

import math
from collections.abc import Callable

from experiments.cluster import helpers, scaled_update_bytes
from experiments.spec import LAUNCH, Spec, known

_ROOTED = ("broadcast", "reduce", "scatter", "gather")
_TREES, _WAYS, _LANES, _STAGES = 2, 2, 2, 3
_PASSES = 2  # a call, or a step, moves the numbers of each rank there and back
_COPIES = 4  # of a rank's numbers: its own, what it receives, what it compares with, what it works on
_PROGRAM_BYTES = 300 << 20  # a rank of a launched program: a Python with PyTorch touches some 250 MB
_LAUNCHED_BYTES = 1 << 30  # what all ranks of one send, as far as captures are concerned: nobody can know
_WORD_BYTES = 4
_INDEX_AND_VALUE = 2
# What is sent of a gradient, or an update, against all of it.
_COMPRESSED: dict[str, Callable[[Spec], float]] = {
    "none": lambda spec: 1.0,
    "topk": lambda spec: min(1.0, _INDEX_AND_VALUE * (spec.kept or 1.0)),
    "int8": lambda spec: 1 / _WORD_BYTES,
    "sign": lambda spec: 1 / (8 * _WORD_BYTES),
}


def connections(spec: Spec) -> int:
    """How many a workload of ranks or clients opens."""
    if spec.workload == "federated":  # both ways between everybody and who is above
        return _WAYS * (known(spec.clients) + (spec.edges or 0))
    ranks = known(spec.ranks)
    everybody = max(1, ranks * (ranks - 1))
    if spec.workload == LAUNCH:
        return everybody
    if spec.parallelism == "pipeline":
        return _WAYS * (ranks - 1)
    exchanges = math.ceil(math.log2(ranks))
    return {
        "ring": ranks,
        "tree": _TREES * _WAYS * ranks,
        "halving_doubling": ranks * (exchanges + 2),  # two more where ranks are no power of two
        "hierarchical": _STAGES * _LANES * ranks,
        "parameter_server": _WAYS * ranks * helpers(spec),
        "in_network": ranks,
        "direct": ranks if spec.collective in _ROOTED else everybody,
    }[known(spec.algorithm)]


def numbers_bytes(spec: Spec) -> int:
    """The largest buffer of one rank or client."""
    if spec.workload == "federated":
        return scaled_update_bytes(spec)
    if spec.workload == "collective":
        return max(known(spec.sizes_bytes))
    if spec.parallelism == "data":
        return known(spec.gradient_bytes)
    return known(spec.activation_bytes)


def kept_bytes(spec: Spec) -> int:
    """Buffers of all parties; of a launched program, its processes. A rank keeps what all ranks compress."""
    if spec.workload == LAUNCH:
        return known(spec.ranks) * _PROGRAM_BYTES
    if spec.workload == "federated":
        return _COPIES * (known(spec.clients) + helpers(spec)) * numbers_bytes(spec)
    ranks = known(spec.ranks)
    all_bytes = _COPIES * (ranks + helpers(spec)) * numbers_bytes(spec)
    if spec.compression in (None, "none"):
        return all_bytes
    return all_bytes + round(ranks * ranks * numbers_bytes(spec) * _share(spec))


def in_flight_bytes(spec: Spec, connection_bytes: int) -> int:
    """Under way in all connections, each of which holds up to `connection_bytes`: a connection carries no more at once
    than the numbers of a rank, and all together no more than a call moves."""
    if spec.workload == LAUNCH:  # whoever sends at once has its own link's worth
        return _PASSES * known(spec.ranks) * connection_bytes
    together_bytes = connections(spec) * min(connection_bytes, numbers_bytes(spec))
    return min(together_bytes, _moved_bytes(spec))


def sent_bytes(spec: Spec) -> int:
    """Payload of the whole run."""
    if spec.workload == LAUNCH:
        return _LAUNCHED_BYTES
    if spec.workload == "federated":
        return spec.rounds * (spec.edge_rounds or 1) * _moved_bytes(spec)
    if spec.workload == "collective":
        calls, sizes = known(spec.iterations) + known(spec.warmup), known(spec.sizes_bytes)
        return calls * _moved_bytes(spec) * sum(sizes) // max(sizes)
    return known(spec.steps) * _messages(spec) * _moved_bytes(spec)


def _messages(spec: Spec) -> int:
    """How often a training step moves what `numbers_bytes` tells."""
    if spec.parallelism == "tensor":
        return 2 * _PASSES * known(spec.layers)  # two all-reduces a layer, forward and backward
    return known(spec.micro_batches) if spec.parallelism == "pipeline" else 1


def _moved_bytes(spec: Spec) -> int:
    """Of a call, a step or a round."""
    parties = known(spec.clients if spec.workload == "federated" else spec.ranks) + helpers(spec)
    moved_bytes = _PASSES * parties * numbers_bytes(spec)
    if spec.workload == "training" and spec.compression not in (None, "none"):
        return max(moved_bytes, round(parties * moved_bytes * _share(spec)))
    return moved_bytes


def _share(spec: Spec) -> float:
    return _COMPRESSED[spec.compression or "none"](spec)
