"""A fabric of the user's own (see `plugins`): a class like those of this folder, or a function that returns a graph.

A class derives from `RoutedTopo` and has a `build`. A function returns a networkx graph, whose nodes are switches:

    def cube(hosts_per_leaf=2):              sw3 --- sw7       node: `hosts` below it (else `hosts_per_leaf`, else 1),
        return nx.hypercube_graph(3)          | \\     | \\            `tier` (else 1)
                                             h5 h6    ...       edge: a link between switches

Parameters that are called like keys of the fabric get the values of these. Whatever made it, a fabric is checked before
anything is built: routing, names and addresses of all others hold for it too.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from mininet.topo import Topo

from topologies import plugins
from topologies.addresses import MOST_RACK_HOSTS, MOST_RACKS, interface, rack_subnet
from topologies.describe import FabricDescription, describe
from topologies.plugins import Plug
from topologies.profiles import LinkProfile, SwitchProfile
from topologies.routed import RoutedTopo

KEY = "topology"
SIZES = ("hosts", "leaves", "spines", "hosts_per_leaf", "switches", "k", "servers", "seed")
MOST_TIERS = 3
_MOST_NAME = 15  # of an interface, linux/if.h
_NAME = re.compile(r"[a-z][a-z0-9]*")
_HOST = re.compile(r"h[0-9]+")
_NAMES = "small letters and digits, as leaf1, and no host's name"
_MADE = "a class derived from topologies.routed.RoutedTopo, or a function that returns a networkx graph"


def parameters(plug: Plug) -> dict[str, Any]:
    """Those of SIZES that the fabric has as parameters, with their defaults; raises BadRequest for a plug that is no
    fabric, or asks for more than it can be given."""
    made = plugins.load(plug, KEY)
    if not callable(made):
        raise plugins.refuse(plug, KEY, f"is {type(made).__name__}", _MADE)
    with plugins.told(plug, KEY):
        found = inspect.signature(made.build if _is_topo(made) else made).parameters
    given = [*SIZES, *_PROFILES, "self"]
    for name, parameter in found.items():
        is_open = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not is_open and name not in given:
            raise plugins.refuse(plug, KEY, f"has a parameter {name} without a default", f"{', '.join(SIZES)}")
    return {name: found[name].default for name in SIZES if name in found}


_PROFILES = ("link", "uplink", "switch")


def _is_topo(made: Any) -> bool:
    return isinstance(made, type) and issubclass(made, Topo)


def lay_out(plug: Plug, sizes: Mapping[str, Any], **profiles: LinkProfile | SwitchProfile | None) -> Topo:
    """The fabric with these of its parameters; without `profiles` (link, uplink, switch) it has names and ports alone.
    Raises BadRequest for one that cannot be built or routed."""
    made = plugins.load(plug, KEY)
    given = {name: size for name, size in sizes.items() if name in parameters(plug) and size is not None}
    with plugins.told(plug, KEY):
        if _is_topo(made):
            topo = made(**given, **profiles)
        else:
            topo = _of_graph(plug, made, given, sizes.get("hosts_per_leaf"), profiles)
        _check(plug, topo, profiles)
    return topo


@lru_cache(maxsize=64)
def _described(plug: Plug, sizes: tuple[tuple[str, Any], ...]) -> FabricDescription:
    found, again = (describe(lay_out(plug, dict(sizes))) for _ in range(2))
    if found != again:  # the lab would have another one than its run directory
        raise plugins.refuse(plug, KEY, "gives another fabric each time", "the same for the same parameters, as seed")
    return found


def described(plug: Plug, sizes: Mapping[str, Any]) -> FabricDescription:
    """Its nodes and links, without rates and delays."""
    return _described(plug, tuple(sizes.items()))


def longest_links(fabric: FabricDescription) -> int:
    """Links between the two hosts that are farthest apart, by shortest ways."""
    import networkx as nx

    hosts = {host.name for host in fabric.hosts}
    racks = {wire.b for wire in fabric.wires if wire.a in hosts}
    graph = _switches_of(fabric)
    away = (nx.single_source_shortest_path_length(graph, rack) for rack in racks)
    return 2 + max(links[other] for links in away for other in racks)


def _switches_of(fabric: FabricDescription) -> Any:
    """The switches and the links between them, as a networkx graph; only who has a fabric of their own loads it."""
    import networkx as nx

    switches = [switch.name for switch in fabric.switches]
    graph = nx.Graph((wire.a, wire.b) for wire in fabric.wires if {wire.a, wire.b} <= set(switches))
    graph.add_nodes_from(switches)
    return graph


# --- a graph


class GraphTopo(RoutedTopo):
    """The switches of a graph with their hosts: h1, h2, ... on the first ports of each in the graph's order, then its
    links in theirs. A node that is a text is the switch's name, others are sw1, sw2, ..."""

    def build(
        self,
        graph: Any,
        hosts_per_leaf: int | None = None,
        link: LinkProfile | None = None,
        uplink: LinkProfile | None = None,
        switch: SwitchProfile | None = None,
    ) -> None:
        """Lay out the fabric."""
        names, ports, racks = {}, Counter[str](), 0
        for number, (node, told) in enumerate(graph.nodes(data=True), start=1):
            name = node if isinstance(node, str) else f"sw{number}"
            tier = told.get("tier", 1)
            hosts = told.get("hosts", (hosts_per_leaf or 1) if tier == 1 else 0)
            racks += bool(hosts)
            subnet = rack_subnet(0, racks) if hosts else None
            names[node] = self.add_tier_switch(name, tier, switch, subnet=subnet)
            if hosts:
                self.add_rack_hosts(name, hosts, link)
            ports[name] = hosts
        for here, there in graph.edges():
            ends = names[here], names[there]
            ports.update(ends)
            self.addLink(*ends, port1=ports[ends[0]], port2=ports[ends[1]], profile=uplink)


def _of_graph(
    plug: Plug,
    make: Callable[..., Any],
    given: Mapping[str, Any],
    hosts_per_leaf: int | None,
    profiles: Mapping[str, Any],
) -> Topo:
    graph = make(**given)
    if isinstance(graph, Topo):
        raise plugins.refuse(plug, KEY, "returns a Topo", _MADE)
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise plugins.refuse(plug, KEY, f"returns {type(graph).__name__}", _MADE)
    if graph.is_directed():
        raise plugins.refuse(plug, KEY, "returns a directed graph", "an undirected one: links go both ways")
    if any(here == there for here, there in graph.edges()):
        raise plugins.refuse(plug, KEY, "links a switch to itself", "links between two switches")
    unfit = [node for node in graph if isinstance(node, str) and not _is_switch_name(node)]
    if unfit:
        raise plugins.refuse(plug, KEY, f"calls a switch {unfit[0]!r}", _NAMES)
    # Before anything is laid out, which a number too large never ends.
    uncounted = [told for _, told in graph.nodes(data=True) if told.get("hosts", 0) not in range(MOST_RACK_HOSTS + 1)]
    if uncounted:
        raise plugins.refuse(plug, KEY, f"has a node with hosts={uncounted[0]['hosts']!r}", f"0 to {MOST_RACK_HOSTS}")
    per_leaf = hosts_per_leaf or parameters(plug).get("hosts_per_leaf")
    return GraphTopo(graph=graph, hosts_per_leaf=per_leaf, **profiles)


# --- what every fabric has to be


def _check(plug: Plug, topo: Topo, profiles: Mapping[str, Any]) -> None:
    """Raises BadRequest for what could not be built, routed or addressed."""
    for check in (_check_names, _check_switches, _check_hosts, _check_whole):
        trouble = check(describe(topo))
        if trouble:
            raise plugins.refuse(plug, KEY, *trouble)
    if any(profiles.values()):
        _check_profiles(plug, topo, profiles)


Trouble = tuple[str, str]  # what is given, what is allowed


def _is_switch_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not _HOST.fullmatch(name)


def _check_names(fabric: FabricDescription) -> Trouble | None:
    names = [host.name for host in fabric.hosts]
    wanted = [f"h{number}" for number in range(1, len(names) + 1)]
    if names != wanted:
        return f"calls its hosts {', '.join(names[:3])}, ...", "h1, h2, ... in order (add_rack_hosts does it)"
    for switch in fabric.switches:
        if not _is_switch_name(switch.name):
            return f"calls a switch {switch.name!r}", _NAMES
    ends = ((wire.b, wire.b_port) for wire in fabric.wires)
    longest = max((interface(*end) for end in ends), key=len, default="")
    if len(longest) > _MOST_NAME:
        return f"has an interface {longest}", f"names of up to {_MOST_NAME} letters: shorter names of switches"
    return None


def _check_switches(fabric: FabricDescription) -> Trouble | None:
    tiers = {switch.name: switch.tier for switch in fabric.switches}
    for name, tier in tiers.items():
        if not isinstance(tier, int) or not 1 <= tier <= MOST_TIERS:
            return f"has {name} at tier {tier!r}", f"1 to {MOST_TIERS}"
    for wire in fabric.wires:
        if wire.a in tiers and len(set(tiers.values())) > 1 and abs(tiers[wire.a] - tiers[wire.b]) != 1:
            given = f"links {wire.a} of tier {tiers[wire.a]} to {wire.b} of tier {tiers[wire.b]}"
            return given, "links between neighbouring tiers, or tier 1 for all switches"
    racks = sum(switch.subnet is not None for switch in fabric.switches)
    return (f"has {racks} switches with hosts", f"up to {MOST_RACKS}") if racks > MOST_RACKS else None


def _check_hosts(fabric: FabricDescription) -> Trouble | None:
    subnets = {switch.name: switch.subnet for switch in fabric.switches}
    tiers = {switch.name: switch.tier for switch in fabric.switches}
    addresses = {host.name: host.ip for host in fabric.hosts}
    links = Counter(wire.a for wire in fabric.wires)
    for wire in fabric.wires:
        if wire.a not in addresses:
            continue
        subnet = subnets.get(wire.b)
        if links[wire.a] > 1 or wire.a_port != 0:
            return f"links {wire.a} more than once, or not at port 0", "one link of a host, its eth0"
        if subnet is None or tiers[wire.b] != 1 or addresses[wire.a].rpartition(".")[0] != subnet.rpartition(".")[0]:
            return f"has {wire.a} ({addresses[wire.a]}) below {wire.b} ({subnet})", "add_rack_hosts on tier 1"
    most = max(Counter(wire.b for wire in fabric.wires if wire.a in addresses).values(), default=0)
    return (f"has {most} hosts below one switch", f"up to {MOST_RACK_HOSTS}") if most > MOST_RACK_HOSTS else None


def _check_whole(fabric: FabricDescription) -> Trouble | None:
    import networkx as nx

    if not fabric.hosts:
        return "has no host", "2 or more"
    alone = [host.name for host in fabric.hosts if host.name not in {wire.a for wire in fabric.wires}]
    if alone:
        return f"has {alone[0]} without a link", "one link of each host, addLink(HOST, SWITCH)"
    first = fabric.switches[0].name
    together = nx.node_connected_component(_switches_of(fabric), first)
    apart = [switch.name for switch in fabric.switches if switch.name not in together]
    return (f"has no way from {first} to {apart[0]}", "a fabric in one piece") if apart else None


def _check_profiles(plug: Plug, topo: Topo, profiles: Mapping[str, Any]) -> None:
    """Rates, delays and queues are the spec's: thresholds follow from them."""
    for name in topo.switches():
        if topo.nodeInfo(name).get("profile") != profiles["switch"]:
            raise plugins.refuse(plug, KEY, f"gives {name} no profile, or its own", "profile=switch")
    hosts = set(topo.hosts())
    for here, there, told in topo.links(withInfo=True):
        wanted = "link" if hosts & {here, there} else "uplink"
        if told.get("profile") != profiles[wanted]:
            given = f"gives the link {here}-{there} no profile, or its own"
            raise plugins.refuse(plug, KEY, given, f"profile={wanted}")
