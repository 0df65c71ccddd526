"""Ring: every switch linked to the next, the last one to the first, hosts on each.

         +-------------- sw<N>-eth<h+1> to sw1-eth<h+2> --------------+
         |                                                            |
        sw1 ------------ sw2 ------------ sw3 ----- ... ----- sw<N> --+
        / \\              / \\              / \\                  / \\
       h1 h2            h3 h4            h5 h6             ...            link: rate both ways, propagation each way

Of h hosts on a switch, host i is at sw<s>-eth<i>; sw<s>-eth<h+1> goes clockwise, to eth<h+2> of the next switch
(uplink: its own rate and propagation). There are two ways from everywhere to everywhere; when all packets go the same
way round, every switch waits for the buffers of the next one, and the first for those of the last: the cyclic buffer
dependency in which lossless fabrics can deadlock (Dally and Seitz, 1987).
"""

from __future__ import annotations

from typing import Any

from topologies.addresses import rack_subnet
from topologies.profiles import LinkProfile, SwitchProfile
from topologies.routed import RoutedTopo

LEAST_SWITCHES = 3  # two would be a dumbbell with two links


class Ring(RoutedTopo):
    """Hosts h1..hM on sw1..swN; `mn --custom topologies/ring.py --topo ring,switches=5` may leave the profiles out.
    Raises ValueError for fewer than three switches."""

    def build(
        self,
        switches: int = 4,
        hosts_per_leaf: int = 1,
        link: LinkProfile | None = None,
        uplink: LinkProfile | None = None,
        switch: SwitchProfile | None = None,
        **_: Any,
    ) -> None:
        """Lay out the fabric."""
        if switches < LEAST_SWITCHES:
            raise ValueError(f"switches: {switches} is given; allowed: {LEAST_SWITCHES} or more")
        names = [f"sw{number}" for number in range(1, switches + 1)]
        for number, name in enumerate(names, start=1):
            self.add_tier_switch(name, 1, switch, subnet=rack_subnet(0, number))
            self.add_rack_hosts(name, hosts_per_leaf, link)
        for here, following in zip(names, [*names[1:], names[0]]):
            self.addLink(here, following, port1=hosts_per_leaf + 1, port2=hosts_per_leaf + 2, profile=uplink)


topos = {"ring": Ring}
