"""What a sweep tells of its results: means with intervals, figures, page, table, failures."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from analysis.figures.sweep import draw_all
from analysis.pages.sweep_page import write_page
from analysis.sweep import Sweep, read, runs_words, verdict_words, words
from experiments.catalog import find
from experiments.sweeping import table
from experiments.sweeping.plan import Asked, Plan, over, plan
from experiments.sweeping.progress import left_words
from experiments.sweeping.store import Store, write_plan
from topologies.units import BadRequest

STUDENT_2 = 4.302653  # of 95 %, two degrees of freedom
RATES = (1e9, 2e9, 3e9)


def swept(folder: Path, words: tuple[str, ...], repeats: int, rows: dict[int, dict[str, Any]]) -> Sweep:
    """A sweep of incast of which the runs of `rows` are kept: what each tells by its number."""
    planned = plan(Asked(find("incast"), {}, over(words), repeats=repeats))
    write_plan(
        folder,
        {
            **planned.document(),
            "made_by": {"fabriclab": "0.1"},
            "git_commit": "abc",
            "command": ["./run_experiment", "sweep"],
        },
    )
    kept = Store(folder, planned.columns)
    for number, told in rows.items():
        kept.put({**order_values(planned, number), "verdict": "no collapse", "wall_s": 1.0, **told})
    return read(folder)


def order_values(planned: Plan, number: int) -> dict[str, Any]:
    return next(order.values for order in planned.orders() if order.run == number)


@pytest.fixture
def two_points(tmp_path: Path) -> Sweep:
    """Two points of three runs; the last run of the second failed."""
    rows: dict[int, dict[str, Any]] = {number: {"goodput_bps": RATES[number - 1]} for number in (1, 2, 3)}
    rows |= {number: {"goodput_bps": 5e9, "verdict": "incast collapse"} for number in (4, 5)}
    rows[6] = {"failure": "the lab kernel died", "verdict": None}
    return swept(tmp_path, ("senders=2,64",), 3, rows)


def test_a_mean_has_the_interval_of_student(two_points: Sweep) -> None:
    mean = two_points.points[0].means["goodput_bps"]
    assert (mean.value, mean.runs) == (fmean(RATES), 3)
    assert mean.half == pytest.approx(STUDENT_2 * 1e9 / 3**0.5, rel=1e-6)
    goodput = next(column for column in two_points.figures if column.key == "goodput_bps")
    assert words(goodput, mean) == "2 Gb/s ± 2.48 Gb/s"
    assert words(goodput, two_points.points[1].means["goodput_bps"]) == "5 Gb/s"  # both runs gave the same
    assert words(goodput, None) == "—"


def test_failures_are_no_part_of_a_mean_and_are_counted(two_points: Sweep) -> None:
    first, second = two_points.points
    assert (second.done, second.failed, second.means["goodput_bps"].runs) == (2, 1, 2)
    assert (runs_words(first, 3), runs_words(second, 3)) == ("3", "2 of 3 (1 failed)")
    assert [row["failure"] for row in two_points.failures] == ["the lab kernel died"]


def test_verdicts_that_differ_are_counted(tmp_path: Path) -> None:
    rows = {1: {"verdict": "no collapse"}, 2: {"verdict": "incast collapse"}, 3: {"verdict": "incast collapse"}}
    (point,) = swept(tmp_path, ("senders=2",), 3, rows).points
    assert verdict_words(point) == "incast collapse 2, no collapse 1"


def test_a_point_without_a_run_is_told_all_the_same(tmp_path: Path) -> None:
    found = swept(tmp_path, ("senders=2,4",), 1, {1: {"goodput_bps": 1e9}})
    assert (found.points[1].done, found.points[1].means, verdict_words(found.points[1])) == (0, {}, "—")
    assert "Not complete: 1 run still to do." in write_page(found).read_text()


def test_figures_are_over_the_number_that_was_swept(two_points: Sweep, tmp_path: Path) -> None:
    (drawn,) = draw_all(two_points, tmp_path / "figures")
    assert drawn.path is not None and drawn.path.stat().st_size > 10_000
    assert drawn.title == "goodput over senders: 2 Gb/s (senders=2) to 5 Gb/s (senders=64)"


def test_figures_are_over_names_where_no_key_is_a_number(tmp_path: Path) -> None:
    rows = {1: {"goodput_bps": 1e9}, 2: {"goodput_bps": 2e9}}
    (drawn,) = draw_all(swept(tmp_path, ("cc=reno,cubic",), 1, rows), tmp_path / "figures")
    assert drawn.title == "goodput: 1 Gb/s (cc=reno) to 2 Gb/s (cc=cubic)"


def test_what_is_the_same_everywhere_is_no_figure(tmp_path: Path) -> None:
    rows = {1: {"goodput_bps": 1e9}, 2: {"goodput_bps": 1e9}}
    assert draw_all(swept(tmp_path, ("senders=2,4",), 1, rows), tmp_path / "figures") == []


def test_the_page_tells_means_failures_and_how_to_go_on(two_points: Sweep) -> None:
    page = write_page(two_points).read_text()
    for told in ("2 Gb/s ± 2.48 Gb/s", "the lab kernel died", "2 of 3 (1 failed)", "senders=64", "data:image/png"):
        assert told in page
    assert f"./run_experiment sweep --out {two_points.folder}" in page
    assert f"pandas.read_parquet(&#x27;{two_points.folder}/results&#x27;)" in page


def test_the_table_and_the_json_tell_the_same(two_points: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    table.show(two_points)
    assert "2 Gb/s ± 2.48 Gb/s" in capsys.readouterr().out
    told = json.loads(json.dumps(table.document(two_points)))
    low, high = told["points"][0]["figures"]["goodput_bps"]["interval"]
    assert (low + high) / 2 == pytest.approx(2e9)
    assert told["points"][1]["senders"] == "64" and told["points"][1]["failed"] == 1
    assert told["failures"] == [{"run": 6, "senders": "64", "seed": 3, "reason": "the lab kernel died"}]
    table.tell_failures(two_points)
    assert "senders=64, seed=3: the lab kernel died" in capsys.readouterr().err


def test_a_folder_without_a_sweep_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read as a sweep"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("walls_s", "left", "at_once", "said"),
    [
        ([], 10, 2, ""),
        ([1.0], 0, 2, ""),
        ([1.0, 3.0], 10, 2, "about 10 s left"),
        ([60.0], 10, 2, "about 5 min left"),
        ([10.0], 1, 8, "about 10 s left"),  # one run is not shared
    ],
)
def test_the_time_left_follows_from_what_runs_took(walls_s: list[float], left: int, at_once: int, said: str) -> None:
    assert left_words(walls_s, left, at_once) == said
