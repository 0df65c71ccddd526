"""What the controller knows and wants: the fabric with what has died and moved, and the rules that follow. Pure."""

from __future__ import annotations

from controller.policy import Orders
from controller.routing import Network, Port, next_hops, routes
from controller.rules import Change, Rules, change, nothing, rules


class FabricState:
    """Takes news of ports and hosts, and tells what has to change on which switch."""

    def __init__(self, orders: Orders) -> None:
        self.policy = orders.policy
        self.network = Network(orders.fabric)
        self.by_dpid = {switch.dpid: switch.name for switch in orders.fabric.switches}
        self._by_identity = {(host.ip, host.mac): host.name for host in orders.fabric.hosts}
        self.dead: frozenset[Port] = frozenset()
        self.installed = {name: nothing() for name in self.network.switches}
        self.wanted = self._rules()

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

    def decide(self) -> None:
        """Derive the wanted rules from all news so far."""
        self.wanted = self._rules()

    def _rules(self) -> dict[str, Rules]:
        hops = next_hops(self.network, self.dead)
        return {
            name: rules(self.network, self.policy, name, routes(self.network, hops, name))
            for name in self.network.switches
        }

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
