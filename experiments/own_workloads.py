"""The workload of the user's own in a spec: what it is given, and what its rehearsal tells."""

from __future__ import annotations

from experiments.spec import Spec
from topologies.plugins import Plug
from workloads.own_workload import Rehearsed, rehearsed
from workloads.rounds import Rounds


def asked_of(spec: Spec) -> Rounds:
    """What the class is made with beside the hosts."""
    return Rounds(spec.sru_bytes, spec.rounds, spec.jitter_ns, spec.seed)


def rehearsal(spec: Spec) -> Rehearsed | None:
    """What the workload of a sized spec asks for; None for one of ours. Raises BadRequest for one that cannot be
    played."""
    if not isinstance(spec.workload, Plug):
        return None
    return rehearsed(spec.workload, tuple(spec.host_names), asked_of(spec), spec.rate_bps)
