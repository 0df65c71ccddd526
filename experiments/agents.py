"""What ports and NICs do by themselves beside the traffic of a run (see controller/agents.py), as its spec asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from controller.agents import Agents, NicAgents, Start
from controller.policy import CONTROLLER, Policy
from controller.port_agent import PausePolicy, PortAgent, Stuck
from controller.queue_watch import QueueWatch, WatchedPort, watched_ports
from experiments import roce
from experiments.spec import Spec, known
from experiments.stage import Stage
from topologies import qdisc

_FOR_EVER_NS = 1 << 62


@contextmanager
def at_work(
    stage: Stage, begin_ns: int, folder: Path, facts: dict[str, Any], names: Mapping[str, str] | None = None
) -> Iterator[None]:
    """The agents that the stage's spec asks for, beside a workload that begins at `begin_ns`. Afterwards their records
    are in `folder`, and what they tell of them is in `facts`; `names`: flow of each queue pair ("10.0.0.1:17")."""
    starts = list(_starts(stage, begin_ns))
    if not starts:
        yield
        return
    agents = Agents(starts, folder)
    try:
        with agents:
            yield
    finally:
        facts.update(agents.facts)
        if "dcqcn_destinations" in facts:
            facts["queue_pairs"] = [(names or {}).get(each, each) for each in facts.pop("dcqcn_destinations")]


def _starts(stage: Stage, begin_ns: int) -> Iterator[Start]:
    spec, controller = stage.spec, stage.controller
    if spec.pfc == "on":
        policy = pause_policy(spec, begin_ns)
        orders = controller.commands if controller and spec.pause == CONTROLLER else None
        yield partial(PortAgent, fabric=stage.fabric, policy=policy, controller=orders)
    parameters = roce.dcqcn(spec)
    if parameters is not None:
        yield partial(NicAgents, fabric=stage.fabric, parameters=parameters)
    if controller and spec.marking == CONTROLLER:
        yield partial(
            QueueWatch,
            ports=tuple(_watched(stage, controller.orders.policy)),
            latency_ns=known(spec.control_latency_ns),
            controller=controller.commands,
            switches=stage.fabric.openvswitch.folder / "ovs-vswitchd.ctl",
        )


def _watched(stage: Stage, policy: Policy) -> Iterator[WatchedPort]:
    """Every switch port, in the queue of the workload's class."""
    spec, fabric = stage.spec, stage.fabric
    queue = qdisc.LOSSLESS if spec.traffic_class == "lossless" else qdisc.LOSSY
    return watched_ports(stage.description, fabric.port_index, policy, queue, spec.mtu_bytes, spec.pfc == "on")


def pause_policy(spec: Spec, begin_ns: int) -> PausePolicy:
    """How ports pause in a workload that begins at `begin_ns`."""
    stuck = tuple(
        Stuck(each.host, begin_ns + each.begin_ns, _FOR_EVER_NS if each.end_ns is None else begin_ns + each.end_ns)
        for each in known(spec.stuck)
    )
    latency_ns = known(spec.control_latency_ns) if spec.pause == CONTROLLER else None
    return PausePolicy(known(spec.pause_quanta), spec.pfc_watchdog_ns or None, stuck, latency_ns)
