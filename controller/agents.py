"""The process of the agents: what switches' ports and NICs do by themselves in their silicon, for all of them at once,
beside the traffic.

It sleeps until something happens. In virtual time what an agent does takes no time, so that one process stands for
all; on a real clock it is as late as it is woken.
"""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from controller import child
from controller.dcqcn import Dcqcn
from controller.loop import Loop
from controller.nic_agent import RECORD, Nic, NicAgent, Record
from topologies import rdma
from topologies.emulate import Fabric

_READ_BYTES = 1 << 16


class Agent(Protocol):
    """What works on a loop until it ends."""

    def write(self, folder: Path) -> dict[str, Any]:
        """Keep its records in `folder`; returns what they need to be read (plain values)."""


# Makes an agent on a loop, in the process in which it is to work; it works inside its context.
Start = Callable[[Loop], AbstractContextManager[Agent]]


class NicAgents:
    """DCQCN at the NIC of every host's first interface, which has to have an RDMA device; a context manager around
    their sockets."""

    def __init__(self, loop: Loop, fabric: Fabric, parameters: Dcqcn) -> None:
        self._record = Record()
        self._agents = [
            NicAgent(
                loop, _nic(fabric, host), parameters, partial(rdma.queue_pairs, host.name, namespace), self._record
            )
            for host, namespace in ((host, fabric.namespaces[host.name]) for host in fabric.hosts)
        ]

    def __enter__(self) -> NicAgents:
        with ExitStack() as stack:
            for agent in self._agents:
                stack.enter_context(agent)
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def write(self, folder: Path) -> dict[str, Any]:
        """Keep what happened to all queue pairs in `folder`/RECORD (see `controller.nic_agent.Record`); returns the
        destinations ("10.0.0.1:17") that tell the queue pairs apart, by their numbers."""
        with (folder / RECORD).open("wb") as file:
            self._record.rows.tofile(file)
        return {"dcqcn_destinations": [f"{address}:{qpn}" for address, qpn in self._record.queue_pairs]}


def _nic(fabric: Fabric, host: Any) -> Nic:
    intf = host.intfList()[0]
    link = intf.link.profile
    return Nic(fabric.namespaces[host.name], intf.name, host.ifindexes[intf.name], link.rate_bps, link.delay_ns)


class Agents:
    """Runs the agents that `starts` make, in a process of their own; a context manager around the traffic. Their
    records are in `folder` afterwards, and what they tell of them is in `facts`; `pid` is the process."""

    def __init__(self, starts: Sequence[Start], folder: Path) -> None:
        self._starts, self._folder = starts, folder
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Agents:
        self._heard, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self._heard)
                self._work(tell)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(tell)
        if not os.read(self._heard, 1):
            os.close(self._heard)
            os.waitpid(self.pid, 0)
            raise RuntimeError("the agents did not start")
        return self

    def __exit__(self, *exc: object) -> None:
        os.kill(self.pid, signal.SIGTERM)
        told = self._listen()
        _, status = os.waitpid(self.pid, 0)
        if status:
            raise RuntimeError(f"the agents ended with status {os.waitstatus_to_exitcode(status)}")
        self.facts = json.loads(told)

    def _listen(self) -> bytes:
        """All that the process tells until it ends."""
        parts: list[bytes] = []
        while parts[-1:] != [b""]:
            parts.append(os.read(self._heard, _READ_BYTES))
        os.close(self._heard)
        return b"".join(parts)

    def _work(self, tell: int) -> None:
        """The child: until SIGTERM, then write what happened."""
        stop = child.settle()
        with suppress(PermissionError):  # silicon does not wait for programs: ours run as soon as they are woken
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
        with Loop() as loop, ExitStack() as stack:
            loop.watch(stop, loop.stop)
            agents = [stack.enter_context(start(loop)) for start in self._starts]
            os.write(tell, b"+")
            loop.run()
            facts: dict[str, Any] = {}
            for agent in agents:
                facts.update(agent.write(self._folder))
        with os.fdopen(tell, "w") as pipe:
            json.dump(facts, pipe)
