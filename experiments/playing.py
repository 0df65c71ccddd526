"""A workload under way: what it plays on, what goes on beside it, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.agents import at_work
from experiments.failures import Failure, affected_wires
from experiments.stage import Stage
from topologies.describe import ends
from workloads import rounds
from workloads.faults import Fault, Faults
from workloads.transport.base import AnyConnection

Facts = dict[str, Any]
OnRound = Callable[[rounds.Round], None]

# From here to the workload's begin: everything is set up before the first packet. On the real clock agents and captures
# take their time to start.
_LEAD_NS, _REAL_LEAD_NS = 1_000_000, 250_000_000


@dataclass(frozen=True)
class Run:
    """A run under way: what it plays on, its facts so far, who hears of each round, and the folder of its records."""

    stage: Stage
    facts: Facts
    on_round: OnRound
    records: Path


def lead_ns(stage: Stage) -> int:
    """How long before a workload begins it is made ready."""
    return _LEAD_NS if stage.ground.is_virtual else _REAL_LEAD_NS


@contextmanager
def surroundings(run: Run, begin_ns: int, connections: Sequence[AnyConnection]) -> Iterator[None]:
    """What goes on beside a workload that begins at `begin_ns`: agents act, and things fail."""
    names = {str(connection.describe()["destination"]): connection.name for connection in connections}
    with at_work(run.stage, begin_ns, run.records, run.facts, names), Failures(run.stage, run.facts, begin_ns):
        yield


def one_round(run: Run, begin_ns: int, size_bytes: int, end_ns: int | None = None) -> None:
    """The whole workload as one round, which ends at `end_ns` (None: now)."""
    done = rounds.Round(begin_ns, time.time_ns() if end_ns is None else end_ns, size_bytes)
    run.facts["rounds"] = [{"start_ns": done.start_ns, "end_ns": done.end_ns, "bytes": done.bytes}]
    run.on_round(done)


class Failures(Faults):
    """The spec's schedule of failures, begun at `begin_ns`; what was done, and what the controller told, go into the
    facts."""

    def __init__(self, stage: Stage, facts: Facts, begin_ns: int) -> None:
        self._stage, self._facts = stage, facts
        schedule = [
            Fault(begin_ns + failure.time_ns, failure.target, failure.action, _interfaces(stage, failure))
            for failure in stage.spec.failures or ()
        ]
        super().__init__(stage.fabric, schedule, stage.controller.kill if stage.controller else None)

    def __exit__(self, *exc: object) -> None:
        try:
            super().__exit__(*exc)
        finally:
            self._account()

    def _account(self) -> None:
        controller = self._stage.controller
        if controller is None:
            return
        controller.news()
        self._facts["failures"] = [asdict(each) for each in self.done]
        self._facts["control_events"] = [each for each in controller.events if each["event"] in _CONTROL_EVENTS]
        controller.check()


_CONTROL_EVENTS = ("port_down", "port_up", "repaired", "host_moved", "lost_switch", "error")


def _interfaces(stage: Stage, failure: Failure) -> tuple[str, ...]:
    """Both ends, as far as they are switch ports, of every link that the failure takes."""
    wires = affected_wires(failure, stage.description)
    names = (end.interface for wire in wires for end in ends(wire))
    return tuple(name for name in names if name in stage.switch_ports)
