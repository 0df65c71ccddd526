"""What the controller makes of news: of ports, queues, hosts that move, switches that come back; and what it sends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.policy import CLOCKWISE, CONTROLLER, D_MOD_K, ECMP, UP_DOWN
from controller.rules import Change, Flow, Rules, ToGroup, change, nothing
from controller.state import FabricState
from tests.unit.walk import CE, ECT_0, Walker, links, planned
from topologies.dumbbell import Dumbbell
from topologies.fat_tree import FatTree
from topologies.leaf_spine import LeafSpine
from topologies.profiles import LinkProfile, Marking
from topologies.ring import Ring

ROUTINGS = pytest.mark.parametrize("routing", [ECMP, D_MOD_K])


def leaf_spine(routing: str = ECMP) -> FabricState:
    return planned(LeafSpine(leaves=3, spines=2, hosts_per_leaf=2), routing=routing)


def fat_tree(routing: str = ECMP) -> FabricState:
    return planned(FatTree(k=4), routing=routing)


MAC_OF_H1 = "00:00:00:00:00:01"


def identity_of(state: FabricState, host: str) -> tuple[str, str]:
    """Address and MAC, as the host tells them."""
    return state.network.hosts[host].ip, state.network.hosts[host].mac


def delivered_everywhere(state: FabricState) -> None:
    """Every host reaches every other, whatever the hash."""
    walker = Walker(state.network, state.wanted)
    for sender, receiver in permutations(state.network.hosts, 2):
        assert {walk.host for walk in walker.ways(sender, receiver)} == {receiver}, (sender, receiver)


def applied(old: Rules, news: Change) -> Rules:
    """What a switch that held `old` holds after a change, carried out in order; fails where a switch would refuse."""
    groups, flows = dict(old.groups), {flow.key: flow for flow in old.flows}
    groups.update(news.new_groups)
    for flow in news.new_flows:
        if isinstance(flow.action, ToGroup):
            assert flow.action.group_id in groups, "a flow names a group that is not there"
        flows[flow.key] = flow
    for flow in news.old_flows:
        del flows[flow.key]
    for number in news.old_groups:
        assert number not in {flow.action.group_id for flow in flows.values() if isinstance(flow.action, ToGroup)}
        del groups[number]
    return Rules(groups, tuple(flows.values()))


def as_sets(rules: Rules) -> tuple[dict[int, object], set[Flow]]:
    return dict(rules.groups), set(rules.flows)


# --- ports


def test_news_of_a_port_counts_once() -> None:
    state = leaf_spine()
    assert state.port_is(("leaf1", 3), False)
    assert not state.port_is(("leaf1", 3), False)
    assert state.dead == {("leaf1", 3)}
    assert state.port_is(("leaf1", 3), True)
    assert not state.port_is(("leaf1", 3), True)
    assert state.dead == set()


def test_news_of_a_hosts_port_changes_nothing() -> None:
    state = leaf_spine()
    before = state.wanted
    for switch, ports in state.network.attached.items():
        for port in ports.values():
            assert not state.port_is((switch, port), False)
    assert not state.port_is(("leaf1", 0xFFFFFFFE), False)  # OFPP_LOCAL, the bridge's own
    state.decide()
    assert (state.dead, state.wanted) == (set(), before)


def test_news_waits_for_the_decision() -> None:
    state = leaf_spine()
    before = state.wanted
    state.port_is(("leaf1", 3), False)
    assert state.wanted is before
    state.decide()
    assert state.wanted != before


def test_one_end_of_a_link_is_enough() -> None:
    one, both = leaf_spine(), leaf_spine()
    one.port_is(("leaf1", 3), False)
    both.port_is(("leaf1", 3), False)
    both.port_is(("spine1", 1), False)
    for state in (one, both):
        state.decide()
    assert one.wanted == both.wanted


def test_trunk_ports_are_all_ports_between_switches() -> None:
    state = fat_tree()
    assert sorted(state.trunk_ports()) == sorted(port for link in links(state.network) for port in link)
    assert len(state.trunk_ports()) == 2 * 32


# --- hosts


@ROUTINGS
@pytest.mark.parametrize("to", [("leaf3", 9), ("leaf2", 3 + 40), ("leaf1", 8)])
def test_a_host_that_moves_is_found_at_its_new_place_only(routing: str, to: tuple[str, int]) -> None:
    state = leaf_spine(routing)
    assert state.host_is_at(*identity_of(state, "h1"), to) == "h1"
    state.decide()
    assert state.network.homes["h1"] == to
    delivered_everywhere(state)
    walker = Walker(state.network, state.wanted)
    for sender in state.network.hosts.keys() - {"h1"}:
        for walk in walker.ways(sender, "h1"):
            assert walk.switches[-1] == to[0]


@ROUTINGS
def test_a_host_moves_between_pods_and_back(routing: str) -> None:
    state = fat_tree(routing)
    first, home = state.wanted, state.network.homes["h1"]
    assert state.host_is_at(*identity_of(state, "h1"), ("edge8", 9)) == "h1"
    state.decide()
    delivered_everywhere(state)
    assert state.host_is_at(*identity_of(state, "h1"), home) == "h1"
    state.decide()
    delivered_everywhere(state)
    assert state.network.homes["h1"] == home
    assert state.wanted.keys() == first.keys()


@settings(max_examples=25)
@given(st.sampled_from([ECMP, D_MOD_K]), st.data())
def test_any_hosts_may_move_anywhere(routing: str, data: st.DataObject) -> None:
    state = planned(LeafSpine(leaves=3, spines=2, hosts_per_leaf=3), routing=routing)
    leaf_numbers = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    for place, number in enumerate(leaf_numbers):
        host = data.draw(st.sampled_from(sorted(state.network.hosts)))
        assert state.host_is_at(*identity_of(state, host), (f"leaf{number}", 10 + place)) == host
    state.decide()
    delivered_everywhere(state)
    for switch, tables in Walker(state.network, state.wanted).tables.items():
        assert tables.overlaps() == [], switch


def test_a_moved_host_is_found_round_a_dead_link() -> None:
    state = leaf_spine()
    state.host_is_at(*identity_of(state, "h1"), ("leaf3", 9))
    state.decide()
    walker = Walker(state.network, state.wanted, {("spine1", 3), ("leaf3", 3)})
    for sender in state.network.hosts.keys() - {"h1"}:
        assert {walk.host for walk in walker.ways(sender, "h1")} == {"h1"}


@pytest.mark.parametrize(
    ("address", "mac", "port"),
    [
        ("10.0.1.99", MAC_OF_H1, ("leaf3", 9)),  # nobody's
        ("0.0.0.0", MAC_OF_H1, ("leaf3", 9)),  # who asks before it has an address (RFC 5227)
        ("10.0.1.1", MAC_OF_H1, ("leaf1", 1)),  # where it is
        ("10.0.1.1", MAC_OF_H1, ("leaf2", 3)),  # heard from another switch: relayed, not moved
        ("10.0.1.1", "00:00:00:00:00:02", ("leaf1", 2)),  # h2 says that it is h1
    ],
)
def test_a_host_that_has_not_moved(address: str, mac: str, port: tuple[str, int]) -> None:
    state = leaf_spine()
    before, homes = state.wanted, state.network.homes
    assert state.host_is_at(address, mac, port) is None
    state.decide()
    assert (state.wanted, state.network.homes) == (before, homes)


def test_a_move_is_news_once() -> None:
    state = leaf_spine()
    assert state.host_is_at(*identity_of(state, "h1"), ("leaf3", 9)) == "h1"
    assert state.host_is_at(*identity_of(state, "h1"), ("leaf3", 9)) is None


# --- rings


def test_a_ring_routed_up_and_down_is_repaired_after_any_one_link() -> None:
    for switches in (3, 4, 5):
        state = planned(Ring(switches=switches), routing=UP_DOWN)
        for link in links(state.network):
            for port in link:
                assert state.port_is(port, False)
            state.decide()
            delivered_everywhere(state)
            for port in link:
                state.port_is(port, True)


def test_clockwise_a_dead_link_cuts_off_what_is_behind_it() -> None:
    state = planned(Ring(switches=4), routing=CLOCKWISE)
    state.port_is(("sw2", 2), False)
    state.decide()
    walker = Walker(state.network, state.wanted, {("sw2", 2), ("sw3", 3)})
    ends = {pair: {walk.end for walk in walker.ways(*pair)} for pair in permutations(state.network.hosts, 2)}
    assert ends[("h3", "h2")] == ends[("h4", "h1")] == {"delivered"}
    assert ends[("h1", "h3")] == ends[("h2", "h3")] == ends[("h4", "h3")] == {"dropped"}


# --- queues


def marking_fabric() -> FabricState:
    return planned(FatTree(k=4), marking=CONTROLLER)


def test_a_mark_is_news_once() -> None:
    state = marking_fabric()
    first = dict(state.wanted)
    assert state.mark(("edge1", 1), True)
    assert not state.mark(("edge1", 1), True)
    assert state.mark(("edge1", 1), False)
    assert not state.mark(("edge1", 1), False)
    assert state.wanted == first


@pytest.mark.parametrize("port", [("edge1", 99), ("edge99", 1)])
def test_a_port_that_is_not_there_cannot_mark(port: tuple[str, int]) -> None:
    with pytest.raises(ValueError, match=f"port {port[1]} of switch {port[0]} cannot mark by rules: it is not there"):
        marking_fabric().mark(port, True)


def test_where_switches_mark_no_port_marks_by_rules() -> None:
    with pytest.raises(ValueError, match="port 1 of switch edge1 cannot mark by rules: marking=switch"):
        fat_tree().mark(("edge1", 1), True)


def test_marks_outlive_repairs_moves_and_lost_switches() -> None:
    state = marking_fabric()
    state.mark(("edge1", 1), True)  # to h1
    for port in (("edge1", 3), ("agg1", 1)):
        state.port_is(port, False)
    state.host_is_at(*identity_of(state, "h2"), ("edge8", 9))
    state.decide()
    walker = Walker(state.network, state.wanted)
    assert {walk.ecn for walk in walker.ways("h16", "h1", ECT_0)} == {CE}
    assert {walk.ecn for walk in walker.ways("h16", "h2", ECT_0)} == {ECT_0}
    state.sent("edge1")
    state.forgotten("edge1")
    assert set(state.wanted["edge1"].flows) == set(state.pending("edge1").new_flows)
    assert state.mark(("edge8", 9), True), "the port of a host that has moved there"
    walker = Walker(state.network, state.wanted)
    assert {walk.ecn for walk in walker.ways("h16", "h2", ECT_0)} == {CE}


SLOW, FAST = (LinkProfile(rate_bps, 1_000, 1500) for rate_bps in (10_000_000_000, 40_000_000_000))
CURVES = ((SLOW.rate_bps, Marking(1_500, 50_000, 0.01)), (FAST.rate_bps, Marking(5_000, 200_000, 0.01)))


def test_every_port_has_the_curve_of_its_links_rate() -> None:
    topo = LeafSpine(leaves=2, spines=1, hosts_per_leaf=2, link=SLOW, uplink=FAST)
    state = planned(topo, thresholds=CURVES)
    slow, fast = (curve for _, curve in CURVES)
    assert state.curves["leaf1"] == {"leaf1-eth1": slow, "leaf1-eth2": slow, "leaf1-eth3": fast}
    assert state.curves["spine1"] == {"spine1-eth1": fast, "spine1-eth2": fast}


def test_a_rate_without_a_curve_is_refused() -> None:
    topo = LeafSpine(leaves=2, spines=1, link=SLOW, uplink=FAST)
    with pytest.raises(KeyError, match=str(FAST.rate_bps)):
        planned(topo, thresholds=CURVES[:1])


def test_without_markers_there_are_no_curves_to_be_set() -> None:
    topo = LeafSpine(leaves=2, spines=1, link=SLOW, uplink=FAST)
    assert planned(topo).curves["leaf1"] == {}
    assert planned(topo, thresholds=CURVES, marking=CONTROLLER).curves["leaf1"] == {}


# --- what is sent


def test_at_first_everything_is_pending_and_then_nothing() -> None:
    state = leaf_spine()
    for switch, rules in state.wanted.items():
        pending = state.pending(switch)
        assert (dict(pending.new_groups), pending.new_flows) == (dict(rules.groups), rules.flows)
        assert (pending.old_flows, pending.old_groups) == ((), ())
        state.sent(switch)
        assert not state.pending(switch)


def test_a_switch_that_comes_back_is_sent_everything_again() -> None:
    state = leaf_spine()
    for switch in state.wanted:
        state.sent(switch)
    state.port_is(("leaf2", 3), False)
    state.decide()
    state.forgotten("leaf1")
    assert state.pending("leaf1") == change(nothing(), state.wanted["leaf1"])
    assert state.pending("leaf2") == change(state.installed["leaf2"], state.wanted["leaf2"])


def test_switches_are_known_by_their_datapath_ids() -> None:
    state = planned(Dumbbell(hosts=2))
    assert state.by_dpid == {1: "left1", 2: "right1"}


@settings(max_examples=12)
@given(st.sampled_from([leaf_spine, fat_tree]), st.sampled_from([ECMP, D_MOD_K]), st.data())
def test_what_is_sent_makes_the_switches_hold_what_is_wanted(
    build: Callable[[str], FabricState], routing: str, data: st.DataObject
) -> None:
    state = build(routing)
    held = {switch: nothing() for switch in state.wanted}
    for last in (False, False, True):
        for switch in held:
            held[switch] = applied(held[switch], state.pending(switch))
            state.sent(switch)
            assert as_sets(held[switch]) == as_sets(state.wanted[switch])
            assert not state.pending(switch)
        if last:
            break
        for port in data.draw(st.lists(st.sampled_from(state.trunk_ports()), max_size=3)):
            state.port_is(port, port in state.dead)
        if data.draw(st.booleans()):
            racks = [switch for switch, node in state.network.switches.items() if node.subnet]
            host, rack = data.draw(st.sampled_from(["h1", "h2", "h4"])), data.draw(st.sampled_from(racks))
            state.host_is_at(*identity_of(state, host), (rack, 20))
        state.decide()


def test_a_repair_changes_only_what_has_to_change() -> None:
    """One link down in a leaf-spine: the other spine and its links' rules stay as they are."""
    state = leaf_spine()
    for switch in state.wanted:
        state.sent(switch)
    for port in (("spine1", 2), ("leaf2", 3)):
        state.port_is(port, False)
    state.decide()
    assert not state.pending("spine2")
    assert all(state.pending(switch) for switch in ("leaf1", "leaf2", "leaf3", "spine1"))
