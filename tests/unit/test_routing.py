"""Next hops against networkx's shortest paths, small fabrics by hand, and which links wait for which."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mininet.topo import Topo

from controller.policy import CLOCKWISE, ECMP, UP_DOWN
from controller.prefixes import parse_prefix
from controller.routing import Network, Port, next_hops, routes
from tests.unit.walk import Walker, graph, links, planned
from topologies.describe import describe
from topologies.dumbbell import Dumbbell
from topologies.fat_tree import FatTree
from topologies.gpu_pod import GpuPod
from topologies.leaf_spine import LeafSpine
from topologies.ring import Ring

ALIVE: frozenset[Port] = frozenset()
FABRICS: list[Callable[[], Topo]] = [
    lambda: LeafSpine(leaves=4, spines=3),
    lambda: FatTree(k=4),
    Dumbbell,
    lambda: GpuPod(servers=2),
    lambda: GpuPod(servers=3, leaves=2, rails=False),
]


def network(topo: Topo) -> Network:
    return Network(describe(topo))


def dead_ports(fabric: Network, count: int, data: st.DataObject) -> frozenset[Port]:
    """Up to `count` links as the controller hears of them: of one end, or of both."""
    found: set[Port] = set()
    for link in data.draw(st.lists(st.sampled_from(links(fabric)), max_size=count)):
        found |= data.draw(st.sets(st.sampled_from(sorted(link)), min_size=1))
    return frozenset(found)


@settings(max_examples=40)
@given(st.sampled_from(FABRICS), st.data())
def test_next_hops_are_all_the_shortest_paths_there_are(build: Callable[[], Topo], data: st.DataObject) -> None:
    fabric = network(build())
    dead = dead_ports(fabric, 6, data)
    alive, hops = graph(fabric, dead), next_hops(fabric, dead)
    assert hops.keys() == set(fabric.racks.values())
    for target, found in hops.items():
        distance = nx.single_source_shortest_path_length(alive, target)
        assert found.keys() == distance.keys() - {target}
        for switch, ports in found.items():
            peers = {fabric.trunks[switch][port][0] for port in ports}
            assert peers == {peer for peer in alive[switch] if distance[peer] == distance[switch] - 1}
            assert list(ports) == sorted(set(ports))


@pytest.mark.parametrize("build", FABRICS)
def test_trunks_lead_back(build: Callable[[], Topo]) -> None:
    fabric = network(build())
    for switch, ports in fabric.trunks.items():
        for port, (peer, back) in ports.items():
            assert fabric.trunks[peer][back] == (switch, port)
        assert not set(ports) & set(fabric.attached[switch].values())
        assert set(fabric.up_ports(switch)).isdisjoint(fabric.down_ports(switch))


def test_a_leaf_spine_by_hand() -> None:
    fabric = network(LeafSpine(leaves=2, spines=2, hosts_per_leaf=2))
    assert fabric.trunks["leaf1"] == {3: ("spine1", 1), 4: ("spine2", 1)}
    assert fabric.homes == {"h1": ("leaf1", 1), "h2": ("leaf1", 2), "h3": ("leaf2", 1), "h4": ("leaf2", 2)}
    assert fabric.attached["leaf2"] == {"h3": 1, "h4": 2}
    assert (fabric.up_ports("leaf1"), fabric.down_ports("leaf1")) == ((3, 4), ())
    assert (fabric.up_ports("spine1"), fabric.down_ports("spine1")) == ((), (1, 2))
    assert next_hops(fabric, ALIVE) == {
        "leaf1": {"spine1": (1,), "spine2": (1,), "leaf2": (3, 4)},
        "leaf2": {"spine1": (2,), "spine2": (2,), "leaf1": (3, 4)},
    }
    assert next_hops(fabric, frozenset({("spine1", 2)}))["leaf2"] == {"spine1": (1,), "spine2": (2,), "leaf1": (4,)}


def test_a_routing_table_has_a_route_for_every_rack_and_none_for_the_own() -> None:
    fabric = network(LeafSpine(leaves=3, spines=2, hosts_per_leaf=2))
    first, second, third = (parse_prefix(f"10.0.{rack}.0/24") for rack in (1, 2, 3))
    hops = next_hops(fabric, ALIVE)
    assert routes(fabric, hops, "leaf2") == {first: (3, 4), second: (), third: (3, 4)}
    assert routes(fabric, hops, "spine1") == {first: (1,), second: (2,), third: (3,)}
    cut = frozenset({("leaf3", 3), ("leaf3", 4)})
    assert routes(fabric, next_hops(fabric, cut), "leaf1") == {first: (), second: (3, 4), third: ()}


def test_between_pods_there_are_k_squared_over_four_paths() -> None:
    fabric = network(FatTree(k=6))
    hops = next_hops(fabric, ALIVE)["edge18"]
    assert {len(hops[f"edge{number}"]) for number in range(1, 16)} == {3}
    assert {len(hops[f"agg{number}"]) for number in range(1, 16)} == {3}
    assert {len(hops[f"core{number}"]) for number in range(1, 10)} == {1}


def test_a_host_that_moves_is_a_subnet_of_its_own() -> None:
    before = network(LeafSpine(leaves=3, spines=2, hosts_per_leaf=2))
    after = before.with_move("h1", ("leaf3", 9))
    assert after.homes == {**before.homes, "h1": ("leaf3", 9)}
    assert "h1" not in after.attached["leaf1"] and after.attached["leaf3"]["h1"] == 9
    assert after.racks == {**before.racks, parse_prefix("10.0.1.1"): "leaf3"}
    assert before.homes["h1"] == ("leaf1", 1)
    assert after.with_move("h1", ("leaf2", 8)).racks[parse_prefix("10.0.1.1")] == "leaf2"


def test_an_nvswitch_is_no_way_to_anywhere() -> None:
    state = planned(GpuPod(servers=2))
    assert state.network.trunks["nvs1"] == {}
    assert state.network.attached["nvs1"] == {f"h{gpu}": gpu for gpu in range(1, 9)}
    assert all("nvs1" not in hops for hops in next_hops(state.network, ALIVE).values())
    assert state.network.homes["h3"] == ("leaf3", 1)


# --- which links wait for which


def dependencies(topo: Topo, routing: str, dead: frozenset[Port] = ALIVE) -> nx.DiGraph:
    """Channels (ports towards switches) and which of them waits for which to have room: two that some packet takes one
    after the other. Found by following the rules of every pair of hosts, whatever the hashes."""
    state = planned(topo, routing=routing)
    for port in dead:
        state.port_is(port, False)
    state.decide()
    towards = {
        (switch, peer): (switch, port)
        for switch, ports in state.network.trunks.items()
        for port, (peer, _) in ports.items()
    }
    walker, found = Walker(state.network, state.wanted, dead), nx.DiGraph()
    for sender in state.network.hosts:
        for receiver in state.network.hosts.keys() - {sender}:
            for walk in walker.ways(sender, receiver):
                channels = [towards[hop] for hop in zip(walk.switches, walk.switches[1:])]
                found.add_nodes_from(channels)
                found.add_edges_from(zip(channels, channels[1:]))
    return found


@pytest.mark.parametrize("switches", [3, 4, 5, 6, 9])
def test_clockwise_every_link_waits_for_the_next_one_all_the_way_round(switches: int) -> None:
    found = dependencies(Ring(switches=switches), CLOCKWISE)
    (circle,) = nx.simple_cycles(found)
    assert sorted(circle) == sorted(found) == [(f"sw{number}", 2) for number in range(1, switches + 1)]


@pytest.mark.parametrize("switches", [3, 4, 5, 6, 9])
def test_up_and_down_no_link_waits_for_itself(switches: int) -> None:
    found = dependencies(Ring(switches=switches), UP_DOWN)
    assert nx.is_directed_acyclic_graph(found)
    assert len(found) == 2 * switches, "every link is used, both ways"


@pytest.mark.parametrize("switches", [5, 6])
def test_shortest_paths_wait_in_a_circle(switches: int) -> None:
    """What up-and-down routing is for; in a ring of up to four, shortest paths are too short to."""
    assert not nx.is_directed_acyclic_graph(dependencies(Ring(switches=switches), ECMP))


RINGS: list[Callable[[], Topo]] = [lambda n=n: Ring(switches=n, hosts_per_leaf=1) for n in (3, 4, 5, 8)]  # type: ignore[misc]


@settings(max_examples=60)
@given(st.sampled_from([*RINGS, *FABRICS]), st.data())
def test_up_and_down_is_free_of_circles_in_any_fabric_and_loses_nobody(
    build: Callable[[], Topo], data: st.DataObject
) -> None:
    fabric = network(build())
    dead = dead_ports(fabric, 4, data)
    alive, hops = graph(fabric, dead), next_hops(fabric, dead, UP_DOWN)
    waits = nx.DiGraph()
    for target, found in hops.items():
        assert found.keys() == nx.node_connected_component(alive, target) - {target}
        for switch, ports in found.items():
            for port in ports:
                peer = fabric.trunks[switch][port][0]
                assert alive.has_edge(switch, peer)
                waits.add_edges_from(((switch, port), (peer, after)) for after in found.get(peer, ()))
    assert nx.is_directed_acyclic_graph(waits)


def test_a_ring_of_four_by_hand() -> None:
    """sw1 is the root, sw3 at the bottom: nothing passes through it."""
    fabric, (on, back) = network(Ring(switches=4)), ((2,), (3,))
    assert next_hops(fabric, ALIVE, CLOCKWISE) == {
        "sw1": {"sw4": on, "sw3": on, "sw2": on},
        "sw2": {"sw1": on, "sw4": on, "sw3": on},
        "sw3": {"sw2": on, "sw1": on, "sw4": on},
        "sw4": {"sw3": on, "sw2": on, "sw1": on},
    }
    assert next_hops(fabric, ALIVE, UP_DOWN) == {
        "sw1": {"sw2": back, "sw4": on, "sw3": (2, 3)},
        "sw2": {"sw1": on, "sw4": on, "sw3": back},
        "sw3": {"sw1": (2, 3), "sw2": on, "sw4": back},
        "sw4": {"sw1": back, "sw2": back, "sw3": on},
    }


def test_a_ring_that_has_lost_a_link() -> None:
    """Clockwise nobody gets past it; up and down everybody does, by the other way."""
    fabric, (on, back) = network(Ring(switches=4)), ((2,), (3,))
    cut = frozenset({("sw2", 2)})  # between sw2 and sw3
    clockwise = next_hops(fabric, cut, CLOCKWISE)
    assert (clockwise["sw3"], clockwise["sw1"]) == ({}, {"sw4": on, "sw3": on})
    assert clockwise["sw2"] == {"sw1": on, "sw4": on, "sw3": on}
    assert next_hops(fabric, cut, UP_DOWN) == {
        "sw1": {"sw2": back, "sw4": on, "sw3": on},
        "sw2": {"sw1": on, "sw4": on, "sw3": on},
        "sw3": {"sw1": back, "sw2": back, "sw4": back},
        "sw4": {"sw1": back, "sw2": back, "sw3": on},
    }
