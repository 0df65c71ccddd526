"""The time that a run lost standing still, and at how many senders its goodput falls; runs made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.kinds.incast import summarize, tiles
from analysis.measures import collapse_onset, lost_share
from analysis.run import Run
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_run import ROUND_US, RTO_US, make_run


def taking(seconds: float) -> dict[str, Any]:
    """A round of this length in which each of the senders' 6000 bytes arrived."""
    return {"rounds": [{"start_ns": T0_NS, "end_ns": T0_NS + round(seconds * 1e9), "bytes": 12_000}]}


def sweep(path: Path, **seconds: float) -> Run:
    """A run of 2 senders that is fast, and cases by label ("n4") that take so long."""
    for label, length in seconds.items():
        spec = {"label": f"droptail-{label}", "senders": int(label[1:])}
        make_run(path / "cases" / f"droptail-{label}", spec, taking(length))
    return make_run(path, {}, taking(1e-6))


def test_a_round_that_waits_for_one_flows_timer_is_lost_but_for_its_ends(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert lost_share(run) == pytest.approx(RTO_US / ROUND_US, rel=1e-3)
    assert summarize(run)["lost_share"] == lost_share(run)
    assert ("time lost standing still", "100.0%") in tiles(run)


def test_without_every_senders_capture_it_is_not_known(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run.path / "pcap" / "h3-eth0.pcap").unlink()
    assert lost_share(Run(run.path)) is None
    assert "time lost standing still" not in dict(tiles(Run(run.path)))


def test_collapse_begins_where_goodput_falls_and_stays_low(tmp_path: Path) -> None:
    run = sweep(tmp_path / "run", n4=1e-6, n8=0.2, n16=0.2)
    assert collapse_onset(run) == {"droptail": 8}
    assert summarize(run)["collapse_onset"] == {"droptail": 8}
    assert ("collapses from", "8 senders") in tiles(run)


def test_goodput_that_recovers_with_more_senders_has_not_collapsed(tmp_path: Path) -> None:
    run = sweep(tmp_path / "run", n4=0.2, n8=1e-6)
    assert collapse_onset(run) == {"droptail": None}
    assert "collapses from" not in dict(tiles(run))


def test_one_number_of_senders_tells_no_onset(tmp_path: Path) -> None:
    assert collapse_onset(make_run(tmp_path / "run")) == {}
