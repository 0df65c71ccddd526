"""Which queues are watched for marking, and how long one need not be looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller import queue_watch
from controller.policy import CONTROLLER, Policy
from controller.queue_watch import WatchedPort, watched_ports
from topologies.describe import describe, ends
from topologies.leaf_spine import LeafSpine
from topologies.profiles import LinkProfile, Marking

SLOW, FAST = (LinkProfile(rate_bps, 1_000, 1500) for rate_bps in (10_000_000_000, 40_000_000_000))
CURVES = ((SLOW.rate_bps, Marking(30_280, 30_280, 1.0)), (FAST.rate_bps, Marking(5_000, 200_000, 0.01)))
PORT = WatchedPort("leaf1", 1, "leaf1-eth1", 5, 0x80000, 30_280, SLOW.rate_bps, 40_000_000_000, 3 * 1514)


def found_ports(topo: LeafSpine, can_be_held: bool = False) -> dict[str, WatchedPort]:
    """By interface; an interface's index is its place among all, from 10 on."""
    fabric, policy = describe(topo), Policy(marking=CONTROLLER, thresholds=CURVES)
    names = sorted(end.interface for wire in fabric.wires for end in ends(wire) if not end.node.startswith("h"))
    index = {name: number for number, name in enumerate(names, start=10)}
    ports = watched_ports(fabric, index, policy, 0x80000, 1500, can_be_held)
    return {each.interface: each for each in ports}


def test_every_port_that_can_be_filled_is_watched_by_its_own_threshold() -> None:
    """Three leaves with two hosts each: leaf1's port to h1 is filled by the one to h2 and by the uplink."""
    found = found_ports(LeafSpine(leaves=3, spines=1, hosts_per_leaf=2, link=SLOW, uplink=FAST))
    assert found["leaf1-eth1"] == WatchedPort(
        "leaf1", 1, "leaf1-eth1", 10, 0x80000, 30_280, 10_000_000_000, 40_000_000_000, 2 * 1514
    )
    assert found["spine1-eth2"] == WatchedPort(
        "spine1", 2, "spine1-eth2", 20, 0x80000, 5_000, 40_000_000_000, 40_000_000_000, 2 * 1514
    )


def test_a_port_that_cannot_be_filled_is_watched_only_where_it_can_be_held() -> None:
    """Two hosts of 10 Gb/s never fill an uplink of 40, nor two leaves' uplinks a spine's port of their rate."""
    topo = LeafSpine(leaves=2, spines=1, hosts_per_leaf=2, link=SLOW, uplink=FAST)
    hosts = {"leaf1-eth1", "leaf1-eth2", "leaf2-eth1", "leaf2-eth2"}
    trunks = {"leaf1-eth3", "leaf2-eth3", "spine1-eth1", "spine1-eth2"}
    assert found_ports(topo).keys() == hosts
    held = found_ports(topo, can_be_held=True)
    assert held.keys() == hosts | trunks
    assert (held["leaf1-eth3"].growth_bps, held["spine1-eth1"].growth_bps) == (20_000_000_000, 40_000_000_000)


@given(st.integers(0, 10_000_000))
def test_nobody_looks_away_for_longer_than_the_queue_needs_to_cross(queue_bytes: int) -> None:
    wait_ns = PORT.wait_ns(queue_bytes)
    assert wait_ns >= 1_000
    if wait_ns > 1_000 and queue_bytes <= PORT.threshold_bytes:
        assert queue_bytes + PORT.burst_bytes + PORT.growth_bps * wait_ns / 8e9 <= PORT.threshold_bytes
    elif wait_ns > 1_000:
        assert queue_bytes - PORT.burst_bytes - PORT.rate_bps * wait_ns / 8e9 >= PORT.threshold_bytes


def test_waits_by_hand() -> None:
    """An empty queue of 30,280 bytes less three frames fills by 40 Gb/s in 5.1 us; one that is 100 KB too long drains
    at 10 Gb/s in 76 us."""
    assert PORT.wait_ns(0) == (30_280 - 4_542) * 8 // 40
    assert PORT.wait_ns(130_280) == (100_000 - 4_542) * 8 // 10
    assert PORT.wait_ns(30_280) == PORT.wait_ns(30_281) == PORT.wait_ns(26_000) == 1_000


@given(st.integers(1_700_000_000 * 10**9, 1_800_000_000 * 10**9), st.integers(1_000, 10**9))
def test_the_next_look_is_in_the_second_half_of_the_wait(now_ns: int, wait_ns: int) -> None:
    assert now_ns + wait_ns / 2 <= queue_watch._common(now_ns, wait_ns) <= now_ns + wait_ns


def test_ports_with_the_like_waits_are_looked_at_together() -> None:
    begin_ns = 1_700_000_000 * 10**9
    looks = {queue_watch._common(begin_ns + late_ns, 5_000) for late_ns in range(0, 1_000, 100)}
    assert len(looks) <= 2
