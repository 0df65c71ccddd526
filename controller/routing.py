"""Where packets go: shortest paths over what is alive, for every switch and every rack.

Pure: a fabric and the set of dead ports in, next hops out. Up-and-down routing falls out of the shortest paths of a
Clos network: all uplinks that lie on one share the traffic (ECMP), and downwards there is one way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from controller.prefixes import Ports, Prefix, parse_prefix
from topologies.describe import FabricDescription, HostNode, SwitchNode

Port = tuple[str, int]  # switch name, OpenFlow port number


@dataclass(frozen=True)
class Network:
    """A fabric as the routing sees it. `moved`: hosts that are no longer where the description has them."""

    fabric: FabricDescription
    moved: Mapping[str, Port] = field(default_factory=dict)

    @cached_property
    def switches(self) -> dict[str, SwitchNode]:
        """Name -> switch."""
        return {switch.name: switch for switch in self.fabric.switches}

    @cached_property
    def hosts(self) -> dict[str, HostNode]:
        """Name -> host."""
        return {host.name: host for host in self.fabric.hosts}

    @cached_property
    def trunks(self) -> dict[str, dict[int, Port]]:
        """Switch -> its ports towards other switches -> the port at the other end."""
        found: dict[str, dict[int, Port]] = {name: {} for name in self.switches}
        for wire in self.fabric.wires:
            if wire.a in self.switches:
                found[wire.a][wire.a_port] = (wire.b, wire.b_port)
                found[wire.b][wire.b_port] = (wire.a, wire.a_port)
        return found

    @cached_property
    def homes(self) -> dict[str, Port]:
        """Host -> the switch port of its first interface, where others reach it."""
        found = {}
        for wire in self.fabric.wires:
            if wire.a in self.hosts and wire.a_port == 0:
                found[wire.a] = (wire.b, wire.b_port)
        return {**found, **self.moved}

    @cached_property
    def attached(self) -> dict[str, dict[str, int]]:
        """Switch -> host -> port of every interface of a host that leads to the switch."""
        found: dict[str, dict[str, int]] = {name: {} for name in self.switches}
        for wire in self.fabric.wires:
            if wire.a in self.hosts and not (wire.a_port == 0 and wire.a in self.moved):
                found[wire.b][wire.a] = wire.b_port
        for host, (switch, port) in self.moved.items():
            found[switch][host] = port
        return found

    @cached_property
    def racks(self) -> dict[Prefix, str]:
        """Subnet -> the switch that has it; a host that moved is a subnet of its own."""
        found = {parse_prefix(switch.subnet): switch.name for switch in self.fabric.switches if switch.subnet}
        return {**found, **{parse_prefix(self.hosts[host].ip): switch for host, (switch, _) in self.moved.items()}}

    def numbers(self, shift: int) -> tuple[int, ...]:
        """Every number that the octet `shift` bits from the right has in a host's address."""
        return tuple(sorted({parse_prefix(host.ip)[0] >> shift & 0xFF for host in self.fabric.hosts}))

    def up_ports(self, switch: str) -> Ports:
        """Ports towards switches of a higher tier."""
        tier = self.switches[switch].tier
        return tuple(sorted(p for p, (peer, _) in self.trunks[switch].items() if self.switches[peer].tier > tier))

    def down_ports(self, switch: str) -> Ports:
        """Ports towards switches of a lower tier."""
        tier = self.switches[switch].tier
        return tuple(sorted(p for p, (peer, _) in self.trunks[switch].items() if self.switches[peer].tier < tier))

    def with_move(self, host: str, to: Port) -> Network:
        """The network after `host` has moved."""
        return Network(self.fabric, {**self.moved, host: to})


def next_hops(network: Network, dead: frozenset[Port]) -> dict[str, dict[str, Ports]]:
    """Target switch -> switch -> ports on the shortest paths to it, both ends of their links alive.

    A switch without any way to the target is left out. Breadth-first from each target.
    """
    alive = {
        switch: {port: peer for port, peer in ports.items() if (switch, port) not in dead and peer not in dead}
        for switch, ports in network.trunks.items()
    }
    return {target: _towards(alive, target) for target in sorted(set(network.racks.values()))}


def _towards(alive: Mapping[str, Mapping[int, Port]], target: str) -> dict[str, Ports]:
    distance = {target: 0}
    queue = deque([target])
    while queue:
        here = queue.popleft()
        for peer, _ in alive[here].values():
            if peer not in distance:
                distance[peer] = distance[here] + 1
                queue.append(peer)
    return {
        switch: tuple(sorted(port for port, (peer, _) in alive[switch].items() if distance.get(peer) == away - 1))
        for switch, away in distance.items()
        if away
    }


def routes(network: Network, hops: Mapping[str, Mapping[str, Ports]], switch: str) -> dict[Prefix, Ports]:
    """The whole table of one switch: subnet -> ports that lead to it; no ports where there is no way, or where it is
    the switch's own (its hosts have rules of their own; other addresses of it are nobody's)."""
    return {
        prefix: () if target == switch else hops[target].get(switch, ()) for prefix, target in network.racks.items()
    }
