"""Fewer points: no extreme is lost, and few points are left as they are."""

from __future__ import annotations

import time

import numpy as np

from analysis.figures.decimate import distinct, envelope


def test_few_points_stay_as_they_are() -> None:
    places, values = np.arange(100), np.zeros(100)
    assert envelope(places, values).tolist() == distinct(places, values).tolist() == list(range(100))
    assert len(envelope(np.zeros(0), np.zeros(0))) == len(distinct(np.zeros(0), np.zeros(0))) == 0


def test_every_column_keeps_its_extremes_and_its_ends() -> None:
    dice = np.random.default_rng(2)
    places, values = np.sort(dice.random(50_000)), dice.random(50_000)
    values[12_345], values[40_000] = 9.0, -9.0
    some = envelope(places, values, 100)
    assert len(some) <= 4 * 100
    assert (np.diff(some) > 0).all()
    assert {0, 12_345, 40_000, 49_999} <= set(some.tolist())
    edges = np.linspace(places[0], places[-1], 101)
    for low, high in zip(edges[1:-2], edges[2:-1]):  # inner columns, whole ones
        inside, kept = (values[each][(places[each] > low) & (places[each] < high)] for each in (slice(None), some))
        assert (kept.min(), kept.max()) == (inside.min(), inside.max())


def test_a_cloud_keeps_a_point_of_every_cell() -> None:
    dice = np.random.default_rng(3)
    places, values = dice.random(30_000), dice.random(30_000)
    some = distinct(places, values, 20, 10)
    assert len(some) == 200
    cells = {(int(20 * x), int(10 * y)) for x, y in zip(places[some], values[some])}
    assert len(cells) >= 190  # cells begin at the least point, not at zero


def test_points_that_are_all_alike_are_one() -> None:
    assert distinct(np.zeros(5000), np.zeros(5000), 20, 10).tolist() == [0]


def test_a_million_points_take_less_than_a_second() -> None:
    dice = np.random.default_rng(4)
    places, values = np.sort(dice.random(1_000_000)), dice.random(1_000_000)
    began = time.process_time()
    envelope(places, values)
    distinct(places, values)
    assert time.process_time() - began < 1.0
