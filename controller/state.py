"""What the controller knows and wants: the fabric with what has died and moved, which ports mark, and the rules that
follow. Pure."""

from __future__ import annotations

from dataclasses import replace

from controller.policy import CONTROLLER, SWITCH, Orders
from controller.routing import Network, Port, next_hops, routes
from controller.rules import Change, Rules, change, marks, nothing, rules
from topologies.describe import ends
from topologies.profiles import Marking


class FabricState:
    """Takes news of ports, hosts and queues, and tells what has to change on which switch.

    `curves`: switch -> interface of each of its ports -> the curve that its queues are to mark by, where they do.
    Raises KeyError when there is none for the rate of a link.
    """

    def __init__(self, orders: Orders) -> None:
        self.policy = orders.policy
        self.network = Network(orders.fabric)
        self.by_dpid = {switch.dpid: switch.name for switch in orders.fabric.switches}
        self._by_identity = {(host.ip, host.mac): host.name for host in orders.fabric.hosts}
        self.dead: frozenset[Port] = frozenset()
        self.marking: frozenset[Port] = frozenset()
        self.installed = {name: nothing() for name in self.network.switches}
        self.curves = _curves(orders)
        self.decide()

    def port_is(self, port: Port, alive: bool) -> bool:
        """News of a port; says whether it changes the routes (ports to hosts do not)."""
        switch, number = port
        if number not in self.network.trunks[switch] or alive == (port not in self.dead):
            return False
        self.dead = self.dead - {port} if alive else self.dead | {port}
        return True

    def host_is_at(self, address: str, mac: str, port: Port) -> str | None:
        """News of the port at which a host with this address and MAC was heard; its name when it has moved there."""
        switch, number = port
        name = self._by_identity.get((address, mac))
        if name is None or number in self.network.trunks[switch]:
            return None
        if self.network.attached[switch].get(name) == number:
            return None
        self.network = self.network.with_move(name, port)
        return name

    def mark(self, port: Port, on: bool) -> bool:
        """From now on packets that leave by this port are to be marked, or are no longer; says whether that is news.
        Raises ValueError where the controller does not mark, and for a port that is not there."""
        switch, number = port
        there = {*self.network.trunks.get(switch, ()), *self.network.attached.get(switch, {}).values()}
        if self.policy.marking != CONTROLLER or number not in there:
            said = "it is not there" if self.policy.marking == CONTROLLER else f"marking={self.policy.marking}"
            raise ValueError(f"port {number} of switch {switch} cannot mark by rules: {said}")
        if on == (port in self.marking):
            return False
        self.marking = self.marking | {port} if on else self.marking - {port}
        self.wanted[switch] = self._with_marks(switch)
        return True

    def decide(self) -> None:
        """Derive the wanted rules from all news so far."""
        hops = next_hops(self.network, self.dead, self.policy.routing)
        self._unmarked = {
            name: rules(self.network, self.policy, name, routes(self.network, hops, name))
            for name in self.network.switches
        }
        self.wanted = {name: self._with_marks(name) for name in self._unmarked}

    def _with_marks(self, switch: str) -> Rules:
        found = self._unmarked[switch]
        extra = [flow for name, port in sorted(self.marking) if name == switch for flow in marks(port)]
        return replace(found, flows=(*found.flows, *extra)) if extra else found

    def pending(self, switch: str) -> Change:
        """What the switch still lacks."""
        return change(self.installed[switch], self.wanted[switch])

    def sent(self, switch: str) -> None:
        """The switch has been sent all that it lacked."""
        self.installed[switch] = self.wanted[switch]

    def forgotten(self, switch: str) -> None:
        """The switch has (re)connected: nothing is known of what it holds."""
        self.installed[switch] = nothing()

    def from_the_top(self) -> list[str]:
        """All switches, the highest tier first: told in this order, one is seldom sent traffic before it knows where
        to."""
        return sorted(self.network.switches, key=lambda name: -self.network.switches[name].tier)

    def trunk_ports(self) -> list[Port]:
        """Every port that leads to another switch."""
        return [(switch, port) for switch, ports in self.network.trunks.items() for port in ports]


def _curves(orders: Orders) -> dict[str, dict[str, Marking]]:
    by_rate = dict(orders.policy.thresholds)
    found: dict[str, dict[str, Marking]] = {switch.name: {} for switch in orders.fabric.switches}
    if by_rate and orders.policy.marking == SWITCH:
        for end in (end for wire in orders.fabric.wires for end in ends(wire) if end.node in found):
            found[end.node][end.interface] = by_rate[end.wire.rate_bps]
    return found
