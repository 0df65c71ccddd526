"""What is trained and by whom (pure): sizes, times, and how they are cut into buckets, layers and micro-batches."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.collectives.program import Program, Wait
from workloads.training.log import Log

ITEM_BYTES = 4  # gradients and activations are float32
FORWARD_PARTS, BACKWARD_PARTS = 1, 2  # of a step's computing: backward takes about twice as long as forward


@dataclass(frozen=True)
class Job:
    """Training of `steps` steps by ranks 0 to `ranks` - 1.

    compute_ns: forward and backward of one batch on one rank; in data parallelism every rank has a batch of its own, in
    tensor and pipeline parallelism all share one. slowness: how many times longer each rank computes. bucket_items:
    gradients that are reduced together, None: all. helpers: parties that serve (see collectives.program.World).
    backup_workers: gradients that a parameter server does not wait for. layers, micro_batches, activation_items: of
    tensor and pipeline parallelism.
    """

    ranks: int
    steps: int
    compute_ns: int
    gradient_items: int
    bucket_items: int | None = None
    overlap: bool = True
    algorithm: str = "ring"
    chunk_items: int = 1 << 16
    group: int = 1
    helpers: tuple[int, ...] = ()
    slowness: tuple[float, ...] = ()
    backup_workers: int = 0
    compression: str = "none"
    kept: float = 1.0
    model: str = "none"
    parallelism: str = "data"
    layers: int = 1
    micro_batches: int = 1
    activation_items: int = 1
    seed: int = 1

    @property
    def forward_ns(self) -> int:
        """A batch's forward pass."""
        return self.compute_ns * FORWARD_PARTS // (FORWARD_PARTS + BACKWARD_PARTS)

    @property
    def backward_ns(self) -> int:
        """A batch's backward pass."""
        return self.compute_ns - self.forward_ns

    @property
    def buckets(self) -> list[slice]:
        """The parts of the gradient in the order in which backward gives them."""
        length = self.bucket_items or self.gradient_items
        firsts = range(0, self.gradient_items, length)
        return [slice(first, min(first + length, self.gradient_items)) for first in firsts]

    @property
    def bucket_ns(self) -> list[int]:
        """How long backward computes for each bucket: by its share of the gradient; together backward_ns."""
        ends = [self.backward_ns * bucket.stop // self.gradient_items for bucket in self.buckets]
        return [end - begin for begin, end in zip([0, *ends], ends)]

    def computes(self, log: Log, step: int, rank: int, duration_ns: float) -> Program:
        """A rank computes what takes others `duration_ns`, and it is noted."""
        lasts_ns = round(duration_ns * (self.slowness[rank] if self.slowness else 1))
        yield Wait(lasts_ns)
        log.computed(step, rank, lasts_ns)
