"""What data, tensor and pipeline parallelism send, from the configuration alone, and the shape of who sends to whom
(pure).

    data      once a step the whole gradient by a ring: 2 (N - 1) / N of it from every rank
    tensor    in every layer two all-reduces of the activations forward and two of their gradients backward, by a ring
              (Megatron-LM; Shoeybi et al. 2019)
    pipeline  each micro-batch's activations to the next stage, their gradients back (GPipe; Huang et al. 2019)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from analysis import text

WAYS = DATA, TENSOR, PIPELINE = "data", "tensor", "pipeline"
RING, CHAIN, ALL, SOME = "a ring", "a chain, both ways", "all to all", "some to some"
FEW = 16  # ranks of which all pairs can be listed
_ALL_REDUCES = 4  # of a layer: two blocks, forward and backward


@dataclass(frozen=True)
class Work:
    """What is shared and how: `way` is one of data, tensor and pipeline; sizes as the keys of the spec."""

    way: str
    algorithm: str
    ranks: int
    gradient_bytes: int
    activation_bytes: int
    layers: int
    micro_batches: int

    @property
    def words(self) -> str:
        """The sizes that decide, in words."""
        if self.way == DATA:
            return f"{text.size(self.gradient_bytes)} of gradients, {self.algorithm}"
        sizes = f"activations of {text.size(self.activation_bytes)}"
        count = f"{self.layers} layers" if self.way == TENSOR else f"{self.micro_batches} micro-batches"
        return f"{sizes}, {count}"

    @property
    def batches(self) -> int:
        """Batches of which a step learns: each rank's own, or one that all share."""
        return self.ranks if self.way == DATA else 1

    @property
    def sent_bytes(self) -> float | None:
        """Payload that the rank sends in a step which sends most; None for another algorithm than the ring."""
        if self.way == PIPELINE:
            return self.micro_batches * self.activation_bytes * min(self.ranks - 1, 2)
        if self.algorithm != "ring":
            return None
        share = 2 * (self.ranks - 1) / self.ranks
        whole = self.gradient_bytes if self.way == DATA else _ALL_REDUCES * self.layers * self.activation_bytes
        return share * whole

    @property
    def messages(self) -> int | None:
        """Messages that this rank sends in a step, segments of a ring whole; None for another algorithm."""
        if self.way == PIPELINE:
            return self.micro_batches * min(self.ranks - 1, 2)
        if self.algorithm != "ring":
            return None
        return 2 * (self.ranks - 1) * (1 if self.way == DATA else _ALL_REDUCES * self.layers)

    @property
    def bubble(self) -> float:
        """What a stage of a pipeline waits for the first or the last to begin, over what it computes itself:
        (N - 1) / M with M micro-batches; nothing of the others."""
        return (self.ranks - 1) / self.micro_batches if self.way == PIPELINE else 0.0


def shape(hosts: Sequence[str], pairs: Collection[tuple[str, str]]) -> str:
    """Who sends to whom, in words: a ring, a chain, all to all, or something else."""
    count = len(hosts)
    places = {host: place for place, host in enumerate(hosts)}
    steps = {((places[b] - places[a]) % count, places[a]) for a, b in pairs}
    ring = {(1, place) for place in range(count)}
    chain = {(1, place) for place in range(count - 1)} | {(count - 1, place) for place in range(1, count)}
    everyone = {(step, place) for step in range(1, count) for place in range(count)}
    known = {RING: ring, CHAIN: chain, ALL: everyone}
    return next((name for name, wanted in known.items() if steps == wanted), SOME)


def peers_words(name: str) -> str:
    """To whom a rank sends, in a shape."""
    told = {
        RING: "to its right neighbour of a ring alone",
        CHAIN: "to the stages before and after it alone",
        ALL: "to all others",
    }
    return told.get(name, "to some others")
