"""Collectives with numbers whose result is known (pure): what each rank begins with, and how many came out wrong.

The numbers are whole and so small that a sum over all ranks is exact in float16 (up to 2048 ranks) and float32; int8's
wraps as NumPy's does. So a result is equal to NumPy's to the last bit in whatever order an algorithm adds, or wrong.
Each rank has random numbers of its own that repeat with a prime period: a buffer of any length is a quick copy, and a
block that lands in another's place is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workloads.collectives.program import World, chunks, segments
from workloads.collectives.steps import edge

_PERIOD = 65_521  # numbers; the largest prime below 2**16
_EXACT = 2_048  # whole numbers up to here are exact in float16
_LARGEST = 8


@dataclass(frozen=True)
class Problem:
    """A collective of `ranks` buffers of `count` numbers of the NumPy type `dtype`, made of `seed`."""

    collective: str
    ranks: int
    count: int
    dtype: str = "float32"
    seed: int = 1

    def buffer(self, rank: int) -> np.ndarray:
        """The numbers that `rank` begins with."""
        return np.resize(self._pattern(rank), self.count)

    def block(self, rank: int, index: int) -> np.ndarray:
        """Block `index` of the numbers that `rank` begins with."""
        return self._block(self._pattern(rank), index)

    def total(self) -> np.ndarray:
        """The sum of all ranks' buffers, in their type."""
        patterns = (self._pattern(rank) for rank in range(self.ranks))
        return np.resize(sum(patterns, np.zeros(1, self.dtype)), self.count)

    def world(self, chunk_items: int = 1 << 16, group: int = 1, helpers: Sequence[int] = ()) -> World:
        """A world of new buffers, ready to begin; all_to_all's outs are zeros."""
        buffers = [self.buffer(rank) for rank in range(self.ranks)]
        blocks = segments(buffers[0], self.ranks) if self.collective == "all_to_all" else []
        outs = [np.zeros(self.ranks * len(block), self.dtype) for block in blocks]
        return World(buffers, outs, chunk_items, group, helpers)

    def fill(self, world: World) -> None:
        """Put a world that was used back to its beginning, in place."""
        for rank, buffer in enumerate(world.buffers):
            pattern = self._pattern(rank)
            for piece in chunks(buffer, _PERIOD):
                piece[:] = pattern[: len(piece)]
        for out in world.outs:
            out[:] = 0

    def wrong(self, world: World) -> int:
        """How many numbers differ from NumPy's result, over all ranks and blocks that have one."""
        return _WRONG[self.collective](self, world)

    def _pattern(self, rank: int) -> np.ndarray:
        most = max(1, min(_LARGEST, _EXACT // self.ranks))
        random = np.random.default_rng((self.seed, rank))
        return random.integers(-most, most + 1, min(self.count, _PERIOD), np.int8).astype(self.dtype)

    def _block(self, pattern: np.ndarray, index: int) -> np.ndarray:
        start, end = (edge(self.count, self.ranks, each) for each in (index, index + 1))
        return np.resize(np.roll(pattern, -start), end - start)


def differing(found: np.ndarray, right: np.ndarray) -> int:
    """How many numbers are not what they must be."""
    return int(np.count_nonzero(found != right))


def _everywhere(world: World, right: np.ndarray) -> int:
    return sum(differing(buffer, right) for buffer in world.buffers)


def _in_own_blocks(world: World, right: np.ndarray) -> int:
    parts = segments(right, world.ranks)
    return sum(differing(segments(each, world.ranks)[rank], parts[rank]) for rank, each in enumerate(world.buffers))


def _gathered(problem: Problem) -> np.ndarray:
    return np.concatenate([problem.block(rank, rank) for rank in range(problem.ranks)])


def _in_outs(problem: Problem, world: World) -> int:
    wrong = 0
    for source in range(problem.ranks):
        pattern = problem._pattern(source)
        for rank, out in enumerate(world.outs):
            wrong += differing(segments(out, problem.ranks)[source], problem._block(pattern, rank))
    return wrong


_WRONG = {
    "all_reduce": lambda problem, world: _everywhere(world, problem.total()),
    "broadcast": lambda problem, world: _everywhere(world, problem.buffer(0)),
    "reduce": lambda problem, world: differing(world.buffers[0], problem.total()),
    "scatter": lambda problem, world: _in_own_blocks(world, problem.buffer(0)),
    "gather": lambda problem, world: differing(world.buffers[0], _gathered(problem)),
    "all_gather": lambda problem, world: _everywhere(world, _gathered(problem)),
    "reduce_scatter": lambda problem, world: _in_own_blocks(world, problem.total()),
    "all_to_all": _in_outs,
}
