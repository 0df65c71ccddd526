"""A resolved spec made real inside the lab: its fabric, and the controller that routes it where it has several
switches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from controller.process import Controller
from experiments import fabrics, limits
from experiments.spec import Spec, known
from topologies import rdma, trial
from topologies.addresses import interface
from topologies.describe import FabricDescription, PortEnd, describe, ends
from topologies.emulate import Fabric, emulate
from topologies.ground import LAB_REAL, LAB_VIRTUAL, MACHINE, Ground


@dataclass(frozen=True)
class Stage:
    """What a workload plays on: the spec, the running fabric with its description, its controller (None: a star's
    switch learns), and the kernel under it all."""

    spec: Spec
    description: FabricDescription
    fabric: Fabric
    controller: Controller | None
    ground: Ground = LAB_VIRTUAL

    @property
    def hosts(self) -> list[str]:
        """Host names in order."""
        return [host.name for host in self.description.hosts]

    @cached_property
    def tiers(self) -> dict[str, int]:
        """Node -> its tier; hosts are tier 0."""
        tiers = {switch.name: switch.tier for switch in self.description.switches}
        return {**dict.fromkeys(self.hosts, 0), **tiers}

    @cached_property
    def switch_ports(self) -> dict[str, PortEnd]:
        """Interface of every switch port -> that end of its link."""
        found = (end for wire in self.description.wires for end in ends(wire))
        return {end.interface: end for end in found if self.tiers[end.node]}

    def port_towards(self, host: str) -> str:
        """The switch port that a host's first interface hangs on."""
        return next(name for name, end in self.switch_ports.items() if (end.peer, end.peer_port) == (host, 0))

    def up_ports(self) -> list[str]:
        """Switch ports towards a higher tier."""
        return [name for name, end in self.switch_ports.items() if self.tiers[end.node] < self.tiers[end.peer]]

    def describe_port(self, name: str) -> dict[str, Any]:
        """What measured.json tells of a switch port beside its queues."""
        end = self.switch_ports[name]
        tier, peer_tier = self.tiers[end.node], self.tiers[end.peer]
        peer_interface = interface(end.peer, end.peer_port) if peer_tier else f"eth{end.peer_port}"
        facts = {"peer": end.peer, "peer_interface": peer_interface, "tier": tier, "peer_tier": peer_tier}
        return {**facts, "rate_bps": end.wire.rate_bps}


def ground_of(place: str, clock: str) -> Ground:
    """The kernel that this process runs in, which is that of `place`, on `clock`."""
    if place == MACHINE:
        return trial.here()
    return LAB_VIRTUAL if clock == "virtual" else LAB_REAL


@contextmanager
def staged(spec: Spec, ground: Ground = LAB_VIRTUAL) -> Iterator[Stage]:
    """The spec's fabric on `ground`, routed and ready; everything is removed at the end. Raises RuntimeError when the
    controller does not come up, BadRequest when the kernel lacks what the transport needs."""
    topo = fabrics.topology(spec)
    description = describe(topo)
    with ExitStack() as stack:
        controller = None
        if fabrics.is_routed(spec):
            controller = stack.enter_context(Controller(fabrics.orders(spec, description), known(spec.openflow)))
        target = controller.target if controller else None
        hosts = limits.host_profile(spec)
        if hosts.roce:
            rdma.isolate()
        fabric = stack.enter_context(emulate(topo, hosts, openflow_controller=target, ground=ground))
        if hosts.roce:
            stack.enter_context(rdma.attached(fabric.namespaces))
        if controller:
            wrong = controller.wait_for("discovered")["wrong_links"]
            if wrong:
                raise RuntimeError(f"the fabric is not wired as planned: {'; '.join(wrong[:3])}")
        yield Stage(spec, description, fabric, controller, ground)
