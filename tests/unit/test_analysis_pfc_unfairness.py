"""A parking lot made by hand: half for the flow alone behind its port, or as much for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import pfc_unfairness
from analysis.kinds.pfc_unfairness import FAIR, OTHERWISE, UNFAIR
from analysis.kinds.published import REPRODUCED
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_long_flows import DCQCN, LEAF_SPINE, LINE_BPS, MS, flow, long_run, write_dcqcn
from tests.unit.test_analysis_run import evidence

PFC = {"experiment": "pfc_unfairness"}
WITH_DCQCN = {**PFC, **DCQCN}
NAMES = ("h2", "h5", "h6", "h7")  # h2 is under h1's leaf


def lot(path: Path, lone: float, sharing: float, spec: dict[str, Any] | None = None, **changes: Any) -> Run:
    """Shares of the line of h2, and of each of the three others."""
    flows = [flow(name, 0, 20 * MS) for name in NAMES]
    rates = {name: [((lone if name == "h2" else sharing) * LINE_BPS, 0, 20 * MS)] for name in NAMES}
    return long_run(path, flows, rates, spec or PFC, **changes)


def test_the_flow_under_the_receivers_leaf_is_alone_behind_its_port(tmp_path: Path) -> None:
    run = lot(tmp_path / "run", 0.5, 0.166)
    assert list(pfc_unfairness.lone(run)) == ["h2"]
    assert pfc_unfairness.port_shares(run) == pytest.approx({"h2": 0.5, "h5": 1 / 6, "h6": 1 / 6, "h7": 1 / 6})


@pytest.mark.parametrize(
    ("lone", "sharing", "answer", "good"),
    [(0.5, 0.1655, UNFAIR, False), (0.25, 0.248, FAIR, True), (0.7, 0.1, OTHERWISE, False)],
)
def test_a_link_is_fair_to_flows_or_to_ports_or_to_neither(
    tmp_path: Path, lone: float, sharing: float, answer: str, good: bool
) -> None:
    told = pfc_unfairness.verdict(lot(tmp_path / "run", lone, sharing))
    assert (told.verdict, told.good) == (answer, good)


def test_one_flow_far_from_its_ports_share_is_seen(tmp_path: Path) -> None:
    """The mean of those that share is right; one of them gets half as much again, another half."""
    flows = [flow(name, 0, 20 * MS) for name in NAMES]
    shares = {"h2": 0.5, "h5": 0.25, "h6": 0.08, "h7": 0.167}
    rates = {name: [(share * LINE_BPS, 0, 20 * MS)] for name, share in shares.items()}
    told = pfc_unfairness.verdict(long_run(tmp_path / "run", flows, rates, PFC))
    assert (told.verdict, evidence(told)["flows that share a port"]) == (OTHERWISE, False)


def test_without_a_fabric_no_port_is_known(tmp_path: Path) -> None:
    run = lot(tmp_path / "run", 0.5, 0.166)
    (run.path / "fabric.json").unlink()
    told = pfc_unfairness.verdict(run := Run(run.path))
    assert (told.verdict, told.missing[0]) == (NOT_PROVEN, "no fabric.json, or nothing arrived")
    assert pfc_unfairness.compared(run)[0].verdict == NOT_PROVEN


def test_published_shares_stand_beside_ours(tmp_path: Path) -> None:
    alone, shared = pfc_unfairness.compared(lot(tmp_path / "run", 0.49, 0.165))
    assert (alone.published, alone.modelled, alone.measured, alone.verdict) == ("half", "50 %", "49 %", REPRODUCED)
    assert (shared.modelled, shared.measured, shared.verdict) == ("16.7 %", "16.5 %", REPRODUCED)
    index, line = pfc_unfairness.compared(lot(tmp_path / "dcqcn", 0.24, 0.24, WITH_DCQCN))
    assert (index.verdict, line.measured, line.verdict) == (REPRODUCED, "96 %", REPRODUCED)
    idle = pfc_unfairness.compared(lot(tmp_path / "idle", 0.2, 0.2, WITH_DCQCN))[1]
    assert idle.verdict == "not reproduced: 80 % is measured"
    assert pfc_unfairness.compared(lot(tmp_path / "without", 0.2, 0.2, {**PFC, "pfc": "off"})) == []


def test_the_page_of_a_run_with_a_case(tmp_path: Path) -> None:
    pauses = [(MS, "spine1-eth1", "held"), (2 * MS, "leaf2-eth5", "held"), (3 * MS, "h5-eth0", "held")]
    pauses += [(time_ns + 4 * MS, port, "released") for time_ns, port, _ in pauses]
    run = lot(tmp_path / "run", 0.5, 0.166, pauses=pauses)
    case = lot(run.path / "cases" / "dcqcn", 0.25, 0.245, {**WITH_DCQCN, "label": "dcqcn"})
    write_dcqcn(case.path, NAMES, [MS, 2 * MS], 10 * 10**9)
    run = Run(run.path)
    told = json.loads(json.dumps(summarize(run)))
    first = told["comparison"][0]
    assert (told["verdict"], first["pauses"], first["paused_s"]) == (UNFAIR, 0, 0.012)
    assert [(row["lone_bps"] is not None, row["sharing"]) for row in told["comparison"]] == [(True, 3)] * 2
    drawn = draw_all(run)
    assert [figure.name for figure in drawn if figure.path is None] == ["rates"]
    html = page(run, drawn)
    assert "the flow alone behind its port gets 19.7 Gb/s, each of the 3 that share a port 6.5" in html
    assert "Beside it, dcqcn: 9.86 Gb/s alone, 9.66 Gb/s each of 3." in html
    assert "<h2>Beside published figures</h2>" in html
    assert LEAF_SPINE["topology"] in html
