"""The fabric of a resolved spec: its Topo with profiles, what fabric.json tells of it, and how it is to be routed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mininet.topo import Topo

from controller.policy import SWITCH, Orders, Policy
from experiments import cluster, limits
from experiments.marks import marking
from experiments.shape import lay_out
from experiments.spec import SWITCHED, Spec, known, refuse
from topologies.describe import FabricDescription, describe
from topologies.profiles import Marking

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
    return spec.topology in SWITCHED


def document(spec: Spec) -> dict[str, Any]:
    """What a run directory keeps as fabric.json: the topology's name and all nodes and links."""
    return {"format": FORMAT, "topology": spec.topology, **describe(topology(spec)).as_json()}


def orders(spec: Spec, description: FabricDescription) -> Orders:
    """What the controller of the spec's fabric is asked to do; raises BadRequest for a fabric that needs none."""
    if not is_routed(spec):
        refuse("topology", f"{spec.topology} has one switch, which learns by itself", f"{', '.join(SWITCHED)}")
    routing, hash_seeds, fast = known(spec.routing), known(spec.ecmp_seed), known(spec.fast_failover)
    who_marks, curves = spec.marking or SWITCH, _thresholds(spec)
    policy = Policy(routing, hash_seeds, fast, known(spec.control_latency_ns), spec.seed, who_marks, curves)
    return Orders(description, policy)


def routing_orders(spec: Spec, description: FabricDescription) -> Orders:
    """The same for a fabric that others have built, whose ports have no markers of ours: it is only routed."""
    asked = orders(spec, description)
    return replace(asked, policy=replace(asked.policy, marking=SWITCH, thresholds=()))


def _thresholds(spec: Spec) -> tuple[tuple[int, Marking], ...]:
    """The curve by which ports of each rate mark."""
    found = marking(spec)
    if found is None:
        return ()
    return tuple((rate_bps, found.at(rate_bps)) for rate_bps in sorted(set(spec.link_rates_bps)))
