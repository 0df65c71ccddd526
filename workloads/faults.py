"""Breaks links and switches of a running fabric on schedule, and mends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from topologies.emulate import Fabric

CONTROLLER = "controller"  # as a target: it is killed


@dataclass(frozen=True)
class Fault:
    """At `time_ns` (CLOCK_REALTIME) the switch ports `interfaces` go down, or up; `target` and `action` are for the
    account."""

    time_ns: int
    target: str
    action: str
    interfaces: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """A fault as it was carried out: `in_flight` is how many packets each of the interfaces held, queued or on the
    wire, at that moment."""

    time_ns: int
    target: str
    action: str
    in_flight: dict[str, int]


class Faults:
    """Carries out a schedule from a thread of its own, as a context manager, which raises what went wrong there; `done`
    is what has happened so far. `kill_controller` is called for the target CONTROLLER."""

    def __init__(
        self, fabric: Fabric, schedule: Sequence[Fault], kill_controller: Callable[[], None] | None = None
    ) -> None:
        self._fabric, self._schedule, self._kill_controller = fabric, schedule, kill_controller
        self.done: list[Done] = []
        self._stop = threading.Event()
        self._trouble: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Faults:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        if exc != (None, None, None):
            return
        if self._trouble:
            raise self._trouble
        if len(self.done) < len(self._schedule):
            missed = self._schedule[len(self.done)]
            raise RuntimeError(f"the workload ended before {missed.target} went {missed.action}")

    def _run(self) -> None:
        try:
            self._carry_out_all()
        except Exception as error:  # whatever it is, it is raised where the run waits for it
            self._trouble = error

    def _carry_out_all(self) -> None:
        for fault in self._schedule:
            while (left_ns := fault.time_ns - time.time_ns()) > 0:
                if self._stop.wait(left_ns / 1e9):
                    return
            self.done.append(Done(time.time_ns(), fault.target, fault.action, self._carry_out(fault)))

    def _carry_out(self, fault: Fault) -> dict[str, int]:
        """Do it; returns what the ports held that went down."""
        if fault.target == CONTROLLER:
            if self._kill_controller:
                self._kill_controller()
            return {}
        held = self._fabric.held_packets(fault.interfaces) if fault.action == "down" else {}
        self._fabric.set_ports(fault.interfaces, fault.action == "up")
        return held
