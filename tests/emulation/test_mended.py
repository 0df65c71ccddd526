"""Faults that users met, one case each: specs that once hung or lost what was measured."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lab.kernel import Kernel
from tests.conftest import ROOT
from tests.emulation.captures import read
from tests.emulation.conftest import RUN_LIMIT_S, run_experiment
from tests.emulation.host import within

pytestmark = [pytest.mark.lab, pytest.mark.alone]  # a stop is to be heard soon


@pytest.mark.parametrize("words", [("bytes=2183B", "senders=8", "rounds=20"), ("mtu=576B", "senders=64", "rounds=1")])
def test_no_packet_waits_for_more_than_the_bucket_holds(kernel: Kernel, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Two small segments in one super-packet fitted into TBF's bucket, or nearly: they crossed the link whole,
    or never."""
    settings = (f"--set={word}" for word in (*words, "capture=hot", "telemetry=off"))
    run = run_experiment(tmp_path / "run", "incast", "--only", "--watchdog=60", *settings)
    assert run.status == 0, run.stderr
    mtu_bytes = 576 if "mtu=576B" in words else 1500
    assert max(frame.wire_bytes for frame in read(run.folder / "pcap" / "leaf1-eth1.pcap")) == mtu_bytes + 14


def test_a_slow_link_is_not_watched_to_death(kernel: Kernel, tmp_path: Path) -> None:
    """One sample a microsecond through seconds of a 100 kb/s burst had no end."""
    settings = (f"--set={word}" for word in ("senders=2", "rounds=1", "rate=100Kbps", "bytes=10KB"))
    run = run_experiment(tmp_path / "run", "incast", "--only", "--watchdog=60", *settings)
    assert run.status == 0, run.stderr
    assert (run.folder / "telemetry" / "queue.parquet").exists()


@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.4, 0.6])
def test_a_stop_during_set_up_is_heard(kernel: Kernel, tmp_path: Path, after_s: float) -> None:
    """It was flushed away with the serial line's settings, and the run went on until the grace was over."""
    words = [
        str(ROOT / "run_experiment"),
        "incast",
        "--only",
        "--set=rounds=100000",
        "--set=senders=8",
        "--set=capture=off",
    ]
    process = subprocess.Popen(
        [*words, "--out", str(tmp_path / "run")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert within(RUN_LIMIT_S, (tmp_path / "run" / "spec.yaml").exists)  # a task has begun: it listens
    time.sleep(after_s)
    process.send_signal(signal.SIGTERM)
    began_s = time.monotonic()
    process.communicate(timeout=RUN_LIMIT_S)
    assert process.returncode == 130
    assert time.monotonic() - began_s < 8, "the grace of ten seconds was used up"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_keeps_the_facts(kernel: Kernel, tmp_path: Path) -> None:
    """Captures filled the disk, and then there was no room for measured.json."""
    words = ["incast", "--only", "--set=senders=32", "--out", "DISK/run"]
    script = (
        'mount -t tmpfs -o size=3m none "$1" && cd "$1/.." && shift && "$@"; status=$?;'
        ' cp "$0/run/measured.json" "$0.json"; exit $status'
    )
    disk = tmp_path / "disk"
    disk.mkdir()
    command = [str(ROOT / "run_experiment"), *(word.replace("DISK", str(disk)) for word in words)]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, str(disk), str(disk), *command],
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
    )
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert '"rounds": [\n  {' in (tmp_path / "disk.json").read_text()
