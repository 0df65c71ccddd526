"""The traffic and the cases of the experiments on pauses and DCQCN, resolved."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.congestion_tree import way_back
from analysis.kinds.dcqcn_convergence import _HPCC_BASE_BPS, _HPCC_THRESHOLDS
from experiments import fabrics, limits
from experiments.catalog import find, plan
from experiments.lossless import needed_headroom_bytes
from experiments.pfc_unfairness import crowd, parking_lot
from experiments.spec import Spec, known
from topologies.rdma import MOST_UNACKED_PACKETS

MOST_IN_FLIGHT_BYTES = MOST_UNACKED_PACKETS * (4096 + 58)  # of a queue pair of soft-RoCE


def specs(name: str) -> dict[str, Spec]:
    asked = plan(find(name), {})
    return {label: limits.resolve(spec) for label, spec in (("main", asked.main), *asked.cases)}


def ways(spec: Spec) -> list[list[str]]:
    """Every flow's way, from the receiver's switch back to the sender."""
    document: dict[str, Any] = fabrics.document(spec)
    return [way_back(document, flow.receiver, flow.sender) for flow in known(spec.traffic)]


def test_hosts_begin_one_after_the_other() -> None:
    assert crowd(["h2", "h9"]) == "h2>h1@0us,h9>h1@37us"
    assert parking_lot(2) == "h2>h1@0us,h5>h1@37us,h6>h1@74us"


@pytest.mark.parametrize(("label", "sharing"), [("main", 3), ("sharing-2", 2), ("sharing-4", 4), ("dcqcn", 3)])
def test_one_flow_is_alone_behind_its_port(label: str, sharing: int) -> None:
    entries = [way[1] for way in ways(specs("pfc_unfairness")[label])]
    assert entries == ["h2", *["spine1"] * sharing]


@pytest.mark.parametrize("name", ["pfc_unfairness", "victim", "pause_storm", "deadlock"])
def test_a_flow_alone_can_be_paused(name: str) -> None:
    for spec in specs(name).values():
        assert spec.xoff_bytes is None or spec.xoff_bytes < MOST_IN_FLIGHT_BYTES


def test_the_victims_way_touches_neither_the_receiver_nor_the_senders_elsewhere() -> None:
    victim, *others = ways(specs("victim")["elsewhere-2"])[::-1]
    assert victim == ["leaf3", "spine1", "leaf2", "h10"]
    assert [way[2] for way in others] == ["leaf5", "leaf4", *["leaf2"] * 4]
    assert {way[0] for way in others} == {"leaf1"}


def test_before_the_storm_no_link_has_more_than_it_carries() -> None:
    spec = specs("pause_storm")["main"]
    hosts = [host for flow in known(spec.traffic) for host in (flow.sender, flow.receiver)]
    assert len(set(hosts)) == len(hosts)
    across = [way for way in ways(spec) if "spine1" in way]
    assert len(across) * spec.rate_bps <= known(spec.uplink_rate_bps)


def test_everyone_on_the_ring_sends_two_switches_on() -> None:
    spec = specs("deadlock")["main"]
    switch = {f"h{place + 1}": place // 2 for place in range(8)}
    assert {(switch[flow.receiver] - switch[flow.sender]) % 4 for flow in known(spec.traffic)} == {2}
    assert (spec.routing, specs("deadlock")["up_down"].routing) == ("clockwise", "up_down")


def test_headroom_is_a_share_of_the_formulas() -> None:
    found = specs("headroom")
    needed_bytes = needed_headroom_bytes(found["main"])
    assert found["main"].headroom_bytes == needed_bytes
    assert known(found["headroom-050"].headroom_bytes) == pytest.approx(needed_bytes / 2, abs=1)
    assert [label for label, spec in found.items() if known(spec.headroom_bytes) < needed_bytes] == [
        "headroom-025",
        "headroom-050",
        "headroom-075",
        "headroom-090",
    ]


def test_hpccs_thresholds_are_those_that_the_analysis_knows() -> None:
    for label, spec in specs("dcqcn_convergence").items():
        theirs = tuple(bound * spec.rate_bps // _HPCC_BASE_BPS for bound in _HPCC_THRESHOLDS)
        assert ((spec.kmin_bytes, spec.kmax_bytes) == theirs) == label.endswith("hpcc"), label


def test_marks_come_before_pauses_in_every_run_with_dcqcn() -> None:
    for name in ("pfc_unfairness", "victim", "pause_storm", "deadlock", "dcqcn_convergence", "control_latency"):
        for label, spec in specs(name).items():
            if spec.cc == "dcqcn" and spec.pfc == "on":
                assert known(spec.kmax_bytes) < known(spec.xoff_bytes), (name, label)
