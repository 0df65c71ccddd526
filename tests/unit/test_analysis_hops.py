"""Pings between all hosts of small fabrics, their delays worked by hand."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.cost_model import store_and_forward_ns
from analysis.kinds.hops import AS_LAID_OUT, OTHERWISE, claims, headline, verdict
from analysis.kinds.ways import shortest_ways
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_kinds import fabric_json, fabric_run
from tests.unit.test_analysis_run import evidence

HOST_NS, UPLINK_NS = 78 * 8 / 400, 78 * 8 / 100  # 14 B and 64 B at 400 and at 100 Gb/s
# Links of 1 us, switches of 500 ns.
DELAYS_NS = {
    2: 2 * 1000 + 500 + 2 * HOST_NS,
    4: 4 * 1000 + 3 * 500 + 2 * HOST_NS + 2 * UPLINK_NS,
    6: 6 * 1000 + 5 * 500 + 2 * HOST_NS + 4 * UPLINK_NS,
}


def pings(fabric: dict[str, Any]) -> list[dict[str, Any]]:
    """A probe of every ordered pair, over the fewest links, in modelled time to the nanosecond."""
    return [
        {
            "sender": sender,
            "receiver": receiver,
            "ttl": 65 - way.links,
            "switches": way.links - 1,
            "delay_ns": round(DELAYS_NS[way.links]),
        }
        for (sender, receiver), way in shortest_ways(fabric).items()
    ]


def run_of(path: Path, fabric: dict[str, Any], probes: list[dict[str, Any]], **spec: Any) -> Run:
    return fabric_run(path, fabric, {"workload": "pings", "probes": probes}, spec)


def test_the_ways_of_a_fat_tree() -> None:
    """k = 4: h1, h2 under edge1, h3, h4 under edge2 of the same pod, h5 in the next."""
    ways = shortest_ways(fabric_json("fat_tree", k=4))
    assert len(ways) == 16 * 15
    assert [ways["h1", other].links for other in ("h2", "h3", "h4", "h5", "h16")] == [2, 4, 4, 6, 6]
    assert ways["h1", "h5"].rates_bps == (4 * 10**11, *[10**11] * 4, 4 * 10**11)
    for other, links in (("h2", 2), ("h3", 4), ("h5", 6)):
        assert ways["h1", other].delay_ns(78, 500) == pytest.approx(DELAYS_NS[links])


def test_no_way_leads_through_a_host() -> None:
    """Two servers of eight GPUs, each GPU number on its own leaf: h1 and h9 share leaf1, h1 and h2 an NVSwitch."""
    ways = shortest_ways(fabric_json("gpu_pod", servers=2, spines=1))
    assert ways["h1", "h2"].rates_bps == (3600 * 10**9,) * 2
    assert ways["h1", "h9"].rates_bps == (400 * 10**9,) * 2
    assert ways["h1", "h10"].links == 4


def test_gpus_of_a_server_take_its_nvswitch_even_where_they_share_a_leaf() -> None:
    ways = shortest_ways(fabric_json("gpu_pod", servers=2, leaves=1, spines=1, rails=False))
    assert ways["h1", "h2"].rates_bps == (3600 * 10**9,) * 2
    assert ways["h1", "h9"].rates_bps == (400 * 10**9,) * 2


def test_the_cost_model_has_the_same_delays() -> None:
    for links, delay_ns in DELAYS_NS.items():
        modelled_ns = store_and_forward_ns(78, links, 4 * 10**11, 10**11, 1000, 500)
        assert modelled_ns == pytest.approx(delay_ns)


def test_a_fat_tree_as_laid_out(tmp_path: Path) -> None:
    fabric = fabric_json("fat_tree", k=4)
    run = run_of(tmp_path / "run", fabric, pings(fabric))
    summary = summarize(run)
    assert summary["verdict"] == AS_LAID_OUT
    hops = summary["hops"]
    assert (hops["pairs"], hops["unreached"], hops["spread_ns"]) == (240, 0, 0)
    assert hops["by_links"] == {
        "2": {"pairs": 16, "delay_min_ns": 2503, "delay_max_ns": 2503},
        "4": {"pairs": 32, "delay_min_ns": 5516, "delay_max_ns": 5516},
        "6": {"pairs": 192, "delay_min_ns": 8528, "delay_max_ns": 8528},
    }
    # Links and switches: a frame alone is sent in no time.
    assert hops["modelled_delay_ns"] == {"2": 2500.0, "4": 5500.0, "6": 8500.0}
    assert hops["per_hop_ns"] == pytest.approx((5516 - 2503) / 2)
    assert headline(run) == "240 pairs of hosts are 2, 4 or 6 links apart: 2.5 µs, 5.52 µs, 8.53 µs one way"


def test_the_latency_of_the_lecture_decides_nothing(tmp_path: Path) -> None:
    """1.5 us from switch to switch is not 400 to 600 ns, and the fabric is as laid out all the same."""
    fabric = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=2)
    found = verdict(run_of(tmp_path / "run", fabric, pings(fabric)))
    assert (found.verdict, found.good) == (AS_LAID_OUT, True)
    held = evidence(found)
    assert held.pop("switch-to-switch latency") is False
    assert set(held.values()) == {True}


def test_a_detour_is_not_as_laid_out(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=2)
    probes = pings(fabric)
    probes[0].update({"switches": 3, "delay_ns": round(DELAYS_NS[4])})  # h1 to h2, under one leaf
    found = verdict(run_of(tmp_path / "run", fabric, probes))
    assert (found.verdict, found.good, evidence(found)["over the fewest links"]) == (OTHERWISE, False, False)
    assert "h1 to h2 took 4" in next(piece.tolerance for piece in found.evidence if piece.name.startswith("over"))


@pytest.mark.parametrize(
    ("late_ns", "failing"),
    [
        (1, {"equal ways, equal delay"}),
        (60, {"equal ways, equal delay", "delay over 4 links (under different leaves)"}),
    ],
)
def test_a_late_probe_is_not_as_laid_out(tmp_path: Path, late_ns: int, failing: set[str]) -> None:
    """1 % of 5.5 us is 55 ns."""
    fabric = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=2)
    probes = pings(fabric)
    probes[1]["delay_ns"] += late_ns
    held = evidence(verdict(run_of(tmp_path / "run", fabric, probes)))
    assert {name for name, holds in held.items() if holds is False} == failing | {"switch-to-switch latency"}


def test_an_unreached_pair_is_not_as_laid_out(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=2)
    probes = pings(fabric)
    probes[0].update({"ttl": None, "switches": None, "delay_ns": None})
    run = run_of(tmp_path / "run", fabric, probes)
    assert summarize(run)["hops"]["unreached"] == 1
    assert (verdict(run).verdict, evidence(verdict(run))["pairs reached"]) == (OTHERWISE, False)
    assert headline(run).endswith("; 1 pair unreached")


def test_a_real_clock_proves_no_delay(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine")
    assert verdict(run_of(tmp_path / "run", fabric, pings(fabric), clock="real")).verdict == NOT_PROVEN


def test_without_a_fabric_the_links_are_told_but_not_judged(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine")
    run = run_of(tmp_path / "run", fabric, pings(fabric))
    (run.path / "fabric.json").unlink()
    again = Run(run.path)
    assert list(summarize(again)["hops"]["by_links"]) == ["2", "4"]
    assert summarize(again)["hops"]["modelled_delay_ns"]["4"] == 5500.0
    assert verdict(again).verdict == NOT_PROVEN


@pytest.mark.parametrize(
    ("shorter_ns", "answer"),
    [
        (0, "reproduced if the cable's propagation of 1 µs is left out"),
        (1000, "reproduced"),
        (300, "not reproduced"),
    ],
)
def test_the_lectures_latency(tmp_path: Path, shorter_ns: int, answer: str) -> None:
    """Two more links and switches take 2 (1000 + 500 + 6.24) ns, here each less by so much."""
    fabric = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=2)
    probes = pings(fabric)
    for probe in probes:
        probe["delay_ns"] -= shorter_ns * (probe["switches"] - 1)
    hops, latency = claims(run_of(tmp_path / "run", fabric, probes))
    assert (hops[4], hops[5]) == ("2", "reproduced")
    assert latency[5] == answer


def test_unequal_delays_break_the_lectures_claim(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=2)
    probes = pings(fabric)
    probes[1]["delay_ns"] += 7
    assert claims(run_of(tmp_path / "run", fabric, probes))[1][5] == "not reproduced: delays differ by 7 ns"


def test_the_figures_and_the_page(tmp_path: Path) -> None:
    fabric = fabric_json("fat_tree", k=4)
    other = fabric_json("leaf_spine", leaves=4, spines=2, hosts_per_leaf=2)
    run_of(tmp_path / "run" / "cases" / "leaf_spine", other, pings(other), label="leaf_spine")
    run = run_of(tmp_path / "run", fabric, pings(fabric))
    figures = draw_all(run)
    assert [(figure.name, figure.path is not None) for figure in figures] == [
        ("fabric", True),
        ("links", True),
        ("delays", True),
    ]
    assert figures[1].title == "240 pairs of hosts: each over the fewest links there are"
    assert (
        figures[2].title
        == "One way takes 2.5 µs over 2, 5.52 µs over 4, 8.53 µs over 6 links; equal ways differ by 0 ns"
    )
    html = page(run, figures)
    assert "Beside it, leaf_spine: 56 pairs of hosts are 2 or 4 links apart" in html
    assert ">exactly 2</td>" in html
    assert ">longest way 0.647x</td>" in html


def test_every_ordered_pair_has_a_way() -> None:
    hosts = [f"h{number}" for number in range(1, 5)]
    assert set(shortest_ways(fabric_json("leaf_spine"))) == set(permutations(hosts, 2))
