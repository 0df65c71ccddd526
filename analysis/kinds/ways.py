"""The shortest ways through a fabric, from the document in its run directory's fabric.json."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from topologies.units import BadRequest


@dataclass(frozen=True)
class Way:
    """A way from host to host: rate in bits/s and propagation in ns of each link, in order."""

    rates_bps: tuple[int, ...] = ()
    delays_ns: tuple[int, ...] = ()

    @property
    def links(self) -> int:
        """How many links there are; between each two lies a switch."""
        return len(self.rates_bps)

    def delay_ns(self, frame_bytes: int, switch_ns: int) -> float:
        """One frame's time through idle links: sent whole on each link (store and forward), with each one's
        propagation, and `switch_ns` in each switch between."""
        sending_ns = sum(8 * frame_bytes * 1e9 / rate_bps for rate_bps in self.rates_bps)
        return sending_ns + sum(self.delays_ns) + (self.links - 1) * switch_ns


def shortest_ways(document: Mapping[str, Any]) -> dict[tuple[str, str], Way]:
    """For each ordered pair of hosts a way with the fewest links; of equal ones that through a server's NVSwitch, else
    the first."""
    found = ways_to_all(document)
    return {
        (host, other): way
        for host, ways in found.items()
        for other, way in ways.items()
        if other in found and other != host
    }


def ways_to_all(document: Mapping[str, Any]) -> dict[str, dict[str, Way]]:
    """From each host such a way to every node, itself too. Hosts forward nothing. Raises BadRequest when the document
    lacks something."""
    try:
        return _ways_to_all(document)
    except (KeyError, TypeError) as error:
        raise BadRequest(f"fabric.json: {error} is missing; allowed: switches, hosts and wires") from error


def _ways_to_all(document: Mapping[str, Any]) -> dict[str, dict[str, Way]]:
    hosts = {each["name"]: None for each in document["hosts"]}
    inside = {each["name"] for each in document["switches"] if each.get("inside_server")}
    links: dict[str, list[tuple[str, int, int]]] = {}
    for wire in document["wires"]:
        for here, there in ((wire["a"], wire["b"]), (wire["b"], wire["a"])):
            links.setdefault(here, []).append((there, wire["rate_bps"], wire["delay_ns"]))
    for found in links.values():
        found.sort(key=lambda link: link[0] not in inside)
    return {host: _ways_from(host, links, hosts) for host in hosts}


def _ways_from(host: str, links: Mapping[str, list[tuple[str, int, int]]], hosts: Container[str]) -> dict[str, Way]:
    """A shortest way from a host to every node, breadth first."""
    ways = {host: Way()}
    waiting = [host]
    for here in waiting:
        for there, rate_bps, delay_ns in links.get(here, ()) if here == host or here not in hosts else ():
            if there not in ways:
                ways[there] = Way((*ways[here].rates_bps, rate_bps), (*ways[here].delays_ns, delay_ns))
                waiting.append(there)
    return ways
