"""A stuck receiver made by hand: innocent flows that stop, that a watchdog frees, that never notice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import pause_storm
from analysis.kinds.pause_storm import CONTAINED, HARMLESS, STORM
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_long_flows import MS, flow, long_run, paced, write_arrivals
from tests.unit.test_analysis_run import evidence
from topologies.units import BadRequest

SPEC = {"experiment": "pause_storm", "stuck": "h1@4ms-14ms", "uplink_rate": "80Gbps"}
HELD = [
    (4 * MS, "leaf1-eth1", "held"),
    (5 * MS, "spine1-eth1", "held"),
    (5 * MS, "h2-eth0", "held"),
    (14 * MS, "leaf1-eth1", "released"),
    (14 * MS, "spine1-eth1", "released"),
    (14 * MS, "h2-eth0", "released"),
]


def storm(path: Path, during_bps: float, spec: dict[str, Any] | None = None, **changes: Any) -> Run:
    """h5 sends to h1, which is stuck; h6's flow to h3 shares its way; h4's to h3 does not."""
    names = ("h5>h1", "h2>h1", "h6>h3", "h4>h2")
    own = [(20e9, 0, 4 * MS), (during_bps, 4 * MS, 14 * MS), (20e9, 14 * MS, 20 * MS)]
    dead = [(20e9, 0, 4 * MS), (20e9, 14 * MS, 20 * MS)]
    rates = {"h5>h1": dead, "h2>h1": dead, "h6>h3": own, "h4>h2": [(20e9, 0, 20 * MS)]}
    flows = [flow(name, 0, 20 * MS) for name in names]
    return long_run(path, flows, rates, {**SPEC, **(spec or {})}, **{"pauses": HELD, **changes})


def test_innocent_are_the_flows_between_other_hosts(tmp_path: Path) -> None:
    run = storm(tmp_path / "run", 0)
    assert [each.name for each in pause_storm.innocent(run)] == ["h6>h3", "h4>h2"]
    (stuck,) = pause_storm.stuck(run)
    assert stuck.host == "h1"
    assert stuck.span_ns[1] - stuck.span_ns[0] == 10 * MS


def test_a_storm_stops_innocent_flows(tmp_path: Path) -> None:
    told = pause_storm.verdict(run := storm(tmp_path / "run", 0))
    assert (told.verdict, told.good) == (STORM, False)
    assert evidence(told)["ports paused while it is stuck"] is True
    row = pause_storm.row(run)
    assert (row["ports_paused"], row["watchdog"]) == (3, "off")
    assert row["kept_share"] < 0.01
    assert row["before_bps"] == pytest.approx(40e9, rel=0.02)
    assert "3 ports are paused: of 2 innocent flows, h6>h3 keeps " in pause_storm.headline(run)


@pytest.mark.parametrize(
    ("during_bps", "events", "answer", "good"),
    [
        (19.5e9, [(5 * MS, "leaf1-eth1", "watchdog_on")], CONTAINED, True),
        (19.5e9, [], HARMLESS, True),
        (10e9, [], "innocent flows slowed to 50", False),
    ],
)
def test_what_innocent_flows_keep_decides(
    tmp_path: Path, during_bps: float, events: list[tuple[int, str, str]], answer: str, good: bool
) -> None:
    told = pause_storm.verdict(storm(tmp_path / "run", during_bps, {"pfc_watchdog": "500us"}, pauses=[*HELD, *events]))
    assert told.verdict.startswith(answer)
    assert told.good == good
    assert evidence(told)["watchdog acts"] is bool(events)


@pytest.mark.parametrize(("watchdog", "free_ms", "kept"), [("500us", 4.6, 0.94), ("2ms", 6.1, 0.79)])
def test_a_watchdog_is_judged_after_its_time_beside_the_whole_storm(
    tmp_path: Path, watchdog: str, free_ms: float, kept: float
) -> None:
    """Innocent flows stand still until shortly after the watchdog acts; a second act comes after the storm."""
    acts = [(5 * MS, "leaf1-eth1", "watchdog_on"), (15 * MS, "leaf1-eth1", "watchdog_on")]
    run = storm(tmp_path / "run", 0, {"pfc_watchdog": watchdog}, pauses=sorted([*HELD, *acts]))
    own = paced((20e9, 0, 4 * MS), (20e9, int(free_ms * MS), 20 * MS))
    write_arrivals(run.path, {"h6>h3": own, "h4>h2": paced((20e9, 0, 20 * MS))})
    told, row = pause_storm.verdict(run), pause_storm.row(run)
    assert told.verdict.startswith(f"{CONTAINED} after {watchdog}: {100 * row['kept_share']:.3g} % of the whole storm")
    assert (row["kept_share"], row["watchdog_acts"]) == (pytest.approx(kept, abs=0.01), 1)
    assert row["freed_share"] > 0.95
    whole = next(piece for piece in told.evidence if piece.name == "slowest innocent flow, whole storm")
    assert "from 4 ms to 14 ms" in whole.tolerance


def test_flows_that_begin_after_the_storm_are_no_witnesses(tmp_path: Path) -> None:
    flows = [flow("h5>h1", 0, 20 * MS), flow("h6>h3", 5 * MS, 20 * MS)]
    run = long_run(tmp_path / "run", flows, {"h6>h3": [(1e9, 5 * MS, 20 * MS)]}, SPEC)
    assert pause_storm.innocent(run) == ()
    assert pause_storm.verdict(run).verdict == NOT_PROVEN


def test_a_host_may_be_stuck_to_the_end(tmp_path: Path) -> None:
    run = storm(tmp_path / "run", 0, {"stuck": "h1@4ms"})
    (stuck,) = pause_storm.stuck(run)
    assert stuck.span_ns[1] - stuck.span_ns[0] == 16 * MS


def test_nobody_stuck_proves_nothing(tmp_path: Path) -> None:
    run = storm(tmp_path / "run", 20e9, {"stuck": "none"})
    assert pause_storm.verdict(run).verdict == NOT_PROVEN
    assert pause_storm.headline(run) == "no innocent flow's goodput is known"


def test_a_text_that_names_no_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"^stuck: 'everybody' is not understood"):
        pause_storm.stuck(storm(tmp_path / "run", 0, {"stuck": "everybody"}))


def test_the_page_of_a_storm(tmp_path: Path) -> None:
    run = storm(tmp_path / "run", 0)
    storm(run.path / "cases" / "watchdog", 19.5e9, {"label": "watchdog", "pfc_watchdog": "500us"})
    run = Run(run.path)
    drawn = draw_all(run)
    assert [figure.name for figure in drawn if figure.path is None] == ["rates"]
    title = next(figure.title for figure in drawn if figure.name == "goodput")
    assert title.startswith("While h1 is stuck, h6>h3 keeps ")
    html = page(run, drawn)
    assert "What the slowest innocent flow keeps in the cases: watchdog: 97" in html
    assert "h1 is stuck" in next(figure.caption for figure in drawn if figure.name == "pauses")
    assert next(figure.title for figure in drawn if figure.name == "tree").startswith("From h1, pauses on 3 links")
    assert "x as much kept" in html
    assert json.dumps(summarize(run))


def test_what_a_case_keeps_is_compared_with_what_the_run_keeps() -> None:
    assert pause_storm.against({"kept_share": 0}, {"kept_share": 0.9}) == "goes on"
    assert pause_storm.against({"kept_share": 0}, {"kept_share": 0}) == "stopped too"
    assert pause_storm.against({"kept_share": 0.1}, {"kept_share": 0.9}) == "9x as much kept"
    assert pause_storm.against({"kept_share": 0.1}, {"kept_share": None}) == ""
