"""Looks at the host that the labs run on: its processes, mounts, namespaces and links."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PARENT, _SESSION = 1, 3  # fields of /proc/PID/stat behind the command's name, proc(5)


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Process number and the fields of /proc/PID/stat behind the name, of every process but zombies."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        if fields[0] != "Z":
            yield int(path.parent.name), fields


def children_of(pid: int) -> list[int]:
    """The living processes that `pid` started."""
    return [child for child, fields in _stats() if int(fields[_PARENT]) == pid]


def processes_of_session(leader: int) -> list[int]:
    """The living processes of a session: a lab kernel leads one, and its guests' processes are in it."""
    return [pid for pid, fields in _stats() if int(fields[_SESSION]) == leader]


def within(limit_s: float, holds: Callable[[], bool]) -> bool:
    """Whether `holds()` becomes true in time."""
    deadline_s = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True


def state() -> dict[str, str]:
    """What a run could change of the host without writing a file."""
    return {
        "mounts": Path("/proc/self/mounts").read_text(),
        "namespaces": subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout,
        "links": subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout,
        "buffers": Path("/proc/sys/net/core/rmem_max").read_text(),
    }
