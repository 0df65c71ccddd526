"""Follows packets through the rules of a fabric: OpenFlow's tables, groups and liveness, without OpenFlow.

fabric = Walker(network, rules, dead)
fabric.walk("h1", "h5", choice=7)    the way of one packet, whose hash `choice` stands for
fabric.ways("h1", "h5")              the ways of all packets, whatever their hashes
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import combinations
from typing import Any

import networkx as nx
from mininet.topo import Topo

from controller.failover import IN_PORT
from controller.policy import Orders, Policy
from controller.prefixes import parse_prefix
from controller.routing import Network, Port
from controller.rules import (
    PORT_REGISTER,
    THE_PORT,
    AnswerArp,
    Drop,
    Flow,
    GoTo,
    Leave,
    Output,
    Rules,
    ToController,
    ToGroup,
)
from controller.state import FabricState
from topologies.describe import describe

_IPV4 = 0x0800
_ALL = 0xFFFFFFFF
NOT_ECT, ECT_1, ECT_0, CE = range(4)  # RFC 3168
Shape = tuple[tuple[str, int], ...]  # the fields of a match, with their masks
Values = tuple[int, ...]


@dataclass(frozen=True)
class Walk:
    """The switches that a packet passed and what became of it: "delivered" to `host`; "dropped"; "looping" when it has
    come to a place where it was before, so that only its TTL will end it. `ecn`: its ECN field at the end."""

    switches: tuple[str, ...]
    end: str
    host: str | None = None
    ecn: int = NOT_ECT


@dataclass(frozen=True)
class _Packet:
    """On its way: where it is, by which port it came, what it has passed, its ECN field, and what has been chosen for
    it at the select groups that it met: a packet that meets one again is sent the same way again."""

    place: Port
    places: tuple[Port, ...] = ()
    ecn: int = NOT_ECT
    chosen: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def walked(self, end: str, host: str | None = None) -> Walk:
        return Walk(tuple(switch for switch, _ in (*self.places, self.place)), end, host, self.ecn)


class Walker:
    """A fabric with the rules that its switches hold and the ports that are really dead (both ends of a link)."""

    def __init__(self, network: Network, rules: Mapping[str, Rules], dead: Collection[Port] = ()) -> None:
        self.network, self.rules = network, rules
        self.tables = {name: Tables(each) for name, each in rules.items()}
        self.hosts = {name: {port: host for host, port in ports.items()} for name, ports in network.attached.items()}
        self.dies(dead)

    def dies(self, dead: Collection[Port]) -> None:
        """From now on these ports are dead, and no others."""
        self.alive = {
            name: {port for port in self.network.trunks[name] if (name, port) not in dead} | set(self.hosts[name])
            for name in self.network.switches
        }

    def walk(self, source: str, target: str, choice: int, ecn: int = NOT_ECT) -> Walk:
        """From host `source` to host (or address) `target`; `choice` stands for the packet's hash."""
        packet, address = self._sent(source, target, ecn), self._address(target)
        while True:
            outs, at = self._outs(packet, address)
            if at is not None and len(outs) > 1:
                outs = [self._hashed(at, outs, choice)]
            after = self._onward(packet, outs[0] if outs else None)
            if isinstance(after, Walk):
                return after
            packet = after

    def ways(self, source: str, target: str, ecn: int = NOT_ECT) -> Iterator[Walk]:
        """All walks from host `source` to host (or address) `target` that there are, whatever the hashes."""
        waiting, address = [self._sent(source, target, ecn)], self._address(target)
        while waiting:
            packet = waiting.pop()
            outs, at = self._outs(packet, address)
            choices: list[int | None] = [*outs] or [None]
            for out in choices:
                chosen = packet.chosen if at is None or out is None else {**packet.chosen, at: out}
                after = self._onward(replace(packet, chosen=chosen), out)
                if isinstance(after, Walk):
                    yield after
                else:
                    waiting.append(after)

    def _address(self, target: str) -> int:
        return parse_prefix(self.network.hosts[target].ip if target in self.network.hosts else target)[0]

    def _sent(self, source: str, target: str, ecn: int) -> _Packet:
        return _Packet(first_place(self.network, source, target), ecn=ecn)

    def _onward(self, packet: _Packet, out: int | None) -> _Packet | Walk:
        """After the packet has left its place by what flows and groups have chosen, port `out`."""
        switch, in_port = packet.place
        if out is not None and self.rules[switch].by_table:
            out, ecn = self.tables[switch].leave(in_port, out, packet.ecn)
            packet = replace(packet, ecn=ecn)
        out = _real(in_port, out)
        if out is None or out not in self.alive[switch]:
            return packet.walked("dropped")
        if out in self.hosts[switch]:
            return packet.walked("delivered", self.hosts[switch][out])
        there = self.network.trunks[switch][out]
        if there in (*packet.places, packet.place):
            return packet.walked("looping")
        return replace(packet, place=there, places=(*packet.places, packet.place))

    def _outs(self, packet: _Packet, address: int) -> tuple[list[int], tuple[str, int] | None]:
        """What the packet may leave by (nothing: it is dropped), and which select group says so, if any."""
        switch, in_port = packet.place
        action = self.tables[switch].action(in_port, address)
        if isinstance(action, Output):
            return [action.port], None
        if not isinstance(action, ToGroup):
            return [], None
        group, at = self.rules[switch].groups[action.group_id], (switch, action.group_id)
        live = [each.port for each in group.buckets if each.watch is None or each.watch in self.alive[switch]]
        if group.kind == "failover":
            return live[:1], None
        if at in packet.chosen:
            return [packet.chosen[at]], None
        return live, at

    def _hashed(self, at: tuple[str, int], ports: Collection[int], choice: int) -> int:
        """As Open vSwitch chooses (ofproto-dpif-xlate.c, group_best_live_bucket): the bucket whose id, hashed with the
        packet, scores best; so packets stay with their port when another one dies."""
        seed = self.rules[at[0]].groups[at[1]].seed
        return max(ports, key=lambda port: blake2b(f"{choice}/{seed}/{port}".encode(), digest_size=8).digest())


def _real(in_port: int, out: int | None) -> int | None:
    """OpenFlow: a packet never leaves by the port it came by, unless it is told to with that very word."""
    return None if out == in_port else in_port if out == IN_PORT else out


def first_place(network: Network, source: str, target: str) -> Port:
    """The switch port that a host sends to: of the switch inside its server when the target is on it too."""
    for switch, ports in network.attached.items():
        if network.switches[switch].inside_server and source in ports and target in ports:
            return switch, ports[source]
    return network.homes[source]


class Tables:
    """The flows of a switch, sorted for lookup: those of one table, priority and shape of match are one dictionary."""

    def __init__(self, rules: Rules) -> None:
        self.found: dict[tuple[int, int], dict[Shape, dict[Values, Flow]]] = {}
        self.twice: list[tuple[Flow, Flow]] = []
        for flow in rules.flows:
            shape = tuple((name, _ALL if mask == -1 else mask) for name, _, mask in flow.match)
            values = tuple(value for _, value, _ in flow.match)
            same = self.found.setdefault((flow.table, flow.priority), {}).setdefault(shape, {})
            if values in same:
                self.twice.append((same[values], flow))
            same[values] = flow  # as a switch does that is told the same entry again
        self.order = sorted(self.found, key=lambda key: (key[0], -key[1]))
        self.answers: dict[tuple[int, int], object] = {}

    def action(self, in_port: int, address: int) -> object:
        """What is done in the end with an IPv4 packet (None: no flow matches it)."""
        if (in_port, address) not in self.answers:
            self.answers[in_port, address] = self._action(in_port, address)
        return self.answers[in_port, address]

    def _action(self, in_port: int, address: int) -> object:
        table = 0
        while True:
            flow = self._lookup(table, {"in_port": in_port, "eth_type": _IPV4, "ipv4_dst": address})
            if flow is None or isinstance(flow.action, (Drop, ToController, AnswerArp)):
                return None
            if not isinstance(flow.action, GoTo):
                return flow.action
            assert flow.action.table > table, "a table may only lead to a later one"
            table = flow.action.table

    def leave(self, in_port: int, out: int, ecn: int) -> tuple[int | None, int]:
        """The port by which a packet leaves when `out` was chosen for it (None: no flow matches), and its ECN field
        then."""
        packet = {PORT_REGISTER: out, "in_port": in_port, "eth_type": _IPV4, "ip_ecn": ecn}
        flow = self._lookup(THE_PORT, packet)
        if flow is None:
            return None, ecn
        assert isinstance(flow.action, Leave)
        return flow.action.port, CE if flow.action.marked else ecn

    def _lookup(self, table: int, packet: Mapping[str, int]) -> Flow | None:
        for key in self.order:
            if key[0] != table:
                continue
            for shape, flows in self.found[key].items():
                if all(name in packet for name, _ in shape):
                    flow = flows.get(tuple(packet[name] & mask for name, mask in shape))
                    if flow is not None:
                        return flow
        return None

    def overlaps(self) -> list[tuple[Flow, Flow]]:
        """Pairs of flows of one table and priority that one packet could match."""
        different = (
            pair
            for shapes in self.found.values()
            for one, other in combinations(shapes, 2)
            for pair in _overlaps(one, shapes[one], other, shapes[other])
        )
        return [*self.twice, *different]


def _overlaps(
    one: Shape, ones: Mapping[Values, Flow], other: Shape, others: Mapping[Values, Flow]
) -> Iterator[tuple[Flow, Flow]]:
    """Flows that agree in all the bits which both shapes look at."""
    first, second = dict(one), dict(other)
    both = {name: first[name] & second[name] for name in first if name in second}

    def said(shape: Shape, values: Values) -> Values:
        return tuple(value & both[name] for (name, _), value in sorted(zip(shape, values)) if name in both)

    by_common: dict[Values, Flow] = {said(one, values): flow for values, flow in ones.items()}
    for values, flow in others.items():
        if said(other, values) in by_common:
            yield by_common[said(other, values)], flow


# --- fabrics to walk through


def planned(topo: Topo, **policy: Any) -> FabricState:
    """What a controller with such a `policy` would want of a fabric."""
    return FabricState(Orders(describe(topo), Policy(**policy)))


def links(network: Network) -> list[frozenset[Port]]:
    """Every link between switches, as its two ports."""
    found = {
        frozenset({(switch, port), peer}): None
        for switch, ports in network.trunks.items()
        for port, peer in ports.items()
    }
    return list(found)


def links_of(network: Network, switch: str) -> frozenset[Port]:
    """Both ports of every link of a switch: what is dead when the switch is."""
    return frozenset(port for link in links(network) for port in link if switch in {name for name, _ in link})


def single_failures(network: Network) -> Iterator[frozenset[Port]]:
    """The dead ports of each link, and of each switch that is no rack."""
    yield from links(network)
    for name, switch in network.switches.items():
        if network.trunks[name] and switch.subnet is None:
            yield links_of(network, name)


def rack_pairs(network: Network) -> list[tuple[str, str]]:
    """The first host of each rack to every host of the others, but not to one on the same switch inside a server."""
    first = {switch: host for host, (switch, _) in reversed(network.homes.items())}
    return [
        (sender, receiver)
        for rack, sender in first.items()
        for receiver, (other, _) in network.homes.items()
        if other != rack and first_place(network, sender, receiver)[0] == rack
    ]


def graph(network: Network, dead: Collection[Port] = ()) -> nx.Graph:
    """The switches and what links them, for a second opinion on paths; links with a dead port left out."""
    found = nx.Graph()
    found.add_nodes_from(network.switches)
    found.add_edges_from({name for name, _ in link} for link in links(network) if not link & set(dead))
    return found


def leads_up_and_down(network: Network, alive: nx.Graph, one: str, other: str) -> bool:
    """Whether a path of `alive` leads from one rack up some tiers and then only down to the other."""

    def above(switch: str) -> set[str]:
        higher = [peer for peer in alive[switch] if network.switches[peer].tier > network.switches[switch].tier]
        return {switch}.union(*map(above, higher))

    return bool(above(one) & above(other))
