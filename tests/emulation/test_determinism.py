"""Equal specs and seeds leave equal bytes, wherever, whoever and however busy the machine is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments import limits
from experiments.runner import Setting, Task, run_task
from experiments.spec import parse
from lab.kernel import Kernel
from lab.session import Stop
from tests.conftest import ROOT
from tests.emulation.conftest import RUN_LIMIT_S
from tests.emulation.same import unlike

pytestmark = pytest.mark.lab

# Few enough packets to be quick; drops, loss probes and timeouts all happen (asserted below).
KEYS: dict[str, Any] = {"senders": 16, "rate": "100Gbps", "buffer": "100KB"}


def run(kernel: Kernel, folder: Path, **keys: Any) -> Path:
    """The folder of what a run has measured."""
    folder.mkdir(parents=True)
    spec = limits.resolve(parse({**KEYS, **keys}))
    run_task(Task("main", spec, folder, "incast"), Setting(kernel, "virtual", ("test",)), Stop())
    return folder


def measured(folder: Path) -> list[str]:
    """The files that the lab has written."""
    files = [folder / "measured.json", *(folder / "telemetry").iterdir(), *(folder / "pcap").iterdir()]
    return sorted(str(path.relative_to(folder)) for path in files)


@contextmanager
def busy_machine() -> Iterator[None]:
    """Two processes per core that do nothing but compute."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


@pytest.fixture(scope="module")
def first(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(kernel, tmp_path_factory.mktemp("first") / "run")


def differing(one: Path, other: Path) -> list[str]:
    assert measured(one) == measured(other)
    return unlike(one, other, measured(one))


def test_the_run_is_one_in_which_much_happens(first: Path) -> None:
    for counter in ("RetransSegs", "TCPTimeouts", "TCPLossProbes", "TCPFastRetrans"):
        assert f'"{counter}"' in (first / "measured.json").read_text()
    assert len(measured(first)) == 2 + 1 + KEYS["senders"]


def test_equal_seeds_give_equal_bytes(kernel: Kernel, tmp_path: Path, first: Path) -> None:
    assert differing(first, run(kernel, tmp_path / "run")) == []


def test_a_busy_machine_changes_nothing(kernel: Kernel, tmp_path: Path, first: Path) -> None:
    with busy_machine():
        assert differing(first, run(kernel, tmp_path / "run")) == []


LOSSLESS: dict[str, Any] = {
    "transport": "roce",
    "pfc": "on",
    "queue": "dcqcn",
    "alpha": "1",
    "pool": "100KB",
    "bytes": "512KiB",
    "rounds": 2,
}


def test_equal_seeds_give_equal_pauses_and_rates(kernel: Kernel, tmp_path: Path) -> None:
    """Agents that run before all others, real frames, CNPs and queue pairs: the same on an idle and a busy machine."""
    one = run(kernel, tmp_path / "one", **LOSSLESS)
    with busy_machine():
        other = run(kernel, tmp_path / "other", **LOSSLESS)
    told = (one / "measured.json").read_text()
    assert told.count('"xoffs": 0') < told.count('"xoffs"')
    assert '"queue_pairs": []' not in told
    assert differing(one, other) == []


def test_folder_and_environment_change_nothing(
    kernel: Kernel, tmp_path: Path, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    monkeypatch.setenv("SOME_VARIABLE", 500 * "x")
    monkeypatch.setenv("TERM", "a-terminal-with-a-long-name")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    folder = tmp_path / ("a-folder-with-a-long-name" * 5) / "deeper" / "run-2"
    assert differing(first, run(kernel, folder)) == []


def test_more_memory_changes_nothing(
    kernel: Kernel, tmp_path: Path, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda spec: 3 << 30)
    assert differing(first, run(kernel, tmp_path / "run")) == []


def test_another_seed_gives_another_run(kernel: Kernel, tmp_path: Path, first: Path) -> None:
    other = run(kernel, tmp_path / "run", seed=2)
    others = {line.partition(":")[0] for line in differing(first, other)}
    assert {"measured.json", "telemetry/queue.parquet", "pcap/leaf1-eth1.pcap"} <= others


def test_a_clone_whose_modules_are_not_compiled_yet_has_the_same_run(
    kernel: Kernel, tmp_path: Path, first: Path
) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".*", "__pycache__", "results", "docs", "tests"))
    words = [f"--set={key}={value}" for key, value in KEYS.items()]
    command = [str(clone / "run_experiment"), "incast", "--only", *words, "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert differing(first, tmp_path / "run") == []
