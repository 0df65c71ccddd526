"""What all fabrics of several switches have in common: tiers, racks with their subnets, numbered names."""

from __future__ import annotations

from itertools import count
from typing import Any

from mininet.topo import Topo

from topologies.addresses import PREFIX_LENGTH, host_mac, rack_host
from topologies.profiles import LinkProfile, SwitchProfile


class RoutedTopo(Topo):
    """A Topo whose switches know their tier (1: hosts are below it) and, for racks, the subnet of their hosts.

    Switches carry `tier` and `subnet` (or None) as node parameters, links and switches their profile: all that
    `topologies.emulate` and the controller's plan are made of. Hosts are h1, h2, ... in the order they are added.
    """

    def __init__(self, *args: Any, **params: Any) -> None:
        self._dpids, self._host_numbers = count(1), count(1)
        super().__init__(*args, **params)

    def add_tier_switch(
        self, name: str, tier: int, profile: SwitchProfile | None, subnet: str | None = None, **extra: Any
    ) -> str:
        """A switch with the next datapath id."""
        dpid = f"{next(self._dpids):x}"
        return str(self.addSwitch(name, dpid=dpid, tier=tier, subnet=subnet, profile=profile, **extra))

    def add_rack_hosts(self, switch: str, hosts: int, link: LinkProfile | None) -> list[str]:
        """`hosts` hosts on the first ports of a rack, addressed in its subnet."""
        subnet = self.nodeInfo(switch)["subnet"]
        return [self.add_rack_host(switch, number, rack_host(subnet, number), link) for number in range(1, hosts + 1)]

    def add_rack_host(self, switch: str, port: int, address: str, link: LinkProfile | None) -> str:
        """The next host, its eth0 at `port` of a rack."""
        number = next(self._host_numbers)
        name = str(self.addHost(f"h{number}", ip=f"{address}/{PREFIX_LENGTH}", mac=host_mac(number)))
        self.addLink(name, switch, port1=0, port2=port, profile=link)
        return name


def spread(hosts: int, racks: int, most: int) -> list[int]:
    """How many hosts each of `racks` racks has when `hosts` fill them one after the other, at most `most` each."""
    return [max(0, min(most, hosts - rack * most)) for rack in range(racks)]
