"""Dumbbell: two switches, one link between them.

    h1 --+                    +-- h3         link: each host's link, rate both ways, propagation each way
    h2 --+-- left1 ==== right1 --+-- h4      uplink: the bottleneck, between the last ports of both switches

The first half of the hosts is on the left.
"""

from __future__ import annotations

from typing import Any

from topologies.addresses import rack_subnet
from topologies.profiles import LinkProfile, SwitchProfile
from topologies.routed import RoutedTopo


class Dumbbell(RoutedTopo):
    """Hosts h1..hN on left1 and right1; `mn --custom topologies/dumbbell.py --topo dumbbell,4` may leave the profiles
    out."""

    def build(
        self,
        hosts: int = 4,
        link: LinkProfile | None = None,
        uplink: LinkProfile | None = None,
        switch: SwitchProfile | None = None,
        **_: Any,
    ) -> None:
        """Lay out the fabric; with an odd number of hosts the left has one more."""
        counts = {"left1": (hosts + 1) // 2, "right1": hosts // 2}
        for number, (name, count) in enumerate(counts.items(), start=1):
            self.add_tier_switch(name, 1, switch, subnet=rack_subnet(0, number))
            self.add_rack_hosts(name, count, link)
        self.addLink("left1", "right1", port1=counts["left1"] + 1, port2=counts["right1"] + 1, profile=uplink)


topos = {"dumbbell": Dumbbell}
