"""The fidelity guard on real runs: one with the CPU to itself, one that shares it with a program that never rests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from analysis.fidelity import FAITHFUL, UNFAITHFUL, Fidelity, judge
from analysis.run import Run
from analysis.verdicts import processor
from experiments import fabrics, limits, records, rundir
from experiments.spec import parse
from lab.kernel import Kernel
from tests.conftest import run_in_lab
from tests.emulation.lateness import machine_lateness_ns, usual_worst_ns
from topologies.ground import REAL_LATENESS_NS

pytestmark = [pytest.mark.lab, pytest.mark.alone]

# Slow enough for any CPU: a frame of 10 Mb/s lasts 1.2 ms.
KEYS = {"senders": "3", "rate": "10Mbps", "buffer": "600KB", "bytes": "128KiB", "rounds": "3"}
LIMIT_S = 300.0  # a busy machine makes the one beside a program that never rests a very slow one
ATTEMPTS = 3  # what else a machine does may disturb one run, in the lab kernel most of all


def played(kernel: Kernel, folder: Path, hogs: int) -> tuple[Run, Fidelity]:
    """A run on the real clock beside so many busy programs."""
    folder.mkdir()
    spec = limits.resolve(parse(KEYS))
    rundir.write_spec(folder, spec, experiment="incast", label="main", clock="real")
    rundir.write_fabric(folder, fabrics.document(spec))
    words = (sys.executable, "-m", "tests.emulation.fidelity_inside", str(folder), str(hogs))
    job = {"clock": "real", "memory_bytes": limits.memory_bytes(spec), "watchdog_s": LIMIT_S}
    done = run_in_lab(kernel, words, results=folder, **job)
    assert done.status == 0, done.stderr
    records.convert(folder)
    run = Run(folder)
    found = judge(run)
    assert found is not None
    return run, found


def needs_the_processor() -> None:
    """Skips where other programs have it and only root may go ahead of them, as the lab does (lab.boot)."""
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if os.geteuid() and load > cpus / 2:
        pytest.skip(f"the machine is busy (load {load:.1f} on {cpus} CPUs), and only root may go ahead of others")


def excuses_a_late_machine(found: Fidelity, machine_late_ns: float) -> None:
    """Skips where this machine wakes its own programs later than the lab may be, as a virtual machine whose host is
    busy does: the guard is right then, and a faithful run is not to be had."""
    if machine_late_ns > REAL_LATENESS_NS:
        pytest.skip(f"this machine wakes programs up to {machine_late_ns / 1e3:.0f} us late: {found.words}")


def test_a_run_that_has_the_cpu_to_itself_is_faithful(kernel: Kernel, tmp_path: Path) -> None:
    needs_the_processor()
    with machine_lateness_ns() as late_ns:
        for attempt in range(ATTEMPTS):
            run, found = played(kernel, tmp_path / str(attempt), hogs=0)
            if found.verdict == FAITHFUL:
                break
    if found.verdict == UNFAITHFUL:
        excuses_a_late_machine(found, usual_worst_ns(late_ns))
    assert found.verdict == FAITHFUL, found.words
    assert all(limit.holds for limit in found.limits)
    assert processor(run).holds is True
    assert max(int(run.packets(point).wire_bytes.max()) for point in run.measured["capture"]) <= 1514


def test_a_run_beside_a_program_that_never_rests_is_unfaithful(kernel: Kernel, tmp_path: Path) -> None:
    run, found = played(kernel, tmp_path / "run", hogs=1)
    assert found.verdict == UNFAITHFUL
    headroom = next(limit for limit in found.limits if limit.name == "CPU headroom")
    assert (headroom.holds, headroom.measured) == (False, 0.0), found.words
    assert processor(run).holds is False
