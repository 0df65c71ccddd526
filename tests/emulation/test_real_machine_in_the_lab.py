"""The tests of runs on a machine's own kernel, on one that has Open vSwitch's module and netem and nothing else to do:
the lab kernel on the real clock, in which they are root."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from experiments.runner import guest_environment
from lab.cache import environment_python
from lab.kernel import Kernel
from tests.conftest import run_in_lab

pytestmark = [pytest.mark.lab, pytest.mark.alone]

LIMIT_S = 400.0
# Open vSwitch does not forward in a kernel's first ten seconds, and each run would wait for them.
TESTS = (
    'sleep 10; exec "$0" -m pytest -p no:cacheprovider -q -rs --basetemp=/dev/shm/tests'
    " tests/emulation/test_real_machine.py"
)


def test_runs_on_a_whole_kernel_leave_nothing_either(kernel: Kernel, tmp_path: Path) -> None:
    python = environment_python()
    assert python is not None
    job = {
        "env": {**guest_environment(), "FABRICLAB_CACHE": str(python.parents[3])},  # root's there is another one
        "clock": "real",
        "watchdog_s": LIMIT_S,
        "memory_bytes": 2 << 30,
    }
    ran = run_in_lab(kernel, ("/bin/sh", "-c", TESTS, sys.executable), results=tmp_path, **job)
    assert ran.status == 0, ran.stdout[-4000:] or ran.stderr
    passed, skipped = (re.findall(rf"(\d+) {word}", ran.stdout) for word in ("passed", "skipped"))
    assert int(passed[0]) >= 11 and int(skipped[0]) == 4, ran.stdout
