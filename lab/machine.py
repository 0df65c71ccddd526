"""Runs one command on this machine's own kernel, in namespaces of its own: networks, mounts and processes.

Needs root. The command sees this machine's files and may write to them; its networks, its processes, its memory file
systems and all mounts are its own. When it ends, or whoever started it is killed, the kernel removes them all. What is
left outside by a kill are names of networks (lab/ledger.py): `ip netns` shows fl-h1, fl-h2 ... and fl-switches while
the fabric runs.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from lab import ledger
from lab.ledger import Ledger
from lab.session import Event, Hear, Job, Outcome, Session, Start, Stop, control_folder, job_document, unheard

SCRATCH = ledger.FOLDER  # memory of its own lies there in the namespaces
SWITCHES = "switches"
_INIT = Path(__file__).with_name("machine_init.py")
_END_LIMIT_S = 10.0


def run(
    job: Job,
    on_event: Hear = unheard,
    stdout: Any = None,
    stderr: Any = None,
    stop: Stop | None = None,
) -> Outcome:
    """Run `job`, with events, streams and `stop` as lab.boot.run has them; its memory, seed and clock do not count. The
    event {"event": "phase", "name": "built"} says that the networks are there and can be named.

    Raises Busy when another session runs, NameTaken when a name is.
    """
    outputs = stdout or sys.stdout.buffer, stderr or sys.stderr.buffer
    with _names() as names, control_folder() as control, nullcontext(stop) if stop else Stop() as heard:
        (control / "job.json").write_text(json.dumps(job_document(job)))
        watch = _Watch(names, on_event)
        start = Start(_command(control), _environment(), frozenset(os.sched_getaffinity(0)), control)
        try:
            return Session(job, start, watch.note, outputs, heard).run()
        finally:
            watch.await_end()


def _command(control: Path) -> tuple[str, ...]:
    return (sys.executable, "-I", "-B", str(_INIT), str(control / "job.json"), str(SCRATCH))


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/"}


@contextmanager
def _names() -> Iterator[Ledger]:
    """The machine's one place; what a killed session has left is removed first, and at the end what this one made."""
    with ledger.locked() as names:
        names.settle()
        names.prepare()
        try:
            yield names
        finally:
            names.settle()


class _Watch:
    """Hears a session's events: keeps its first process, and names its networks when they are there."""

    def __init__(self, names: Ledger, on_event: Hear) -> None:
        self._names, self._on_event = names, on_event
        self._pid, self._descriptor = 0, -1

    def note(self, event: Event, wall_s: float) -> None:
        """One event."""
        if event["event"] == "session":
            self._pid = event["pid"]
            self._names.note_process(self._pid)
            with suppress(ProcessLookupError):
                self._descriptor = os.pidfd_open(self._pid)
            return
        if (event["event"], event.get("name")) == ("phase", "built"):
            self._name_networks()
        self._on_event(event, wall_s)

    def _name_networks(self) -> None:
        self._names.forget_names()  # of the session's fabric before
        process = Path(f"/proc/{self._pid}")
        self._names.give_name(SWITCHES, process / "ns/net")
        for network in sorted((process / "root/run/netns").iterdir()):
            self._names.give_name(network.name, network)

    def await_end(self) -> None:
        """Until the first process is gone, which has been killed or has ended: with it go all others."""
        if self._descriptor >= 0:
            select.select([self._descriptor], [], [], _END_LIMIT_S)
            os.close(self._descriptor)


def clean() -> list[str]:
    """Remove what a killed session has left; returns what it was, in words. Raises Busy while a session runs."""
    if not ledger.FOLDER.is_dir():
        return []
    with ledger.locked() as names:
        return names.settle()
