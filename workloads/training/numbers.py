"""The numbers that training moves: gradients whose sum is known, and of a real model, if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workloads.collectives.problems import differing
from workloads.training.job import Job
from workloads.training.log import Log

if TYPE_CHECKING:
    from workloads.digits import Replica

_MOST = 8  # gradients are whole numbers from -8 to 8: their sums are exact in float32
_SHIFTS = 4099  # a prime: ranks and steps that are not far apart have different gradients


class Numbers:
    """Seeded whole numbers, different for each rank and step: a window of one table, further on by a shift."""

    def __init__(self, items: int, seed: int) -> None:
        self._items = items
        dice = np.random.default_rng(seed)
        self._table = dice.integers(-_MOST, _MOST + 1, items + _SHIFTS).astype(np.float32)

    def of(self, rank: int, step: int) -> np.ndarray:
        """The numbers of a rank in a step; not to be changed."""
        first = (17 * rank + 1009 * step) % _SHIFTS
        return self._table[first : first + self._items]

    def total(self, ranks: Sequence[int], step: int, part: slice = slice(None)) -> np.ndarray:
        """The sum of the numbers of several ranks in a step, or of a part of them."""
        total = np.zeros(self._items, np.float32)[part]
        for rank in ranks:
            total += self.of(rank, step)[part]
        return total


class Totals:
    """The sums over all ranks, each of which asks once for each step: made for the first, forgotten after the last."""

    def __init__(self, numbers: Numbers, ranks: int) -> None:
        self._numbers, self._ranks = numbers, ranks
        self._kept: dict[int, tuple[np.ndarray, int]] = {}

    def of(self, step: int) -> np.ndarray:
        """The sum of all ranks' numbers in a step; not to be changed."""
        total, asked = self._kept.pop(step, (None, 0))
        if total is None:
            total = self._numbers.total(range(self._ranks), step)
        if asked + 1 < self._ranks:
            self._kept[step] = total, asked + 1
        return total


class Gradients:
    """What the ranks' gradients are: whole numbers, in whose place the first ones are the model's where one is trained,
    as wide as they allow.

    A model's gradients are not compared: in which order a collective adds them up decides the last bits of their sum.
    """

    def __init__(self, job: Job, log: Log) -> None:
        self._log = log
        self.numbers = Numbers(job.gradient_items, job.seed)
        self._totals = Totals(self.numbers, job.ranks)
        self._replicas = _replicas(job)
        self.model_items = self._replicas[0].size if self._replicas else 0

    def fill(self, rank: int, step: int, into: np.ndarray) -> None:
        """The rank's gradient of the step."""
        into[:] = self.numbers.of(rank, step)
        if self._replicas:
            into[: self.model_items] = self._replicas[rank].gradient()

    def check(self, step: int, total: np.ndarray) -> None:
        """Note how many of the sum over all ranks, as one of them has it, are wrong."""
        rest = slice(self.model_items, None)
        self._log.checked(step, differing(total[rest], self._totals.of(step)[rest]))

    def apply(self, rank: int, step: int, total: np.ndarray, count: int) -> None:
        """The rank's model takes a step along the mean of `count` gradients, whose sum begins `total`; the first rank
        tells how good it is then."""
        if not self._replicas:
            return
        self._replicas[rank].apply(total[: self.model_items] / np.float32(count))
        if rank == 0:
            self._log.learned(step, *self._replicas[rank].evaluate())


def _replicas(job: Job) -> list[Replica]:
    if job.model == "none":
        return []
    from workloads import digits  # whose scikit-learn takes a second

    hidden = digits.widest(job.gradient_items)
    if not hidden:
        raise ValueError(f"gradients of {job.gradient_items} numbers; the smallest model's are {digits.numbers(1)}")
    return [digits.Replica(rank, job.ranks, job.seed, hidden=hidden) for rank in range(job.ranks)]
