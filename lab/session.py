"""One job under way: its first process is started, its output passed on, its events told, its limits kept.

The first process is the lab kernel (lab/boot.py) or the first one of private namespaces (lab/machine.py); it dies with
the process that started it, even when that is killed with SIGKILL (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import selectors
import shutil
import signal
import string
import subprocess
import sys
import tempfile
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_STOP_GRACE_S = 10.0
_PIPE_BYTES = 1 << 20
_CONTROL_PATH_LENGTH = 70
_LOG_LINES = 60
_OTHERS_BOOT_S = 60.0  # /tmp may be shared by containers, of which one does not see the processes of another

Event = dict[str, Any]
Hear = Callable[[Event, float], None]  # an event, and the wall seconds from the first process's start to it


def unheard(event: Event, wall_s: float) -> None:
    """Where nobody listens."""


def die_with(parent: int) -> None:
    """To be called in a child first: it does not outlive its parent, which may have died before it could be told
    (prctl(2), PR_SET_PDEATHSIG)."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class LabError(RuntimeError):
    """The lab kernel could not do its work; the message is one line."""


@dataclass(frozen=True)
class Job:
    """One command: `argv` runs in `cwd` with exactly `env`, in the lab or in private namespaces of this machine;
    `results` is the one folder that it can write for good.

    memory_bytes: the guest's memory, touched lazily. seed: what all its entropy derives from. clock: "virtual"
    (time-travel=inf-cpu) or "real". watchdog_s: wall-clock limit, after which the command is interrupted.
    stall_s: wall-clock limit between a "beat" of the command and its next event, of whatever kind: a command that
    beats at virtual intervals is interrupted when virtual time stands still. interactive: the command's terminal is
    ours.
    """

    argv: tuple[str, ...]
    results: Path
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path = Path("/")
    memory_bytes: int = 1 << 30
    seed: int = 1
    clock: str = "virtual"
    watchdog_s: float = 600.0
    stall_s: float | None = None
    interactive: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a job ended: its exit status, "done" | "failed" | "interrupted" | "watchdog" | "stalled" | "died", wall
    seconds from the first process's start, that one's last lines, and the signal that killed it (None: none did)."""

    status: int
    ended_as: str
    wall_s: float
    log: tuple[str, ...]
    killed_by: int | None = None


class Stop:
    """A wish to stop that any thread or signal handler can utter, and that every running lab hears."""

    def __init__(self) -> None:
        self.descriptor, self._writer = os.pipe()
        self.requested = False

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.descriptor)
        os.close(self._writer)

    def request(self) -> None:
        """Ask all labs that were given this to end, keeping what they have."""
        self.requested = True
        os.write(self._writer, b"x")


def job_document(job: Job) -> dict[str, Any]:
    """What the first process reads of its job."""
    return {
        "argv": job.argv,
        "env": job.env,
        "cwd": str(job.cwd),
        "results": str(job.results.resolve()),
        "interactive": job.interactive,
    }


@dataclass(frozen=True)
class Start:
    """How the first process is started: its command line, which finds orders on descriptor 3, events on 4 and the job's
    standard error on 5; exactly this environment; the processor cores that it may use; the folder with its orders,
    which is removed once they have been read; and whether it is to run before all others, where that is allowed."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cores: frozenset[int]
    control: Path
    is_urgent: bool = False


class Session:
    """One place that runs one job: owns its first process and its pipes from start to end."""

    def __init__(self, job: Job, start: Start, on_event: Hear, outputs: tuple[Any, Any], stop: Stop) -> None:
        self.job, self.start, self.on_event, self.outputs, self.stop = job, start, on_event, outputs, stop
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self.status: int | None = None
        self.ended_as = "died"
        self.partial_line = b""
        self.beat_s: float | None = None
        self.pipes = _Pipes()
        self.started_s = time.monotonic()

    def run(self) -> Outcome:
        """Start the first process, pump its pipes until it ends, and say how it went."""
        with _lent_terminal(self.job.interactive):
            process = self._launch()
            try:
                self._pump(process)
            finally:
                _kill(process)
                self.pipes.close()
        return self._outcome(process.returncode)

    def _launch(self) -> subprocess.Popen[bytes]:
        parent = os.getpid()

        def prepare() -> None:
            die_with(parent)
            # The job's files are ours too: a fabric of processes opens more than the usual 1,024.
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            os.sched_setaffinity(0, self.start.cores)
            if self.start.is_urgent:
                with suppress(PermissionError):
                    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
            self.pipes.place_in_child()

        return subprocess.Popen(
            self.start.command,
            env=dict(self.start.env),
            stdin=None if self.job.interactive else subprocess.DEVNULL,
            stdout=None if self.job.interactive else self.pipes.stdout[1],
            stderr=self.pipes.log[1],
            close_fds=False,
            start_new_session=not self.job.interactive,
            preexec_fn=prepare,
        )

    def _pump(self, process: subprocess.Popen[bytes]) -> None:
        """Serve the pipes until all are closed, or the grace is over that a stop, the watchdog and a stall give."""
        self.pipes.close_child_ends()
        handlers = {
            self.pipes.stdout[0]: self._copy(0),
            self.pipes.stderr[0]: self._copy(1),
            self.pipes.log[0]: self._note,
            self.pipes.events[0]: self._events,
        }
        deadline_s = self.started_s + self.job.watchdog_s
        with selectors.DefaultSelector() as selector:
            for descriptor in (*handlers, self.stop.descriptor):
                selector.register(descriptor, selectors.EVENT_READ)
            while handlers:
                for key, _ in selector.select(max(0.0, self._limit(deadline_s)[0] - time.monotonic())):
                    if key.fd == self.stop.descriptor:
                        deadline_s = self._ask_to_stop("interrupted")
                        selector.unregister(key.fd)
                    elif data := os.read(key.fd, _PIPE_BYTES):
                        handlers[key.fd](data)
                    else:
                        selector.unregister(key.fd)
                        del handlers[key.fd]
                limit_s, reason = self._limit(deadline_s)
                if handlers and time.monotonic() >= limit_s:  # also while output floods in
                    if self.ended_as != "died":
                        return
                    deadline_s = self._ask_to_stop(reason)
        process.wait()

    def _limit(self, deadline_s: float) -> tuple[float, str]:
        """Until when the command may go on as things are, and what it ends as then."""
        if self.ended_as == "died" and self.beat_s is not None and self.job.stall_s is not None:
            return min((deadline_s, "watchdog"), (self.beat_s + self.job.stall_s, "stalled"))
        return deadline_s, "watchdog"

    def _ask_to_stop(self, ended_as: str) -> float:
        """Have the command interrupted; returns until when it may take to keep what it has."""
        self.ended_as = ended_as
        with suppress(BrokenPipeError):  # it is ending by itself
            os.write(self.pipes.orders[1], b"stop\n")
        return time.monotonic() + _STOP_GRACE_S

    def _copy(self, index: int) -> Callable[[bytes], None]:
        def write(data: bytes) -> None:
            self.outputs[index].write(data)
            self.outputs[index].flush()

        return write

    def _note(self, data: bytes) -> None:
        self.log.extend(line for line in data.decode(errors="replace").splitlines() if line.strip())

    def _events(self, data: bytes) -> None:
        *lines, self.partial_line = (self.partial_line + data).split(b"\n")
        wall_s = time.monotonic() - self.started_s
        for event in map(json.loads, filter(None, lines)):
            self.beat_s = time.monotonic() if event["event"] == "beat" else None
            if event["event"] == "booted":
                shutil.rmtree(self.start.control, ignore_errors=True)  # it has been read: a killed run leaves nothing
                if self.ended_as != "died":
                    self._ask_to_stop(self.ended_as)  # what was asked before may have come too early to be heard
            if event["event"] == "exit":
                self.status = event["status"]
            self.on_event(event, wall_s)

    def _outcome(self, returncode: int) -> Outcome:
        if self.status is not None and self.ended_as == "died":
            self.ended_as = "done" if self.status == 0 else "failed"
        status = self.status if self.status is not None else 1
        killed_by = -returncode if returncode < 0 else None
        return Outcome(status, self.ended_as, time.monotonic() - self.started_s, tuple(self.log), killed_by)


class _Pipes:
    """The pipes of one session; the child finds orders on 3, events on 4, its standard error on 5."""

    def __init__(self) -> None:
        self.stdout, self.stderr, self.log, self.events, self.orders = (os.pipe() for _ in range(5))
        for _, writer in (self.stdout, self.stderr, self.events):
            # A full pipe would make the guest wait for the host, and a busy host would show in the results.
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def place_in_child(self) -> None:
        """After fork: move the three descriptors to their numbers (through high ones, so that none is overwritten)."""
        high = [
            fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100)
            for descriptor in (self.orders[0], self.events[1], self.stderr[1])
        ]
        for number, descriptor in enumerate(high, start=3):
            os.dup2(descriptor, number)
        os.closerange(6, 256)

    def close_child_ends(self) -> None:
        """In the parent: only the child keeps its ends, so that its death is seen as end of file."""
        for descriptor in (self.stdout[1], self.stderr[1], self.log[1], self.events[1], self.orders[0]):
            os.close(descriptor)

    def close(self) -> None:
        """Close the parent's ends."""
        for descriptor in (self.stdout[0], self.stderr[0], self.log[0], self.events[0], self.orders[1]):
            os.close(descriptor)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the first process; all others die with it."""
    if process.poll() is None:
        process.kill()
    process.wait()


@contextmanager
def control_folder() -> Iterator[Path]:
    """A private folder for the job and a socket; folders of dead processes are swept first."""
    base = Path(tempfile.gettempdir())
    if len(str(base)) > _CONTROL_PATH_LENGTH or set(str(base)) & set(string.whitespace):
        base = Path("/tmp")  # the path is a word of a kernel's command line, and of a socket's address
    for stale in base.glob("fabriclab-lab-*-*"):
        if not Path(f"/proc/{stale.name.split('-')[2]}").exists() and _age_s(stale) > _OTHERS_BOOT_S:
            shutil.rmtree(stale, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"fabriclab-lab-{os.getpid()}-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _age_s(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except FileNotFoundError:  # swept by another
        return 0.0


@contextmanager
def _lent_terminal(interactive: bool) -> Iterator[None]:
    """Our terminal is the job's while it runs: it echoes and edits, and Ctrl-C is its own to hear; the terminal is
    restored however the job ends."""
    if not (interactive and sys.stdin.isatty()):
        yield
        return
    attributes = termios.tcgetattr(sys.stdin)
    heard = signal.signal(signal.SIGINT, lambda *_: None)  # a handler, unlike SIG_IGN, is not inherited by the job
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)
