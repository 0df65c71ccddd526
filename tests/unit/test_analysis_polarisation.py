"""Random flows over links that lead up: the chi-square test against printed tables, the verdict on small fabrics."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds.chi_square import ChiSquare, pooled, survival, uniform
from analysis.kinds.polarisation import POLARISED, SPREAD, p_words, verdict
from analysis.kinds.spread import is_regular, tiers
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_kinds import datagrams, fabric_json, fabric_run, ports
from tests.unit.test_analysis_run import evidence
from topologies.units import BadRequest


@pytest.mark.parametrize(
    ("statistic", "df", "p_value"),
    [
        (6.635, 1, 0.01),
        (3.841, 1, 0.05),
        (9.210, 2, 0.01),
        (2.706, 1, 0.10),
        (23.209, 10, 0.01),
        (3.940, 10, 0.95),
        (124.342, 100, 0.05),
        (135.807, 100, 0.01),
        (77.929, 100, 0.95),
    ],
)
def test_the_tail_as_printed_in_tables(statistic: float, df: int, p_value: float) -> None:
    """Critical values of Abramowitz and Stegun, table 26.8."""
    assert survival(statistic, df) == pytest.approx(p_value, rel=2e-3)


def test_the_tail_where_it_has_a_closed_form() -> None:
    """exp(-x / 2) for two degrees of freedom, times (1 + x / 2) for four."""
    for statistic in (0.1, 1.0, 3.9, 4.1, 10.0, 100.0, 700.0):
        closed = 2.718281828459045 ** (-statistic / 2)
        assert survival(statistic, 2) == pytest.approx(closed, rel=1e-9)
        assert survival(statistic, 4) == pytest.approx(closed * (1 + statistic / 2), rel=1e-9)
    assert (survival(0, 5), survival(3, 0), survival(1e6, 96)) == (1.0, 1.0, 0.0)


def test_the_statistics_worked_by_hand() -> None:
    assert uniform([6, 4]) == ChiSquare(0.4, 1)
    assert uniform([0, 0, 9]) == ChiSquare(18, 2)
    assert pooled([[6, 4], [0, 0, 9], [0, 0], [5]]) == ChiSquare(18.4, 3)


def test_probabilities_in_words() -> None:
    assert [p_words(value) for value in (None, 0.4213, 3.14e-7, 0.0)] == ["—", "0.42", "3.1e-07", "< 1e-300"]


def same_hash(fabric: dict[str, Any], flows: int) -> dict[str, Any]:
    """Facts of flows in a fat-tree of k = 8 whose switches all take the uplink number hash mod 4: a flow that went
    up to the aggregation switch of number n goes on to that switch's core number n."""
    dice, counts = random.Random(1), dict.fromkeys(ports(fabric), 0)
    for _ in range(flows):
        pod, edge, choice = dice.randrange(8), dice.randrange(4), dice.randrange(4)
        counts[f"edge{4 * pod + edge + 1}-eth{5 + choice}"] += 1
        counts[f"agg{4 * pod + choice + 1}-eth{5 + choice}"] += 1
    return {"workload": "datagrams", "sent": flows, "received": flows, "port_packets": counts}


def run_of(path: Path, fabric: dict[str, Any], facts: dict[str, Any], **spec: Any) -> Run:
    return fabric_run(path, fabric, facts, {"flows": facts["sent"], "ecmp_seed": "per_switch", **spec})


def test_random_choices_are_spread_evenly(tmp_path: Path) -> None:
    fabric = fabric_json("fat_tree", k=8)
    run = run_of(tmp_path / "run", fabric, datagrams(fabric, 1000))
    summary = summarize(run)
    assert (summary["verdict"], summary["packets"], summary["packets_per_wall_s"]) == (SPREAD, 1000, 500.0)
    told = summary["polarisation"]
    assert [(tier["tier"], tier["links"], tier["df"], tier["datagrams"]) for tier in told["tiers"]] == [
        ("edge to agg", 128, 96, 1000),
        ("agg to core", 128, 96, 1000),
    ]
    assert told["overall"]["df"] == 127
    assert not told["overall"]["rejected"]
    assert sum(told["tiers"][1]["counts"].values()) == 1000


def test_one_hash_on_every_tier_polarises(tmp_path: Path) -> None:
    """Each aggregation switch uses one of its four links: a quarter of 128, and three degrees of freedom broken."""
    fabric = fabric_json("fat_tree", k=8)
    run = run_of(tmp_path / "run", fabric, same_hash(fabric, 1000), ecmp_seed="same")
    found = verdict(run)
    assert (found.verdict, found.good) == (POLARISED, False)
    low, high = tiers(run)
    assert (high.used, len(high.links)) == (32, 128)
    assert (high.within.statistic, high.within.df) == (pytest.approx(3 * 1000), 96)
    assert evidence(found) == {
        "datagrams delivered": True,
        "links used, edge to agg": True,
        "even within switches, edge to agg": True,
        "links used, agg to core": False,
        "even within switches, agg to core": False,
        "even over all links, agg to core": False,
    }
    assert low.within.p_value > 0.01


def test_lost_datagrams_leave_it_open(tmp_path: Path) -> None:
    fabric = fabric_json("fat_tree", k=8)
    run = run_of(tmp_path / "run", fabric, {**datagrams(fabric, 1000), "received": 999})
    found = verdict(run)
    assert (found.verdict, evidence(found)["datagrams delivered"]) == (NOT_PROVEN, False)


def test_too_few_flows_prove_nothing(tmp_path: Path) -> None:
    fabric = fabric_json("fat_tree", k=8)
    found = verdict(run_of(tmp_path / "run", fabric, datagrams(fabric, 600)))
    assert found.verdict == NOT_PROVEN
    assert "fewer than 5 datagrams for each of the 128 links, agg to core" in found.missing


def test_unequal_racks_are_tested_within_switches_alone(tmp_path: Path) -> None:
    """Ten hosts fill two leaves of four and half a third one; the fourth is empty."""
    fabric = fabric_json("leaf_spine", leaves=4, spines=4, hosts_per_leaf=4, hosts=10)
    run = run_of(tmp_path / "run", fabric, datagrams(fabric, 1000))
    assert not is_regular(run)
    assert summarize(run)["polarisation"]["overall"] is None
    assert evidence(verdict(run))["even over all links, leaf to spine"] is None
    assert evidence(verdict(run))["even within switches, leaf to spine"] is True


def test_without_a_choice_there_is_nothing_to_prove(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine", leaves=2, spines=1, hosts_per_leaf=2)
    assert verdict(run_of(tmp_path / "one", fabric, datagrams(fabric, 100))).verdict == NOT_PROVEN
    facts = {"workload": "datagrams", "sent": 100, "received": 100, "port_packets": {}}
    found = verdict(fabric_run(tmp_path / "star", None, facts))
    assert (found.verdict, found.missing) == (NOT_PROVEN, ("no switch is above another",))


def test_the_figure_and_the_page(tmp_path: Path) -> None:
    fabric = fabric_json("fat_tree", k=8)
    same = same_hash(fabric, 1000)
    run_of(tmp_path / "run" / "cases" / "same_seed", fabric, same, ecmp_seed="same", label="same_seed")
    run = run_of(tmp_path / "run", fabric, datagrams(fabric, 1000))
    figures = draw_all(run)
    assert [(figure.name, figure.path is not None) for figure in figures] == [("fabric", True), ("spread", True)]
    assert figures[1].title == "Links from agg to core in use: 128 of 128 (main), 32 of 128 (same_seed)"
    html = page(run, figures)
    told = "chance does not explain the counts (chi-square 3,000 for 96 degrees of freedom)"
    assert f"Beside it, same_seed: 1,000 random flows: 32 of 128 links from agg to core used; {told}" in html
    assert ">96 links fewer</td>" in html


def test_a_number_that_is_none_is_named(tmp_path: Path) -> None:
    facts = {**same_hash(fabric := fabric_json("fat_tree", k=8), 100), "received": "many"}
    with pytest.raises(BadRequest, match=r"key 'received' holds 'many'; allowed: a whole number"):
        verdict(run_of(tmp_path / "run", fabric, facts))
