"""Boots the lab kernel and runs one command in it.

The command sees the host's file system under an overlay in memory: whatever it writes is gone afterwards,
except in the results folder. No privilege is needed. Nothing stays on the host: memory is an unlinked file, the
control folder is removed as soon as the kernel is up, and the kernel dies with the process that booted it, even
when that is killed with SIGKILL (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import random
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.cache import own_cache

# The clock of every virtual run starts here: equal runs, equal time stamps.
VIRTUAL_START_NS = 1_700_000_000_000_000_000
_INIT = Path(__file__).with_name("init.py")
_PYTHON = "/usr/bin/python3"
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_STOP_GRACE_S = 10.0
_PIPE_BYTES = 1 << 20
_CONTROL_PATH_LENGTH = 70
_LOG_LINES = 60

Event = dict[str, Any]


class LabError(RuntimeError):
    """The lab kernel could not do its work; the message is one line."""


@dataclass(frozen=True)
class Job:
    """One command for the lab: `argv` runs in `cwd` with exactly `env`; `results` is the one folder it can
    write on the host.

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
    """How a job ended: its exit status, "done" | "failed" | "interrupted" | "watchdog" | "stalled" | "died",
    wall seconds from boot, last kernel lines."""

    status: int
    ended_as: str
    wall_s: float
    kernel_log: tuple[str, ...]


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


def run(
    kernel: Path,
    job: Job,
    on_event: Callable[[Event, float], None] = lambda event, wall_s: None,
    stdout: Any = None,
    stderr: Any = None,
    stop: Stop | None = None,
) -> Outcome:
    """Boot `kernel`, run `job`, power off. Events (JSON lines on the job's descriptor 3) go to `on_event` with
    their wall-clock second.

    `stdout` and `stderr` are binary streams for the command's output (default: ours). A `stop` interrupts the
    job (SIGINT), and ends the kernel after a grace of seconds. Raises LabError when no memory or core can be had.
    """
    with _control_folder() as control, _core() as core, nullcontext(stop) if stop else Stop() as heard:
        session = _Session(job, on_event, (stdout or sys.stdout.buffer, stderr or sys.stderr.buffer), heard)
        (control / "job.json").write_text(json.dumps(_job_document(job)))
        return session.run(_command(kernel, job, control), core, control)


def _job_document(job: Job) -> dict[str, Any]:
    return {
        "argv": job.argv,
        "env": job.env,
        "cwd": str(job.cwd),
        "results": str(job.results.resolve()),
        "interactive": job.interactive,
    }


def _command(kernel: Path, job: Job, control: Path) -> list[str]:
    """The kernel's command line; descriptors 3 and 4 are the channel from and to the host."""
    clock = ["time-travel=inf-cpu", f"time-travel-start={VIRTUAL_START_NS}"] if job.clock == "virtual" else []
    console = "con0=fd:0,fd:1" if job.interactive else "con0=null,fd:1"
    stderr = "con1=null" if job.interactive else "con1=null,fd:5"
    return [
        str(kernel),
        f"mem={job.memory_bytes >> 20}M",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "quiet",
        "loglevel=0",
        "con=null",
        console,
        stderr,
        "con2=fd:3,fd:4",
        "ssl=null",
        "seccomp=auto",
        f"uml_dir={control}",
        *clock,
        f"init={_PYTHON}",
        "--",
        "-I",
        "-B",
        str(_INIT.resolve()),
        str(control / "job.json"),
    ]


class _Session:
    """One boot: owns the kernel process and its pipes from start to end."""

    def __init__(
        self, job: Job, on_event: Callable[[Event, float], None], outputs: tuple[Any, Any], stop: Stop
    ) -> None:
        self.job, self.on_event, self.outputs, self.stop = job, on_event, outputs, stop
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self.status: int | None = None
        self.ended_as = "died"
        self.partial_line = b""
        self.beat_s: float | None = None
        self.memory = memory_folder(job.memory_bytes)
        self.pipes = _Pipes()
        self.started_s = time.monotonic()

    def run(self, command: list[str], core: int, control: Path) -> Outcome:
        """Start the kernel, pump its pipes until it ends, and say how it went."""
        with _raw_terminal(self.job.interactive):
            process = self._start(command, core)
            try:
                self._pump(process, control)
            finally:
                _kill(process)
                self.pipes.close()
        if process.returncode == -signal.SIGBUS:
            self.log.append(f"no room left for guest memory in {self.memory}: set FABRICLAB_MEMORY to another folder")
        return self._outcome()

    def _start(self, command: list[str], core: int) -> subprocess.Popen[bytes]:
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/",
            "TMPDIR": str(self.memory),
            "LAB_SEED": f"{self.job.seed:x}",
        }
        parent = os.getpid()

        def prepare() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            # The guest's files are ours too: a fabric of processes opens more than the usual 1,024.
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            os.sched_setaffinity(0, {core})
            self.pipes.place_in_child()

        return subprocess.Popen(
            command,
            env=env,
            stdin=None if self.job.interactive else subprocess.DEVNULL,
            stdout=None if self.job.interactive else self.pipes.stdout[1],
            stderr=self.pipes.log[1],
            close_fds=False,
            start_new_session=not self.job.interactive,
            preexec_fn=prepare,
        )

    def _pump(self, process: subprocess.Popen[bytes], control: Path) -> None:
        """Serve the pipes until the kernel has closed them all, or the grace is over that a stop, the watchdog and a
        stall give."""
        self.pipes.close_child_ends()
        handlers = {
            self.pipes.stdout[0]: self._copy(0),
            self.pipes.stderr[0]: self._copy(1),
            self.pipes.log[0]: self._note,
            self.pipes.events[0]: lambda data: self._events(data, control),
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
        with suppress(BrokenPipeError):  # the kernel is ending by itself
            os.write(self.pipes.orders[1], b"stop\n")
        return time.monotonic() + _STOP_GRACE_S

    def _copy(self, index: int) -> Callable[[bytes], None]:
        def write(data: bytes) -> None:
            self.outputs[index].write(data)
            self.outputs[index].flush()

        return write

    def _note(self, data: bytes) -> None:
        self.log.extend(line for line in data.decode(errors="replace").splitlines() if line.strip())

    def _events(self, data: bytes, control: Path) -> None:
        *lines, self.partial_line = (self.partial_line + data).split(b"\n")
        wall_s = time.monotonic() - self.started_s
        for event in map(json.loads, filter(None, lines)):
            self.beat_s = time.monotonic() if event["event"] == "beat" else None
            if event["event"] == "booted":
                shutil.rmtree(control, ignore_errors=True)  # the kernel has read it: a killed run leaves nothing
                if self.ended_as != "died":
                    self._ask_to_stop(self.ended_as)  # what was asked before may have come too early to be heard
            if event["event"] == "exit":
                self.status = event["status"]
            self.on_event(event, wall_s)

    def _outcome(self) -> Outcome:
        if self.status is not None and self.ended_as == "died":
            self.ended_as = "done" if self.status == 0 else "failed"
        status = self.status if self.status is not None else 1
        return Outcome(status, self.ended_as, time.monotonic() - self.started_s, tuple(self.log))


class _Pipes:
    """The pipes of one boot; the child finds orders on 3, events on 4, its standard error on 5."""

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
    """End the kernel; its guest processes are its children and die with it."""
    if process.poll() is None:
        process.kill()
    process.wait()


@contextmanager
def _control_folder() -> Iterator[Path]:
    """A private folder for the job and the kernel's socket; folders of dead processes are swept first."""
    base = Path(tempfile.gettempdir())
    if len(str(base)) > _CONTROL_PATH_LENGTH or set(str(base)) & set(string.whitespace):
        base = Path("/tmp")  # the path is a word of the kernel's command line, and of a socket's address
    for stale in base.glob("fabriclab-lab-*-*"):
        if not Path(f"/proc/{stale.name.split('-')[2]}").exists():
            shutil.rmtree(stale, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"fabriclab-lab-{os.getpid()}-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _core() -> Iterator[int]:
    """A processor core for one lab: one that no other lab of this user holds, else any. A lab is five times
    slower when it wanders."""
    cores = sorted(os.sched_getaffinity(0), reverse=True)
    for core in cores:
        lock = _claim(own_cache() / "cores" / str(core))
        if lock is not None:
            try:
                yield core
            finally:
                os.close(lock)
            return
    yield random.choice(cores)


def _claim(path: Path) -> int | None:
    """A descriptor that holds the lock of a core; None when another lab has it, or when no lock can be kept there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


@contextmanager
def _raw_terminal(interactive: bool) -> Iterator[None]:
    """Our terminal is the guest's while it runs (the guest echoes and edits); restored however it ends."""
    if not (interactive and sys.stdin.isatty()):
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def memory_folder(memory_bytes: int) -> Path:
    """A folder where the guest's memory can lie: enough room, memory-backed where possible, and not mounted noexec.

    $FABRICLAB_MEMORY alone when it is set. Raises LabError when there is none.
    """
    given = os.environ.get("FABRICLAB_MEMORY")
    candidates = [Path(given)] if given else [Path("/dev/shm"), Path(tempfile.gettempdir())]
    for folder in candidates:
        if folder.is_dir() and os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            space = os.statvfs(folder)
            if space.f_bavail * space.f_frsize >= memory_bytes:
                return folder
    looked_at = ", ".join(map(str, candidates))
    size = f"{memory_bytes >> 20} MiB of guest memory"
    raise LabError(f"no room for {size} in {looked_at}: set FABRICLAB_MEMORY to a folder with room")
