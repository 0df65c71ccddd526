"""Leaf-spine: two tiers, every leaf linked to every spine.

    spine1      spine2           spine<s>-eth<l> goes to leaf<l>
     |  \\  \\    /  /  |          uplink: its own rate and propagation
     |   \\  \\  /  /   |
     |    \\  /\\  /    |
    leaf1   leaf2   leaf3        leaf<l>-eth<i> is host i of the leaf, after the hosts come the uplinks in order
    / | \\   / | \\   / | \\
   h1 h2 h3 ...                  link: rate both ways, propagation each way

Any two hosts under different leaves are two switch-to-switch hops apart. The ratio of a leaf's host bandwidth to its
uplink bandwidth is the oversubscription.
"""

from __future__ import annotations

from typing import Any

from topologies.addresses import rack_subnet
from topologies.profiles import LinkProfile, SwitchProfile
from topologies.routed import RoutedTopo, spread


class LeafSpine(RoutedTopo):
    """Hosts h1..hN under leaf1..leafL under spine1..spineS; `mn --custom topologies/leaf_spine.py --topo
    leaf_spine,leaves=4,spines=2` may leave the profiles out."""

    def build(
        self,
        leaves: int = 2,
        spines: int = 2,
        hosts_per_leaf: int = 2,
        hosts: int | None = None,
        link: LinkProfile | None = None,
        uplink: LinkProfile | None = None,
        switch: SwitchProfile | None = None,
        **_: Any,
    ) -> None:
        """Lay out the fabric; `hosts` (default: all places) fill the leaves one after the other."""
        upper = [self.add_tier_switch(f"spine{number}", 2, switch) for number in range(1, spines + 1)]
        placed = spread(leaves * hosts_per_leaf if hosts is None else hosts, leaves, hosts_per_leaf)
        for number, count in enumerate(placed, start=1):
            leaf = self.add_tier_switch(f"leaf{number}", 1, switch, subnet=rack_subnet(0, number))
            self.add_rack_hosts(leaf, count, link)
            for place, spine in enumerate(upper, start=1):
                self.addLink(leaf, spine, port1=hosts_per_leaf + place, port2=number, profile=uplink)


topos = {"leaf_spine": LeafSpine}
