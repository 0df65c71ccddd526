"""iperf3 from several hosts to one: a server for each client, as a server of iperf3 takes one test at a time.

Nobody sends before all clients are ready and all servers listen; then all begin at one time, each with its offset.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.iperf3_process import BEGIN, CLIENT, SERVER, Asked
from workloads.launch import Program

FIRST_PORT = 5201  # iperf3's own; the server of the next sender has the next one
READY, GATE = "ready", "gate"  # the pipes
_LISTENS = "0A"  # in the column `st` of /proc/net/tcp (net/tcp_states.h)


@dataclass(frozen=True)
class SenderTest:
    """One sender's test: its Mininet node, the receiver's and its address, the server's port, and how long after the
    common begin it begins."""

    sender: Any
    receiver: Any
    address: str
    port: int
    offset_ns: int


@dataclass(frozen=True)
class Sending:
    """What each client is asked for."""

    seconds: int
    streams: int
    interval_s: float


def listening_ports(table: str) -> set[int]:
    """The ports on which somebody listens, from the text of /proc/net/tcp (proc(5))."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENS}


@dataclass
class Gate:
    """Two named pipes in `folder`, a context manager: clients tell in one that they are ready, and get the time to
    begin from the other. `begin_ns` is that time (CLOCK_REALTIME), None until the gate is open."""

    folder: Path
    clients: int
    begin_ns: int | None = None
    _ready: int = 0
    _pipes: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Gate:
        for name in (READY, GATE):
            os.mkfifo(self.path(name))
            self._pipes[name] = os.open(self.path(name), os.O_RDWR | os.O_NONBLOCK)  # both ends: it never ends
        return self

    def __exit__(self, *exc: object) -> None:
        for descriptor in self._pipes.values():
            os.close(descriptor)

    def path(self, name: str) -> Path:
        """Of a pipe."""
        return self.folder / name

    def open_when(self, ports: Collection[int], listening: Callable[[], set[int]], lead_ns: int) -> None:
        """Called again and again while the clients get ready: tells every client when all begin, `lead_ns` from now,
        once each of them waits and `listening` names all of `ports`; once only."""
        if self.begin_ns is None and self._all_ready() and set(ports) <= listening():
            self.begin_ns = time.time_ns() + lead_ns
            os.write(self._pipes[GATE], BEGIN.pack(self.begin_ns) * self.clients)

    def _all_ready(self) -> bool:
        """Whether every client waits."""
        with suppress(BlockingIOError):
            self._ready += len(os.read(self._pipes[READY], self.clients))
        return self._ready == self.clients


def programs(
    tests: Sequence[SenderTest],
    sending: Sending,
    gate: Gate,
    folder: Path,
    environment: Mapping[str, str],
    directory: Path,
) -> list[Program]:
    """All servers, then all clients, in the order of the tests. What each tells is in `folder`: ROLE/SENDER.json is
    iperf3's own, ROLE/SENDER.out its process's."""
    made = []
    for role in (SERVER, CLIENT):
        (folder / role).mkdir(parents=True, exist_ok=True)
        for test in tests:
            stem = folder / role / test.sender.name
            asked = _asked(role, test, sending, gate, stem)
            host = test.receiver if role == SERVER else test.sender
            made.append(Program(host, asked.words(), environment, directory, stem))
    return made


def _asked(role: str, test: SenderTest, sending: Sending, gate: Gate, stem: Path) -> Asked:
    return Asked(
        role,
        test.address,
        test.port,
        sending.seconds,
        sending.streams,
        sending.interval_s,
        test.offset_ns,
        ready=str(gate.path(READY)),
        gate=str(gate.path(GATE)),
        results=f"{stem}.json",
    )
