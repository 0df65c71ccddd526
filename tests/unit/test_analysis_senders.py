"""Goodput against the number of senders: points, and the intervals around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.figures.confidence import student
from analysis.figures.senders import goodput_senders
from analysis.figures.style import Skipped
from analysis.run import Run
from tests.unit.artists import corners, points
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_run import make_run

MS = 1_000_000
SRU = 6000


def sweep_run(path: Path, label: str, senders: int, rounds_ms: list[int], seed: int = 1) -> Run:
    """A run with rounds of these lengths."""
    rounds = [
        {"start_ns": T0_NS + number * 1000 * MS, "end_ns": T0_NS + (number * 1000 + each) * MS, "bytes": senders * SRU}
        for number, each in enumerate(rounds_ms)
    ]
    return make_run(path, {"label": label, "senders": senders, "seed": seed}, {"rounds": rounds})


def test_a_band_is_the_block_over_the_interval_of_the_mean_round(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", "main", 2, [100, 110, 120])
    sweep_run(run.path / "cases" / "main-n4", "main-n4", 4, [200])
    figure, _, caption = goodput_senders(Run(run.path))
    line = figure.axes[0].lines[0]
    assert points(line) == [
        [2, pytest.approx(2 * SRU * 8 / 0.11e9)],
        [4, pytest.approx(4 * SRU * 8 / 0.2e9)],
    ]
    (band,) = figure.axes[0].collections
    values = {round(x): sorted(y for at, y in corners(band.get_paths()[0]) if round(at) == round(x)) for x in (2.0,)}[2]
    half_s = student(2) * 0.01 / 3**0.5
    assert values[0] == pytest.approx(2 * SRU * 8 / (0.11 + half_s) / 1e9)
    assert values[-1] == pytest.approx(2 * SRU * 8 / (0.11 - half_s) / 1e9)
    assert "Student's t" in caption


def test_no_band_goes_beyond_what_is_possible_without_loss(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", "main", 2, [1, 400])
    sweep_run(run.path / "cases" / "main-n4", "main-n4", 4, [1, 400])
    figure, _, _ = goodput_senders(Run(run.path))
    (band,) = figure.axes[0].collections
    best = {int(x): y for x, y in points(figure.axes[0].lines[-1])}
    highest = {number: max(y for x, y in corners(band.get_paths()[0]) if x == number) for number in (2, 4)}
    assert highest == {number: pytest.approx(best[number]) for number in (2, 4)}


def test_repeats_with_other_seeds_are_one_point_with_an_interval_over_them(tmp_path: Path) -> None:
    run = sweep_run(tmp_path / "run", "main", 2, [100, 300])
    sweep_run(run.path / "cases" / "again-n2", "again-n2", 2, [300, 500], seed=2)
    sweep_run(run.path / "cases" / "main-n4", "main-n4", 4, [200])
    figure, _, _ = goodput_senders(Run(run.path))
    assert points(figure.axes[0].lines[0])[0] == [2, pytest.approx(2 * SRU * 8 / 0.3e9)]
    low = min(y for x, y in corners(figure.axes[0].collections[0].get_paths()[0]) if x == 2)
    assert low == pytest.approx(2 * SRU * 8 / (0.3 + student(1) * 0.1414214 / 2**0.5) / 1e9, rel=1e-5)


def test_without_a_sweep_it_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match="no sweep over senders"):
        goodput_senders(make_run(tmp_path / "run"))
