"""Hosts that all send at once: their rates against what a fabric's links allow, worked by hand."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.fabric import Fabric
from analysis.kinds import bisection
from analysis.kinds.bisection import ALLOWED, FULL, claims, verdict
from analysis.kinds.capacity import Collisions, bisection_bps, collisions, host_rates
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_kinds import fabric_run
from tests.unit.test_analysis_run import evidence
from topologies.describe import describe
from topologies.dumbbell import Dumbbell
from topologies.fat_tree import FatTree
from topologies.gpu_pod import GpuPod
from topologies.leaf_spine import LeafSpine
from topologies.profiles import LinkProfile
from topologies.star import Star
from topologies.units import BadRequest
from workloads import patterns

G = 10**9
BYTES = 8948 * 1000  # 1,000 full segments of an MTU of 9000
WIRE_BITS = 1000 * 9014 * 8


def link(rate_bps: int) -> LinkProfile:
    return LinkProfile(rate_bps=rate_bps, delay_ns=1000, mtu_bytes=9000)


def document(kind: str, topo: Any) -> dict[str, Any]:
    return {"format": 1, "topology": kind, **describe(topo).as_json()}


def leaf_spine(uplink_bps: int = 400 * G, hosts: int | None = None) -> dict[str, Any]:
    layout = {"leaves": 4, "spines": 4, "hosts_per_leaf": 4, "hosts": hosts}
    return document("leaf_spine", LeafSpine(**layout, link=link(400 * G), uplink=link(uplink_bps)))


def names(fabric: dict[str, Any]) -> list[str]:
    return [host["name"] for host in fabric["hosts"]]


def facts(pairs: list[tuple[str, str]], rates: dict[str, float], rounds: int = 1) -> dict[str, Any]:
    """Each receiver's transfers take as long as its rate (of 400 Gb/s) makes them, all of a receiver at once."""
    incoming = {host: sum(receiver == host for _, receiver in pairs) for _, host in pairs}
    transfers, ends = [], [0] * rounds
    for number in range(rounds):
        start_ns = T0_NS + number * 10**9
        for sender, receiver in pairs:
            end_ns = start_ns + round(incoming[receiver] * WIRE_BITS / (rates.get(receiver, 0.97) * 400))
            flow = {"flow": f"{sender}>{receiver}", "round": number, "bytes": BYTES}
            transfers.append({**flow, "start_ns": start_ns, "end_ns": end_ns})
            ends[number] = max(ends[number], end_ns)
    return {
        "flows": [
            {"flow": f"{sender}>{receiver}", "sender": sender, "source": "10.0.1.1:1", "destination": "10.0.2.1:2"}
            for sender, receiver in pairs
        ],
        "transfers": transfers,
        "rounds": [
            {"start_ns": T0_NS + number * 10**9, "end_ns": end_ns, "bytes": BYTES * len(pairs)}
            for number, end_ns in enumerate(ends)
        ],
    }


def run_of(
    path: Path, fabric: dict[str, Any] | None, workload: str = "permutation", rates: dict[str, float] | None = None,
    hosts: list[str] | None = None, rounds: int = 1, measured: dict[str, Any] | None = None, **spec: Any,
) -> Run:  # fmt: skip
    hosts = names(fabric) if fabric else hosts or []
    pairs = patterns.permutation(hosts) if workload == "permutation" else patterns.all_to_all(hosts)
    told = {"workload": workload, **facts(pairs, rates or {}, rounds), **(measured or {})}
    asked = {"mtu": "9000B", "routing": "d_mod_k", "oversubscription": "1:1", "uplink_rate": "400Gbps", **spec}
    return fabric_run(path, fabric, told, asked)


def best_shares(run: Run) -> set[Fraction]:
    """The best possible rates as shares of 400 Gb/s, each as a simple fraction."""
    return {Fraction((each.best_bps or 0) / (400 * G)).limit_denominator(1000) for each in host_rates(run)}


def test_a_hosts_rate_counts_headers_over_its_own_time(tmp_path: Path) -> None:
    """1,000 segments of 8,948 B in frames of 9,014 B within 400 us: 180.28 Gb/s."""
    run = run_of(tmp_path / "run", leaf_spine(), rates={"h9": 180.28 / 400}, rounds=3)
    slowest = host_rates(run)[0]
    assert (slowest.host, slowest.rate_bps) == ("h9", pytest.approx(180.28e9, rel=1e-5))


def test_many_transfers_at_once_make_one_rate(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", leaf_spine(), "all_to_all")
    assert [each.rate_bps for each in host_rates(run)] == [pytest.approx(0.97 * 400e9, rel=1e-4)] * 16


def test_a_non_blocking_fabric_allows_the_line_rate(tmp_path: Path) -> None:
    for workload in ("permutation", "all_to_all"):
        assert best_shares(run_of(tmp_path / workload, leaf_spine(), workload)) == {Fraction(1)}
    fat_tree = document("fat_tree", FatTree(k=4, link=link(400 * G), uplink=link(400 * G)))
    assert best_shares(run_of(tmp_path / "fat_tree", fat_tree)) == {Fraction(1)}
    star = document("star", Star(hosts=4, link=link(400 * G)))
    assert best_shares(run_of(tmp_path / "star", star)) == {Fraction(1)}


def test_oversubscription_halves_what_crosses_the_uplinks(tmp_path: Path) -> None:
    """2:1; of an all-to-all 12 of 15 transfers leave the rack, so that a host gets 1 / (2 x 12/15) = 5/8."""
    assert best_shares(run_of(tmp_path / "permutation", leaf_spine(200 * G))) == {Fraction(1, 2)}
    assert best_shares(run_of(tmp_path / "all_to_all", leaf_spine(200 * G), "all_to_all")) == {Fraction(5, 8)}


def test_a_slow_core_limits_what_leaves_a_pod(tmp_path: Path) -> None:
    """Edges to aggregation at full rate, cores at a quarter: what leaves the pod gets a quarter."""
    fabric = document("fat_tree", FatTree(k=4, link=link(400 * G), uplink=link(400 * G)))
    for wire in fabric["wires"]:
        wire["rate_bps"] //= 4 if wire["b"].startswith("core") else 1
    assert best_shares(run_of(tmp_path / "run", fabric)) == {Fraction(1, 4)}


def test_racks_that_are_not_full_share_their_uplinks_among_fewer(tmp_path: Path) -> None:
    """Three hosts on leaf3 have the uplinks of four, and are sent to by three hosts alone."""
    run = run_of(tmp_path / "run", leaf_spine(200 * G, hosts=10), hosts=None)
    best = {each.host: round((each.best_bps or 0) / (400 * G), 3) for each in host_rates(run)}
    assert best["h10"] == 0.5  # from h5, under the full leaf2
    assert len(best) == 10


def test_a_dumbbell_is_limited_by_its_middle(tmp_path: Path) -> None:
    fabric = document("dumbbell", Dumbbell(hosts=4, link=link(400 * G), uplink=link(400 * G)))
    assert best_shares(run_of(tmp_path / "run", fabric)) == {Fraction(1, 2)}
    assert bisection_bps(Fabric.of(fabric)) == 400 * G


def test_gpus_of_a_server_use_their_nvswitch(tmp_path: Path) -> None:
    topo = GpuPod(servers=2, spines=2, link=link(400 * G), uplink=link(400 * G), nvlink=link(3600 * G))
    run = run_of(tmp_path / "run", document("gpu_pod", topo), "all_to_all")
    assert best_shares(run) == {Fraction(15, 8)}  # 8 of 15 transfers come through the NIC


def test_a_fabric_on_which_it_cannot_have_run_is_refused(tmp_path: Path) -> None:
    fabric = leaf_spine()
    run = run_of(tmp_path / "run", fabric)
    (run.path / "fabric.json").write_text(json.dumps({**fabric, "wires": fabric["wires"][1:]}))
    with pytest.raises(BadRequest, match=r"fabric.json: no link"):
        host_rates(Run(run.path))


@pytest.mark.parametrize(("uplink_bps", "bisection_gbps"), [(400 * G, 3200), (200 * G, 1600), (100 * G, 800)])
def test_bisection_bandwidth_is_half_the_hosts_over_the_oversubscription(uplink_bps: int, bisection_gbps: int) -> None:
    assert bisection_bps(Fabric.of(leaf_spine(uplink_bps))) == bisection_gbps * G


def test_every_host_at_line_rate_is_full_bisection(tmp_path: Path) -> None:
    told = verdict(run_of(tmp_path / "run", leaf_spine()))
    assert (told.verdict, told.good) == (FULL, True)
    assert all(piece.holds for piece in told.evidence)


def test_one_slow_host_makes_it_not_full(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", leaf_spine(), rates={"h3": 0.33})
    told = verdict(run)
    assert (told.verdict, told.good) == ("not full: worst host 33 %", False)
    assert evidence(told) == {
        "transfers finished": True,
        "worst host, h3": False,
        "median host": True,
        "all hosts together": False,
        "CPU kept up": True,
    }
    assert claims(run)[0][-3:] == [
        "1:1, good",
        "3.03:1, between good and poor",
        "worse than its links allow",
    ]


def test_the_claims_tell_collisions_from_what_else_makes_hosts_slow(tmp_path: Path) -> None:
    def told(name: str, flows: list[int]) -> str:
        links = {f"leaf{number}-eth5": count for number, count in enumerate(flows, start=1)}
        links.update({f"leaf{number}-eth6": 2 for number in range(1, 5)})
        facts = {"link_flows": links}
        return claims(run_of(tmp_path / name, leaf_spine(), rates={"h3": 0.33}, measured=facts))[0][-1]

    assert told("crowded", [4, 2, 2, 2]) == "worse than its links allow: 4 flows share an uplink where 3 would be even"
    even = "worse than its links allow, though not for the choice of paths: uplinks carry even numbers of flows"
    assert told("even", [2, 2, 2, 2]) == even


def test_all_that_oversubscribed_uplinks_allow_is_not_called_full(tmp_path: Path) -> None:
    rates = dict.fromkeys(names(leaf_spine()), 0.49)
    run = run_of(tmp_path / "run", leaf_spine(200 * G), rates=rates, oversubscription="2:1")
    assert (verdict(run).verdict, verdict(run).good) == (ALLOWED, None)
    worse = run_of(tmp_path / "worse", leaf_spine(200 * G), rates={**rates, "h1": 0.25}, oversubscription="2:1")
    assert verdict(worse).verdict == "worst host 50 % of possible"


def test_the_lectures_classes(tmp_path: Path) -> None:
    for uplink_bps, word in ((400 * G, "good"), (100 * G, "between good and poor"), (50 * G, "poor")):
        run = run_of(tmp_path / str(uplink_bps), leaf_spine(uplink_bps))
        assert claims(run)[0][3].endswith(word)


def test_what_lacks_proves_nothing(tmp_path: Path) -> None:
    hosts = names(leaf_spine())
    assert verdict(run_of(tmp_path / "fabric", None, hosts=hosts)).verdict == NOT_PROVEN
    stopped = {"complete": False, "transfers": [], "flows": [], "rounds": []}
    interrupted = run_of(tmp_path / "stopped", leaf_spine(), measured=stopped)
    assert verdict(interrupted).verdict == NOT_PROVEN
    assert bisection.headline(interrupted) == "no transfer was finished"
    assert [figure.path for figure in bisection.figures(interrupted)] == [None] * 6
    slow = run_of(tmp_path / "real", leaf_spine(), rates={"h3": 0.33}, clock="real")
    assert verdict(slow).verdict == NOT_PROVEN
    assert verdict(run_of(tmp_path / "fast", leaf_spine(), clock="real")).verdict == FULL


UPLINKS = [f"leaf{leaf}-eth{port}" for leaf in range(1, 5) for port in range(5, 9)]


def test_collisions_beside_balls_into_bins() -> None:
    """One switch, two flows, two uplinks: both on one in half of all cases."""
    crowded = Collisions({"leaf1-eth5": 2, "leaf1-eth6": 0}, {"leaf1-eth5": 1, "leaf1-eth6": 1})
    assert (crowded.most, crowded.fair, crowded.measured) == (2, 1, {0: 1, 2: 1})
    assert crowded.expected == {0: pytest.approx(0.5), 1: pytest.approx(1), 2: pytest.approx(0.5)}


def test_expected_links_add_up_over_switches_of_different_traffic() -> None:
    links = {**dict.fromkeys(UPLINKS, 1), **{"edge1-eth3": 0, "edge1-eth4": 0, "edge2-eth3": 9}}
    expected = Collisions(links, dict.fromkeys(links, 1)).expected
    assert sum(expected.values()) == pytest.approx(len(links))
    assert sum(flows * number for flows, number in expected.items()) == pytest.approx(16 + 9)
    assert expected[9] == pytest.approx(1)


def test_crowded_uplinks_are_evidence(tmp_path: Path) -> None:
    flows = {name: 2 if name == "leaf1-eth5" else 0 if name == "leaf1-eth6" else 1 for name in UPLINKS}
    run = run_of(tmp_path / "run", leaf_spine(), rates={"h3": 0.49}, measured={"link_flows": flows}, routing="ecmp")
    piece = verdict(run).evidence[-1]
    assert (piece.modelled, piece.measured, piece.holds) == (1, 2, False)
    assert bisection.row(run)["most_flows"] == 2
    assert collisions(run_of(tmp_path / "none", leaf_spine(), measured={"link_flows": {}})) is None


def test_the_summary_is_json_and_names_every_host(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", leaf_spine(), measured={"link_flows": dict.fromkeys(UPLINKS, 1)})
    told = json.loads(json.dumps(summarize(run)))["bisection"]
    assert list(told["hosts"]) == [f"h{number}" for number in range(1, 17)]
    assert told["theoretical_bps"] == 3200 * G
    assert told["worst_share"] == pytest.approx(0.97, rel=1e-4)
    assert told["links_by_flows"] == {"1": 16}


def test_a_run_with_cases_is_compared_in_figures_and_words(tmp_path: Path) -> None:
    flows = dict.fromkeys(UPLINKS, 1)
    run = run_of(tmp_path / "run", leaf_spine(), measured={"link_flows": flows})
    crowded = {"link_flows": {**flows, "leaf1-eth5": 2, "leaf1-eth6": 0}}
    run_of(
        run.path / "cases" / "ecmp", leaf_spine(), rates={"h3": 0.48}, measured=crowded, routing="ecmp", label="ecmp"
    )
    assert bisection.beside(run) == "The worst host's share of its line rate in the cases: ecmp 48 %."
    drawn = {figure.name: figure for figure in bisection.figures(run)}
    assert drawn.pop("heat").reason == "measured.json has no bytes of ports"
    assert all(figure.path and figure.path.stat().st_size > 10_000 for figure in drawn.values())
    assert drawn["hosts"].title == "16 hosts receive 97 % of their line rate"
    assert drawn["bisection"].title == "The worst host gets 97 % of what is possible with main, 48 % with ecmp"
    rows = [bisection.row(each) for each in (run, *run.cases.values())]
    assert bisection.against(rows[0], rows[1]) == "worst 0.495x"
    page = bisection.sections(run)
    assert "worse than its links allow" in page
    assert "The slowest hosts" in page


def test_a_switch_that_others_crowd_makes_nothing_even() -> None:
    """Each rack has put both of its flows on its first uplink, so that agg1 has all four for its two uplinks."""
    racks = {"edge1-eth3": 2, "edge1-eth4": 0, "edge2-eth3": 2, "edge2-eth4": 0}
    above = {"agg1-eth3": 2, "agg1-eth4": 2, "agg2-eth3": 0, "agg2-eth4": 0}
    crowded = Collisions({**racks, **above}, {**dict.fromkeys(racks, 1), **dict.fromkeys(above, 2)})
    assert (crowded.most, crowded.fair) == (2, 1)
    unequal_racks = {"edge1-eth3": 2, "edge1-eth4": 2, "edge2-eth3": 0, "edge2-eth4": 0}
    assert Collisions(unequal_racks, dict.fromkeys(unequal_racks, 1)).fair == 2
