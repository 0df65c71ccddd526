"""What sweeps are promised to do, for `run_experiment bench`: 200 small incast runs on two cores, and how much faster
two cores are than one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.sweep import read
from experiments import rundir

RUNS = 200
_SMALL = ("--set", "bytes=64KiB", "--set", "capture=off")  # all else is as `incast` has it


def sweep_s(runs: int, workers: int) -> float:
    """Wall seconds of a sweep over 2 to 16 senders with so many runs, from prompt to page, on as many cores as workers;
    raises RuntimeError when one failed."""
    points = ("2", "4", "8", "16")
    words = ["--over", f"senders={','.join(points)}", "--repeat", str(runs // len(points)), "--workers", str(workers)]
    with tempfile.TemporaryDirectory() as scratch, _cores(workers):
        out = Path(scratch, "sweep")
        began_s = time.monotonic()
        command = [sys.executable, str(rundir.ROOT / "run_experiment"), "sweep", "incast", *_SMALL, *words]
        ended = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True)
        seconds = time.monotonic() - began_s
        found = read(out)
    if ended.returncode or len(found.rows) != runs:
        raise RuntimeError(f"sweep: {len(found.rows)} of {runs} runs: {ended.stderr.strip()[-200:]}")
    return seconds


@contextmanager
def _cores(number: int) -> Iterator[None]:
    """So many processors for what is started meanwhile: one core is all that a sweep with one worker has."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
