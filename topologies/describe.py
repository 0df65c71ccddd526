"""A fabric as plain values: what the controller routes, what a run directory keeps and what is drawn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mininet.topo import Topo

from topologies.addresses import host_mac, interface
from topologies.profiles import LinkProfile


@dataclass(frozen=True)
class SwitchNode:
    """A switch: bridge name, datapath id, tier (1: hosts are below it), the subnet of its hosts (None: it is no rack),
    whether it is an NVSwitch inside a server."""

    name: str
    dpid: int
    tier: int
    subnet: str | None = None
    inside_server: bool = False


@dataclass(frozen=True)
class HostNode:
    """A host with its one address."""

    name: str
    ip: str
    mac: str


@dataclass(frozen=True)
class Wire:
    """A link from port `a_port` of node `a` to port `b_port` of node `b`, the lower node first: rate in bits/s and
    propagation in ns, both ways (0: the Topo has no profiles)."""

    a: str
    a_port: int
    b: str
    b_port: int
    rate_bps: int = 0
    delay_ns: int = 0


@dataclass(frozen=True)
class PortEnd:
    """One end of a link: its node and port, and what is at the other end."""

    node: str
    port: int
    peer: str
    peer_port: int
    wire: Wire

    @property
    def interface(self) -> str:
        """Its interface, where the node is a switch."""
        return interface(self.node, self.port)


def ends(wire: Wire) -> tuple[PortEnd, PortEnd]:
    """Both ends of a link, the lower node's first."""
    return (
        PortEnd(wire.a, wire.a_port, wire.b, wire.b_port, wire),
        PortEnd(wire.b, wire.b_port, wire.a, wire.a_port, wire),
    )


@dataclass(frozen=True)
class FabricDescription:
    """All nodes and links of a fabric, each kind in the Topo's order."""

    switches: tuple[SwitchNode, ...]
    hosts: tuple[HostNode, ...]
    wires: tuple[Wire, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `from_json`."""
        return asdict(self)

    @staticmethod
    def from_json(document: dict[str, Any]) -> FabricDescription:
        """The description that `as_json` told."""
        return FabricDescription(
            tuple(SwitchNode(**each) for each in document["switches"]),
            tuple(HostNode(**each) for each in document["hosts"]),
            tuple(Wire(**each) for each in document["wires"]),
        )


def describe(topo: Topo) -> FabricDescription:
    """The description of a Topo of this folder."""
    switches = [_switch(name, topo.nodeInfo(name)) for name in topo.switches()]
    hosts = [
        HostNode(name, topo.nodeInfo(name)["ip"].partition("/")[0], host_mac(number))
        for number, name in enumerate(topo.hosts(), start=1)
    ]
    wires = [_wire(info) for _, _, info in topo.links(withInfo=True)]
    return FabricDescription(tuple(switches), tuple(hosts), tuple(wires))


def _switch(name: str, info: dict[str, Any]) -> SwitchNode:
    return SwitchNode(
        name, int(info["dpid"], 16), info.get("tier", 1), info.get("subnet"), info.get("inside_server", False)
    )


def _wire(info: dict[str, Any]) -> Wire:
    profile: LinkProfile | None = info.get("profile")
    rate_bps, delay_ns = (profile.rate_bps, profile.delay_ns) if profile else (0, 0)
    return Wire(info["node1"], info["port1"], info["node2"], info["port2"], rate_bps, delay_ns)
