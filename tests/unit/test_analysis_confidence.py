"""Intervals: against published values, and against draws of known distributions."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.figures.confidence import mean_interval, student, wilson


@pytest.mark.parametrize(
    ("freedom", "factor"),  # NIST/SEMATECH e-Handbook, table 1.3.6.7.2, column 0.975
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (100, 1.984)],
)
def test_students_factor_is_the_published_one(freedom: int, factor: float) -> None:
    assert student(freedom) == pytest.approx(factor, abs=5e-4)


def test_the_interval_of_a_mean() -> None:
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)
    assert mean_interval([5.0]) is None
    assert mean_interval([4.0, 4.0]) == (4.0, 4.0)


@pytest.mark.parametrize(
    ("marked", "packets", "low", "high"),  # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_is_the_published_one(marked: int, packets: int, low: float, high: float) -> None:
    assert wilson(marked, packets) == pytest.approx((low, high), abs=5e-5)


def test_wilsons_interval_ends_with_all_and_with_none() -> None:
    assert wilson(0, 5)[0] == 0.0
    assert wilson(5, 5)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    dice = np.random.default_rng(1)
    means = [mean_interval(dice.normal(3.0, 2.0, 4).tolist()) for _ in range(2000)]
    assert 0.93 <= np.mean([low <= 3.0 <= high for low, high in filter(None, means)]) <= 0.97
    shares = [wilson(int(dice.binomial(200, 0.03)), 200) for _ in range(2000)]
    assert 0.92 <= np.mean([low <= 0.03 <= high for low, high in shares]) <= 0.98
