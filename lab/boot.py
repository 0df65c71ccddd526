"""Boots the lab kernel and runs one command in it.

The command sees the host's file system under an overlay in memory: whatever it writes is gone afterwards,
except in the results folder. No privilege is needed. Nothing stays on the host: memory is an unlinked file, the
control folder is removed as soon as the kernel is up, and the kernel dies with the process that booted it (see
lab/session.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab import bytecode, huge_pages
from lab.cache import own_cache
from lab.session import Hear, Job, LabError, Outcome, Session, Start, Stop, control_folder, job_document, unheard

# The clock of every virtual run starts here: equal runs, equal time stamps.
VIRTUAL_START_NS = 1_700_000_000_000_000_000
_INIT = Path(__file__).with_name("init.py")
_PYTHON = "/usr/bin/python3"


def run(
    kernel: Path,
    job: Job,
    on_event: Hear = unheard,
    stdout: Any = None,
    stderr: Any = None,
    stop: Stop | None = None,
) -> Outcome:
    """Boot `kernel`, run `job`, power off. Events (JSON lines on the job's descriptor 3) go to `on_event` with
    their wall-clock second.

    `stdout` and `stderr` are binary streams for the command's output (default: ours). A `stop` interrupts the
    job (SIGINT), and ends the kernel after a grace of seconds. Raises LabError when no memory or core can be had.
    """
    bytecode.compile_modules()
    outputs = stdout or sys.stdout.buffer, stderr or sys.stderr.buffer
    with control_folder() as control, _core() as core, nullcontext(stop) if stop else Stop() as heard:
        memory = memory_folder(job.memory_bytes)
        (control / "job.json").write_text(json.dumps(job_document(job)))
        # On the real clock the lab's timers are only as punctual as its turns on the processor.
        start = Start(
            _command(kernel, job, control),
            _environment(job, memory),
            frozenset((core,)),
            control,
            is_urgent=job.clock == "real",
        )
        return _explained(Session(job, start, on_event, outputs, heard).run(), memory)


def _environment(job: Job, memory: Path) -> dict[str, str]:
    """What the kernel's process has around it."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/",
        "TMPDIR": str(memory),
        "LAB_SEED": f"{job.seed:x}",
    }


def _explained(outcome: Outcome, memory: Path) -> Outcome:
    """A kernel that has died for want of memory says so in its log."""
    if outcome.killed_by != signal.SIGBUS:
        return outcome
    said = f"no room left for guest memory in {memory}: set FABRICLAB_MEMORY to another folder"
    return replace(outcome, log=(*outcome.log, said))


def _command(kernel: Path, job: Job, control: Path) -> tuple[str, ...]:
    """The kernel's command line; descriptors 3 and 4 are the channel from and to the host."""
    clock = ["time-travel=inf-cpu", f"time-travel-start={VIRTUAL_START_NS}"] if job.clock == "virtual" else []
    console = "con0=fd:0,fd:1" if job.interactive else "con0=null,fd:1"
    stderr = "con1=null" if job.interactive else "con1=null,fd:5"
    return (
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
    )


@contextmanager
def _core() -> Iterator[int]:
    """A processor core for one lab: one that no other lab of this user holds, else any. A lab is five times
    slower when it wanders. Machines that share a home have their cores each."""
    cores = sorted(os.sched_getaffinity(0), reverse=True)
    for core in cores:
        lock = _claim(own_cache() / "cores" / os.uname().nodename / str(core))
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


def memory_folder(memory_bytes: int) -> Path:
    """A folder where the guest's memory can lie: enough room, memory-backed where possible, in huge pages where they
    can be had, and not mounted noexec.

    $FABRICLAB_MEMORY alone when it is set. Raises LabError when there is none.
    """
    given = os.environ.get("FABRICLAB_MEMORY")
    candidates = [Path(given)] if given else [Path("/dev/shm"), Path(tempfile.gettempdir())]
    huge = None if given else huge_pages.folder()
    for folder in (*([huge] if huge else ()), *candidates):
        if folder.is_dir() and os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC:
            space = os.statvfs(folder)
            if space.f_bavail * space.f_frsize >= memory_bytes:
                return folder
    looked_at = ", ".join(map(str, candidates))
    size = f"{memory_bytes >> 20} MiB of guest memory"
    raise LabError(f"no room for {size} in {looked_at}: set FABRICLAB_MEMORY to a folder with room")
