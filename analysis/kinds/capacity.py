"""What a fabric could carry, and what its hosts got, when all of them send at once.

A rack, a pod and each side of a dumbbell are parts of a fabric with a given capacity to the rest. The best that hosts
can get under a traffic pattern is where every part's links are full and shared by what has to pass them: switches that
choose paths perfectly reach it, hashing does not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from analysis.fabric import Fabric
from analysis.run import Run
from topologies.units import BadRequest

_TRANSFER_KEYS = ("flow", "round", "start_ns", "end_ns", "bytes")
Resource = tuple[str, str]  # what is passed ("out", "in", "up", "down", ...), and of whom


@dataclass(frozen=True)
class Transfer:
    """One flow's bytes of one round: bits with all headers, and from when to when."""

    sender: str
    receiver: str
    round: int
    start_ns: int
    end_ns: int
    wire_bits: int


@dataclass(frozen=True)
class HostRate:
    """What a host received, headers included, in bits/s over its own transfers' time; best_bps: what it could have got
    at best, None without a fabric.json."""

    host: str
    rate_bps: float
    best_bps: float | None


def transfers(run: Run) -> list[Transfer]:
    """All transfers of the finished rounds."""
    path = run.parameters.path
    found = []
    for entry in run.entries("transfers", _TRANSFER_KEYS):
        sender, _, receiver = entry["flow"].partition(">")
        when = entry["round"], entry["start_ns"], entry["end_ns"]
        found.append(Transfer(sender, receiver, *when, 8 * path.wire_bytes(entry["bytes"])))
    return found


@lru_cache(maxsize=32)  # a report asks many times
def host_rates(run: Run) -> tuple[HostRate, ...]:
    """What each host received, slowest first.

    A host's time in a round is from its first transfer's start to its last one's end: of a permutation, that of its one
    transfer.
    """
    found = transfers(run)
    best_bps = best_rates(found, Fabric.of(run.fabric)) if run.fabric is not None else {}
    bits, busy_ns = _received(found)
    rates = [HostRate(host, bits[host] * 1e9 / busy_ns[host], best_bps.get(host)) for host in bits]
    return tuple(sorted(rates, key=lambda each: each.rate_bps))


def _received(found: Iterable[Transfer]) -> tuple[Counter[str], Counter[str]]:
    """Bits received by each host, and for how long it was receiving, over all rounds."""
    bits: Counter[str] = Counter()
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for each in found:
        bits[each.receiver] += each.wire_bits
        start_ns, end_ns = spans.get((each.receiver, each.round), (each.start_ns, each.end_ns))
        spans[each.receiver, each.round] = min(start_ns, each.start_ns), max(end_ns, each.end_ns)
    busy_ns: Counter[str] = Counter()
    for (host, _), (start_ns, end_ns) in spans.items():
        busy_ns[host] += end_ns - start_ns
    return bits, busy_ns


def best_rates(found: Iterable[Transfer], fabric: Fabric) -> dict[str, float]:
    """The rate in bits/s at which each host could receive at best: all it receives, over the time that the most loaded
    resource on its ways needs for everything that passes it.

    Of a Clos fabric this is min(rate, rate / oversubscription / share of the traffic that leaves the rack).
    """
    parts = _parts(fabric)
    server_of = {gpu: server for server, gpus in fabric.servers().items() for gpu in gpus}
    load: Counter[Resource] = Counter()
    bits: Counter[str] = Counter()
    ways: dict[str, set[Resource]] = {}
    for each in found:
        inside = each.sender in server_of and server_of[each.sender] == server_of.get(each.receiver)
        way = _way(each.sender, each.receiver, parts, inside)
        bits[each.receiver] += each.wire_bits
        load.update(dict.fromkeys(way, each.wire_bits))
        ways.setdefault(each.receiver, set()).update(way)
    capacity = _capacities(fabric, parts)
    for name in load:
        if not capacity[name]:
            raise BadRequest(
                f"fabric.json: no link {name[0]} of {name[1]}; allowed: the fabric that the transfers ran on"
            )
    return {host: bits[host] / max(load[name] / capacity[name] for name in way) for host, way in ways.items()}


@dataclass(frozen=True)
class _Part:
    """A rack or a pod: its switches and its hosts."""

    name: str
    switches: frozenset[str]
    hosts: frozenset[str]


def _parts(fabric: Fabric) -> list[_Part]:
    racks = fabric.racks()
    found = [_Part(name, frozenset([name]), frozenset(hosts)) for name, hosts in racks.items()]
    for number, pod in enumerate(fabric.pods(), start=1):
        hosts = frozenset(host for name in pod for host in racks.get(name, ()))
        found.append(_Part(f"pod {number}", frozenset(pod), hosts))
    return found


def _way(sender: str, receiver: str, parts: Iterable[_Part], inside: bool) -> list[Resource]:
    """What a transfer has to pass: both hosts' links, and the ways out of the sender's parts of the fabric and into the
    receiver's; inside a server the links to its NVSwitch alone."""
    if inside:
        return [("NVLink out", sender), ("NVLink in", receiver)]
    up = [("up", part.name) for part in parts if sender in part.hosts and receiver not in part.hosts]
    down = [("down", part.name) for part in parts if receiver in part.hosts and sender not in part.hosts]
    return [("out", sender), *up, *down, ("in", receiver)]


def _capacities(fabric: Fabric, parts: Iterable[_Part]) -> dict[Resource, int]:
    """Bits/s of every resource; a link has its rate each way."""
    found: Counter[Resource] = Counter()
    inside = set(fabric.servers())
    for wire in fabric.wires:
        host, switch = wire.ends
        if host in fabric.hosts:
            kind = "NVLink " if switch in inside else ""
            found.update(dict.fromkeys([(f"{kind}out", host), (f"{kind}in", host)], wire.rate_bps))
    for part in parts:
        leaving_bps = sum(
            wire.rate_bps
            for wire in fabric.wires
            if wire.ends[0] not in fabric.hosts and len(part.switches.intersection(wire.ends)) == 1
        )
        found.update({("up", part.name): leaving_bps, ("down", part.name): leaving_bps})
    return found


def bisection_bps(fabric: Fabric) -> float:
    """The bandwidth between two halves of the hosts, each way: half of what the narrowest tier of links carries, or all
    of it where both ends are of one tier (a dumbbell's link between its sides).

    Of a Clos fabric whose places are all taken: hosts x rate / 2 / oversubscription.
    """
    tier_of = {switch.name: switch.tier for switch in fabric.switches if not switch.inside_server}
    carried: Counter[tuple[int, int]] = Counter()
    for wire in fabric.wires:
        if wire.ends[1] in tier_of:
            carried[tier_of.get(wire.ends[0], 0), tier_of[wire.ends[1]]] += wire.rate_bps
    return min(bps / (1 if lower == upper else 2) for (lower, upper), bps in carried.items())


@dataclass(frozen=True)
class Collisions:
    """How many uplinks carry how many flows, and how many would when each switch threw its flows onto its uplinks at
    random (balls into bins: binomial). `tiers`: of the uplinks' switches."""

    links: dict[str, int]
    tiers: dict[str, int]

    @property
    def flows_of(self) -> dict[str, list[int]]:
        """The flows on each uplink of every switch."""
        found: dict[str, list[int]] = {}
        for interface, flows in self.links.items():
            found.setdefault(interface.rpartition("-eth")[0], []).append(flows)
        return found

    @property
    def most(self) -> int:
        """Flows on the busiest uplink."""
        return max(self.links.values())

    @property
    def fair(self) -> int:
        """Flows on the busiest uplink if they were shared evenly: those of a rack among its uplinks, and further up,
        where the racks' choice has sent them, among all uplinks of the tier."""
        racks = min(self.tiers.values())
        shared = [flows for switch, flows in self.flows_of.items() if self._tier(switch) == racks]
        for tier in set(self.tiers.values()) - {racks}:
            shared.append([flows for interface, flows in self.links.items() if self.tiers[interface] == tier])
        return max(math.ceil(sum(flows) / len(flows)) for flows in shared)

    def _tier(self, switch: str) -> int:
        return next(tier for interface, tier in self.tiers.items() if interface.rpartition("-eth")[0] == switch)

    @property
    def measured(self) -> dict[int, int]:
        """Flows on a link -> number of links."""
        return dict(sorted(Counter(self.links.values()).items()))

    @property
    def expected(self) -> dict[int, float]:
        """Flows on a link -> expected number of links."""
        found = {}
        for flows in range(max(map(sum, self.flows_of.values())) + 1):
            found[flows] = sum(
                len(links) * _binomial(flows, sum(links), 1 / len(links)) for links in self.flows_of.values()
            )
        return found


def _binomial(successes: int, tries: int, chance: float) -> float:
    """The probability of so many successes; 0 for more of them than tries."""
    return math.comb(tries, successes) * chance**successes * (1 - chance) ** max(tries - successes, 0)


def collisions(run: Run) -> Collisions | None:
    """The flows on each uplink; None where there are no uplinks, or nothing was counted."""
    links, ports = run.measured.get("link_flows"), run.measured.get("ports", {})
    if not isinstance(links, Mapping) or not links:
        return None
    return Collisions(dict(links), {name: int(ports.get(name, {}).get("tier", 1)) for name in links})
