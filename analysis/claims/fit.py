"""The alpha-beta line through measured times that may be read beyond the largest size that was sent."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.kinds import collective_model
from analysis.kinds.collective_model import Line

LEAST_SIZES = 4


def fit(points: Iterable[tuple[float, float]]) -> Line | None:
    """The line of the least squares of relative errors through (bytes, seconds); None for less than four different
    sizes."""
    found = list(points)
    if len({size_bytes for size_bytes, _ in found}) < LEAST_SIZES:
        return None
    return collective_model.fit([size_bytes for size_bytes, _ in found], [seconds for _, seconds in found])
