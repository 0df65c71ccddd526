"""A sweep that is killed and gone on with tells the same as one that is not, and leaves nothing running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow
import pyarrow.parquet
import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.lab
_WAIT_S = 120.0  # for what takes seconds on a quiet machine
_WORDS = ("sweep", "incast", "--over", "senders=2,3", "--repeat", "2", "--workers", "1", "--json")
_SMALL = ("--set", "bytes=16KiB", "--set", "rounds=1", "--set", "capture=off")


def start(out: Path) -> subprocess.Popen[str]:
    """In a session of its own, as a shell with a terminal would."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run_experiment"), *_WORDS, *_SMALL, "--out", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kept(out: Path) -> int:
    return len(list((out / "results" / "running").glob("[0-9]*.parquet")))


def family(sweep: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(sweep.pid).children(recursive=True)


def wait_for(holds: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + _WAIT_S
    while not holds():
        assert time.monotonic() < end_s, what
        time.sleep(0.02)


def lab(sweep: subprocess.Popen[str]) -> psutil.Process | None:
    """The lab that runs now: no Python of ours."""
    for process in family(sweep):
        try:
            if any(word.startswith("uml_dir=") for word in process.cmdline()):
                return process
        except psutil.Error:
            continue
    return None


def told(out: Path) -> pyarrow.Table:
    """All that does not depend on this machine."""
    table = pyarrow.parquet.read_table(out / "results")
    return table.select([name for name in table.column_names if not name.endswith("wall_s")])


def interrupted(out: Path, number: int) -> str:
    """Send a signal once another run is kept and the next one's lab is there; what was said on standard error."""
    before, sweep = kept(out), start(out)
    wait_for(lambda: kept(out) > before and lab(sweep), "no run has ended")
    processes = family(sweep)
    assert len(processes) >= 2  # a worker, and a lab
    os.kill(sweep.pid, number) if number == signal.SIGKILL else os.killpg(sweep.pid, number)
    _, errors = sweep.communicate(timeout=_WAIT_S)
    wait_for(lambda: not any(map(is_alive, processes)), "something still runs")
    assert sweep.returncode == (-number if number == signal.SIGKILL else 130)
    return errors


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_two_kills_and_a_dead_worker_change_nothing(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    sweep = start(whole)
    wait_for(lambda: lab(sweep), "no lab was started")
    running = lab(sweep)
    worker = running.parent() if running else None
    assert worker is not None and worker.pid != sweep.pid
    worker.kill()  # its run is tried again by another one
    output, errors = sweep.communicate(timeout=2 * _WAIT_S)
    assert sweep.returncode == 0, errors
    assert "Restarting worker" in (whole / "dask.log").read_text()
    assert "distributed" not in errors and "Traceback" not in errors

    assert interrupted(parts, signal.SIGKILL) == ""
    assert interrupted(parts, signal.SIGKILL).count("runs are there already") == 1
    assert kept(parts) >= 2
    assert "goes on" in interrupted(parts, signal.SIGINT)

    again = start(parts)
    output_again, _ = again.communicate(timeout=2 * _WAIT_S)
    assert again.returncode == 0
    assert told(parts).equals(told(whole)) and told(parts).num_rows == 4
    points, points_again = (json.loads(each)["points"] for each in (output, output_again))
    assert points == points_again and [point["done"] for point in points] == [2, 2]
    assert (parts / "sweep.html").is_file() and not (parts / "runs").exists()
