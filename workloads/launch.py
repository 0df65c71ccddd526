"""Starts a program of the user's on hosts and follows it to its end.

Ranks begin one after the other, a virtual millisecond apart: in virtual time computing takes none, so each is through
with its own start when the next begins. Whatever runs on hosts has the lowest priority (SCHED_IDLE, sched(7)):
switches, controller and we ourselves get the one processor at once, as they have their own in a cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from controller.loop import Loop

START_GAP_NS = 1_000_000
BEAT_NS = 1_000_000  # how often it is told that virtual time goes on
GRACE_NS = 1_000_000_000  # between a failure, SIGTERM and SIGKILL
_BY_SIGNAL = 128
_BEATS_PER_FLUSH = 50
_LAST_LINES, _LAST_BYTES = 10, 1 << 14

_SET_NAME = ("unshare", "--uts", "/bin/sh", "-c", 'echo "$0" >/proc/sys/kernel/hostname; exec "$@"')


def own_name(is_ours: bool) -> tuple[str, ...]:
    """Words behind which a program has a host's name, beside the host's network that the words before them enter. On a
    kernel that is ours alone it also lets all else go first; beside programs of others it would never get to run."""
    return ("chrt", "--idle", "0", *_SET_NAME) if is_ours else _SET_NAME


@dataclass(frozen=True)
class Program:
    """What is started on one host: a Mininet node, the words, the whole environment, the folder it runs in, and the
    stem of its output files (STEM.out, STEM.err)."""

    host: Any
    words: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    output: Path


@dataclass(frozen=True)
class End:
    """When a program began and ended (CLOCK_REALTIME, ns; None: not yet), and its exit status, 128 + signal when a
    signal ended it, as a shell says it."""

    begin_ns: int | None = None
    end_ns: int | None = None
    status: int | None = None


@dataclass
class Followed:
    """A program that was started, or is to be."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    end: End = field(default_factory=End)


@dataclass
class Launch:
    """Programs under way, followed by a `beat` every `beat_ns`, beside which `flush` is called now and then. `ended`:
    "done" when all have ended by themselves, "failed" when one ended badly and the others were asked to end, "timeout";
    `first_failed` is the place of that one."""

    programs: Sequence[Program]
    timeout_ns: int | None
    beat: Callable[[], object]
    beat_ns: int = BEAT_NS
    flush: Callable[[], object] = os.sync
    ended: str = "done"
    first_failed: int | None = None
    followed: list[Followed] = field(init=False)

    def __post_init__(self) -> None:
        self.followed = [Followed(program) for program in self.programs]
        self._loop: Loop
        self._beats = 0

    def run(self, begin_ns: int) -> None:
        """Start all from `begin_ns` on (CLOCK_REALTIME) and follow them until none runs any more; nothing of them runs
        afterwards, however this ends."""
        with Loop() as self._loop:
            for place, each in enumerate(self.followed):
                self._loop.call_at(begin_ns + place * START_GAP_NS, partial(self._start, place, each))
            self._loop.call_at(begin_ns, partial(self._tick, begin_ns))
            if self.timeout_ns is not None:
                self._loop.call_at(begin_ns + self.timeout_ns, partial(self._end_others, "timeout"))
            try:
                self._loop.run()
            finally:
                self._signal(signal.SIGKILL)
                for each in self._running():
                    self._reap(each)

    def _start(self, place: int, each: Followed) -> None:
        if self.ended != "done":
            return
        each.end = End(self._loop.now_ns())
        each.process = _started(each.program)
        descriptor = os.pidfd_open(each.process.pid)
        self._loop.watch(descriptor, partial(self._over, place, each, descriptor))

    def _over(self, place: int, each: Followed, descriptor: int) -> None:
        self._loop.unwatch(descriptor)
        os.close(descriptor)
        self._reap(each)
        if each.end.status and self.ended == "done":
            self.ended, self.first_failed = "failed", place
            # The others may be about to fail for the same reason, and say so themselves.
            self._loop.call_at(self._loop.now_ns() + GRACE_NS, partial(self._end_others, "failed"))
        to_come = [other for other in self.followed if other.process is None and self.ended == "done"]
        if not to_come and not self._running():
            self._loop.stop()

    def _reap(self, each: Followed) -> None:
        assert each.process is not None
        code = each.process.wait()
        each.end = replace(each.end, end_ns=self._loop.now_ns(), status=code if code >= 0 else _BY_SIGNAL - code)

    def _running(self) -> list[Followed]:
        return [each for each in self.followed if each.process is not None and each.end.status is None]

    def _end_others(self, reason: str) -> None:
        """Those that run are asked to end; those that are still to start do not."""
        self.ended = reason
        if not self._running():
            self._loop.stop()
            return
        self._signal(signal.SIGTERM)
        self._loop.call_at(self._loop.now_ns() + GRACE_NS, partial(self._signal, signal.SIGKILL))

    def _signal(self, number: signal.Signals) -> None:
        """To everything that the programs under way have started; at the end also to what those that are over left."""
        for each in self.followed if number == signal.SIGKILL else self._running():
            if each.process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(each.process.pid, number)

    def _tick(self, due_ns: int) -> None:
        """Virtual time goes on; now and then what the programs have written goes to the host."""
        self.beat()
        self._beats += 1
        if self._beats % _BEATS_PER_FLUSH == 0:
            self.flush()
        self._loop.call_at(due_ns + self.beat_ns, partial(self._tick, due_ns + self.beat_ns))


def _started(program: Program) -> subprocess.Popen[bytes]:
    """In a session of its own, with its output in files."""
    with _output(program, "out") as out, _output(program, "err") as err:
        process: subprocess.Popen[bytes] = program.host.popen(
            list(program.words),
            mncmd=[*program.host.enter_command(), *own_name(program.host.is_ours), program.host.name],
            env=dict(program.environment),
            cwd=program.directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    return process


def _output(program: Program, suffix: str) -> BinaryIO:
    return open(f"{program.output}.{suffix}", "ab", buffering=0)


def last_lines(stem: Path) -> list[str]:
    """The end of what a program wrote to standard error, or where that is nothing, to standard output."""
    for suffix in ("err", "out"):
        lines = _tail(Path(f"{stem}.{suffix}"))
        if lines:
            return lines
    return []


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return [_printable(line) for line in text.splitlines() if line.strip()][-_LAST_LINES:]


def _printable(line: str) -> str:
    """The line as a terminal may have it: what would steer one is told by its number."""
    return "".join(each if each.isprintable() or each == "\t" else f"\\x{ord(each):02x}" for each in line)
