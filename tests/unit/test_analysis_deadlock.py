"""A ring made by hand: stopped for ever, freed by a watchdog, or never stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import deadlock
from analysis.kinds.deadlock import BROKEN, DEADLOCK, FREE
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_congestion_tree import ring_json
from tests.unit.test_analysis_long_flows import MS, flow, long_run
from tests.unit.test_analysis_run import evidence

NAMES = ("h1>h3", "h2>h4", "h3>h1", "h4>h2")
CLOCKWISE = {"experiment": "deadlock", "routing": "clockwise", "switches": 4}
CIRCLE = [(3 * MS, f"sw{number}-eth2", "held") for number in (1, 2, 3, 4)]
LATER = [(21 * MS, "sw1-eth3", "refresh_sent")]  # the last event of all: what is held then still is


def ring(path: Path, until_ns: int, spec: dict[str, Any] | None = None, **changes: Any) -> Run:
    """Four flows, of which nothing arrives after `until_ns`."""
    flows = [flow(name, 0, 20 * MS) for name in NAMES]
    rates = {name: [(19e9, 0, until_ns)] for name in NAMES}
    told = {**CLOCKWISE, **(spec or {})}
    return long_run(path, flows, rates, told, ring_json(), **{"pauses": [*CIRCLE, *LATER], **changes})


def test_what_stands_still_in_a_circle_is_a_deadlock(tmp_path: Path) -> None:
    told = deadlock.verdict(run := ring(tmp_path / "run", 3 * MS))
    assert (told.verdict, told.good) == (DEADLOCK, False)
    assert deadlock.waiting(run) == ("sw1", "sw2", "sw3", "sw4")
    row = deadlock.row(run)
    assert (row["last_bps"], row["circle"]) == (0, "sw1 > sw2 > sw3 > sw4 > sw1")
    assert row["last_arrival_s"] == pytest.approx(0.003, abs=0.0001)
    assert deadlock.headline(run).endswith("sw1, sw2, sw3, sw4 wait for each other in a circle")


def test_no_port_is_paused_for_longer_than_the_flows_last(tmp_path: Path) -> None:
    """Four ports are held from 3 ms on, and still when the log ends at 80 ms: 17 ms each."""
    run = ring(tmp_path / "run", 3 * MS, pauses=[*CIRCLE, (80 * MS, "sw1-eth3", "refresh_sent")])
    assert dict(deadlock.tiles(run))["ports paused, summed over ports"] == "68 ms"


def test_what_stands_still_without_a_circle_is_not_explained(tmp_path: Path) -> None:
    told = deadlock.verdict(ring(tmp_path / "run", 3 * MS, pauses=[*CIRCLE[:3], *LATER]))
    assert (told.verdict, evidence(told)["no circle of paused switches"]) == (NOT_PROVEN, True)


def test_what_flows_to_the_end_is_free(tmp_path: Path) -> None:
    told = deadlock.verdict(ring(tmp_path / "run", 20 * MS, {"routing": "up_down"}, pauses=[]))
    assert (told.verdict, told.good) == (FREE, True)


def test_what_flows_because_a_watchdog_acted_is_broken(tmp_path: Path) -> None:
    acts = [(4 * MS, "sw1-eth2", "watchdog_on")]
    told = deadlock.verdict(run := ring(tmp_path / "run", 20 * MS, {"pfc_watchdog": "1ms"}, pauses=[*CIRCLE, *acts]))
    assert (told.verdict, told.good, evidence(told)["watchdog acts"]) == (BROKEN, None, True)
    assert deadlock.headline(run).endswith("to the end, the watchdog acting 1 time")
    assert "sw1-eth2" in deadlock.sections(run)


def test_nothing_that_ever_arrives_has_no_last_arrival(tmp_path: Path) -> None:
    run = ring(tmp_path / "run", 0)
    assert (deadlock.row(run)["last_arrival_s"], deadlock.verdict(run).verdict) == (None, DEADLOCK)
    assert "nothing ever arrives" in deadlock.headline(run)


def test_what_arrives_after_the_flows_end_is_not_their_last(tmp_path: Path) -> None:
    """At 21 ms queues drain; the flows stood still from 3 ms on."""
    flows = [flow(name, 0, 20 * MS) for name in NAMES]
    rates = {"h1>h3": [(19e9, 0, 3 * MS), (19e9, 21 * MS, 22 * MS)]}
    run = long_run(tmp_path / "run", flows, rates, CLOCKWISE, ring_json(), [*CIRCLE, *LATER])
    assert deadlock.row(run)["last_arrival_s"] == pytest.approx(0.003, abs=0.0001)
    assert deadlock.verdict(run).verdict == DEADLOCK


def test_the_page_of_a_deadlock_and_its_cure(tmp_path: Path) -> None:
    run = ring(tmp_path / "run", 3 * MS)
    ring(run.path / "cases" / "up_down", 20 * MS, {"label": "up_down", "routing": "up_down"}, pauses=[])
    run = Run(run.path)
    drawn = {figure.name: figure for figure in draw_all(run)}
    assert all(figure.path for figure in drawn.values())
    assert drawn["goodput"].title == deadlock.headline(run)
    assert drawn["tree"].title == "No root: sw1, sw2, sw3, sw4 wait for each other"
    html = page(run, list(drawn.values()))
    assert "Beside it, up_down: 76 Gb/s at the end." in html
    assert "flows to the end" in html
    assert json.dumps(summarize(run))
