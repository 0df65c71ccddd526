"""What lab tests share: the halves that run inside, and runs of the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.runner import guest_environment
from lab.kernel import Kernel
from tests.conftest import ROOT, run_in_lab
from tests.emulation import host

RUN_LIMIT_S = 120.0
Inside = Callable[..., Any]


@pytest.fixture
def inside(kernel: Kernel, tmp_path: Path) -> Inside:
    """Call a function of tests/emulation/inside.py in the lab; what it is given and what it returns is JSON."""

    def call(name: str, memory_bytes: int = 1 << 30, **arguments: Any) -> Any:
        words = (sys.executable, "-m", "tests.emulation.inside", name, json.dumps(arguments))
        return run_in_lab(kernel, words, results=tmp_path, memory_bytes=memory_bytes).json

    return call


@pytest.fixture
def fabric_inside(kernel: Kernel, tmp_path: Path) -> Inside:
    """Call a function of tests/emulation/fabric_inside.py in the lab; `env` is laid over the lab's environment."""

    def call(name: str, memory_bytes: int = 1 << 30, env: Mapping[str, str] | None = None, **arguments: Any) -> Any:
        words = (sys.executable, "-m", "tests.emulation.fabric_inside", name, json.dumps(arguments))
        job = {"memory_bytes": memory_bytes, "env": {**guest_environment(), **(env or {})}}
        return run_in_lab(kernel, words, results=tmp_path, **job).json

    return call


@dataclass(frozen=True)
class Done:
    """A finished call of ./run_experiment: its run directory, exit status, output, and the host around it."""

    folder: Path
    status: int
    stdout: str
    stderr: str
    host_before: dict[str, str]
    host_after: dict[str, str]

    def document(self, name: str) -> Any:
        """A JSON file of the run directory."""
        return json.loads((self.folder / name).read_text())


def run_experiment(folder: Path, *words: str) -> Done:
    """`./run_experiment WORDS --out FOLDER`, to its end."""
    before = host.state()
    command = [str(ROOT / "run_experiment"), *words, "--out", str(folder)]
    environment = {**os.environ, "COLUMNS": "160"}  # tables are not cut, however wide the terminal of the tests is
    done = subprocess.run(
        command, cwd=folder.parent, env=environment, capture_output=True, text=True, timeout=RUN_LIMIT_S
    )
    return Done(folder, done.returncode, done.stdout, done.stderr, before, host.state())


@pytest.fixture(scope="session")
def collapse(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The main run of `incast` with 16 senders, whose timeouts, tail loss probes and drops are many."""
    folder = tmp_path_factory.mktemp("collapse") / "run"
    words = ("--set", "senders=16", "--set", "rate=100Gbps", "--set", "buffer=100KB")
    return run_experiment(folder, "incast", "--only", "--json", *words)


@pytest.fixture(scope="session")
def marked(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Eight DCTCP senders of 2 MiB over 10 Gb/s: the queue stands at the threshold for ten milliseconds."""
    folder = tmp_path_factory.mktemp("marked") / "run"
    words = ("queue=dctcp", "senders=8", "rate=10Gbps", "bytes=2MiB", "rounds=1", "delay=1us", "switch_delay=500ns")
    return run_experiment(folder, "incast", "--only", "--json", *(f"--set={word}" for word in words))
