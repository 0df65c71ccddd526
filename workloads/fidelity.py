"""How well a machine keeps real time while a workload runs: a process beside it that sleeps again and again and looks
how late it is woken, and now and then reads what the CPUs do, whether the kernel threw packets away, and whether the
clock was moved.

It sleeps as what a packet waits for does: a shaper's timer, then a process's turn on a CPU. Its naps are of irregular
length, so that nothing that keeps time itself (the kernel's tick, which counts who is running) meets it always or
never. A nap that should have begun while it waited for its turn counts too: else a long wait would be one among many.

Sources: proc(5), proc_pid_stat(5), net/core/net-procfs.c (softnet_stat), clock_getcpuclockid(3).
"""

from __future__ import annotations

import os
import random
import signal
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller import child

WAKES, MACHINE = "wakes.events", "machine.events"
WAKE_COLUMNS = ("time_ns", "late_ns")  # when it was to be woken, and how much later it was
# Counted since the start: time in which nothing ran, of all CPUs; CPU time of the process that plays the hosts; packets
# dropped for want of room in a CPU's backlog; how often a CPU left packets for later. CLOCK_REALTIME less
# CLOCK_MONOTONIC_RAW, and how long reading the two took.
MACHINE_COLUMNS = ("time_ns", "idle_ns", "hosts_ns", "dropped", "squeezed", "offset_ns", "reading_ns")
_WINDOW_NS = 100_000_000
# Of one CPU, that looking may use: a nap costs 40 us on an idle machine, and 200 us in the lab kernel.
_MOST_SHARE = 0.015
_FIRST_NAP_NS, _LEAST_NAP_NS, _MOST_NAP_NS = 5_000_000, 1_000_000, 20_000_000
_READINGS = 3  # of both clocks: between two of them another process may run, so that the quickest counts


class Probe:
    """Looks at the machine from beside what runs in the block, and leaves two records in `folder` (rows of int64, see
    WAKE_COLUMNS and MACHINE_COLUMNS); afterwards `facts` tells of the looking. Raises RuntimeError when it fails."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._began_ns = folder, 0
        self._child = child.Child("the process that looks how well the machine keeps time", self._watch)
        self.facts: dict[str, Any] = {"cpus": len(_cpus())}

    def __enter__(self) -> Probe:
        self._began_ns = time.monotonic_ns()
        self._child.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._child.__exit__(*exc)
        used, lasted_ns = self._child.used, time.monotonic_ns() - self._began_ns
        if used is not None:
            self.facts["probe_share"] = (used.ru_utime + used.ru_stime) * 1e9 / lasted_ns

    def _watch(self, is_ready: Callable[[], None]) -> None:
        """The child: until SIGTERM, then write what was seen."""
        child.settle()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        machine = _Machine(os.getppid())
        is_ready()
        wakes, rows = _sleep_and_look(machine)
        for name, found in ((WAKES, wakes), (MACHINE, rows)):
            with open(self._folder / name, "wb") as file:
                found.tofile(file)


def _sleep_and_look(machine: _Machine) -> tuple[array[int], array[int]]:
    """Until SIGTERM: rows of both records."""
    dice, wakes, rows = random.Random(0), array("q"), array("q", machine.read())
    due_ns = looked_ns = time.monotonic_ns()
    nap_ns = _FIRST_NAP_NS
    while signal.sigtimedwait({signal.SIGTERM}, max(due_ns - time.monotonic_ns(), 0) / 1e9) is None:
        now_ns, woken_ns = time.monotonic_ns(), time.time_ns()
        while due_ns <= now_ns:
            wakes.extend((woken_ns - (now_ns - due_ns), now_ns - due_ns))
            due_ns += dice.randint(nap_ns // 2, nap_ns + nap_ns // 2)
        if now_ns - looked_ns >= _WINDOW_NS:
            nap_ns = _affordable_ns(len(wakes) // len(WAKE_COLUMNS))
            rows.extend(machine.read())
            looked_ns = time.monotonic_ns()
    rows.extend(machine.read())
    return wakes, rows


def _affordable_ns(naps: int) -> int:
    """How long naps have to be, by what they have cost so far."""
    cost_ns = time.process_time_ns() // naps
    return max(_LEAST_NAP_NS, min(round(cost_ns / _MOST_SHARE), _MOST_NAP_NS))


class _Machine:
    """Reads MACHINE_COLUMNS, of the CPUs that this process may use; `hosts` is the process that plays the hosts."""

    def __init__(self, hosts: int) -> None:
        self._cpus = {f"cpu{number}" for number in _cpus()}
        self._clock = ~hosts << 3 | 2  # of the CPU time of a whole process
        self._tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")

    def read(self) -> tuple[int, ...]:
        """One row."""
        offset_ns, reading_ns = _offset_ns()
        dropped, squeezed = _softnet()
        hosts_ns = time.clock_gettime_ns(self._clock)
        return time.time_ns(), self._idle_ns(), hosts_ns, dropped, squeezed, offset_ns, reading_ns

    def _idle_ns(self) -> int:
        """Idle, and waiting for a disk."""
        lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
        return sum(int(words[4]) + int(words[5]) for words in lines if words and words[0] in self._cpus) * self._tick_ns


def _cpus() -> set[int]:
    return os.sched_getaffinity(0)


def _softnet() -> tuple[int, int]:
    """Packets dropped, and times that a CPU's share of work was used up with packets left, of all CPUs."""
    rows = [line.split() for line in Path("/proc/net/softnet_stat").read_text().splitlines()]
    return sum(int(row[1], 16) for row in rows), sum(int(row[2], 16) for row in rows)


def _offset_ns() -> tuple[int, int]:
    """CLOCK_REALTIME less CLOCK_MONOTONIC_RAW, and how long the reading took."""
    found = []
    for _ in range(_READINGS):
        before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        now_ns = time.time_ns()
        after_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        found.append((after_ns - before_ns, now_ns - (before_ns + after_ns) // 2))
    reading_ns, offset_ns = min(found)
    return offset_ns, reading_ns
