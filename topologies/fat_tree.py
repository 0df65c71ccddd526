"""Fat-tree: three tiers of switches with k ports each (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008).

    core1    core2    core3    core4         (k/2)^2 cores; core<c>-eth<p> goes to pod p
      |  \\     |         |     /  |          the first k/2 cores go to the first aggregation switch of each pod, ...
    agg1     agg2  | agg3     agg4 | ...     k/2 a pod: ports 1..k/2 down, the others up
      |   \\/   |   |   |   \\/   |   |
    edge1    edge2 | edge3   edge4 | ...     k/2 a pod: ports 1..k/2 to hosts, the others up
     / \\      / \\  |  / \\     / \\  |
    h1 h2    h3 h4 | h5 h6   h7 h8 | ...     k^3/4 hosts; pod p, edge e of it, host i: 10.p.e.i

k pods, 5 k^2 / 4 switches. Between hosts of different pods there are (k/2)^2 equal paths; with equal rates the fabric
has full bisection bandwidth.
"""

from __future__ import annotations

from typing import Any

from topologies.addresses import rack_subnet
from topologies.profiles import LinkProfile, SwitchProfile
from topologies.routed import RoutedTopo, spread


class FatTree(RoutedTopo):
    """The k-ary fat-tree; `mn --custom topologies/fat_tree.py --topo fat_tree,4` may leave the profiles out."""

    def build(
        self,
        k: int = 4,
        hosts: int | None = None,
        link: LinkProfile | None = None,
        uplink: LinkProfile | None = None,
        switch: SwitchProfile | None = None,
        **_: Any,
    ) -> None:
        """Lay out the fabric; `hosts` (default: all k^3/4 places) fill the edges one after the other."""
        half = k // 2
        cores = [self.add_tier_switch(f"core{number}", 3, switch) for number in range(1, half * half + 1)]
        placed = iter(spread(k * half * half if hosts is None else hosts, k * half, half))
        for pod in range(1, k + 1):
            upper = [self.add_tier_switch(f"agg{(pod - 1) * half + place}", 2, switch) for place in range(1, half + 1)]
            for place, aggregation in enumerate(upper):
                for offset in range(half):
                    core = cores[place * half + offset]
                    self.addLink(aggregation, core, port1=half + 1 + offset, port2=pod, profile=uplink)
            for place in range(1, half + 1):
                subnet = rack_subnet(pod, place)
                edge = self.add_tier_switch(f"edge{(pod - 1) * half + place}", 1, switch, subnet=subnet)
                self.add_rack_hosts(edge, next(placed), link)
                for offset, aggregation in enumerate(upper, start=1):
                    self.addLink(edge, aggregation, port1=half + offset, port2=place, profile=uplink)


topos = {"fat_tree": FatTree}
