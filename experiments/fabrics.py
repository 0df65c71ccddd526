"""The fabric of a resolved spec: its Topo with profiles, what fabric.json tells of it, and how it is to be routed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mininet.topo import Topo

from controller.policy import KEY, SWITCH, Orders
from experiments import cluster, limits
from experiments.policies import policy_of
from experiments.shape import lay_out
from experiments.spec import ROUTED, Spec, refuse
from topologies.describe import FabricDescription, describe
from topologies.plugins import Plug

FORMAT = 1


def topology(spec: Spec) -> Topo:
    """The spec's fabric as a Topo whose links and switches carry their profiles."""
    topo = lay_out(
        spec,
        link=limits.link_profile(spec),
        uplink=limits.uplink_profile(spec),
        nvlink=limits.nvlink_profile(spec),
        switch=limits.switch_profile(spec),
    )
    own = cluster.own_links(spec)
    for _, _, info in topo.links(withInfo=True):
        if info["node1"] in own and info["port1"] == 0:
            info["profile"] = own[info["node1"]]
    return topo


def is_routed(spec: Spec) -> bool:
    """Whether a controller routes the fabric; a star's one switch learns by itself."""
    return spec.is_routed


def document(spec: Spec) -> dict[str, Any]:
    """What a run directory keeps as fabric.json: the topology's name and all nodes and links."""
    name = spec.topology.name if isinstance(spec.topology, Plug) else spec.topology
    return {"format": FORMAT, "topology": name, **describe(topology(spec)).as_json()}


def orders(spec: Spec, description: FabricDescription) -> Orders:
    """What the controller of the spec's fabric is asked to do; raises BadRequest for a fabric that needs none."""
    if not is_routed(spec):
        refuse("topology", f"{spec.topology} has one switch, which learns by itself", f"{', '.join(ROUTED)}")
    return Orders(description, policy_of(spec), spec.own.get(KEY))


def routing_orders(spec: Spec, description: FabricDescription) -> Orders:
    """The same for a fabric that others have built, whose ports have no markers of ours: it is only routed."""
    asked = orders(spec, description)
    return replace(asked, policy=replace(asked.policy, marking=SWITCH, thresholds=()))
