"""The tables of one switch: routes, groups, detours and ARP as OpenFlow flows and groups, still without OpenFlow.

    table 0   what it is    LLDP and foreign ARP to the controller; ARP of its hosts answered; its hosts' own
                            addresses to them; packets from above to table 2, all others to table 1
    table 1   any way       the shrunk routing table
    table 2   only down     routes that lead down, so that nothing goes up again; bounced packets on their detour
    table 3   the port      where the controller marks: the port that the tables above have chosen stands in a register,
                            and packets leave by it here, as they are. A port whose queue is too long has entries before
                            that one, which write Congestion Experienced into packets that can carry it (RFC 3168)

Every switch is a router: it lowers the TTL, and the last one writes the MAC addresses. No table has a table-miss entry:
what nothing matches, IPv6 above all, is dropped (OpenFlow 1.3, section 5.4). A packet whose TTL ends is dropped without
an ICMP message, so that traceroute shows nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Union

from controller import failover
from controller.failover import Bucket, Group, bounce, bounce_back
from controller.policy import CONTROLLER, D_MOD_K, Policy
from controller.prefixes import BITS, Ports, Prefix, mask_of, parse_prefix, shrink
from controller.routing import Network
from topologies.addresses import GATEWAY, PREFIX_LENGTH, ROUTER_MAC, SUBNET

CLASSIFY, ANY_WAY, ONLY_DOWN, THE_PORT = 0, 1, 2, 3
PORT_REGISTER = "reg0"  # Open vSwitch's: OpenFlow's metadata cannot be written by a group
_LLDP, _MULTICAST, _ARP_KNOWN, _ARP, _LOCAL, _FROM_ABOVE, _IPV4 = 1000, 950, 900, 800, 700, 600, 500
_ROUTE = 100  # a route's priority grows by two with its prefix length, and by one with an input port of its own
_PINNED = 500  # above every route
_MARKED, _AS_IT_IS = 20, 10
_ECT_1, _ECT_0 = 1, 2  # of RFC 3168: the packets' transports understand marks
_NOT_BELOW = -1  # in the table of ways down, before the ports of a way that is none
_FABRIC: Prefix = parse_prefix(f"{SUBNET}/{PREFIX_LENGTH}")
_GATEWAY, _NOT_UNICAST = parse_prefix(GATEWAY)[0], parse_prefix("224.0.0.0/3")

Field = tuple[str, int, int]  # name, value, mask (-1: all of it)
Match = tuple[Field, ...]


@dataclass(frozen=True)
class Output:
    """To a port; `macs`: with these source and destination addresses written."""

    port: int
    macs: tuple[str, str] | None = None


@dataclass(frozen=True)
class ToGroup:
    """Through a group."""

    group_id: int


@dataclass(frozen=True)
class ToController:
    """The whole packet to the controller."""


@dataclass(frozen=True)
class AnswerArp:
    """Back out of the port it came by, as the gateway's answer to the host with these addresses."""

    host_mac: str
    host_ip: str


@dataclass(frozen=True)
class GoTo:
    """On to another table."""

    table: int


@dataclass(frozen=True)
class Drop:
    """Nowhere."""


@dataclass(frozen=True)
class Leave:
    """Out of the port that was chosen; `marked`: with Congestion Experienced."""

    port: int
    marked: bool = False


Action = Union[Output, ToGroup, ToController, AnswerArp, GoTo, Drop, Leave]


@dataclass(frozen=True)
class Flow:
    """One entry of a flow table."""

    table: int
    priority: int
    match: Match
    action: Action

    @property
    def key(self) -> tuple[int, int, Match]:
        """What makes two flows the same entry."""
        return self.table, self.priority, self.match


@dataclass(frozen=True)
class Rules:
    """All groups and flows of a switch. `by_table`: what outputs and groups say is written into the register, and
    packets leave by table THE_PORT."""

    groups: Mapping[int, Group]
    flows: tuple[Flow, ...]
    by_table: bool = False


def exact(name: str, value: int) -> Field:
    """A field that must have this value."""
    return name, value, -1


def rules(network: Network, policy: Policy, switch: str, table: Mapping[Prefix, Ports]) -> Rules:
    """The rules of `switch`, whose whole routing table is `table` (see routing.routes)."""
    return _Builder(network, policy, switch).build(table)


class _Builder:
    """Collects the groups and flows of one switch."""

    def __init__(self, network: Network, policy: Policy, switch: str) -> None:
        self.network, self.policy, self.switch = network, policy, switch
        self.node = network.switches[switch]
        self.up, self.down = network.up_ports(switch), network.down_ports(switch)
        self.seed = _checked_seed(policy.hash_seed(self.node.dpid))
        self.groups: dict[int, Group] = {}

    def build(self, table: Mapping[Prefix, Ports]) -> Rules:
        """Everything, in a fixed order."""
        # Only a rack sees packets to addresses that nobody has: it drops them, so that further up they need no entry.
        nowhere: dict[Prefix, Ports] = {_FABRIC: ()} if self.node.tier == 1 else {}
        pins = list(self._pins(table))
        table = {prefix: self._ways(prefix, ports) for prefix, ports in table.items()}
        flows = [*self._classify(), *self._routes(ANY_WAY, shrink({**nowhere, **table}, _FABRIC))]
        if self.up:
            down = {p: ports if self._leads_down(ports) else (_NOT_BELOW, *ports) for p, ports in table.items()}
            flows += self._routes(ONLY_DOWN, shrink(down, _FABRIC))
        by_table = self.policy.marking == CONTROLLER
        return Rules(self.groups, (*flows, *pins, *(self._leave() if by_table else ())), by_table)

    def _ways(self, prefix: Prefix, allowed: Ports) -> Ports:
        """Those of the ports that the policy wants."""
        if not allowed:
            return allowed
        target = self.network.racks[prefix]
        ports = tuple(self.policy.ways(self.network, self.switch, target, allowed))
        if not ports or not set(ports) <= set(allowed):
            raise ValueError(f"ways from {self.switch} to {target}: {ports} is given; allowed: ports of {allowed}")
        return ports if len(set(ports)) > 1 else ports[:1]

    def _pins(self, table: Mapping[Prefix, Ports]) -> Iterator[Flow]:
        """The flows of two hosts that the policy has set on a way of their own, as far as the routing allows that;
        where its port is dead they take another one."""
        for (sender, receiver), port in self.policy.pinned(self.network, self.switch).items():
            if not {sender, receiver} <= set(self.network.hosts):
                raise ValueError(f"pinned at {self.switch}: {sender}, {receiver} is given; allowed: two hosts")
            allowed = table[self._rack_of(receiver)]
            if port not in allowed:
                continue
            source, target = (parse_prefix(self.network.hosts[host].ip) for host in (sender, receiver))
            where = (_ipv4(), exact("ipv4_src", source[0]), _destination(target))
            watched = Group("failover", tuple(Bucket(each, each) for each in dict.fromkeys((port, *allowed))))
            yield Flow(ANY_WAY, _PINNED, where, self._group(watched) if self.policy.fast_failover else Output(port))

    def _rack_of(self, host: str) -> Prefix:
        """The prefix by which a host is routed: its rack's, or, when it has moved, its own."""
        address = parse_prefix(self.network.hosts[host].ip)
        if address in self.network.racks:
            return address
        return next(each for each in self.network.racks if address[0] & mask_of(each[1]) == each[0])

    def _leave(self) -> Iterator[Flow]:
        to_hosts = sorted(set(self.network.attached[self.switch].values()))
        for port in (*self.network.trunks[self.switch], *to_hosts, failover.IN_PORT):
            yield Flow(THE_PORT, _AS_IT_IS, (exact(PORT_REGISTER, port),), Leave(port))

    def _leads_down(self, ports: Ports) -> bool:
        return not ports or set(ports) <= set(self.down)

    def _group(self, group: Group) -> Action:
        """A group's id follows from what it does, so that an unchanged one stays as it is."""
        group_id = zlib.crc32(repr(group).encode()) & 0x7FFFFFFF
        while self.groups.get(group_id, group) != group:
            group_id += 1
        self.groups[group_id] = group
        return ToGroup(group_id)

    def _classify(self) -> Iterator[Flow]:
        yield Flow(CLASSIFY, _LLDP, (exact("eth_type", 0x88CC),), ToController())
        yield Flow(CLASSIFY, _MULTICAST, (_ipv4(), _destination(_NOT_UNICAST)), Drop())
        yield Flow(CLASSIFY, _ARP, (exact("eth_type", 0x0806),), ToController())
        for name, port in self.network.attached[self.switch].items():
            host = self.network.hosts[name]
            address = parse_prefix(host.ip)
            asks = (
                exact("in_port", port),
                exact("eth_type", 0x0806),
                exact("arp_op", 1),
                exact("arp_spa", address[0]),
                exact("arp_tpa", _GATEWAY),
            )
            yield Flow(CLASSIFY, _ARP_KNOWN, asks, AnswerArp(host.mac, host.ip))
            yield Flow(CLASSIFY, _LOCAL, (_ipv4(), _destination(address)), Output(port, (ROUTER_MAC, host.mac)))
        for port in self.up:
            yield Flow(CLASSIFY, _FROM_ABOVE, (exact("in_port", port), _ipv4()), GoTo(ONLY_DOWN))
        yield Flow(CLASSIFY, _IPV4, (_ipv4(),), GoTo(ANY_WAY))

    def _routes(self, table: int, entries: Mapping[Prefix, Ports]) -> Iterator[Flow]:
        for prefix, ports in sorted(entries.items()):
            priority = _ROUTE + 2 * prefix[1]
            yield from self._route(table, priority, prefix, ports)

    def _route(self, table: int, priority: int, prefix: Prefix, ports: Ports) -> Iterator[Flow]:
        where = (_ipv4(), _destination(prefix))
        if ports[:1] == (_NOT_BELOW,):
            yield from self._detour(table, priority, where, ports[1:])
        elif not ports:
            yield Flow(table, priority, where, Drop())
        elif len(ports) == 1:
            yield from self._one_way(table, priority, where, ports[0])
        elif set(ports) <= set(self.down):
            yield from self._round_about(table, priority, where, ports)
        elif self.policy.routing == D_MOD_K:
            yield from self._by_number(table, priority, prefix, ports)
        else:
            yield Flow(table, priority, where, self._select(ports))

    def _select(self, ports: Ports) -> Action:
        if len(set(ports)) == 1:
            return Output(ports[0])
        return self._group(failover.select(ports, self.seed, self.policy.fast_failover))

    def _one_way(self, table: int, priority: int, where: Match, port: int) -> Iterator[Flow]:
        """Out of `port`; downwards with a detour for the time when it is dead.

        Packets from below may come by the detour's port, or, while others still have older rules, by `port` itself:
        these go back where they came from.
        """
        if port not in self.down or not self.policy.fast_failover:
            yield Flow(table, priority, where, Output(port))
            return
        detour = failover.next_in_ring(port, self.down)
        yield Flow(table, priority, where, Output(port) if detour is None else self._group(bounce(port, detour)))
        if table == ANY_WAY:
            yield Flow(table, priority + 1, (exact("in_port", port), *where), Output(failover.IN_PORT))
            if detour is not None:
                back = (exact("in_port", detour), *where)
                yield Flow(table, priority + 1, back, self._group(bounce_back(port, detour)))

    def _round_about(self, table: int, priority: int, where: Match, ports: Ports) -> Iterator[Flow]:
        """Downwards with several ports, which in a Clos network means: by way of another rack, as the right one's
        link is dead. A packet that comes from there is sent to the next: a group that chose by a hash might choose
        the port it came by, out of which it may not go."""
        first, second = ports[0], ports[1]
        from_first = (exact("in_port", first), *where)
        watched = self.policy.fast_failover
        yield Flow(table, priority, where, self._group(bounce(first, second)) if watched else Output(first))
        if table == ANY_WAY:
            other = self._group(bounce_back(second, first)) if watched else Output(second)
            yield Flow(table, priority + 1, from_first, other)

    def _by_number(self, table: int, priority: int, prefix: Prefix, ports: Ports) -> Iterator[Flow]:
        """D-mod-k (Zahavi, 2010): the uplink follows from the destination's number at this tier: of the host in its
        rack, of the rack in its pod. One rule for each number that an address of the fabric has there."""
        shift = 8 * (self.node.tier - 1)
        given = mask_of(prefix[1]) & 0xFF << shift  # what of the number the prefix has settled already
        for number in self.network.numbers(shift):
            if (prefix[0] ^ (number << shift)) & given:
                continue
            mask = mask_of(prefix[1]) | 0xFF << shift
            where = (_ipv4(), ("ipv4_dst", prefix[0] | number << shift, mask))
            first = (number - 1) % len(ports)
            ring = ports[first:] + ports[:first]
            watched = Group("failover", tuple(Bucket(port, port) for port in dict.fromkeys(ring)))
            yield Flow(table, priority, where, self._group(watched) if self.policy.fast_failover else Output(ring[0]))

    def _detour(self, table: int, priority: int, where: Match, ways: Ports) -> Iterator[Flow]:
        """Packets from above that are not for anything below: bounced ones (see failover). `ways`: the ports of the
        shortest paths; a rack takes one of them, another uplink only when the packet came by the only one."""
        if not self.policy.fast_failover:
            yield Flow(table, priority, where, Drop())
            return
        if self.down:
            yield Flow(table, priority, where, self._select(self.down))
            return
        for port in self.up:
            others = [each for each in ways if each != port] or [each for each in self.up if each != port]
            action = self._select(tuple(others)) if others else Drop()
            yield Flow(table, priority, (exact("in_port", port), *where), action)


def _checked_seed(seed: int) -> int:
    """A hash seed has 64 bits."""
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"hash_seed: {seed} is given; allowed: 64 bits")
    return seed


def marks(port: int) -> Iterator[Flow]:
    """What marks the packets that leave by `port` and can be marked, those that are bounced back out of it too."""
    for out, came_by in ((port, ()), (failover.IN_PORT, (exact("in_port", port),))):
        for ect in (_ECT_0, _ECT_1):
            match = (exact(PORT_REGISTER, out), *came_by, _ipv4(), exact("ip_ecn", ect))
            yield Flow(THE_PORT, _MARKED, match, Leave(out, marked=True))


def _ipv4() -> Field:
    return exact("eth_type", 0x0800)


def _destination(prefix: Prefix) -> Field:
    network, length = prefix
    return "ipv4_dst", network, -1 if length == BITS else mask_of(length)


@dataclass(frozen=True)
class Change:
    """What makes new rules out of old ones, in an order that never leaves a flow without its group: groups first, then
    flows, then what goes."""

    new_groups: Mapping[int, Group]
    new_flows: tuple[Flow, ...]
    old_flows: tuple[Flow, ...]
    old_groups: tuple[int, ...]
    by_table: bool = False  # as of the new rules

    def __bool__(self) -> bool:
        return bool(self.new_groups or self.new_flows or self.old_flows or self.old_groups)


def change(old: Rules, new: Rules) -> Change:
    """The difference of two sets of rules of one switch."""
    old_flows = {flow.key: flow for flow in old.flows}
    new_keys = {flow.key for flow in new.flows}
    return Change(
        {number: group for number, group in new.groups.items() if old.groups.get(number) != group},
        tuple(flow for flow in new.flows if old_flows.get(flow.key) != flow),
        tuple(flow for flow in old.flows if flow.key not in new_keys),
        tuple(number for number in old.groups if number not in new.groups),
        new.by_table,
    )


def nothing() -> Rules:
    """The rules of a switch that has just been made."""
    return Rules({}, ())


def count(all_rules: Iterable[Rules]) -> tuple[int, int]:
    """Flows and groups in all."""
    found = list(all_rules)
    return sum(len(each.flows) for each in found), sum(len(each.groups) for each in found)
