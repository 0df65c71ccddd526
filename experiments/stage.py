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
from topologies.describe import FabricDescription, Wire, describe
from topologies.emulate import Fabric, emulate


@dataclass(frozen=True)
class Stage:
    """What a workload plays on: the spec, the running fabric with its description, and its controller (None: a star's
    switch learns)."""

    spec: Spec
    description: FabricDescription
    fabric: Fabric
    controller: Controller | None

    @property
    def hosts(self) -> list[str]:
        """Host names in order."""
        return [host.name for host in self.description.hosts]

    @cached_property
    def switch_ports(self) -> dict[str, tuple[Wire, bool]]:
        """Interface of every switch port -> its link, and whether it is the link's first end."""
        switches = {switch.name for switch in self.description.switches}
        found = {f"{wire.a}-eth{wire.a_port}": (wire, True) for wire in self.description.wires if wire.a in switches}
        return {**found, **{f"{wire.b}-eth{wire.b_port}": (wire, False) for wire in self.description.wires}}

    @cached_property
    def tiers(self) -> dict[str, int]:
        """Node -> its tier; hosts are tier 0."""
        tiers = {switch.name: switch.tier for switch in self.description.switches}
        return {**dict.fromkeys(self.hosts, 0), **tiers}

    def port_towards(self, host: str) -> str:
        """The switch port that a host's first interface hangs on."""
        return next(
            f"{wire.b}-eth{wire.b_port}" for wire in self.description.wires if (wire.a, wire.a_port) == (host, 0)
        )

    def up_ports(self) -> list[str]:
        """Switch ports towards a higher tier."""
        ends = {
            name: (wire.a, wire.b) if first else (wire.b, wire.a) for name, (wire, first) in self.switch_ports.items()
        }
        return [name for name, (own, peer) in ends.items() if self.tiers[own] < self.tiers[peer]]

    def describe_port(self, name: str) -> dict[str, Any]:
        """What measured.json tells of a switch port beside its queues."""
        wire, first = self.switch_ports[name]
        own, peer = (wire.a, wire.b) if first else (wire.b, wire.a)
        peer_port = wire.b_port if first else wire.a_port
        tier, peer_tier = self.tiers[own], self.tiers[peer]
        peer_interface = f"{peer}-eth{peer_port}" if peer_tier else f"eth{peer_port}"
        facts = {"peer": peer, "peer_interface": peer_interface, "tier": tier, "peer_tier": peer_tier}
        return {**facts, "rate_bps": wire.rate_bps}


@contextmanager
def staged(spec: Spec) -> Iterator[Stage]:
    """The spec's fabric, routed and ready; everything is removed at the end. Raises RuntimeError when the controller
    does not come up."""
    topo = fabrics.topology(spec)
    description = describe(topo)
    with ExitStack() as stack:
        controller = None
        if fabrics.is_routed(spec):
            controller = stack.enter_context(Controller(fabrics.orders(spec), known(spec.openflow)))
        target = controller.target if controller else None
        fabric = stack.enter_context(emulate(topo, limits.host_profile(spec), openflow_controller=target))
        if controller:
            wrong = controller.wait_for("discovered")["wrong_links"]
            if wrong:
                raise RuntimeError(f"the fabric is not wired as planned: {'; '.join(wrong[:3])}")
        yield Stage(spec, description, fabric, controller)
