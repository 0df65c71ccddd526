"""A run's fabric as plain values, from the document in its fabric.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from analysis import text
from topologies.units import BadRequest

_TIERS = (1, 2, 3)


class Switch(NamedTuple):
    """A switch of the document."""

    name: str
    tier: int
    subnet: str | None
    inside_server: bool


class Wire(NamedTuple):
    """A link of the document: its ends as interfaces too."""

    ends: tuple[str, str]
    interfaces: tuple[str, str]
    rate_bps: int


@dataclass(frozen=True)
class Fabric:
    """A fabric as fabric.json tells it; `hosts` are addresses by name."""

    switches: tuple[Switch, ...]
    hosts: dict[str, str]
    wires: tuple[Wire, ...]

    @staticmethod
    def of(document: Mapping[str, Any]) -> Fabric:
        """The fabric of a document; raises BadRequest when it lacks something."""
        try:
            strange = [each["tier"] for each in document["switches"] if each["tier"] not in _TIERS]
            if strange:
                raise BadRequest(f"fabric.json: tier {strange[0]!r} is given; allowed: 1 to {len(_TIERS)}")
            return Fabric(
                tuple(
                    Switch(each["name"], each["tier"], each.get("subnet"), each.get("inside_server", False))
                    for each in document["switches"]
                ),
                {each["name"]: each["ip"] for each in document["hosts"]},
                tuple(_wire(each) for each in document["wires"]),
            )
        except (KeyError, TypeError) as error:
            raise BadRequest(f"fabric.json: {error} is missing; allowed: switches, hosts and wires") from error

    @property
    def highest_tier(self) -> int:
        """The tier of the cores or spines; 1 when there is one tier."""
        return max(each.tier for each in self.switches)

    def tier(self, number: int) -> list[str]:
        """The switches of a tier in order, without those inside servers."""
        return [each.name for each in self.switches if each.tier == number and not each.inside_server]

    def servers(self) -> dict[str, list[str]]:
        """The GPUs of each NVSwitch."""
        return self._hosts_of([each.name for each in self.switches if each.inside_server])

    def racks(self) -> dict[str, list[str]]:
        """The hosts of each switch of the lowest tier, none for an empty rack."""
        return self._hosts_of(self.tier(1))

    def _hosts_of(self, switches: Sequence[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in switches}
        for wire in self.wires:
            host, switch = wire.ends
            if host in self.hosts and switch in found:
                found[switch].append(host)
        return found

    def longest_links(self) -> int:
        """Links between the two hosts that are farthest apart, by shortest ways; raises BadRequest where there are
        none."""
        import networkx as nx  # not for every run: few ask, and it takes long to load

        racks = self._hosts_of([each.name for each in self.switches])
        graph = nx.Graph(wire.ends for wire in self.wires if set(wire.ends) <= set(racks))
        graph.add_nodes_from(racks)
        ends = [name for name, hosts in racks.items() if hosts]
        links = {end: nx.single_source_shortest_path_length(graph, end) for end in ends}
        away = [links[end].get(other) for end in ends for other in ends]
        if not away or None in away:
            raise BadRequest("fabric.json: no way between some hosts; allowed: a fabric in one piece")
        return 2 + max(number for number in away if number is not None)

    def pods(self) -> list[list[str]]:
        """The groups of switches that hang together without the highest tier, of a fabric with three tiers or
        more."""
        if self.highest_tier < 3:
            return []
        below = {each.name: {each.name} for each in self.switches if each.tier < self.highest_tier}
        for first, second in (wire.ends for wire in self.wires):
            if first in below and second in below and below[first] is not below[second]:
                below[first] |= below[second]
                for name in below[second]:
                    below[name] = below[first]
        return [
            list(group) for group in dict.fromkeys(tuple(sorted(each, key=text.natural)) for each in below.values())
        ]


def interfaces(entry: Mapping[str, Any]) -> tuple[str, str]:
    """The interfaces at both ends of a link of the document, as switches call theirs."""
    return f"{entry['a']}-eth{entry['a_port']}", f"{entry['b']}-eth{entry['b_port']}"


def _wire(entry: Mapping[str, Any]) -> Wire:
    return Wire((entry["a"], entry["b"]), interfaces(entry), entry["rate_bps"])


def fabric_title(document: Mapping[str, Any]) -> str:
    """What the fabric is, in figures: "fat-tree k = 4: 16 hosts, 20 switches, 48 links"."""
    fabric = Fabric.of(document)
    hosts = text.counted(len(fabric.hosts), "GPU" if fabric.servers() else "host")
    switches = f"{len(fabric.switches):,} switch" + ("" if len(fabric.switches) == 1 else "es")
    return f"{_kind(document, fabric)}: {hosts}, {switches}, {text.counted(len(fabric.wires), 'link')}"


def _kind(document: Mapping[str, Any], fabric: Fabric) -> str:
    """The kind of fabric with its parameters."""
    name = str(document.get("topology", "fabric")).replace("_", "-")
    if fabric.servers():
        leaves = {gpu: leaf for leaf, gpus in fabric.racks().items() for gpu in gpus}
        by_rail = all(len({leaves[gpu] for gpu in gpus}) == len(gpus) for gpus in fabric.servers().values())
        wiring = "rail-optimised" if by_rail else "each server on one leaf"
        return f"GPU pod of {text.counted(len(fabric.servers()), 'server')}, {wiring}"
    if fabric.pods():
        return f"{name} k = {len(fabric.pods())}"
    if fabric.highest_tier == 2:
        return f"{name}, {len(fabric.tier(1))} leaves and {text.counted(len(fabric.tier(2)), 'spine')}"
    return name
