"""How long a training step takes, from the configuration alone (pure): computing and communication, one behind the
other or at the same time.

A rank computes forward (a third of a step's computing) and backward, which gives the gradient bucket by bucket. Buckets
are reduced one after the other, each when all ranks have it: where nothing but the network takes time, a step lasts
until the last bucket's end (Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.3). Without overlap all begin when
backward has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FORWARD = 1 / 3  # of a step's computing


@dataclass(frozen=True)
class Step:
    """A step as modelled: what the slowest rank computes, what its buckets take on the network, all together, and when
    the step ends."""

    compute_s: float
    travel_s: float
    seconds: float

    @property
    def exposed_s(self) -> float:
        """What of the communication nothing hides."""
        return self.seconds - self.compute_s

    @property
    def hidden_share(self) -> float:
        """The part of the communication that is hidden behind computing; 0 where there is none."""
        return 1 - self.exposed_s / self.travel_s if self.travel_s else 0.0


def bucket_sizes(gradient: int, bucket: int | None) -> list[int]:
    """The sizes of the buckets, the last one what is left; one of all where `bucket` is None."""
    length = bucket or gradient
    return [min(length, gradient - first) for first in range(0, gradient, length)]


def data_parallel(compute_s: float, sizes: Sequence[int], travels_s: Sequence[float], overlap: bool) -> Step:
    """A step whose buckets have these sizes and take these times on the network."""
    end_s, given = 0.0, 0
    for size, travel_s in zip(sizes, travels_s):
        given += size
        ready_s = compute_s * (FORWARD + (1 - FORWARD) * given / sum(sizes)) if overlap else compute_s
        end_s = max(end_s, ready_s) + travel_s
    return Step(compute_s, sum(travels_s), end_s)


def served(compute_s: float, sizes: Sequence[int], byte_s: float, overlap: bool) -> Step:
    """A step with parameter servers: gradients come bucket by bucket, parameters go back when all are there; byte_s:
    how long the busiest link takes for a byte of every gradient."""
    there = data_parallel(compute_s, sizes, [size * byte_s for size in sizes], overlap)
    back_s = sum(sizes) * byte_s
    return Step(compute_s, there.travel_s + back_s, there.seconds + back_s)


def tensor_parallel(compute_s: float, ranks: int, reductions: int, travel_s: float) -> Step:
    """A step of a batch that all ranks share: so many all-reduces that nobody goes on without."""
    own_s = compute_s / ranks
    return Step(own_s, reductions * travel_s, own_s + reductions * travel_s)


def most_saved(compute_s: float, travel_s: float) -> float:
    """The part of a step without overlap that perfect overlap, with a last bucket that takes no time, would save: what
    travels while backward computes."""
    return min((1 - FORWARD) * compute_s, travel_s) / (compute_s + travel_s)
