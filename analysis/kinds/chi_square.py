"""The chi-square test: how likely counts as uneven as those seen are, if all were equally likely.

The tail of the distribution is the regularised incomplete gamma function Q(df / 2, x / 2), by its series and its
continued fraction (Abramowitz and Stegun, 26.4.19, 6.5.29 and 6.5.31; Lentz's method).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_PRECISION = 1e-14
_TINY = 1e-300  # in place of a zero in Lentz's method


@dataclass(frozen=True)
class ChiSquare:
    """A statistic with its degrees of freedom; several independent ones add up."""

    statistic: float
    df: int

    @property
    def p_value(self) -> float:
        """How likely a statistic at least as large is by chance."""
        return survival(self.statistic, self.df)


def uniform(counts: Sequence[int]) -> ChiSquare:
    """The test of equally likely places: sum of (count - mean)^2 / mean, with one degree of freedom less than
    places."""
    total = sum(counts)
    mean = total / len(counts)
    squares = math.fsum((count - mean) ** 2 for count in counts)
    return ChiSquare(squares / mean, len(counts) - 1)


def pooled(groups: Iterable[Sequence[int]]) -> ChiSquare:
    """The test within each group of places, added up; groups without any count, or of one place, tell nothing."""
    tests = [uniform(counts) for counts in groups if len(counts) > 1 and any(counts)]
    return ChiSquare(sum(test.statistic for test in tests), sum(test.df for test in tests))


def survival(statistic: float, df: int) -> float:
    """Probability that a chi-square variable with `df` degrees of freedom exceeds `statistic`; 1 for no degree of
    freedom."""
    if statistic <= 0 or df == 0:
        return 1.0
    shape, x = df / 2, statistic / 2
    scale = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    return 1 - scale * _series(shape, x) if x < shape + 1 else scale * _fraction(shape, x)


def _series(shape: float, x: float) -> float:
    """Sum of x^n / (shape (shape + 1) ... (shape + n)): converges fast below shape + 1."""
    term = total = 1 / shape
    step = shape
    while term > total * _PRECISION:
        step += 1
        term *= x / step
        total += term
    return total


def _fraction(shape: float, x: float) -> float:
    """The continued fraction 1 / (x + 1 - shape - 1 (1 - shape) / (x + 3 - shape - ...)): converges fast above."""
    b = x + 1 - shape
    c, d = 1 / _TINY, 1 / b
    result, change, step = d, 0.0, 0
    while abs(change - 1) > _PRECISION:
        step += 1
        a, b = -step * (step - shape), b + 2
        d = 1 / (a * d + b or _TINY)
        c = b + a / c or _TINY
        change = c * d
        result *= change
    return result
