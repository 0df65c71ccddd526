"""What federated learning's messages hold (pure): a real small model and its updates, padded to the length of a large
one's.

    model     step  0        parameters (float32)         padding     as long as an update that is not compressed
    update    step  samples  compressed difference        padding     both compressed parts as long as the scheme says

The step is the number of the training that a message starts or ends; both words are float32. A client trains on images
that it alone has, in batches of 10, once over them (B = 10 and E = 1 of McMahan et al., AISTATS 2017); which digits it
has is skewed: shares of each class are drawn from a Dirichlet distribution of concentration 0.5 (Hsu, Qi, Brown 2019).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workloads import digits
from workloads.compression import Compressor, make

ALPHA = 0.5  # of the Dirichlet distribution: the smaller, the fewer digits a client sees
EPOCHS, BATCH, LEARNING_RATE = 1, 10, 0.1
PARAMETERS = digits.numbers(digits.HIDDEN)
_WORD = np.dtype(np.float32)
_HEADER_BYTES = 2 * _WORD.itemsize
LEAST_BYTES = _HEADER_BYTES + PARAMETERS * _WORD.itemsize  # of an update: the model has to fit into it
_COMPRESSION_STREAM = 5  # of the seed; workloads/digits.py has those below


@dataclass(frozen=True)
class Scheme:
    """How updates travel: `update_bytes` of them before compression (LEAST_BYTES or more), by a value of the key
    `compression`; `kept` is topk's."""

    update_bytes: int
    compression: str = "none"
    kept: float = 0.01

    @cached_property
    def _padding(self) -> int:
        return (self.update_bytes - LEAST_BYTES) // _WORD.itemsize

    @cached_property
    def model(self) -> Layout:
        """Of models, which are never compressed."""
        return Layout(PARAMETERS * _WORD.itemsize, self._padding * _WORD.itemsize)

    @cached_property
    def update(self) -> Layout:
        """Of updates."""
        head, padding = (self._compressed_bytes(size) for size in (PARAMETERS, self._padding))
        return Layout(head, padding)

    def _compressed_bytes(self, size: int) -> int:
        return make(self.compression, self.kept, size).payload_bytes if size else 0

    def compressor(self, party: int, seed: int) -> Compressor:
        """A sender's own, which remembers what it owes."""
        own_seed = int(np.random.SeedSequence([seed, _COMPRESSION_STREAM, party]).generate_state(1)[0])
        return make(self.compression, self.kept, PARAMETERS, own_seed)


@dataclass(frozen=True)
class Layout:
    """A kind of message: bytes of its content behind the header, and of its padding."""

    content_bytes: int
    padding_bytes: int

    @property
    def head_bytes(self) -> int:
        """Header and content."""
        return _HEADER_BYTES + self.content_bytes

    @property
    def size_bytes(self) -> int:
        """All of it."""
        return self.head_bytes + self.padding_bytes

    def head(self) -> np.ndarray:
        """Room for header and content (uint8)."""
        return np.zeros(self.head_bytes, np.uint8)


def packed(step: int, samples: int, content: np.ndarray) -> np.ndarray:
    """The head of a message (uint8); step and samples below 2^24."""
    header = np.array([step, samples], _WORD)
    return np.concatenate([header.view(np.uint8), np.ascontiguousarray(content).view(np.uint8)])


def unpacked(head: np.ndarray) -> tuple[int, int, np.ndarray]:
    """Step, samples and a copy of the content (uint8) of a message's head."""
    step, samples = head[:_HEADER_BYTES].copy().view(_WORD)
    return int(step), int(samples), head[_HEADER_BYTES:].copy()


def parameters_of(content: np.ndarray) -> np.ndarray:
    """The parameters in a model's content."""
    return content.view(_WORD)


class Mean:
    """Federated averaging: differences weighted by the samples that they were learned from (McMahan et al., algorithm
    1)."""

    def __init__(self) -> None:
        self.samples = 0
        self._total = np.zeros(PARAMETERS, np.float64)

    def add(self, samples: int, difference: np.ndarray) -> None:
        """One party's."""
        self.samples += samples
        self._total += samples * difference.astype(np.float64)

    def difference(self) -> np.ndarray:
        """The mean (float32), zeros of nothing."""
        return (self._total / max(self.samples, 1)).astype(_WORD)


class Learner:
    """A client: the small model on its own images."""

    def __init__(self, number: int, clients: int, seed: int, mine: np.ndarray) -> None:
        self._replica = digits.Replica(number, clients, seed, BATCH, learning_rate=LEARNING_RATE, mine=mine)
        self.images = self._replica.images

    def learned(self, parameters: np.ndarray) -> np.ndarray:
        """How a round of training moves the parameters."""
        self._replica.parameters = parameters
        self._replica.train_locally(EPOCHS)
        return self._replica.parameters - parameters


class Judge:
    """The root: what all begin with, and how good a model is on the images held out."""

    def __init__(self, seed: int) -> None:
        self._replica = digits.Replica(0, 1, seed)
        self.first = self._replica.parameters

    def loss_and_accuracy(self, parameters: np.ndarray) -> tuple[float, float]:
        """Mean cross-entropy, and the part that it tells right."""
        self._replica.parameters = parameters
        return self._replica.evaluate()


def learners(clients: int, seed: int) -> list[Learner]:
    """The clients in order, each with its own images; raises ValueError for more of them than images."""
    dealt = digits.shards(clients, seed, ALPHA)
    return [Learner(number, clients, seed, mine) for number, mine in enumerate(dealt)]


def computing_times_ns(compute_ns: int, spread: float, slowdown: float, client: int, seed: int) -> Iterator[int]:
    """How long a client computes in each training: log-normal around `compute_ns` (its median), times its slowdown."""
    dice = np.random.default_rng([seed, 4, client])
    while True:
        yield round(compute_ns * slowdown * float(dice.lognormal(0.0, spread)))
