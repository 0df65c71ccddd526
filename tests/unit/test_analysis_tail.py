"""Tails: what is drawn are the numbers, and no percentile is told that there are too few values for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from analysis.figures.completions import completions
from analysis.figures.style import Skipped, looks
from analysis.figures.tail import LEVELS, draw_tails, percentile, tail, told
from analysis.run import Run
from tests.unit.artists import across, heights, points
from tests.unit.artists import told as told_by
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_kinds import fabric_json, fabric_run
from tests.unit.test_analysis_run import make_run

MS = 1_000_000


def transfers(times_ms: list[int]) -> dict[str, list[dict[str, object]]]:
    return {
        "transfers": [
            {"flow": "h2", "round": number, "start_ns": T0_NS, "end_ns": T0_NS + each * MS, "bytes": 1000}
            for number, each in enumerate(times_ms)
        ]
    }


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(each) for each in range(1, 1001)]
    assert [percentile(values, level) for level in LEVELS] == [500.0, 990.0, 999.0]
    assert [percentile(values[:100], level) for level in LEVELS] == [50.0, 99.0, None]
    assert [percentile(values[:99], level) for level in LEVELS] == [50.0, None, None]
    assert percentile([7.0], Fraction(50)) is None


def test_the_words_tell_what_there_are_enough_values_for() -> None:
    assert told([0.001]) == "slowest 1 ms"
    assert told([0.001] * 99 + [0.002]) == "p50 1 ms, p99 1 ms, slowest 2 ms"
    assert told([0.001] * 1000) == "p50 1 ms, p99 1 ms, p99.9 1 ms, slowest 1 ms"


def test_the_line_is_the_share_that_took_at_least_so_long() -> None:
    seconds = [0.3, 0.1, 0.2, 0.2]
    (axes,) = draw_tails({"a": seconds}, looks(["a"]), "a", "a title").axes
    line, end, rings = axes.lines[:3]
    assert points(line) == [[0.1, 1.0], [0.2, 0.75], [0.2, 0.5], [0.3, 0.25]]
    assert points(end) == [[0.3, 0.25]]
    assert points(rings) == [[0.2, 0.5]]
    assert axes.get_yscale() == "log"


def test_a_hundred_thousand_values_keep_their_ends_and_percentiles() -> None:
    seconds = np.random.default_rng(5).lognormal(-9, 1.5, 100_000)
    (axes,) = draw_tails({"a": seconds.tolist()}, looks(["a"]), "a", "a title").axes
    line, end, rings = axes.lines[:3]
    assert len(across(line)) < 10_000
    assert points(end) == [[seconds.max(), 1e-5]]
    assert across(rings) == np.sort(seconds)[[49_999, 98_999, 99_899]].tolist()
    places = np.interp(across(rings), across(line), heights(line))
    assert places == pytest.approx([0.5, 0.01, 0.001], rel=0.02)


def test_a_runs_blocks_beside_those_of_its_cases(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", facts=transfers([1] * 99 + [200]))
    make_run(run.path / "cases" / "dctcp", {"label": "dctcp", "queue": "dctcp"}, transfers([2] * 100))
    figure, title, caption = tail(Run(run.path))
    assert title == "p99 of a block: 1 ms with droptail, 2 ms with dctcp"
    assert set(told_by(figure.legends[0])) == {"droptail", "dctcp"}
    assert "by nearest rank" in caption


def test_without_cases_the_title_tells_the_percentiles(tmp_path: Path) -> None:
    _, title, _ = tail(make_run(tmp_path / "run", facts=transfers([1, 1, 5])))
    assert title == "3 blocks: p50 1 ms, slowest 5 ms"


def test_ranks_of_the_largest_size_of_a_collective(tmp_path: Path) -> None:
    def call(size: int, ends: list[int], warmup: bool) -> dict[str, object]:
        ends_ns = [T0_NS + each for each in ends]
        facts = {"size_bytes": size, "count": 1, "iteration": 0, "warmup": warmup, "wrong": 0}
        return {**facts, "start_ns": T0_NS, "end_ns": max(ends_ns), "rank_end_ns": ends_ns}

    calls = [call(4096, [1, 2], False), call(8192, [100, 300], True), call(8192, [1000, 3000], False)]
    fabric = fabric_json("leaf_spine", leaves=2, spines=1, hosts_per_leaf=1)
    run = fabric_run(tmp_path / "run", fabric, {"workload": "collective", "calls": calls})
    found = completions(run)
    assert (found.noun, found.seconds) == ("rank's part of 8.19 KB", (1e-6, 3e-6))


def test_a_run_that_completed_nothing_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match="nothing was completed"):
        tail(make_run(tmp_path / "run"))
