"""Gantt charts: bars are the times, of many rows the latest are drawn, and it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.figures.flows import timeline
from analysis.figures.gantt import MOST_ROWS, clients, gantt, latest, shares_gantt
from analysis.figures.style import Skipped
from analysis.run import Run
from tests.unit.artists import bars
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_federated import entries, run_of
from tests.unit.test_analysis_long_flows import two_run
from tests.unit.test_analysis_run import make_run

MS = 1_000_000


def transfer(flow: str, begin_ms: int, end_ms: int) -> dict[str, Any]:
    return {"flow": flow, "round": 0, "start_ns": T0_NS + begin_ms * MS, "end_ns": T0_NS + end_ms * MS, "bytes": 9}


def test_a_bar_is_a_blocks_way_and_a_row_a_flow(tmp_path: Path) -> None:
    some = [transfer("h10", 0, 4), transfer("h2", 1, 2), transfer("h2", 5, 9)]
    facts = {"transfers": some, "rounds": [{"start_ns": T0_NS, "end_ns": T0_NS + 10 * MS, "bytes": 18}]}
    figure, title, caption = gantt(make_run(tmp_path / "run", facts=facts))
    (axes,) = figure.axes
    assert bars(axes, "on its way") == [(1, 2, 0), (5, 9, 0), (0, 4, 1)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["h2", "h10"]
    assert title == "2 flows: a block takes 3.25 ms with the median flow, 4 ms with h10, the slowest"
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row on top
    assert "of 2" not in caption


def test_of_many_rows_the_latest_are_drawn_and_it_is_said() -> None:
    rows = latest({f"h{number}": [(0, number)] for number in range(1, 1001)})
    assert list(rows.bars) == [f"h{number}" for number in range(1001 - MOST_ROWS, 1001)]
    assert rows.cut == f" The {MOST_ROWS} rows whose last bar ends latest, of 1,000."
    assert latest({"h1": [(0, 1)]}).cut == ""


def test_the_timeline_has_stalls_upon_blocks(tmp_path: Path) -> None:
    facts = {"transfers": [transfer("h2", 0, 1), transfer("h3", 0, 201)]}
    figure, title, _ = timeline(make_run(tmp_path / "run", facts=facts))
    (axes,) = figure.axes
    assert title.startswith("1 stall of 1 flow")
    ((begin, end, row),) = bars(axes, "rto_tail_loss")
    assert (begin, end, row) == (pytest.approx(0.02), pytest.approx(201.02), 1)
    assert bars(axes, "block on its way") == [(0, 1, 0), (0, 201, 1)]
    assert len(bars(axes, "waits for the others")) == 2


def test_without_captures_the_timeline_is_of_the_blocks_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", facts={"transfers": [transfer("h2", 0, 1)]})
    for file in (run.path / "pcap").iterdir():
        file.unlink()
    figure, _, _ = timeline(Run(run.path))
    assert bars(figure.axes[0], "on its way") == [(0, 1, 0)]


def test_long_flows_are_coloured_by_their_share(tmp_path: Path) -> None:
    run = two_run(tmp_path / "run", 30e9, 10e9)
    figure, title, _ = shares_gantt(run)
    (mesh,) = figure.axes[0].collections
    values: np.ndarray = np.ma.filled(np.ma.asarray(mesh.get_array()), np.nan).reshape(2, -1)
    assert np.nanmean(values[0]) / np.nanmean(values[1]) == pytest.approx(3, rel=0.05)
    assert title.startswith("2 flows: h2 takes ")
    (run.path / "telemetry" / "arrivals.parquet").unlink()
    with pytest.raises(Skipped, match=r"arrivals\.parquet: not found"):
        shares_gantt(Run(run.path))


def test_clients_of_the_longest_round(tmp_path: Path) -> None:
    run = run_of(tmp_path, entries(upload_ms={"h4": 210}))
    figure, title, _ = clients(run)
    (axes,) = figure.axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    ends = {rows[row]: end for _, end, row in bars(axes, "update on its way")}
    assert max(ends, key=lambda name: ends[name]) == "h4"
    assert "h4" in title
    for phase in ("gets the model", "trains"):
        assert len(bars(axes, phase)) == len(rows)


def test_what_was_not_finished_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match="nothing was completed"):
        gantt(make_run(tmp_path / "run"))
