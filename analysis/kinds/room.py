"""The headroom of a run's lossless class: what it was given, what the formula asks for, what was used of it, and what
was lost."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.cost_model import headroom_bytes
from analysis.measures import pauses
from analysis.run import Run
from analysis.spec import CONTROLLER
from analysis.verdicts import lossless_drops, pfc_queues


@dataclass(frozen=True)
class Room:
    """Headroom of each port in bytes: given; needed, by cost_model.headroom_bytes for the fastest link; and the most
    that a port used of it. lost: packets of the lossless class; pauses: how often it was put to the test. None where
    the run does not tell."""

    label: str
    given_bytes: int | None
    needed_bytes: int
    used_bytes: int | None
    lost: int | None
    pauses: int | None

    @property
    def share(self) -> float | None:
        """How much was given of what the formula asks for."""
        return None if self.given_bytes is None else self.given_bytes / self.needed_bytes

    @property
    def is_enough(self) -> bool:
        """Whether the formula's headroom was given, or more."""
        return self.given_bytes is not None and self.given_bytes >= self.needed_bytes


def room(run: Run) -> Room:
    """The headroom of a run."""
    spec = run.parameters
    latency_ns = (spec.control_latency_ns or 0) if spec.pause == CONTROLLER else 0
    fastest_bps = max(spec.path.rate_bps, spec.uplink_bps)
    needed = headroom_bytes(fastest_bps, spec.link_delay_ns, spec.switch_delay_ns, spec.path.mtu_bytes, latency_ns)
    used = [queue["max_headroom_bytes"] for queue in pfc_queues(run.measured) if "max_headroom_bytes" in queue]
    return Room(spec.label, spec.headroom_bytes, needed, max(used, default=None), lossless_drops(run), pauses(run))


def rooms(run: Run) -> list[Room]:
    """The headrooms of a run and of its cases of the same workload, the least first."""
    found = [room(each) for each in (run, *run.cases.values()) if each.workload == run.workload]
    return sorted(found, key=lambda each: each.given_bytes or 0)
