"""How sure a share or a mean is: intervals that hold the true value 95 times in 100."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, mean, stdev

LEVEL = 0.95
_NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)
_BISECTIONS = 60


def wilson(successes: int, tries: int) -> tuple[float, float]:
    """The interval of a probability of which `successes` in `tries` were seen (Wilson, 1927): within 0 to 1, and of
    use near both ends; 0 to 1 without a try."""
    if not tries:
        return 0.0, 1.0
    share, z2 = successes / tries, _NORMAL * _NORMAL
    middle = (share + z2 / (2 * tries)) / (1 + z2 / tries)
    half = _NORMAL / (1 + z2 / tries) * math.sqrt(share * (1 - share) / tries + z2 / (4 * tries * tries))
    return (middle - half if successes else 0.0), (middle + half if successes < tries else 1.0)


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The interval of the mean of independent, normally spread values (Student, 1908); None for fewer than two."""
    if len(values) < 2:
        return None
    half = student(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return mean(values) - half, mean(values) + half


def student(freedom: int) -> float:
    """The factor of Student's t distribution with so many degrees of freedom, by bisection of its angle."""
    low, high = 0.0, math.pi / 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < LEVEL else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _within(angle: float, freedom: int) -> float:
    """The probability of |t| < tan(angle) x sqrt(freedom) (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    term, total = (math.cos(angle), 0.0) if freedom % 2 else (1.0, 0.0)
    for number in range(3 if freedom % 2 else 2, freedom + 1, 2):
        total += term
        term *= (number - 1) / number * math.cos(angle) ** 2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if freedom % 2 else total
