"""A lab looked at from outside while it runs: when it tells of what, and what it takes of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.ledger import stat_fields

_GONE = "the lab has ended before it was looked at: this machine is too busy"


@dataclass
class Watch:
    """Looks at a lab from outside, whose kernel is the program `kernel`, while it tells of its `rounds` rounds: wall
    seconds by event, processor seconds at both ends of the timed rounds, and its memory."""

    rounds: int
    kernel: str
    at_s: dict[str, float] = field(default_factory=dict)
    round_ends_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    memory_bytes: int = 0

    def note(self, label: str, event: Mapping[str, Any]) -> None:
        """An event, now."""
        now_s = time.monotonic()
        if event["event"] != "round":
            self.at_s[event.get("name", event["event"])] = now_s
            return
        self.round_ends_s.append(now_s)
        if len(self.round_ends_s) in (1, self.rounds):
            lab = _lab(self.kernel)
            self.cpu_s.append(sum(map(_cpu_s, _members(lab))))
            self.memory_bytes = _peak_bytes(lab)


def _lab(kernel: str) -> int:
    """The process of the lab kernel that this process has started."""
    for pid in _numbers(Path("/proc")):
        if _fields(pid)[1:2] == [str(os.getpid())] and os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(kernel):
            return pid
    raise RuntimeError(_GONE)


def _members(session: int) -> Iterator[int]:
    """All processes of a session: of a lab, its kernel and the programs in it."""
    return (pid for pid in _numbers(Path("/proc")) if _fields(pid)[3:4] == [str(session)])


def _numbers(folder: Path) -> Iterator[int]:
    return (int(each.name) for each in folder.iterdir() if each.name.isdigit())


def _fields(pid: int) -> list[str]:
    """Its state and what comes behind it; nothing of a process that has ended."""
    try:
        return stat_fields(pid)
    except OSError:
        return []


def _cpu_s(pid: int) -> float:
    """Seconds on a processor, in nanoseconds in /proc/PID/schedstat."""
    return int((_text(pid, "schedstat").split() or ["0"])[0]) / 1e9


def _peak_bytes(pid: int) -> int:
    """The most memory that it had (VmHWM); a lab kernel's is the guest's, as far as it was touched."""
    _, _, rest = _text(pid, "status").partition("VmHWM:")
    if not rest:
        raise RuntimeError(_GONE)
    return int(rest.split()[0]) << 10


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
