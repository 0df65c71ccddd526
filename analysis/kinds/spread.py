"""How flows spread over the links that lead up: counts per link, tier by tier, and the tests of even spreading."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from analysis.kinds.chi_square import ChiSquare, pooled, uniform
from analysis.run import Run
from analysis.text import natural

LEAST_EXPECTED = 5  # datagrams per link from which on the chi-square distribution holds (Cochran, 1954)


@dataclass(frozen=True)
class Tier:
    """The links from one tier of switches up to the next: datagrams by switch and interface."""

    lower: str
    upper: str
    counts: dict[str, dict[str, int]]

    @property
    def name(self) -> str:
        """The tier in words: "edge to agg"."""
        return f"{self.lower} to {self.upper}"

    @cached_property
    def links(self) -> dict[str, int]:
        """Datagrams of each link."""
        return {link: count for counts in self.counts.values() for link, count in counts.items()}

    @property
    def datagrams(self) -> int:
        """Datagrams over all links."""
        return sum(self.links.values())

    @property
    def used(self) -> int:
        """Links that carried any."""
        return sum(count > 0 for count in self.links.values())

    @property
    def expected_used(self) -> float:
        """Links that carry any when each datagram takes one at random."""
        return len(self.links) * (1 - (1 - 1 / len(self.links)) ** self.datagrams)

    @property
    def is_tested(self) -> bool:
        """Whether there are choices, and datagrams enough for the test."""
        return self.within.df > 0 and self.datagrams >= LEAST_EXPECTED * len(self.links)

    @cached_property
    def within(self) -> ChiSquare:
        """Evenness among the links of each switch, added up: what enters a switch is not its choice."""
        return pooled([list(counts.values()) for counts in self.counts.values()])

    @cached_property
    def overall(self) -> ChiSquare:
        """Evenness among all links of the tier."""
        return uniform(list(self.links.values())) if self.datagrams else ChiSquare(0.0, 0)


def tiers(run: Run) -> list[Tier]:
    """The tiers of upward links, lowest first; empty where no switch is above another or nothing was counted."""
    packets = run.measured.get("port_packets")
    ports = run.measured.get("ports", {})
    if not isinstance(packets, dict):
        return []
    found: dict[int, Tier] = {}
    for name in sorted(ports, key=natural):
        port = ports[name]
        if port.get("peer_tier") and port["tier"] < port["peer_tier"]:
            switch = name.rpartition("-")[0]
            tier = found.setdefault(port["tier"], Tier(_noun(switch), _noun(port["peer"]), {}))
            tier.counts.setdefault(switch, {})[name] = int(packets.get(name, 0))
    return [tier for _, tier in sorted(found.items())]


def is_regular(run: Run) -> bool:
    """Whether every rack has as many hosts, so that all links of a tier expect as many datagrams of random pairs."""
    racks: dict[str, int] = {}
    for name, port in run.measured.get("ports", {}).items():
        if port.get("tier") == 1:
            switch = name.rpartition("-")[0]
            racks[switch] = racks.get(switch, 0) + (port.get("peer_tier") == 0)
    return len(set(racks.values())) == 1


def _noun(switch: str) -> str:
    return re.sub(r"\d+$", "", switch)
