"""Federated learning: clients train on their own data, aggregators average what they send."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.keys.key import doing, key
from experiments.kinds import AUTO, COUNT, PROBABILITY, SIZE, SPREAD, choice, optional


@dataclass(frozen=True)
class FederatedKeys:
    """Federated learning: clients train on their own data, aggregators average what they send."""

    clients: int | None = key(
        "clients",
        optional(COUNT),
        AUTO,
        "hosts that train; h1 is the root, and each edge aggregator stands before its clients; auto: all others",
        doing("federated"),
    )
    aggregation: str | None = key(
        "aggregation",
        optional(choice("flat", "hierarchical")),
        AUTO,
        "clients send to the root, or to edge aggregators which send to it",
        doing("federated"),
        auto="flat",
    )
    edges: int | None = key(
        "edges",
        optional(COUNT),
        AUTO,
        "edge aggregators; auto: one for 25 clients",
        {"aggregation": ("hierarchical",)},
    )
    edge_rounds: int | None = key(
        "edge_rounds",
        optional(COUNT),
        AUTO,
        "how often an edge trains its clients and averages in a round, before it sends to the root (Liu et al. 2020)",
        {"aggregation": ("hierarchical",)},
        auto=1,
    )
    update_bytes: int | None = key(
        "update",
        optional(SIZE),
        AUTO,
        "a client's update (ResNet-50: 25.6 million float32)",
        doing("federated"),
        auto="102.4MB",
    )
    scale: int | None = key(
        "scale",
        optional(COUNT),
        AUTO,
        "updates are divided by it, to be sent packet by packet",
        doing("federated"),
        auto=100,
    )
    spread: float | None = key(
        "spread",
        optional(SPREAD),
        AUTO,
        "of clients' computing times, seeded: sigma of a log-normal distribution",
        doing("federated"),
        auto=0,
    )
    quorum: float | None = key(
        "quorum",
        optional(PROBABILITY),
        AUTO,
        "part of the clients whose updates an aggregator waits for; later ones are dropped",
        doing("federated"),
        auto=1,
    )
    target: float | None = key(
        "target", optional(PROBABILITY), AUTO, "accuracy at which it has converged", doing("federated"), auto=0.9
    )
