"""Follows a packet through the rules of a fabric: OpenFlow's tables, groups and liveness, without OpenFlow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controller.failover import IN_PORT, Group
from controller.prefixes import parse_prefix
from controller.routing import Network, Port
from controller.rules import AnswerArp, Drop, Flow, GoTo, Match, Output, Rules, ToController, ToGroup

MOST_STEPS = 64


@dataclass(frozen=True)
class Walk:
    """The switches that a packet passed and what became of it: "delivered" to `host`, "dropped", or "looping" when its
    TTL has run out."""

    switches: tuple[str, ...]
    end: str
    host: str | None = None


def walk(
    network: Network,
    rules: Mapping[str, Rules],
    source: str,
    target: str,
    dead: Collection[Port] = (),
    choice: int = 0,
) -> Walk:
    """From host `source` to host (or address) `target`; `dead` are the ports that are really dead, both ends of a link;
    `choice` stands for the packet's hash: two walks with equal choices choose alike at equal groups."""
    switch, in_port = network.homes[source]
    address = network.hosts[target].ip if target in network.hosts else target
    passed: list[str] = []
    while len(passed) < MOST_STEPS:
        passed.append(switch)
        alive = {port for port in network.trunks[switch] if (switch, port) not in dead}
        alive |= set(network.attached[switch].values())
        out = _forward(rules[switch], in_port, parse_prefix(address)[0], alive, choice)
        if out is None or out not in alive:
            return Walk(tuple(passed), "dropped")
        hosts = {port: host for host, port in network.attached[switch].items()}
        if out in hosts:
            return Walk(tuple(passed), "delivered", hosts[out])
        switch, in_port = network.trunks[switch][out]
    return Walk(tuple(passed), "looping")


def _forward(rules: Rules, in_port: int, address: int, alive: Collection[int], choice: int) -> int | None:
    table = 0
    while True:
        flow = _lookup(rules, table, in_port, address)
        if flow is None or isinstance(flow.action, (Drop, ToController, AnswerArp)):
            return None
        if isinstance(flow.action, GoTo):
            assert flow.action.table > table, "a table may only lead to a later one"
            table = flow.action.table
            continue
        if isinstance(flow.action, Output):
            out: int | None = flow.action.port
        else:
            assert isinstance(flow.action, ToGroup)
            out = _choose(rules.groups[flow.action.group_id], alive, choice)
        if out == in_port:
            return None  # OpenFlow: a packet never goes out of the port it came by ...
        return in_port if out == IN_PORT else out  # ... unless it is told to with that very word


def _lookup(rules: Rules, table: int, in_port: int, address: int) -> Flow | None:
    packet = {"in_port": in_port, "eth_type": 0x0800, "ipv4_dst": address}
    found = [flow for flow in rules.flows if flow.table == table and _matches(flow.match, packet)]
    if not found:
        return None
    best = max(found, key=lambda flow: flow.priority)
    equals = [flow for flow in found if flow.priority == best.priority]
    assert len(equals) == 1, f"two flows of equal priority match: {equals}"
    return best


def _matches(match: Match, packet: Mapping[str, int]) -> bool:
    return all(name in packet and packet[name] & mask == value & mask for name, value, mask in match)


def _choose(group: Group, alive: Collection[int], choice: int) -> int | None:
    live = [bucket for bucket in group.buckets if bucket.watch is None or bucket.watch in alive]
    if not live:
        return None
    if group.kind == "failover":
        return live[0].port
    return live[hash((choice, group.seed)) % len(live)].port
