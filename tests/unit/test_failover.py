"""What fabrics do about dead links and switches before and after the controller has repaired them (see walk)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mininet.topo import Topo

from controller.failover import IN_PORT, Bucket, Group, bounce, bounce_back, next_in_ring, select
from controller.policy import D_MOD_K, ECMP
from controller.routing import Network, Port
from controller.rules import Rules
from controller.state import FabricState
from tests.unit.walk import (
    Walk,
    Walker,
    graph,
    leads_up_and_down,
    links,
    links_of,
    planned,
    rack_pairs,
    single_failures,
)
from topologies.fat_tree import FatTree
from topologies.gpu_pod import GpuPod
from topologies.leaf_spine import LeafSpine

SENT_TTL = 64
FABRICS: dict[str, Callable[[], Topo]] = {
    "leaf_spine 2 x 2": lambda: LeafSpine(leaves=2, spines=2, hosts_per_leaf=2),
    "leaf_spine 3 x 2": lambda: LeafSpine(leaves=3, spines=2, hosts_per_leaf=2),
    "leaf_spine 4 x 3": lambda: LeafSpine(leaves=4, spines=3, hosts_per_leaf=3),
    "leaf_spine 3 x 4": lambda: LeafSpine(leaves=3, spines=4, hosts_per_leaf=4),
    "gpu_pod": lambda: GpuPod(servers=2, spines=2),
    "fat_tree 4": lambda: FatTree(k=4),
}
LARGE: dict[str, Callable[[], Topo]] = {**FABRICS, "fat_tree 6": lambda: FatTree(k=6)}
fabrics = st.sampled_from(sorted(FABRICS))
routings = st.sampled_from([ECMP, D_MOD_K])


def new_state(name: str, **policy: object) -> FabricState:
    return planned(LARGE[name](), **policy)


@cache
def intact(name: str, routing: str) -> Walker:
    state = new_state(name, routing=routing)
    return Walker(state.network, state.wanted)


def broken(data: st.DataObject, network: Network, most: int, least: int = 0) -> frozenset[Port]:
    """Both ports of some links. Half the time they lie close together: in a fat-tree of 4, in one pod."""
    near = [link for link in links(network) if {name for name, _ in link} & {"edge1", "edge2", "agg1", "agg2"}]
    some = data.draw(st.sampled_from([links(network), near or links(network)]))
    chosen = data.draw(st.lists(st.sampled_from(some), min_size=least, max_size=most, unique=True))
    return frozenset().union(*chosen)


def hear(state: FabricState, dead: Iterable[Port], alive: bool = False) -> None:
    """The controller hears of ports, and decides."""
    for port in sorted(dead):
        state.port_is(port, alive)
    state.decide()


# --- groups


def test_groups() -> None:
    assert select((3, 4), 9, watched=True) == Group("select", (Bucket(3, 3), Bucket(4, 4)), 9)
    assert select((3, 4), 9, watched=False) == Group("select", (Bucket(3, None), Bucket(4, None)), 9)
    assert bounce(1, 2) == Group("failover", (Bucket(1, 1), Bucket(2, 2)))
    assert bounce_back(1, 2) == Group("failover", (Bucket(1, 1), Bucket(IN_PORT, 2)))


@given(st.lists(st.integers(1, 64), min_size=2, max_size=16, unique=True))
def test_the_ring_passes_every_port_once(ring: list[int]) -> None:
    port, passed = ring[0], []
    for _ in ring:
        following = next_in_ring(port, ring)
        assert following is not None and following != port
        passed.append(port := following)
    assert sorted(passed) == sorted(ring)


def test_who_is_alone_has_nobody_to_go_round_by() -> None:
    assert next_in_ring(7, (7,)) is None


# --- before the repair: the rules of the intact fabric


@pytest.mark.parametrize("routing", [ECMP, D_MOD_K])
@pytest.mark.parametrize("name", LARGE)
def test_any_one_failure_is_gone_round_whatever_the_hash(name: str, routing: str) -> None:
    """Each link and each switch but the racks, one at a time; of a fabric too large for all, those by one switch."""
    walker = intact(name, routing)
    network = walker.network
    pairs = rack_pairs(network)
    failures = list(single_failures(network))
    if name == "fat_tree 6":
        pod = {f"{kind}{number}" for kind in ("edge", "agg") for number in (1, 2, 3)}
        failures = [dead for dead in failures if any(switch == "agg1" for switch, _ in dead)]
        pairs = [(sender, receiver) for sender, receiver in pairs if network.homes[receiver][0] in pod]
    detours = 0
    for dead in failures:
        walker.dies(dead)
        for sender, receiver in pairs:
            for walk in walker.ways(sender, receiver):
                assert (walk.end, walk.host) == ("delivered", receiver), (sorted(dead), walk)
                assert max(walk.switches.count(switch) for switch in walk.switches) <= 2, (sorted(dead), walk)
                assert len(walk.switches) < SENT_TTL
                detours += len(walk.switches) > 5
    walker.dies(())
    assert detours or "fat_tree" not in name


@pytest.mark.parametrize("routing", [ECMP, D_MOD_K])
@pytest.mark.parametrize("name", FABRICS)
def test_the_death_of_a_rack_is_no_matter_for_the_others(name: str, routing: str) -> None:
    walker = intact(name, routing)
    for rack in {rack for rack, _ in walker.network.homes.values()}:
        walker.dies(links_of(walker.network, rack))
        for pair in rack_pairs(walker.network):
            if rack not in {walker.network.homes[host][0] for host in pair}:
                assert {walk.host for walk in walker.ways(*pair)} == {pair[1]}
    walker.dies(())


def test_a_detour_by_hand() -> None:
    """The link down to leaf2 is dead: its spine bounces to the next leaf, which sends up to the other spine."""
    state = new_state("leaf_spine 3 x 2")
    walker = Walker(state.network, state.wanted, {("spine1", 2), ("leaf2", 3)})
    assert {walk.switches for walk in walker.ways("h1", "h4")} == {
        ("leaf1", "spine2", "leaf2"),
        ("leaf1", "spine1", "leaf3", "spine2", "leaf2"),
    }
    assert {walk.switches for walk in walker.ways("h6", "h4")} == {
        ("leaf3", "spine2", "leaf2"),
        ("leaf3", "spine1", "leaf3", "spine2", "leaf2"),
    }
    assert {walk.switches for walk in walker.ways("h4", "h6")} == {("leaf2", "spine2", "leaf3")}


@pytest.mark.parametrize("routing", [ECMP, D_MOD_K])
def test_without_fast_failover_packets_are_lost_until_the_repair(routing: str) -> None:
    state = new_state("leaf_spine 3 x 2", routing=routing, fast_failover=False)
    dead = {("spine1", 2), ("leaf2", 3)}
    walker = Walker(state.network, state.wanted, dead)
    walks = [walk for pair in rack_pairs(state.network) for walk in walker.ways(*pair)]
    assert {walk.end for walk in walks} == {"delivered", "dropped"}
    assert all(walk.switches[-1] in {"leaf2", "spine1"} for walk in walks if walk.end == "dropped")
    hear(state, dead)
    walker = Walker(state.network, state.wanted, dead)
    assert {walk.end for pair in rack_pairs(state.network) for walk in walker.ways(*pair)} == {"delivered"}


def test_packets_stay_with_their_uplink_when_another_one_dies() -> None:
    walker = intact("leaf_spine 3 x 4", ECMP)
    before = [walker.walk("h1", "h12", choice) for choice in range(200)]
    walker.dies(links_of(walker.network, "spine2"))
    after = [walker.walk("h1", "h12", choice) for choice in range(200)]
    walker.dies(())
    assert {walk.switches[1] for walk in after} == {"spine1", "spine3", "spine4"}
    assert [one for one, two in zip(before, after) if one != two] == [one for one in before if "spine2" in one.switches]


@given(fabrics, routings, st.integers(0, 2**32), st.data())
def test_any_two_failures_end_every_walk_at_the_right_host_or_nowhere(
    name: str, routing: str, choice: int, data: st.DataObject
) -> None:
    walker = intact(name, routing)
    walker.dies(broken(data, walker.network, most=2, least=2))
    for sender, receiver in rack_pairs(walker.network):
        walk = walker.walk(sender, receiver, choice)
        assert (walk.end == "delivered") == (walk.host is not None)
        assert walk.host in (receiver, None)
        assert len(walk.switches) < SENT_TTL
    walker.dies(())


# --- after the repair


def walks_by_pair(state: FabricState, dead: Iterable[Port]) -> Iterator[tuple[str, str, list[Walk]]]:
    """Racks and all walks of each pair of hosts of different racks."""
    walker, homes = Walker(state.network, state.wanted, frozenset(dead)), state.network.homes
    for sender, receiver in rack_pairs(state.network):
        walks = list(walker.ways(sender, receiver))
        assert {walk.host for walk in walks} <= {receiver, None}
        yield homes[sender][0], homes[receiver][0], walks


@settings(max_examples=60)
@given(fabrics, routings, st.booleans(), st.data())
def test_after_the_repair_whoever_can_be_reached_is_reached(
    name: str, routing: str, fast_failover: bool, data: st.DataObject
) -> None:
    """By a path that goes up and then down: always, by the fewest switches. Where there are only paths through another
    rack's valley: not without fast failover, as it is that which lets a rack send up again; with it, by some of the
    hash's choices (by all of them where a switch has two uplinks). Where there is no path, nothing loops."""
    state = new_state(name, routing=routing, fast_failover=fast_failover)
    dead = broken(data, state.network, most=3)
    hear(state, dead)
    alive = graph(state.network, dead)
    uplinks = max(len(state.network.up_ports(switch)) for switch in state.network.switches)
    for one, other, walks in walks_by_pair(state, dead):
        ends = {walk.end for walk in walks}
        if not nx.has_path(alive, one, other):
            assert ends == {"dropped"}
        elif leads_up_and_down(state.network, alive, one, other):
            assert ends == {"delivered"}
            assert {len(walk.switches) for walk in walks} == {nx.shortest_path_length(alive, one, other) + 1}
        elif fast_failover:
            assert "delivered" in ends
            assert ends == {"delivered"} or uplinks > 2
        else:
            assert ends == {"dropped"}


@settings(max_examples=40)
@given(fabrics, routings, st.booleans(), st.data())
def test_no_packet_matches_two_flows_after_a_repair(
    name: str, routing: str, fast_failover: bool, data: st.DataObject
) -> None:
    state = new_state(name, routing=routing, fast_failover=fast_failover)
    hear(state, broken(data, state.network, most=3))
    assert [pair for tables in Walker(state.network, state.wanted).tables.values() for pair in tables.overlaps()] == []


@pytest.mark.parametrize("name", ["fat_tree 4", "fat_tree 6"])
def test_numbered_routes_to_a_part_of_a_pod_are_told_once(name: str) -> None:
    """When one link to a rack is dead, D-mod-k has routes for some racks of a pod together."""
    state = new_state(name, routing=D_MOD_K)
    hear(state, {("agg1", 2), state.network.trunks["agg1"][2]})
    for switch, tables in Walker(state.network, state.wanted).tables.items():
        assert tables.overlaps() == [], switch


@settings(max_examples=20)
@given(fabrics, routings, st.booleans(), st.data())
def test_when_all_is_mended_the_rules_are_the_first_ones(
    name: str, routing: str, fast_failover: bool, data: st.DataObject
) -> None:
    state = new_state(name, routing=routing, fast_failover=fast_failover)
    first, dead = state.wanted, broken(data, state.network, most=4, least=1)
    hear(state, dead)
    assert state.wanted != first
    hear(state, dead, alive=True)
    assert state.wanted == first


# --- while the repair is under way: some switches have their new rules already


def mixed(data: st.DataObject, old: Mapping[str, Rules], new: Mapping[str, Rules]) -> dict[str, Rules]:
    renewed = data.draw(st.sets(st.sampled_from(sorted(old))))
    return {switch: (new if switch in renewed else old)[switch] for switch in old}


@settings(max_examples=30)
@given(fabrics, routings, st.booleans(), st.booleans(), st.data())
def test_during_a_repair_no_packet_comes_to_the_wrong_host(
    name: str, routing: str, fast_failover: bool, mending: bool, data: st.DataObject
) -> None:
    state = new_state(name, routing=routing, fast_failover=fast_failover)
    old, dead = state.wanted, broken(data, state.network, most=3, least=1)
    hear(state, dead)
    walker = Walker(state.network, mixed(data, old, state.wanted), () if mending else dead)
    for sender, receiver in rack_pairs(state.network):
        for walk in walker.ways(sender, receiver):
            assert walk.host in (receiver, None)
            assert len(walk.switches) < SENT_TTL


@settings(max_examples=40)
@given(fabrics, routings, st.booleans(), st.booleans(), st.data())
def test_during_the_repair_of_one_failure_nothing_loops(
    name: str, routing: str, fast_failover: bool, mending: bool, data: st.DataObject
) -> None:
    state = new_state(name, routing=routing, fast_failover=fast_failover)
    old, dead = state.wanted, data.draw(st.sampled_from(list(single_failures(state.network))))
    hear(state, dead)
    walker = Walker(state.network, mixed(data, old, state.wanted), () if mending else dead)
    ends = {walk.end for pair in rack_pairs(state.network) for walk in walker.ways(*pair)}
    assert ends <= {"delivered", "dropped"}
