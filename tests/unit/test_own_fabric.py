"""Fabrics of the user's own: laid out, checked, and routed like all others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mininet.topo import Topo

from analysis.fabric import Fabric
from controller.policy import CLOCKWISE, ECMP, UP_DOWN
from experiments import fabrics, limits
from experiments.spec import Spec, parse
from tests.conftest import ROOT
from tests.unit.test_plugins import plug_of, refused
from tests.unit.walk import Walker, planned
from tests.unit.walk import graph as alive_graph
from topologies import own_fabric, plugins
from topologies.describe import describe
from topologies.own_fabric import GraphTopo

EXAMPLE = f"{ROOT}/examples/own_topology.py"
TOPO = (
    "from topologies.routed import RoutedTopo\nfrom topologies.addresses import rack_subnet\n"
    "class made(RoutedTopo):\n    def build(self, leaves=2, hosts_per_leaf=2, link=None, uplink=None, switch=None):\n"
)


def resolved(plug: str, **keys: Any) -> Spec:
    return limits.resolve(parse({"topology": plug, "workload": "permutation", **keys}))


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph:
    """Connected graphs of a few switches, without hosts below some."""
    graph = nx.connected_watts_strogatz_graph(draw(st.integers(4, 9)), 3, 0.5, seed=draw(st.integers(0, 99)))
    for node in draw(st.sets(st.sampled_from(sorted(graph)), max_size=2)):
        graph.nodes[node]["hosts"] = 0
    return graph


@settings(max_examples=40)
@given(graphs(), st.sampled_from([ECMP, UP_DOWN]))
def test_every_host_of_any_graph_reaches_every_other(graph: nx.Graph, routing: str) -> None:
    state = planned(GraphTopo(graph=graph), routing=routing)
    walker, network = Walker(state.network, state.wanted), state.network
    hosts = list(network.hosts)
    for sender in hosts:
        for receiver in hosts:
            if sender != receiver:
                ways = list(walker.ways(sender, receiver))
                assert {(way.end, way.host) for way in ways} == {("delivered", receiver)}
                if routing == ECMP:
                    ends = network.homes[sender][0], network.homes[receiver][0]
                    assert {len(way.switches) - 1 for way in ways} == {
                        nx.shortest_path_length(alive_graph(network), *ends)
                    }


@settings(max_examples=40)
@given(graphs())
def test_the_longest_way_is_the_graphs_diameter_and_analysis_finds_the_same(graph: nx.Graph) -> None:
    fabric = describe(GraphTopo(graph=graph))
    with_hosts = [node for node in graph if graph.nodes[node].get("hosts", 1)]
    diameter = max(nx.shortest_path_length(graph, one, other) for one in with_hosts for other in with_hosts)
    assert own_fabric.longest_links(fabric) == diameter + 2
    assert Fabric.of(fabric.as_json()).longest_links() == diameter + 2


def test_a_graph_is_laid_out_in_its_order() -> None:
    graph = nx.Graph()
    graph.add_node("b", hosts=2)
    graph.add_nodes_from([7, ("x",)])
    graph.add_edges_from([("b", 7), (7, ("x",))])
    fabric = describe(GraphTopo(graph=graph))
    assert [(switch.name, switch.subnet) for switch in fabric.switches] == [
        ("b", "10.0.1.0/24"),
        ("sw2", "10.0.2.0/24"),
        ("sw3", "10.0.3.0/24"),
    ]
    assert [(host.name, host.ip) for host in fabric.hosts][:3] == [
        ("h1", "10.0.1.1"),
        ("h2", "10.0.1.2"),
        ("h3", "10.0.2.1"),
    ]
    links = [wire for wire in fabric.wires if not wire.a.startswith("h")]
    assert [(wire.a, wire.a_port, wire.b, wire.b_port) for wire in links] == [
        ("b", 3, "sw2", 2),
        ("sw2", 3, "sw3", 2),
    ]


def test_parameters_are_the_keys_of_the_same_name() -> None:
    spec = resolved(f"{EXAMPLE}:dragonfly", hosts_per_leaf=3)
    assert (spec.switches, spec.hosts_per_leaf, spec.hosts, spec.k, spec.leaves) == (4, 3, 60, None, None)
    assert (spec.routing, spec.uplink_rate_bps) == ("ecmp", spec.rate_bps)
    assert limits.resolve(spec) == spec


def test_links_and_switches_have_the_specs_profiles() -> None:
    spec = resolved(f"{EXAMPLE}:dragonfly", switches=2, rate="100Gbps", uplink_rate="40Gbps", buffer="300KB")
    found = describe(fabrics.topology(spec))
    hosts = {host.name for host in found.hosts}
    assert {(wire.rate_bps // 10**9, wire.a in hosts) for wire in found.wires} == {(100, True), (40, False)}
    topo = fabrics.topology(spec)
    assert {topo.nodeInfo(name)["profile"].buffer_bytes for name in topo.switches()} == {300_000}


def test_the_round_trip_follows_from_the_longest_way() -> None:
    spec = resolved(f"{EXAMPLE}:dragonfly", delay="1us", switch_delay="500ns")
    # router, router, over to the other group, router: 5 links with the hosts', 4 switches
    assert spec.rtt_ns == 2 * (5 * 1000 + 4 * 500)


def test_a_dragonfly_links_each_two_groups_once() -> None:
    found = describe(fabrics.topology(resolved(f"{EXAMPLE}:dragonfly")))
    between = [
        {wire.a.partition("r")[0], wire.b.partition("r")[0]}
        for wire in found.wires
        if wire.a.startswith("g") and wire.a.partition("r")[0] != wire.b.partition("r")[0]
    ]
    assert sorted(map(sorted, between)) == [[f"g{one}", f"g{two}"] for one in range(5) for two in range(one + 1, 5)]


def test_another_seed_is_another_jellyfish() -> None:
    one, other = (
        describe(fabrics.topology(resolved(f"{EXAMPLE}:jellyfish", seed=seed, switches=12, hosts_per_leaf=1))).wires
        for seed in (1, 2)
    )
    assert len(one) == len(other) and one != other


def test_a_class_is_built_as_ours_are(tmp_path: Path) -> None:
    text = (
        f"{TOPO}        for n in range(1, leaves + 1):\n"
        "            self.add_tier_switch(f'a{n}', 1, switch, rack_subnet(0, n))\n"
        "            self.add_rack_hosts(f'a{n}', hosts_per_leaf, link)\n"
        "        self.add_tier_switch('b', 2, switch)\n"
        "        for n in range(1, leaves + 1):\n"
        "            self.addLink(f'a{n}', 'b', port1=hosts_per_leaf + 1, port2=n, profile=uplink)\n"
    )
    spec = resolved(plug_of(tmp_path, text), leaves=3)
    assert (spec.hosts, spec.rtt_ns) == (6, 2 * (4 * spec.delay_ns + 3 * spec.switch_delay_ns))


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ("nx.path_graph(3, create_using=nx.DiGraph)", "a directed graph; allowed: an undirected one"),
        ("nx.Graph([(1, 1), (1, 2)])", "links a switch to itself"),
        ("nx.Graph([(1, 2), (3, 4)])", "has no way from sw1 to sw3; allowed: a fabric in one piece"),
        ("nx.Graph([('Leaf', 'b')])", "calls a switch 'Leaf'"),
        ("nx.Graph([('h1', 'b')])", "calls a switch 'h1'"),
        ("nx.Graph([('averylongname', 'b')])", "interface averylongname-eth1; allowed: names of up to 15"),
        ("nx.empty_graph(1)", "hosts: auto, all places"),
        ("nx.path_graph(255)", "has 255 switches with hosts; allowed: up to 254"),
        ("nx.Graph()", "has no host"),
        ("nx.star_graph(1030)", "1031 switches with hosts"),
        ("with_tiers((1, 3))", "links sw1 of tier 1 to sw2 of tier 3; allowed: links between neighbouring tiers"),
        ("with_tiers((1, 2, 2))", "links sw2 of tier 2 to sw3 of tier 2"),
        ("with_tiers((1, 4))", "has sw2 at tier 4; allowed: 1 to 3"),
        ("with_hosts(255)", "has a node with hosts=255; allowed: 0 to 254"),
        ("with_hosts(10**9)", "has a node with hosts=1000000000; allowed: 0 to 254"),
        ("with_hosts(-3)", "has a node with hosts=-3; allowed: 0 to 254"),
        ("with_hosts(2.5)", r"has a node with hosts=2\.5; allowed: 0 to 254"),
        ("nx.path_graph(next(calls))", "gives another fabric each time; allowed: the same for the same parameters"),
    ],
)
def test_a_graph_that_cannot_be_a_fabric_is_refused(tmp_path: Path, graph: str, said: str) -> None:
    text = (
        "import networkx as nx\nfrom itertools import count\ncalls = count(2)\n"
        "def made():\n    def with_tiers(tiers):\n        g = nx.path_graph(len(tiers))\n"
        "        nx.set_node_attributes(g, dict(enumerate(tiers)), 'tier')\n        return g\n"
        "    def with_hosts(hosts):\n        g = nx.path_graph(2)\n        g.nodes[0]['hosts'] = hosts\n"
        "        return g\n"
        f"    return {graph}\n"
    )
    with pytest.raises(plugins.BadRequest) as error:
        resolved(plug_of(tmp_path, text))
    assert re.search(said, str(error.value)), error.value
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("self.add_tier_switch('a', 1, switch); self.addHost('x1', ip='10.0.1.1/8')", "calls its hosts x1"),
        (
            "self.add_tier_switch('a', 1, switch, rack_subnet(0, 1)); self.addHost('h1', ip='10.0.1.1/8')",
            "without a link",
        ),
        (
            "self.add_tier_switch('a', 2, switch, rack_subnet(0, 1)); self.add_rack_hosts('a', 2, link)",
            "add_rack_hosts on",
        ),
        (
            "self.add_tier_switch('a', 1, None, rack_subnet(0, 1)); self.add_rack_hosts('a', 2, link)",
            "gives a no profile",
        ),
        (
            "self.add_tier_switch('a', 1, switch, rack_subnet(0, 1)); self.add_rack_hosts('a', 2, None)",
            "the link h1-a no",
        ),
        ("self.addLink('a', 'b')", r"raises KeyError"),
    ],
)
def test_a_class_that_builds_no_fabric_is_refused(tmp_path: Path, body: str, said: str) -> None:
    spec = parse({"topology": plug_of(tmp_path, f"{TOPO}        {body}\n"), "workload": "permutation"})
    with pytest.raises(plugins.BadRequest) as error:
        fabrics.topology(limits.resolve(spec))
    assert re.search(said, str(error.value)), error.value


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"leaves": 2}, "leaves: 2 is given, and made has no such parameter; allowed: switches"),
        ({"hosts": 5}, "hosts: 5 is given, and made has 3; allowed: 3"),
    ],
)
def test_sizes_that_it_has_not_are_refused(tmp_path: Path, keys: dict[str, int], said: str) -> None:
    text = "import networkx as nx\ndef made(switches=3):\n    return nx.path_graph(switches)\n"
    with pytest.raises(plugins.BadRequest) as error:
        resolved(plug_of(tmp_path, text), **keys)
    assert str(error.value) == said


def waits(topo: Topo, routing: str) -> nx.DiGraph:
    """Which links wait for the buffers of which, over all ways through the fabric."""
    state = planned(topo, routing=routing)
    walker, hosts = Walker(state.network, state.wanted), list(state.network.hosts)
    found = nx.DiGraph()
    for one in hosts:
        for other in hosts:
            for way in walker.ways(one, other) if one != other else ():
                links = list(zip(way.switches, way.switches[1:]))
                found.add_edges_from(zip(links, links[1:]))
    return found


def test_up_and_down_no_circle_of_links_waits_for_itself() -> None:
    graphs = [
        nx.cycle_graph(5),
        nx.petersen_graph(),
        plugins.load(plugins.read(f"{EXAMPLE}:dragonfly", "topology"), "")(),
    ]
    for graph in graphs:
        assert nx.is_directed_acyclic_graph(waits(GraphTopo(graph=graph), UP_DOWN))
    assert not nx.is_directed_acyclic_graph(waits(GraphTopo(graph=nx.cycle_graph(5)), ECMP))


def test_no_fabric_of_ones_own_is_routed_round_a_ring() -> None:
    with pytest.raises(
        plugins.BadRequest, match=r"^routing: clockwise is given with topology=.*; allowed: with topology=ring"
    ):
        resolved(f"{EXAMPLE}:dragonfly", routing=CLOCKWISE)


def test_a_bad_topology_of_another_kind_says_its_key(tmp_path: Path) -> None:
    assert refused("topology", tmp_path, "class made: pass").startswith("topology: made of ")
