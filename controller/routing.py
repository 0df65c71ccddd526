"""Where packets go over what is alive, for every switch and every rack.

Pure: a fabric and the set of dead ports in, next hops out. Shortest paths (ECMP, D_MOD_K): up-and-down routing falls
out of them in a Clos network, where all uplinks that lie on one share the traffic and downwards there is one way.

In a ring shortest paths may wait for each other's buffers all the way round. There are two ways through it that show
it:

CLOCKWISE  every packet goes from each switch to the next in order: the links wait for each other in a circle.
UP_DOWN    up*/down* (Schroeder et al., Autonet, 1991), for any fabric: each link has an upper end, the one nearer to
           the first switch, and no packet goes up after it has gone down, so that no such circle can be.

No switch of a ring is above another: of a dead link it makes nothing by itself but to take the other of two ways that
its routing allows (see `failover`), so that it never leaves them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from controller.policy import CLOCKWISE, ECMP, UP_DOWN
from controller.prefixes import Ports, Prefix, parse_prefix
from topologies.describe import FabricDescription, HostNode, SwitchNode

Port = tuple[str, int]  # switch name, OpenFlow port number
Links = Mapping[str, Mapping[int, Port]]  # switch -> its living ports towards other switches -> the other ends


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


def next_hops(network: Network, dead: frozenset[Port], routing: str = ECMP) -> dict[str, dict[str, Ports]]:
    """Target switch -> switch -> ports on the ways to it that `routing` allows, both ends of their links alive.

    A switch without any way to the target is left out.
    """
    alive = {
        switch: {port: peer for port, peer in ports.items() if (switch, port) not in dead and peer not in dead}
        for switch, ports in network.trunks.items()
    }
    targets = sorted(set(network.racks.values()))
    if routing == CLOCKWISE:
        return {target: _clockwise(list(network.switches), alive, target) for target in targets}
    if routing == UP_DOWN:
        above = _above(list(network.switches), alive)
        return {target: _up_and_down(above, alive, target) for target in targets}
    return {target: _nearer(alive, _distances(alive, [target])) for target in targets}


def _distances(alive: Links, ends: Iterable[str]) -> dict[str, int]:
    """Every switch that can be reached from one of `ends` -> over how many links from the nearest. Breadth-first."""
    distance = dict.fromkeys(ends, 0)
    queue = deque(distance)
    while queue:
        here = queue.popleft()
        for peer, _ in alive[here].values():
            if peer not in distance:
                distance[peer] = distance[here] + 1
                queue.append(peer)
    return distance


def _nearer(alive: Links, distance: Mapping[str, int]) -> dict[str, Ports]:
    """Switch -> the ports to those of its neighbours that are nearer; none of switches at distance 0."""
    return {
        switch: tuple(sorted(port for port, (peer, _) in alive[switch].items() if distance.get(peer) == away - 1))
        for switch, away in distance.items()
        if away
    }


def _clockwise(ring: list[str], alive: Links, target: str) -> dict[str, Ports]:
    """Every switch to the next one, found backwards from `target` until a link is dead."""
    found: dict[str, Ports] = {}
    place = ring.index(target)
    for away in range(1, len(ring)):
        here, following = ring[place - away], ring[place - away + 1]
        ports = tuple(sorted(port for port, (peer, _) in alive[here].items() if peer == following))
        if not ports:
            break
        found[here] = ports
    return found


def _above(order: list[str], alive: Links) -> dict[str, frozenset[str]]:
    """Switch -> its neighbours at the upper ends of their links: nearer to the first switch of all that hang together,
    or as near and before it in `order`."""
    rank: dict[str, tuple[int, int]] = {}
    for root in order:
        if root not in rank:
            rank.update((name, (away, order.index(name))) for name, away in _distances(alive, [root]).items())
    return {name: frozenset(peer for peer, _ in alive[name].values() if rank[peer] < rank[name]) for name in order}


def _up_and_down(above: Mapping[str, frozenset[str]], alive: Links, target: str) -> dict[str, Ports]:
    """Down wherever the target can be reached so, by the fewest links; from elsewhere up, by the fewest to such a
    switch. A packet that has begun to go down can go on: wherever it comes then is on a way down too."""
    up, down = (
        {
            switch: {port: peer for port, peer in ports.items() if (peer[0] in above[switch]) == upwards}
            for switch, ports in alive.items()
        }
        for upwards in (True, False)
    )
    falling = _distances(up, [target])  # searched from the target, a way down is climbed
    rising = _distances(down, falling)
    return {**_nearer(up, rising), **_nearer(down, falling)}


def routes(network: Network, hops: Mapping[str, Mapping[str, Ports]], switch: str) -> dict[Prefix, Ports]:
    """The whole table of one switch: subnet -> ports that lead to it; no ports where there is no way, or where it is
    the switch's own (its hosts have rules of their own; other addresses of it are nobody's)."""
    return {
        prefix: () if target == switch else hops[target].get(switch, ()) for prefix, target in network.racks.items()
    }
