"""A victim flow made by hand: beside flows to a congested receiver, it gets as little as they or all that its own way
leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.kinds import victim
from analysis.kinds.published import REPRODUCED
from analysis.kinds.victim import LOSES, SPARED, VICTIM
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_kinds import fabric_json
from tests.unit.test_analysis_long_flows import DCQCN, LINE_BPS, MS, flow, long_run
from tests.unit.test_analysis_run import evidence

FABRIC = fabric_json("leaf_spine", leaves=5, spines=1, hosts_per_leaf=5)
PFC = {"experiment": "victim", "uplink_rate": "80Gbps"}
NEIGHBOURS = ("h6>h1", "h7>h1", "h8>h1", "h9>h1")  # from leaf2 to leaf1
ITS_FLOW = "h10>h11"  # from leaf2 to leaf3


def crowded(path: Path, share: float, elsewhere: int = 0, spec: dict[str, Any] | None = None, **changes: Any) -> Run:
    """The victim gets `share` of the line; the receiver's link is served by ports."""
    others = dict.fromkeys(NEIGHBOURS, 1 / (1 + elsewhere) / 4)
    others.update({f"h{16 + 5 * place}>h1": 1 / (1 + elsewhere) for place in range(elsewhere)})
    shares = {**others, ITS_FLOW: share}
    flows = [flow(name, 0, 20 * MS) for name in shares]
    rates = {name: [(value * LINE_BPS, 0, 20 * MS)] for name, value in shares.items()}
    return long_run(path, flows, rates, {**PFC, **(spec or {})}, FABRIC, **changes)


def test_the_victim_is_the_flow_to_another_receiver(tmp_path: Path) -> None:
    run = crowded(tmp_path / "run", 0.25, 1)
    assert [each.name for each in victim.victims(run)] == [ITS_FLOW]
    assert [each.name for each in victim.beside_it(run)] == list(NEIGHBOURS)
    assert victim.row(run)["extra"] == 1


@pytest.mark.parametrize(("elsewhere", "share"), [(0, 1 / 4), (1, 1 / 8), (2, 1 / 12)])
def test_a_victim_gets_what_its_neighbours_get(tmp_path: Path, elsewhere: int, share: float) -> None:
    told = victim.verdict(run := crowded(tmp_path / "run", share, elsewhere))
    assert (told.verdict, told.good) == (VICTIM, False)
    assert evidence(told)["paused with its neighbours"] is True
    goodput = next(piece for piece in told.evidence if piece.name == "victim's goodput")
    assert goodput.modelled == pytest.approx(LINE_BPS)  # of 80 Gb/s the neighbours leave 40 Gb/s and more
    assert victim.row(run)["victim_share"] == pytest.approx(share, rel=0.05)


def test_a_flow_that_gets_what_its_way_leaves_is_spared(tmp_path: Path) -> None:
    told = victim.verdict(crowded(tmp_path / "run", 0.95, spec=DCQCN))
    assert (told.verdict, told.good) == (SPARED, True)
    assert "paused with its neighbours" in evidence(told)


def drops_at(port: str, drops: int) -> dict[str, Any]:
    return {port: {"peer": "h11", "hot": True, "qdiscs": [{"kind": "pfc", "drops": drops}]}}


@pytest.mark.parametrize(
    ("pfc", "port", "drops", "answer"),
    [
        ("off", "leaf1-eth1", 9, LOSES),
        ("off", "leaf1-eth1", 0, NOT_PROVEN),
        ("on", "leaf2-eth6", 9, LOSES),  # its own uplink
        ("on", "leaf1-eth1", 9, VICTIM),
    ],
)
def test_who_loses_packets_is_no_victim_of_pauses(tmp_path: Path, pfc: str, port: str, drops: int, answer: str) -> None:
    run = crowded(tmp_path / "run", 0.25, spec={"pfc": pfc}, ports=drops_at(port, drops))
    assert victim.verdict(run).verdict == answer


def test_neighbours_on_a_narrow_uplink_leave_the_rest(tmp_path: Path) -> None:
    """Of 60 Gb/s they need 40."""
    run = crowded(tmp_path / "run", 0.49, spec={**DCQCN, "uplink_rate": "60Gbps"})
    assert victim.row(run)["victim_share"] == pytest.approx(0.98, rel=0.02)
    assert victim.verdict(run).verdict == SPARED


def test_without_a_victim_or_a_fabric_nothing_is_proven(tmp_path: Path) -> None:
    run = long_run(tmp_path / "run", [flow("h6>h1", 0, MS)], {"h6>h1": [(1e9, 0, MS)]}, PFC, FABRIC)
    assert victim.verdict(run).verdict == NOT_PROVEN
    assert victim.headline(run) == "no victim's goodput is known"
    placeless = crowded(tmp_path / "placeless", 0.25)
    (placeless.path / "fabric.json").unlink()
    assert victim.verdict(Run(placeless.path)).verdict == NOT_PROVEN


TWELFTH = (
    "not reproduced: 8.3 % is measured; paused as one, the victim gets what each of its 4 neighbours does, 8.33 % here"
)


def test_a_run_that_broke_off_is_not_judged(tmp_path: Path) -> None:
    """What did not arrive where flows are judged may only not have been measured."""
    run = crowded(tmp_path / "run", 0, complete=False)
    assert victim.verdict(run).verdict == NOT_PROVEN
    assert "measured.json: the run was not completed" in victim.verdict(run).missing[1:]


def test_the_published_fall_stands_beside_ours(tmp_path: Path) -> None:
    run = crowded(tmp_path / "run", 0.25)
    crowded(run.path / "cases" / "one", 0.125, 1, {"label": "one"})
    crowded(run.path / "cases" / "two", 0.083, 2, {"label": "two"})
    crowded(run.path / "cases" / "cured", 0.95, 2, {**DCQCN, "label": "cured"})
    crowded(run.path / "cases" / "lossy", 0.9, 0, {"pfc": "off", "label": "lossy"})
    rows = victim.compared(Run(run.path))
    assert [(row.label, row.published, row.verdict) for row in rows] == [
        ("main", "25 %", REPRODUCED),
        ("cured", "cured", REPRODUCED),
        ("cured", "more than 97 %", REPRODUCED),
        ("two", "11.2 %", TWELFTH),
    ]
    assert (rows[0].modelled, rows[0].measured, rows[3].modelled) == ("25 %", "25 %", "8.33 %")


def test_a_victim_that_does_not_fall_is_said(tmp_path: Path) -> None:
    run = crowded(tmp_path / "run", 0.25)
    crowded(run.path / "cases" / "two", 0.2, 2, {"label": "two"})
    assert victim.compared(Run(run.path))[1].verdict.startswith("not reproduced: 20 % is measured; ")


def test_the_page_of_a_run_with_a_case(tmp_path: Path) -> None:
    run = crowded(tmp_path / "run", 0.25)
    crowded(run.path / "cases" / "cured", 0.95, 0, {**DCQCN, "label": "cured"})
    run = Run(run.path)
    drawn = draw_all(run)
    assert {figure.name for figure in drawn if figure.path} == {"fabric", "goodput", "cases", "gantt"}
    html = page(run, drawn)
    assert "4 neighbours send to another receiver: the flow beside them gets 9.86 Gb/s where its own way has" in html
    assert "3.8x the victim&#x27;s goodput" in html
