"""Equal specs and seeds leave equal bytes, wherever, whoever and however busy the machine is."""

from __future__ import annotations

import os
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

pytestmark = pytest.mark.lab

# Few enough packets to be quick; drops, loss probes and timeouts all happen (asserted below).
KEYS: dict[str, Any] = {"senders": 16, "rate": "100Gbps", "buffer": "100KB"}


def run(kernel: Kernel, folder: Path, **keys: Any) -> dict[str, bytes]:
    """The bytes of everything that the lab measured."""
    folder.mkdir(parents=True)
    spec = limits.resolve(parse({**KEYS, **keys}))
    run_task(Task("main", spec, folder, "incast"), Setting(kernel, "virtual", ("test",)), Stop())
    files = [folder / "measured.json", *(folder / "telemetry").iterdir(), *(folder / "pcap").iterdir()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


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
def first(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return run(kernel, tmp_path_factory.mktemp("first") / "run")


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    assert set(one) == set(other)
    return [name for name in one if one[name] != other[name]]


def test_the_run_is_one_in_which_much_happens(first: dict[str, bytes]) -> None:
    for counter in ("RetransSegs", "TCPTimeouts", "TCPLossProbes", "TCPFastRetrans"):
        assert f'"{counter}"'.encode() in first["measured.json"]
    assert len(first) == 2 + 1 + KEYS["senders"]


def test_equal_seeds_give_equal_bytes(kernel: Kernel, tmp_path: Path, first: dict[str, bytes]) -> None:
    assert differing(first, run(kernel, tmp_path / "run")) == []


def test_a_busy_machine_changes_nothing(kernel: Kernel, tmp_path: Path, first: dict[str, bytes]) -> None:
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
    assert one["measured.json"].count(b'"xoffs": 0') < one["measured.json"].count(b'"xoffs"')
    assert b'"queue_pairs": []' not in one["measured.json"]
    assert differing(one, other) == []


def test_folder_and_environment_change_nothing(
    kernel: Kernel, tmp_path: Path, first: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    monkeypatch.setenv("SOME_VARIABLE", 500 * "x")
    monkeypatch.setenv("TERM", "a-terminal-with-a-long-name")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    folder = tmp_path / ("a-folder-with-a-long-name" * 5) / "deeper" / "run-2"
    assert differing(first, run(kernel, folder)) == []


def test_more_memory_changes_nothing(
    kernel: Kernel, tmp_path: Path, first: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda spec: 3 << 30)
    assert differing(first, run(kernel, tmp_path / "run")) == []


def test_another_seed_gives_another_run(kernel: Kernel, tmp_path: Path, first: dict[str, bytes]) -> None:
    other = run(kernel, tmp_path / "run", seed=2)
    assert {"measured.json", "telemetry/queue.parquet", "pcap/leaf1-eth1.pcap"} <= set(differing(first, other))
