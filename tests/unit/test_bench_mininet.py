"""The bench's stock Mininet: when its lines arrived, what is missing of its fabric, and what is said when it fails."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments import bench_mininet, timing
from lab.session import Job, Outcome

PORTS = {"h1-eth0": 0, "edge1-eth1": 1, "edge1-eth2": 2}
OFPORTS = "edge1,65534\nedge1-eth2,2\nedge1-eth1,1\n"
# Of a host's namespace (a terminal's lines) and of the switches'.
QDISCS = """qdisc noqueue 0: dev lo root refcnt 2 \r
qdisc htb 5: dev h1-eth0 root refcnt 2 r2q 10 default 0x1 direct_packets_stat 0 direct_qlen 1000\r
qdisc netem 10: dev h1-eth0 parent 5:1 limit 400 delay 499us\r

qdisc htb 5: dev edge1-eth1 root refcnt 2 r2q 10 default 0x1 direct_packets_stat 0 direct_qlen 1000
qdisc netem 10: dev edge1-eth1 parent 5:1 limit 400 delay 499us
qdisc htb 5: dev edge1-eth2 root refcnt 2 r2q 10 default 0x1 direct_packets_stat 0 direct_qlen 1000
qdisc netem 10: dev edge1-eth2 parent 5:1 limit 400 delay 499us
"""
KERNEL: Any = SimpleNamespace(path=Path("linux"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The wall clock's readings to come, each taken once."""
    readings: list[float] = []
    monkeypatch.setattr(timing.time, "monotonic", lambda: readings.pop(0))
    return readings


def boot_that(monkeypatch: pytest.MonkeyPatch, outcome: Outcome, pieces: list[bytes], errors: bytes = b"") -> list[Job]:
    """A lab that writes `pieces` and `errors` and ends as told; the jobs it was given."""
    jobs: list[Job] = []

    def boot(_: Path, job: Job, stdout: Any, stderr: Any) -> Outcome:
        jobs.append(job)
        for piece in pieces:
            stdout.write(piece)
        stderr.write(errors)
        return outcome

    monkeypatch.setattr(timing, "boot", boot)
    return jobs


def test_a_line_has_the_second_in_which_it_was_complete(clock: list[float]) -> None:
    clock += [1.0, 2.0, 3.0]
    stamps = timing.Stamps()
    for piece in (b"building\nbui", b"lt\nstarted\nst", b"opped"):
        stamps.write(piece)
    assert stamps.seconds == {"building": 1.0, "built": 2.0, "started": 2.0}


def test_the_phases_are_timed_and_the_check_between_them_is_not(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock += [5.0, 10.0, 16.5, 19.0, 40.0, 41.5]  # the first is the boot's
    lines = [b"building\n", b"built\n", b"started\n", b"stopping\n", b"stopped\n"]
    jobs = boot_that(monkeypatch, Outcome(0, "done", 50.0, ()), lines)
    assert bench_mininet.measure(KERNEL, 6, timeout_s=77) == {"build_s": 6.5, "start_s": 2.5, "stop_s": 1.5}
    assert [(job.argv[1:], job.watchdog_s) for job in jobs] == [(("-m", "experiments.bench_mininet", "6"), 77)]


@pytest.mark.parametrize(
    ("ended_as", "errors", "said"),
    [
        ("failed", "first\n9 faults: h1-eth0 has no htb\n", "failed: 9 faults: h1-eth0 has no htb"),
        ("failed", "no tc\n*** Error: Warning: sch_htb: quantum of class 50001 is big.\n\n", "failed: no tc"),
        ("watchdog", "", "watchdog: "),
    ],
)
def test_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch, ended_as: str, errors: str, said: str) -> None:
    boot_that(monkeypatch, Outcome(1, ended_as, 50.0, ()), [], errors.encode())
    with pytest.raises(RuntimeError) as error:
        bench_mininet.measure(KERNEL, 4)
    assert str(error.value) == f"experiments.bench_mininet 4: {said}"


def test_nothing_is_missing_of_a_whole_fabric() -> None:
    assert bench_mininet.not_done(PORTS, OFPORTS, QDISCS) == []


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("edge1-eth2,2\n", "edge1-eth2 is not port 2"),
        ("qdisc htb 5: dev edge1-eth1 ", "edge1-eth1 has no htb"),
        ("qdisc netem 10: dev h1-eth0 ", "h1-eth0 has no netem"),
    ],
)
def test_what_is_missing_is_said(left_out: str, said: str) -> None:
    assert left_out in OFPORTS + QDISCS
    missing = bench_mininet.not_done(PORTS, OFPORTS.replace(left_out, ""), QDISCS.replace(left_out, ""))
    assert missing == [said]


def test_a_port_with_another_number_is_missing() -> None:
    ofports = OFPORTS.replace("edge1-eth1,1", "edge1-eth1,-1")  # as when Open vSwitch could not open the device
    assert bench_mininet.not_done(PORTS, ofports, QDISCS) == ["edge1-eth1 is not port 1"]
