"""GPU pod: servers with 8 GPUs on an NVSwitch and 8 NICs, leaves and spines above.

    spine1         spine2   ...                  uplink: leaf to spine, every leaf to every spine
      |  \\         /  |
    leaf1 leaf2 ... leaf8                        link: NIC (eth0) to leaf
      |     |         |
     eth0  eth0      eth0      h1 ... h8 are the GPUs of the first server, h9 ... h16 those of the second, ...
      h1    h2  ...   h8
     eth1  eth1      eth1
      +--- nvs1 ------+                          nvlink: GPU (eth1) to its server's NVSwitch

Rail-optimised, leaf i is rail i: it holds the NIC of GPU i of every server. Otherwise all NICs of a server go to one
leaf, and the leaves share the servers evenly. A GPU has one address; its seven neighbours in the server are reached
through eth1, all others through eth0.

NVLink 4.0 is sold as 900 GB/s per GPU, 7.2 TB/s per server: that counts both directions. A link here has its rate in
each direction, so that the full figure is a rate of 450 GB/s = 3.6 Tb/s.
"""

from __future__ import annotations

from typing import Any

from topologies.addresses import rack_host, rack_subnet
from topologies.profiles import LinkProfile, SwitchProfile
from topologies.routed import RoutedTopo

GPUS_PER_SERVER = 8


class GpuPod(RoutedTopo):
    """GPUs h1..h(8 x servers); `mn --custom topologies/gpu_pod.py --topo gpu_pod,servers=2` may leave the profiles
    out."""

    def build(
        self,
        servers: int = 2,
        leaves: int = GPUS_PER_SERVER,
        spines: int = 2,
        rails: bool = True,
        link: LinkProfile | None = None,
        uplink: LinkProfile | None = None,
        nvlink: LinkProfile | None = None,
        switch: SwitchProfile | None = None,
        **_: Any,
    ) -> None:
        """Lay out the fabric; with `rails` there are 8 leaves whatever `leaves` says."""
        leaves = GPUS_PER_SERVER if rails else leaves
        servers_per_leaf = -(-servers // leaves)
        ports_per_leaf = servers if rails else servers_per_leaf * GPUS_PER_SERVER
        upper = [self.add_tier_switch(f"spine{number}", 2, switch) for number in range(1, spines + 1)]
        for number in range(1, leaves + 1):
            leaf = self.add_tier_switch(f"leaf{number}", 1, switch, subnet=rack_subnet(0, number))
            for place, spine in enumerate(upper, start=1):
                self.addLink(leaf, spine, port1=ports_per_leaf + place, port2=number, profile=uplink)
        for server in range(servers):
            inner = self.add_tier_switch(f"nvs{server + 1}", 1, switch, inside_server=True)
            for gpu in range(GPUS_PER_SERVER):
                rail = (gpu + 1, server + 1)
                shared = (server // servers_per_leaf + 1, server % servers_per_leaf * GPUS_PER_SERVER + gpu + 1)
                leaf_number, port = rail if rails else shared
                address = rack_host(rack_subnet(0, leaf_number), port)
                host = self.add_rack_host(f"leaf{leaf_number}", port, address, link)
                self.addLink(host, inner, port1=1, port2=gpu + 1, profile=nvlink)


topos = {"gpu_pod": GpuPod}
