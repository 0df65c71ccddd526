"""Collectives: numbers that move between ranks, and by which algorithm."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.keys.key import CLUSTER, LAUNCH, Needs, doing, each, key
from experiments.kinds import AUTO, COUNT, COUNT_OR_NONE, RATE, SIZE, SIZES, choice, optional

COLLECTIVES = (
    "all_reduce",
    "broadcast",
    "scatter",
    "gather",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
)
ALGORITHMS = (
    "ring",
    "tree",
    "halving_doubling",
    "hierarchical",
    "parameter_server",
    "in_network",
    "direct",
)
DTYPES = ("float32", "float16", "int8")
HOST_COSTS = ("none", "tcp", "rdma")
SERVED: Needs = {"algorithm": ("parameter_server",)}


@dataclass(frozen=True)
class CollectiveKeys:
    """Collectives: numbers that move between ranks, and by which algorithm."""

    ranks: int | None = key(
        "ranks",
        optional(COUNT),
        AUTO,
        "hosts that take part, from h1 on; auto: all, but for those that the algorithm needs beside them",
        doing("collective", "training", LAUNCH),
    )
    collective: str | None = key(
        "collective", optional(choice(*COLLECTIVES)), AUTO, "what the ranks do", doing("collective"), auto="all_reduce"
    )
    algorithm: str | None = key(
        "algorithm",
        optional(choice(*ALGORITHMS)),
        AUTO,
        "how; auto: ring (broadcast, reduce: tree; scatter, gather, all_to_all: direct)",
        doing("collective", "training"),
        values=each(("in_network",), {"transport": ("tcp",), "traffic_class": ("lossy",)}),
    )
    shards: int | None = key(
        "shards",
        optional(COUNT),
        AUTO,
        "parameter servers, on hosts after the ranks, each with its part of the numbers",
        SERVED,
        auto=1,
    )
    helper_rate_bps: int | None = key(
        "helper_rate",
        optional(RATE),
        AUTO,
        "rate of the link of each parameter server (auto: rate) or of the aggregator, which is part of a switch (auto:"
        " rate x ranks, up to 8Tbps)",
        {"algorithm": ("parameter_server", "in_network")},
    )
    group: int | None = key(
        "group",
        optional(COUNT),
        AUTO,
        "ranks of one server, among which `hierarchical` reduces first; auto: 8 on a gpu_pod, a leaf's hosts, else 4",
        {"algorithm": ("hierarchical",)},
    )
    sizes_bytes: tuple[int, ...] | None = key(
        "sizes",
        optional(SIZES),
        AUTO,
        "bytes of the whole buffer (nccl-tests' size), one series of calls each",
        doing("collective"),
        auto="64KiB-16MiB",
    )
    dtype: str | None = key(
        "dtype", optional(choice(*DTYPES)), AUTO, "type of the numbers", doing("collective"), auto="float32"
    )
    iterations: int | None = key(
        "iterations", optional(COUNT), AUTO, "timed calls of each size", doing("collective"), auto=3
    )
    warmup: int | None = key(
        "warmup", optional(COUNT_OR_NONE), AUTO, "calls of each size before, not timed", doing("collective"), auto=1
    )
    chunk_bytes: int | None = key(
        "chunk",
        optional(SIZE),
        AUTO,
        "longest message of trees, chains, parameter servers and between servers: longer parts go piece by piece",
        doing("collective", "training"),
        auto="64KiB",
    )
    host_cost: str | None = key(
        "host_cost",
        optional(choice(*HOST_COSTS)),
        AUTO,
        "what copies, system calls and interrupts cost a host's processor: nothing, as TCP's path, as RDMA's"
        " (workloads/host_cost.py)",
        doing(*CLUSTER),
        auto="none",
    )
