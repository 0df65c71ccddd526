"""tcpdump as it is started, waited for, stopped and believed; a program that acts like it stands in for it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from workloads import capture
from workloads.capture import Capture, Point

# What tcpdump 4.99 writes to its standard error.
ACCOUNT = "tcpdump: listening on eth0, link-type EN10MB (Ethernet), snapshot length 100 bytes"
LOSSES = "580 packets captured\\n614 packets received by filter\\n3 packets dropped by kernel\\n"
FAKE = f"""#!/bin/sh
trap 'printf "{LOSSES}" >&2; exit 0' INT
echo "$0 $*" >> "{{log}}"
echo "{ACCOUNT}" >&2
for _ in $(seq 1000); do sleep 0.01; done
"""
BROKEN = "#!/bin/sh\necho 'tcpdump: eth9: No such device exists' >&2\necho '(no such device)' >&2\nexit 1\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in notes how it was called."""
    found = tmp_path / "log"
    program(tmp_path, "tcpdump", FAKE.replace("{log}", str(found)))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(capture, "_DRAIN_S", 0.0)
    return found


def program(folder: Path, name: str, text: str) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    path = folder / "bin" / name
    path.write_text(text)
    path.chmod(0o755)


def started(log: Path) -> list[list[str]]:
    return [line.split()[1:] for line in log.read_text().splitlines()]


def test_every_point_is_captured_and_accounted_for(log: Path, tmp_path: Path) -> None:
    points = [Point("leaf1-eth1", "leaf1-eth1", ring_kib=32768), Point("h2-eth0", "eth0", ("env", "X=1"))]
    with Capture(points, tmp_path) as running:
        commands = started(log)
    assert running.captured == {"leaf1-eth1": 580, "h2-eth0": 580}
    assert running.losses == {"leaf1-eth1": 3, "h2-eth0": 3}
    by_interface = {words[words.index("-i") + 1]: words for words in commands}
    assert set(by_interface) == {"leaf1-eth1", "eth0"}
    hot = by_interface["leaf1-eth1"]
    assert hot[hot.index("-s") + 1] == "100"
    assert hot[hot.index("-B") + 1] == "32768"
    assert hot[hot.index("-w") + 1] == str(tmp_path / "leaf1-eth1.pcap")
    assert "--time-stamp-precision=nano" in hot


def test_nothing_is_left_running(log: Path, tmp_path: Path) -> None:
    with Capture([Point("a", "a"), Point("b", "b")], tmp_path) as running:
        processes = [process for _, process in running._running]
        assert [process.poll() for process in processes] == [None, None]
    assert [process.returncode for process in processes] == [0, 0]


def test_no_point_is_no_tcpdump(log: Path, tmp_path: Path) -> None:
    with Capture([], tmp_path) as running:
        pass
    assert (running.losses, log.exists()) == ({}, False)


def test_a_capture_that_cannot_start_says_why_and_leaves_no_other_running(log: Path, tmp_path: Path) -> None:
    program(tmp_path, "broken", BROKEN)
    fake = str(tmp_path / "bin" / "tcpdump")
    points = [Point("good", "eth0"), Point("bad", "eth9", ("sh", str(tmp_path / "bin" / "broken")))]
    begin_s = time.monotonic()
    line = "^tcpdump on eth9 did not start: tcpdump: eth9: No such device exists$"
    with pytest.raises(RuntimeError, match=line), Capture(points, tmp_path):
        pass
    assert subprocess.run(["pgrep", "-f", fake], capture_output=True).returncode == 1
    assert time.monotonic() - begin_s < 5  # the stand-in ends by itself only later


def test_a_capture_that_fails_meanwhile_says_why(log: Path, tmp_path: Path) -> None:
    message = "tcpdump: Unable to write output: No space left on device"
    program(tmp_path, "tcpdump", f"#!/bin/sh\necho '{ACCOUNT}' >&2\necho '{message}' >&2\nexit 1\n")
    points = [Point("h2-eth0", "eth0")]
    with pytest.raises(RuntimeError, match=rf"^tcpdump on eth0 failed: {message}$"), Capture(points, tmp_path):
        pass
    with pytest.raises(KeyboardInterrupt), Capture(points, tmp_path):  # what ended the run is the news, not this
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("account", "dropped"),
    [
        ("0 packets dropped by kernel", 0),
        ("1 packet dropped by kernel", 1),
        ("12 packets dropped by kernel\n", 12),
        ("", 0),
    ],
)
def test_losses_are_read(account: str, dropped: int) -> None:
    assert capture._count(capture._DROPPED, account) == dropped
