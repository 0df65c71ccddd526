"""The alpha-beta line through measured times, read beyond the largest size that was sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.kinds import collective_model

LEAST_SIZES = 4


@dataclass(frozen=True)
class Line:
    """Seconds of any size: a start, and so much for each byte; `worst_residual` is the most that a fitted time is off,
    as a share of it."""

    alpha_s: float
    beta_s_per_byte: float
    worst_residual: float

    def at(self, size_bytes: float) -> float:
        """The line's seconds for so many bytes."""
        return self.alpha_s + size_bytes * self.beta_s_per_byte


def fit(points: Iterable[tuple[float, float]]) -> Line | None:
    """The line of the least squares of relative errors through (bytes, seconds); None for less than four different
    sizes."""
    found = list(points)
    if len({size_bytes for size_bytes, _ in found}) < LEAST_SIZES:
        return None
    line = collective_model.fit([size_bytes for size_bytes, _ in found], [seconds for _, seconds in found])
    return None if line is None else Line(line.alpha_s, line.beta_s, line.error)
