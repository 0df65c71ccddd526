"""Training steps: computing and communication by turns, or at the same time."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.keys.collectives import SERVED
from experiments.keys.key import doing, key
from experiments.kinds import (
    AUTO,
    COUNT,
    COUNT_OR_NONE,
    PROBABILITY,
    SIZE,
    SLOW_HOSTS,
    SPAN,
    SWITCH,
    choice,
    off_or,
    optional,
)

COMPRESSIONS = ("none", "topk", "int8", "sign")
PARALLELISMS = ("data", "tensor", "pipeline")
MODELS = ("none", "digits")


@dataclass(frozen=True)
class TrainingKeys:
    """Training steps: computing and communication by turns, or at the same time."""

    parallelism: str | None = key(
        "parallelism",
        optional(choice(*PARALLELISMS)),
        AUTO,
        "what the ranks share: the data (gradients are all-reduced once a step), each layer (activations are, in every"
        " layer), or the layers (activations go from stage to stage)",
        doing("training"),
        auto="data",
    )
    gradient_bytes: int | None = key(
        "gradient",
        optional(SIZE),
        AUTO,
        "gradients of a step, all layers, on each rank",
        doing("training"),
        auto="16MiB",
    )
    steps: int | None = key("steps", optional(COUNT), AUTO, "training steps", doing("training"), auto=4)
    compute_ns: int | None = key(
        "compute",
        optional(SPAN),
        AUTO,
        "a step's forward (a third) and backward computing; federated: a client's training in a round",
        doing("training", "federated"),
        auto="5ms",
    )
    bucket_bytes: int | None = key(
        "bucket",
        optional(off_or(SIZE)),
        AUTO,
        "gradients are reduced in buckets of this size as backward gives them, last layer first (DDP); off: at once",
        doing("training"),
        auto="4MiB",
    )
    overlap: bool | None = key(
        "overlap",
        optional(SWITCH),
        AUTO,
        "buckets travel while backward goes on; off: when it has ended",
        doing("training"),
        auto="on",
    )
    layers: int | None = key(
        "layers", optional(COUNT), AUTO, "layers of the model (tensor, pipeline)", doing("training"), auto=8
    )
    micro_batches: int | None = key(
        "micro_batches", optional(COUNT), AUTO, "of a step, one after the other (pipeline)", doing("training"), auto=4
    )
    activation_bytes: int | None = key(
        "activation",
        optional(SIZE),
        AUTO,
        "what a layer hands on of a (micro-)batch (tensor, pipeline)",
        doing("training"),
        auto="1MiB",
    )
    model: str | None = key(
        "model",
        optional(choice(*MODELS)),
        AUTO,
        "what is really trained beside: nothing, or a small network on scikit-learn's digits, whose gradients are part"
        " of those that travel",
        doing("training"),
        auto="none",
    )
    slow_hosts: tuple[tuple[str, float], ...] | None = key(
        "slow_host",
        optional(SLOW_HOSTS),
        AUTO,
        "hosts whose computing takes so many times longer",
        doing("training", "federated"),
        auto="none",
    )
    backup_workers: int | None = key(
        "backup_workers",
        optional(COUNT_OR_NONE),
        AUTO,
        "the parameter server does not wait for so many of the slowest (Chen et al. 2016)",
        {**doing("training"), **SERVED},
        auto=0,
    )
    compression: str | None = key(
        "compression",
        optional(choice(*COMPRESSIONS)),
        AUTO,
        "what is sent of gradients or updates: all, the largest with error feedback, eight bits or the sign of each",
        doing("training", "federated"),
        auto="none",
    )
    kept: float | None = key(
        "kept", optional(PROBABILITY), AUTO, "part that topk sends", {"compression": ("topk",)}, auto=0.01
    )
