"""The rules of whole fabrics: every packet's way through them, whatever its hash (see walk)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from itertools import product

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mininet.topo import Topo

from controller import rules as module
from controller.failover import Bucket, Group
from controller.policy import CLOCKWISE, CONTROLLER, D_MOD_K, ECMP, PER_SWITCH, SAME, SWITCH, UP_DOWN, Orders
from controller.prefixes import mask_of, parse_prefix
from controller.routing import Port
from controller.rules import (
    CLASSIFY,
    THE_PORT,
    AnswerArp,
    Flow,
    Output,
    Rules,
    ToController,
    ToGroup,
    change,
    count,
    nothing,
)
from controller.state import FabricState
from tests.unit.walk import CE, ECT_0, ECT_1, NOT_ECT, Walk, Walker, first_place, graph, planned, single_failures
from topologies.addresses import GATEWAY, ROUTER_MAC
from topologies.dumbbell import Dumbbell
from topologies.fat_tree import FatTree
from topologies.gpu_pod import GpuPod
from topologies.leaf_spine import LeafSpine
from topologies.ring import Ring
from workloads.patterns import permutation

FABRICS: dict[str, Callable[[], Topo]] = {
    "leaf_spine": lambda: LeafSpine(leaves=4, spines=3, hosts_per_leaf=3),
    "leaf_spine, one spine": lambda: LeafSpine(leaves=3, spines=1, hosts_per_leaf=2),
    "leaf_spine, one leaf": lambda: LeafSpine(leaves=1, spines=2, hosts_per_leaf=3),
    "leaf_spine, half full": lambda: LeafSpine(leaves=4, spines=2, hosts_per_leaf=4, hosts=7),
    "fat_tree 4": lambda: FatTree(k=4),
    "fat_tree 4, half full": lambda: FatTree(k=4, hosts=7),
    "fat_tree 6": lambda: FatTree(k=6),
    "fat_tree 8": lambda: FatTree(k=8),
    "dumbbell": lambda: Dumbbell(hosts=5),
    "gpu_pod": lambda: GpuPod(servers=3, spines=2),
    "gpu_pod, no rails": lambda: GpuPod(servers=4, leaves=2, spines=3, rails=False),
}
NOBODY = ("10.0.1.200", "10.1.1.77", "10.200.1.1", "10.0.0.0", "10.255.255.255", GATEWAY, "192.168.1.1", "127.0.0.1")
TO_MANY = ("224.0.0.1", "239.255.255.250", "255.255.255.255")


@cache
def state_of(name: str, routing: str, fast_failover: bool) -> FabricState:
    return planned(FABRICS[name](), routing=routing, fast_failover=fast_failover)


def intact(state: FabricState) -> Walker:
    return Walker(state.network, state.wanted)


def some_senders(state: FabricState) -> list[str]:
    """Every host of a small fabric; of a large one the last of each rack: its rules know no host by its port."""
    hosts = list(state.network.hosts)
    return hosts if len(hosts) < 60 else list({state.network.homes[host][0]: host for host in hosts}.values())


policies = pytest.mark.parametrize(
    ("routing", "fast_failover"), [(ECMP, True), (ECMP, False), (D_MOD_K, True), (D_MOD_K, False)]
)
fabrics = pytest.mark.parametrize("name", FABRICS)


@fabrics
@policies
def test_every_pair_is_delivered_by_the_fewest_switches_whatever_the_hash(
    name: str, routing: str, fast_failover: bool
) -> None:
    state = state_of(name, routing, fast_failover)
    walker, distances = intact(state), dict(nx.all_pairs_shortest_path_length(graph(state.network)))
    lengths = set()
    for sender in some_senders(state):
        for receiver in state.network.hosts.keys() - {sender}:
            start, end = first_place(state.network, sender, receiver)[0], state.network.homes[receiver][0]
            fewest = 1 if start.startswith("nvs") else distances[start][end] + 1
            for walk in walker.ways(sender, receiver):
                assert (walk.end, walk.host, len(walk.switches)) == ("delivered", receiver, fewest), walk
                lengths.add(fewest)
    few = {"dumbbell": {1, 2}, "fat_tree 4": {1, 3, 5}, "leaf_spine": {1, 3}, "gpu_pod": {1, 3}}
    assert lengths == few.get(name, lengths)


@settings(max_examples=25)
@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.sampled_from([ECMP, D_MOD_K]), st.booleans(), st.data()
)
def test_any_leaf_spine_delivers(
    leaves: int, spines: int, per_leaf: int, routing: str, fast_failover: bool, data: st.DataObject
) -> None:
    hosts = data.draw(st.integers(1, leaves * per_leaf))
    topo = LeafSpine(leaves=leaves, spines=spines, hosts_per_leaf=per_leaf, hosts=hosts)
    state = planned(topo, routing=routing, fast_failover=fast_failover)
    walker = intact(state)
    for sender in state.network.hosts:
        for receiver in state.network.hosts.keys() - {sender}:
            same = state.network.homes[sender][0] == state.network.homes[receiver][0]
            walks = list(walker.ways(sender, receiver))
            assert {(walk.end, walk.host, len(walk.switches)) for walk in walks} == {
                ("delivered", receiver, 1 if same else 3)
            }
            assert len({walk.switches for walk in walks}) == (1 if same or routing == D_MOD_K else spines)


@fabrics
@policies
def test_an_address_that_nobody_has_is_dropped_by_the_rack_it_would_be_in_or_at_once(
    name: str, routing: str, fast_failover: bool
) -> None:
    state = state_of(name, routing, fast_failover)
    walker = intact(state)
    for sender, address in product(some_senders(state)[:8], NOBODY):
        home = state.network.homes[sender][0]
        rack = state.network.racks.get((parse_prefix(address)[0] & mask_of(24), 24), home)
        for walk in walker.ways(sender, address):
            # Numbered routes have no rule for a number that no host has: it ends at the sender's own rack.
            ends = (rack, home) if routing == "d_mod_k" else (rack,)
            assert walk.end == "dropped" and walk.switches[-1] in ends, address
            assert rack != home or len(walk.switches) == 1


@fabrics
@policies
def test_what_is_for_many_is_dropped_at_once(name: str, routing: str, fast_failover: bool) -> None:
    state = state_of(name, routing, fast_failover)
    walker = intact(state)
    for sender in some_senders(state)[:8]:
        for address in TO_MANY:
            (walk,) = walker.ways(sender, address)
            assert (walk.end, len(walk.switches)) == ("dropped", 1)


@fabrics
@policies
def test_no_packet_matches_two_flows_of_equal_priority(name: str, routing: str, fast_failover: bool) -> None:
    for switch, tables in intact(state_of(name, routing, fast_failover)).tables.items():
        assert tables.overlaps() == [], switch


def outputs(action: object, rules: Rules) -> Iterable[int]:
    if isinstance(action, Output):
        return [action.port]
    if isinstance(action, ToGroup):
        return [bucket.port for bucket in rules.groups[action.group_id].buckets]
    return []


@fabrics
@policies
def test_flows_and_groups_name_what_is_there_and_nothing_is_left_over(
    name: str, routing: str, fast_failover: bool
) -> None:
    state = state_of(name, routing, fast_failover)
    for switch, rules in state.wanted.items():
        ports = {*state.network.trunks[switch], *state.network.attached[switch].values(), module.failover.IN_PORT}
        for flow in rules.flows:
            assert set(outputs(flow.action, rules)) <= ports
            assert 0 < flow.priority <= 0xFFFF
        used = {flow.action.group_id for flow in rules.flows if isinstance(flow.action, ToGroup)}
        assert used == rules.groups.keys()
        assert all(0 <= number < 0xFFFFFF00 for number in rules.groups)  # OpenFlow's OFPG_MAX
        assert all(group.buckets for group in rules.groups.values())
        assert len(set(rules.groups.values())) == len(rules.groups)


@pytest.mark.parametrize("name", ["leaf_spine, half full", "fat_tree 6", "dumbbell", "gpu_pod, no rails"])
@policies
def test_equal_orders_give_equal_rules(name: str, routing: str, fast_failover: bool) -> None:
    again = planned(FABRICS[name](), routing=routing, fast_failover=fast_failover)
    assert again.wanted == state_of(name, routing, fast_failover).wanted


def test_a_groups_id_follows_from_what_it_does() -> None:
    spread = planned(LeafSpine(leaves=3, spines=2)).wanted["leaf1"]
    smaller = planned(LeafSpine(leaves=2, spines=2)).wanted["leaf1"]
    assert smaller.groups.keys() & spread.groups.keys()
    for number in smaller.groups.keys() & spread.groups.keys():
        assert smaller.groups[number] == spread.groups[number]


def test_groups_of_equal_checksum_get_different_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.zlib, "crc32", lambda data: 7)
    state = planned(FatTree(k=4))
    assert sorted(state.wanted["agg1"].groups) == list(range(7, 7 + len(state.wanted["agg1"].groups)))
    walker = intact(state)
    assert {walk.host for walk in walker.ways("h1", "h16")} == {"h16"}


def test_a_switch_further_up_has_one_route_for_each_rack_and_few_where_they_are_alike() -> None:
    """The point of shrinking: a leaf needs a default and its own rack."""
    state = planned(LeafSpine(leaves=8, spines=4, hosts_per_leaf=4), fast_failover=False)
    any_way = [flow for flow in state.wanted["leaf3"].flows if flow.table == module.ANY_WAY]
    assert len(any_way) <= 2 + 7  # a drop by default, and the seven other racks at most
    assert len([flow for flow in state.wanted["spine1"].flows if flow.table == module.ANY_WAY]) == 8


@fabrics
def test_each_host_gets_its_arp_answered_where_it_asks(name: str) -> None:
    state = state_of(name, ECMP, True)
    for switch, ports in state.network.attached.items():
        answers = [flow for flow in state.wanted[switch].flows if isinstance(flow.action, AnswerArp)]
        hosts = {port: state.network.hosts[host] for host, port in ports.items()}
        assert len(answers) == len(hosts)
        for flow in answers:
            asked = {field: value for field, value, _ in flow.match}
            host = hosts[asked["in_port"]]
            assert flow.action == AnswerArp(host.mac, host.ip)
            assert (asked["eth_type"], asked["arp_op"]) == (0x0806, 1)


@fabrics
def test_the_last_switch_writes_the_macs_and_no_other(name: str) -> None:
    state = state_of(name, ECMP, True)
    for switch, rules in state.wanted.items():
        hosts = {port: state.network.hosts[host] for host, port in state.network.attached[switch].items()}
        for flow in rules.flows:
            if isinstance(flow.action, Output):
                host = hosts.get(flow.action.port)
                assert flow.action.macs == ((ROUTER_MAC, host.mac) if host else None)


def test_lldp_and_foreign_arp_go_to_the_controller() -> None:
    for rules in planned(FatTree(k=4)).wanted.values():
        told = [flow.match for flow in rules.flows if isinstance(flow.action, ToController)]
        assert told == [(("eth_type", 0x88CC, -1),), (("eth_type", 0x0806, -1),)]


# --- D-mod-k


def carried(walks: Iterable[Walk]) -> Counter[tuple[str, str]]:
    """How many walks lead from one switch to the next."""
    return Counter(hop for walk in walks for hop in zip(walk.switches, walk.switches[1:]))


@pytest.mark.parametrize("fast_failover", [True, False])
@pytest.mark.parametrize(
    "build",
    [
        lambda: LeafSpine(leaves=4, spines=4, hosts_per_leaf=4),
        lambda: LeafSpine(leaves=3, spines=5, hosts_per_leaf=5),
        lambda: LeafSpine(leaves=2, spines=16, hosts_per_leaf=16),
        lambda: FatTree(k=4),
        lambda: FatTree(k=6),
        lambda: FatTree(k=8),
    ],
)
def test_with_d_mod_k_a_permutation_shares_no_link(build: Callable[[], Topo], fast_failover: bool) -> None:
    """Non-blocking: no switch-to-switch link carries more than one flow in either direction (Zahavi, 2010)."""
    state = planned(build(), routing=D_MOD_K, fast_failover=fast_failover)
    walker = intact(state)
    pairs = permutation(list(state.network.hosts))
    walks = [walk for pair in pairs for walk in walker.ways(*pair)]
    assert [walk.host for walk in walks] == [receiver for _, receiver in pairs]
    links = carried(walks)
    assert max(links.values()) == 1
    assert len(links) == sum(len(walk.switches) - 1 for walk in walks)


@pytest.mark.parametrize("oversubscription", [2, 4])
def test_with_fewer_uplinks_d_mod_k_shares_them_evenly(oversubscription: int) -> None:
    state = planned(LeafSpine(leaves=4, spines=8 // oversubscription, hosts_per_leaf=8), routing=D_MOD_K)
    walker = intact(state)
    links = carried(walk for pair in permutation(list(state.network.hosts)) for walk in walker.ways(*pair))
    assert set(links.values()) == {oversubscription}


def test_d_mod_k_is_one_way_whatever_the_hash() -> None:
    state = planned(FatTree(k=4), routing=D_MOD_K)
    walker = intact(state)
    for receiver in state.network.hosts.keys() - {"h1"}:
        assert len(list(walker.ways("h1", receiver))) == 1


# --- ECMP's balance, in the walk's model of a hash


def cores(hash_seeds: str, flows: int) -> Counter[str]:
    """How many of `flows` flows between pods each core carries."""
    walker = intact(planned(FatTree(k=8), hash_seeds=hash_seeds))
    return Counter(walker.walk("h1", "h128", choice).switches[2] for choice in range(flows))


def chi_square(counts: Iterable[int], expected: float) -> float:
    return sum((counted - expected) ** 2 / expected for counted in counts)


def test_seeds_of_their_own_spread_flows_over_all_cores() -> None:
    found = cores(PER_SWITCH, 4000)
    assert len(found) == 16
    assert chi_square(found.values(), 4000 / 16) < 37.7  # 15 degrees of freedom, p = 0.001


def test_the_same_seed_everywhere_polarises() -> None:
    """An edge and its aggregation switch choose alike: of four uplinks at the second one only one is used."""
    found = cores(SAME, 4000)
    assert len(found) == 4
    assert chi_square(found.values(), 4000 / 4) < 16.3  # 3 degrees of freedom, p = 0.001


@pytest.mark.parametrize("sender", ["h1", "h4", "h9"])
def test_uplinks_share_the_flows(sender: str) -> None:
    walker = intact(planned(LeafSpine(leaves=4, spines=4, hosts_per_leaf=4)))
    found = Counter(walker.walk(sender, "h16", choice).switches[1] for choice in range(2000))
    assert len(found) == 4
    assert chi_square(found.values(), 500) < 16.3


# --- rings


@pytest.mark.parametrize("fast_failover", [True, False])
@pytest.mark.parametrize("switches", [3, 4, 5, 8])
def test_in_a_ring_every_pair_is_delivered(switches: int, fast_failover: bool) -> None:
    """Clockwise by the way round; up and down by the shorter way that does not pass the switch at the bottom."""
    for routing in (CLOCKWISE, UP_DOWN):
        state = planned(Ring(switches=switches, hosts_per_leaf=2), routing=routing, fast_failover=fast_failover)
        walker, bottom = intact(state), f"sw{switches // 2 + 1}"
        for sender, (start, _) in state.network.homes.items():
            for receiver in state.network.hosts.keys() - {sender}:
                end = state.network.homes[receiver][0]
                for walk in walker.ways(sender, receiver):
                    assert (walk.end, walk.host) == ("delivered", receiver)
                    assert (walk.switches[0], walk.switches[-1]) == (start, end)
                    steps = [(int(b[2:]) - int(a[2:])) % switches for a, b in zip(walk.switches, walk.switches[1:])]
                    if routing == CLOCKWISE:
                        assert steps == [1] * ((int(end[2:]) - int(start[2:])) % switches)
                    elif switches % 2 == 0:
                        assert bottom not in walk.switches[1:-1]


@pytest.mark.parametrize("switches", [4, 5])
def test_in_a_ring_nothing_is_bounced(switches: int) -> None:
    """No switch is above another: a switch does nothing about a dead link but to take the other of two ways that are
    as good, so that no way is taken that its routing does not allow."""
    state = planned(Ring(switches=switches), routing=UP_DOWN)
    for dead in single_failures(state.network):
        walker = Walker(state.network, state.wanted, dead)
        for sender in state.network.hosts:
            for receiver in state.network.hosts.keys() - {sender}:
                allowed = {walk.switches for walk in intact(state).ways(sender, receiver)}
                for walk in walker.ways(sender, receiver):
                    assert walk.switches in allowed if walk.end == "delivered" else walk.end == "dropped"


# --- marks


MARKING: dict[str, Callable[[], FabricState]] = {
    "dumbbell": lambda: planned(Dumbbell(hosts=4), marking=CONTROLLER),
    "leaf_spine": lambda: planned(LeafSpine(leaves=3, spines=2), marking=CONTROLLER),
    "leaf_spine, d_mod_k": lambda: planned(LeafSpine(leaves=3, spines=2), marking=CONTROLLER, routing=D_MOD_K),
    "fat_tree": lambda: planned(FatTree(k=4), marking=CONTROLLER),
    "fat_tree, no failover": lambda: planned(FatTree(k=4), marking=CONTROLLER, fast_failover=False),
    "gpu_pod": lambda: planned(GpuPod(servers=2), marking=CONTROLLER),
    "ring, clockwise": lambda: planned(Ring(switches=4), marking=CONTROLLER, routing=CLOCKWISE),
    "ring, up_down": lambda: planned(Ring(switches=5), marking=CONTROLLER, routing=UP_DOWN),
}
marking = pytest.mark.parametrize("name", MARKING)


def all_ports(state: FabricState) -> list[Port]:
    """Every port of every switch."""
    return [
        (switch, port)
        for switch, trunks in state.network.trunks.items()
        for port in (*trunks, *state.network.attached[switch].values())
    ]


def passed(state: FabricState, walk: Walk) -> set[Port]:
    """The ports that a packet has left by."""
    towards = {
        (switch, peer): (switch, port)
        for switch, ports in state.network.trunks.items()
        for port, (peer, _) in ports.items()
    }
    hops = [towards[hop] for hop in zip(walk.switches, walk.switches[1:])]
    assert walk.host is not None
    return {*hops, (walk.switches[-1], state.network.attached[walk.switches[-1]][walk.host])}


def all_ways(state: FabricState, ecn: int) -> list[Walk]:
    """Of packets between some hosts, whatever their hashes."""
    walker = intact(state)
    hosts = list(state.network.hosts)
    pairs = [(sender, receiver) for sender in hosts[:3] for receiver in hosts if receiver != sender]
    return [walk for pair in pairs for walk in walker.ways(*pair, ecn=ecn)]


@marking
def test_while_no_port_marks_packets_go_as_if_switches_marked(name: str) -> None:
    state = MARKING[name]()
    usual = FabricState(Orders(state.network.fabric, replace(state.policy, marking=SWITCH)))
    for ecn in (NOT_ECT, ECT_0, ECT_1, CE):
        found = all_ways(state, ecn)
        assert {walk.ecn for walk in found} == {ecn}
        assert [replace(walk, ecn=NOT_ECT) for walk in found] == all_ways(usual, NOT_ECT)


@marking
@settings(max_examples=10)
@given(data=st.data())
def test_a_port_that_marks_marks_what_leaves_by_it_and_can_be_marked_and_nothing_else(
    name: str, data: st.DataObject
) -> None:
    state = MARKING[name]()
    unmarked, routes = dict(state.wanted), [walk.switches for walk in all_ways(state, NOT_ECT)]
    ports = data.draw(st.sets(st.sampled_from(all_ports(state)), min_size=1, max_size=4))
    for port in ports:
        assert state.mark(port, True)
    for ecn in (NOT_ECT, ECT_0, ECT_1, CE):
        found = all_ways(state, ecn)
        assert [walk.switches for walk in found] == routes
        for walk in found:
            marked = ecn in (ECT_0, ECT_1) and bool(passed(state, walk) & ports)
            assert walk.ecn == (CE if marked else ecn)
    for tables in intact(state).tables.values():
        assert tables.overlaps() == []
    for port in ports:
        assert state.mark(port, False)
    assert state.wanted == unmarked


@marking
def test_a_mark_is_one_small_change_of_one_switch(name: str) -> None:
    """Four entries in one table, whatever the fabric: no route and no group has to change."""
    state = MARKING[name]()
    for switch in state.wanted:
        state.sent(switch)
    for switch, port in all_ports(state):
        assert state.mark((switch, port), True)
        assert [name for name in state.wanted if state.pending(name)] == [switch]
        news = state.pending(switch)
        assert (len(news.new_flows), news.old_flows, news.new_groups, news.old_groups) == (4, (), {}, ())
        assert {flow.table for flow in news.new_flows} == {THE_PORT}
        assert news.by_table
        state.sent(switch)
        assert state.mark((switch, port), False)
        assert (len(state.pending(switch).old_flows), state.pending(switch).new_flows) == (4, ())
        state.sent(switch)


def test_a_packet_that_is_bounced_back_is_marked_by_the_port_it_came_by() -> None:
    """spine1's link to leaf2 is dead; what comes from leaf3, its detour, goes back there."""
    state = planned(LeafSpine(leaves=3, spines=1, hosts_per_leaf=1), marking=CONTROLLER)
    dead = {("spine1", 2), ("leaf2", 2)}
    (walk,) = Walker(state.network, state.wanted, dead).ways("h3", "h2", ecn=ECT_0)
    assert walk.switches[:3] == ("leaf3", "spine1", "leaf3")
    assert walk.ecn == ECT_0
    state.mark(("spine1", 3), True)
    (walk,) = Walker(state.network, state.wanted, dead).ways("h3", "h2", ecn=ECT_0)
    assert (walk.switches[:3], walk.ecn) == (("leaf3", "spine1", "leaf3"), CE)
    state.mark(("spine1", 3), False)
    state.mark(("spine1", 2), True)
    (walk,) = Walker(state.network, state.wanted, dead).ways("h3", "h2", ecn=ECT_0)
    assert walk.ecn == ECT_0, "nothing leaves by the dead port"


# --- from old rules to new ones


def flow(priority: int, action: object = None, port: int = 1) -> Flow:
    return Flow(CLASSIFY, priority, (("in_port", port, -1),), action or Output(priority))  # type: ignore[arg-type]


ONE, OTHER = Group("select", (Bucket(1, 1), Bucket(2, 2)), 5), Group("failover", (Bucket(1, 1),))


def test_a_change_is_what_differs() -> None:
    old = Rules({1: ONE, 2: OTHER}, (flow(1), flow(2), flow(3)))
    new = Rules({2: OTHER, 3: ONE}, (flow(1), flow(2, ToGroup(3)), flow(4)))
    found = change(old, new)
    assert found.new_groups == {3: ONE}
    assert found.new_flows == (flow(2, ToGroup(3)), flow(4))
    assert found.old_flows == (flow(3),)
    assert found.old_groups == (1,)


def test_no_change_is_false() -> None:
    rules = Rules({1: ONE}, (flow(1), flow(2)))
    assert not change(rules, rules)
    assert not change(nothing(), nothing())
    assert change(nothing(), rules) and change(rules, nothing())


def test_count() -> None:
    assert count([Rules({1: ONE}, (flow(1), flow(2))), nothing(), Rules({}, (flow(3),))]) == (3, 1)
