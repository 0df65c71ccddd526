"""Star: every host on one switch.

h1    h2    h3   ...   hN        each link: rate both ways, propagation each way
 \\     |     |         /         leaf1-eth<i> is the port of h<i>; its egress buffer is the shallow one
  +----+--leaf1-------+
"""

from __future__ import annotations

from typing import Any

from mininet.topo import Topo

from topologies.addresses import PREFIX_LENGTH, flat_host
from topologies.profiles import LinkProfile, SwitchProfile


class Star(Topo):
    """Hosts h1..hN on switch leaf1. For `mn --custom topologies/star.py --topo star,4` the profiles may be left out."""

    def build(
        self, hosts: int = 2, link: LinkProfile | None = None, switch: SwitchProfile | None = None, **_: Any
    ) -> None:
        """Lay out `hosts` hosts; `link` and `switch` are kept on the graph for `topologies.emulate`."""
        leaf = self.addSwitch("leaf1", dpid="1", profile=switch)
        for index in range(1, hosts + 1):
            host = self.addHost(f"h{index}", ip=f"{flat_host(index)}/{PREFIX_LENGTH}")
            self.addLink(host, leaf, port1=0, port2=index, profile=link)


topos = {"star": Star}
