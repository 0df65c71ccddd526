"""What is promised of this machine's own kernel and of calibration, measured for `run_experiment bench`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments import rundir
from lab import ledger
from topologies import trial

_PROGRAM = (sys.executable, str(rundir.ROOT / "run_experiment"))
_RUN = ("incast", "--only", "--clock", "real", "--on", "machine", "--set=senders=8", "--set=rate=20Mbps")
_FOR_LONG = ("--set=rounds=1000",)
_STILL = ("--set=delay=0ns", "--set=switch_delay=0ns")
_BUILT_LIMIT_S, _POLL_S = 60.0, 0.01


def calibrate_s(place: str) -> float:
    """Seconds that `run_experiment calibrate` takes; what it finds is kept as ever."""
    begin_s = time.monotonic()
    subprocess.run([*_PROGRAM, "calibrate", "--on", place], check=True, capture_output=True)
    return time.monotonic() - begin_s


def clean_s() -> float:
    """Seconds that `run_experiment clean` takes after a run of 8 senders was killed with SIGKILL; raises RuntimeError
    when the run does not get as far."""
    with tempfile.TemporaryDirectory() as scratch:
        keys = _FOR_LONG if "netem" in trial.kinds() else (*_FOR_LONG, *_STILL)
        words = [*_PROGRAM, *_RUN, *keys, "--out", str(Path(scratch, "run"))]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                _await_names(process)
            finally:
                process.kill()
        begin_s = time.monotonic()
        subprocess.run([*_PROGRAM, "clean"], check=True, capture_output=True)
        return time.monotonic() - begin_s


def _await_names(process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + _BUILT_LIMIT_S
    while not (ledger.NAMES / f"{ledger.PREFIX}h9").exists():
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"bench: `run_experiment {' '.join(_RUN)}` did not get as far as its networks")
        time.sleep(_POLL_S)
