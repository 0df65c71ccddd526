"""Links and switches that die under steady streams: who goes round them, what is lost until then, and that all is as
before when they are back."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from tests.emulation.conftest import Inside

pytestmark = pytest.mark.lab

INTERVAL_NS = 10_000
REPAIR_LIMIT_NS = 50_000_000
# Open vSwitch looks at the flows that it has cached anew at most every 5 ms (revalidators, ofproto-dpif-upcall.c): a
# change of rules that follows another sooner is carried out late.
CACHE_NS = 5_000_000
# A datagram is sent this long before it is at the link that has died: a host's link and two more, and four switches.
ON_THE_WAY_NS = 20_000
STREAMS = {"workload": "streams", "interval": "10us", "duration": "10ms", "delay": "5us", "capture": "off"}
LEAF_SPINE = {**STREAMS, "topology": "leaf_spine", "leaves": 3, "hosts_per_leaf": 6, "spines": 2}
FAT_TREE = {**STREAMS, "topology": "fat_tree", "k": 4}
# Halfway between two datagrams.
LINK = "leaf1-spine1:down@2.005ms,leaf1-spine1:up@7.005ms"
SPINE = "spine1:down@2.005ms,spine1:up@7.005ms"
FLAPPING = ",".join(f"leaf1-spine1:{action}@{ms}.005ms" for ms, action in zip((1, 8, 9, 16), ("down", "up") * 2))

ROUND_BY_SWITCHES: dict[str, dict[str, Any]] = {
    "link": {**LEAF_SPINE, "failure": LINK},
    "link-d_mod_k": {**LEAF_SPINE, "failure": LINK, "routing": "d_mod_k"},
    "spine": {**LEAF_SPINE, "failure": SPINE},
    # An edge has two hosts: by a hash they might both take the other link.
    "fat_tree-edge": {**FAT_TREE, "failure": "edge1-agg1:down@2.005ms,edge1-agg1:up@7.005ms", "routing": "d_mod_k"},
    "fat_tree-core": {**FAT_TREE, "failure": "core1:down@2.005ms,core1:up@7.005ms"},
    "fat_tree-aggregation": {**FAT_TREE, "failure": "agg1:down@2.005ms,agg1:up@7.005ms"},
}


def events(told: Any, name: str) -> list[int]:
    """When the controller told of it, in ns after the streams' begin."""
    begin_ns = told["facts"]["streams"][0]["first_ns"]
    return [each["time_ns"] - begin_ns for each in told["facts"]["control_events"] if each["event"] == name]


def failures(told: Any, action: str) -> list[dict[str, Any]]:
    """What went "down" or came "up", with its time in ns after the streams' begin."""
    begin_ns = told["facts"]["streams"][0]["first_ns"]
    found = [each for each in told["facts"]["failures"] if each["action"] == action]
    return [{**each, "after_ns": each["time_ns"] - begin_ns} for each in found]


def lost(told: Any) -> dict[str, list[int]]:
    """Stream -> when its lost datagrams were sent, in ns after the begin; streams that lost none are left out."""
    return {
        each["flow"]: [number * INTERVAL_NS for number in each["lost"]]
        for each in told["facts"]["streams"]
        if each["lost"]
    }


def check_whole_again(told: Any) -> None:
    """Nothing came twice; in the end switches have the rules of the beginning, and what was down carries traffic."""
    assert [each["flow"] for each in told["facts"]["streams"] if each["duplicates"]] == []
    assert told["rules_as_before"]
    assert told["rules"] > 0
    sent, arrived = told["flows"]
    assert arrived == sent
    ports = {name for each in failures(told, "down") for name in each["in_flight"]}
    assert ports
    assert [name for name in ports if told["port_packets"][name] == 0] == []


def check_losses(told: Any) -> None:
    """Lost is what the dead ports held, and of each stream that took one at most the datagram that came in the fraction
    of an interval before the switches knew."""
    for down in failures(told, "down"):
        known = [each for each in events(told, "port_down") if 0 < each - down["after_ns"] < INTERVAL_NS / 10]
        assert len(known) == len(down["in_flight"]), "each end of each link"
    in_flight = sum(sum(each["in_flight"].values()) for each in failures(told, "down"))
    assert 0 < in_flight <= sum(map(len, lost(told).values())) <= in_flight + len(lost(told))


@pytest.mark.parametrize("name", ROUND_BY_SWITCHES)
def test_switches_go_round_what_is_dead_by_themselves(fabric_inside: Inside, name: str) -> None:
    told = fabric_inside("run", keys=ROUND_BY_SWITCHES[name])
    check_losses(told)
    check_whole_again(told)
    first = failures(told, "down")[0]
    holders = {name.partition("-")[0] for name, held in first["in_flight"].items() if held}
    assert len(holders) >= 2, "all streams were hashed to the other ways: take another seed"


def test_a_flapping_link_is_gone_round_each_time(fabric_inside: Inside) -> None:
    """Dead again a millisecond after it was alive: for a switch that has just looked at its flows that is soon."""
    told = fabric_inside("run", keys={**LEAF_SPINE, "failure": FLAPPING, "duration": "18ms"})
    begins_ns = [each["after_ns"] for each in failures(told, "down")]
    assert len(begins_ns) == 2
    assert lost(told)
    for times_ns in lost(told).values():
        for sent_ns in times_ns:
            assert any(begin - ON_THE_WAY_NS - INTERVAL_NS < sent_ns < begin + CACHE_NS for begin in begins_ns)
    check_whole_again(told)


@pytest.mark.parametrize("failure", [LINK, SPINE], ids=["link", "spine"])
def test_the_controller_alone_repairs(fabric_inside: Inside, failure: str) -> None:
    keys = {**LEAF_SPINE, "failure": failure, "fast_failover": "off", "control_latency": "2ms"}
    told = fabric_inside("run", keys=keys)
    (down,) = failures(told, "down")
    last_port_ns, repaired_ns = events(told, "port_down")[-1], events(told, "repaired")[0]
    assert down["after_ns"] < last_port_ns < repaired_ns
    assert 2_000_000 <= repaired_ns - last_port_ns < REPAIR_LIMIT_NS
    assert len(lost(told)) >= 2
    for times_ns in lost(told).values():
        assert times_ns == list(range(times_ns[0], times_ns[-1] + 1, INTERVAL_NS)), "it was lost in one piece"
        assert down["after_ns"] - ON_THE_WAY_NS - INTERVAL_NS < times_ns[0] < down["after_ns"] + INTERVAL_NS
        assert repaired_ns - ON_THE_WAY_NS - INTERVAL_NS < times_ns[-1] < repaired_ns + CACHE_NS
        assert times_ns[-1] < last_port_ns + REPAIR_LIMIT_NS
    check_whole_again(told)


def test_a_leaf_takes_its_hosts_along_and_gives_them_back(fabric_inside: Inside) -> None:
    told = fabric_inside("run", keys={**LEAF_SPINE, "failure": "leaf1:down@2.005ms,leaf1:up@6.005ms"})
    (down,), (up,) = failures(told, "down"), failures(told, "up")
    below = {f"h{number}" for number in range(1, 7)}
    expected = {each["flow"] for each in told["facts"]["streams"] if below & {each["sender"], each["receiver"]}}
    assert set(lost(told)) == expected
    for times_ns in lost(told).values():
        assert len(times_ns) >= (up["after_ns"] - down["after_ns"]) // INTERVAL_NS
    sent, arrived = told["flows"]
    assert arrived == sent


def test_the_only_link_comes_back(fabric_inside: Inside) -> None:
    """A dumbbell has no way round: its halves are apart until the link is there again."""
    failure = "left1-right1:down@2.005ms,left1-right1:up@4.005ms"
    told = fabric_inside("run", keys={**STREAMS, "topology": "dumbbell", "hosts": 4, "failure": failure})
    (up,) = failures(told, "up")
    assert len(lost(told)) == 4
    for times_ns in lost(told).values():
        assert up["after_ns"] - ON_THE_WAY_NS - INTERVAL_NS < times_ns[-1] < events(told, "repaired")[-1] + CACHE_NS
    check_whole_again(told)


@pytest.mark.parametrize("fast_failover", ["on", "off"])
def test_tcp_outlives_a_link(fabric_inside: Inside, fast_failover: str) -> None:
    """Transfers of 8 MiB over 10 Gb/s take 7 ms and longer; the link dies in the midst of them and stays dead."""
    keys = {**LEAF_SPINE, "workload": "permutation", "rate": "10Gbps", "bytes": "8MiB", "rounds": 1}
    for key in ("interval", "duration"):
        del keys[key]
    told = fabric_inside("run", keys={**keys, "failure": "leaf1-spine1:down@3ms", "fast_failover": fast_failover})
    (done,), (down,) = told["facts"]["rounds"], told["facts"]["failures"]
    assert done["start_ns"] < down["time_ns"] < done["end_ns"]
    assert sum(down["in_flight"].values()) > 0
    assert done["bytes"] == 18 * (8 << 20)
    assert [each["bytes"] for each in told["facts"]["transfers"]] == 18 * [8 << 20]
    assert all(each["end_ns"] > each["start_ns"] for each in told["facts"]["transfers"])
    assert [told["port_packets"][name] for name in down["in_flight"]] == [0, 0], "it is dead"
    assert not told["rules_as_before"]
    sent, arrived = told["flows"]
    assert arrived == sent


@pytest.mark.skipif(find_spec("os_ken") is None, reason="os-ken is not installed in this environment")
def test_the_same_controller_on_os_ken(fabric_inside: Inside) -> None:
    """Ryu's maintained fork runs it unchanged."""
    keys, env = ROUND_BY_SWITCHES["fat_tree-edge"], {"FABRICLAB_OPENFLOW_FRAMEWORK": "os_ken"}
    told = fabric_inside("run", env=env, keys=keys)
    assert told["framework"].startswith("os_ken ")
    check_losses(told)
    assert len(events(told, "repaired")) == 2
    check_whole_again(told)
