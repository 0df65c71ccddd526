"""Outside programs that end when we end, and the lock that makes two builds take turns."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Union

_DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM", "--")  # no preexec_fn: a progress bar runs a thread
_GRACE_S = 5.0
_KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy")

Argument = Union[str, "os.PathLike[str]"]
Stream = Union[int, IO[bytes], None]


class ToolError(RuntimeError):
    """An outside program failed; the message is one line: the program and what it said."""


def environment() -> dict[str, str]:
    """What outside programs see: a result must not depend on the caller's MAKEFLAGS, CFLAGS or language."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C"}


@contextmanager
def running(
    argv: Sequence[Argument],
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program at the head of its own process group; leaving the block in any way ends that group.

    Its own session keeps the terminal's Ctrl-C from it, so that only we decide when it ends. When we are
    killed it gets SIGTERM (prctl(2), PR_SET_PDEATHSIG).
    """
    command = [*_DIE_WITH_PARENT, *argv]
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env or environment(),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end_group(process)


def guarded(argv: Sequence[Argument]) -> list[Argument]:
    """The command under a shell that hands SIGTERM on to its whole group: no compiler outlives make."""
    return ["sh", "-c", """trap 'trap "" TERM; kill 0; wait; exit 143' TERM; "$@" & wait $!""", "sh", *argv]


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a group that still runs: SIGTERM, and SIGKILL after the grace time; close our ends of its pipes."""
    if process.poll() is None:
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal_number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with suppress(BrokenPipeError):
                pipe.close()


def output_of(argv: Sequence[Argument], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What the program writes to standard output; raises ToolError unless it exits with 0."""
    with running(argv, cwd, env) as process:
        output, complaint = process.communicate()
    if process.returncode:
        raise ToolError(f"{argv[0]}: {complaint_in(complaint or output) or f'exit status {process.returncode}'}")
    return output.decode(errors="replace")


def complaint_in(output: bytes) -> str:
    """The line of a failed program's output that says why: apt's or tar's first error, else the last line."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E: ") or ": Cannot " in line]
    return (errors[:1] or lines[-1:] or [""])[0]


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file `path`, which even kill -9 frees (flock(2)); `on_wait` is called if it is taken."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
