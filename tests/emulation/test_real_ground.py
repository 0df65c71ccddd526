"""Fabrics on kernels that are not ours, on the real clock: on a stock one and a bare one, which the lab kernel stands
for when it uses no more of its own, and on this machine's own.

What is judged does not depend on how fast the machine is: what was sent, dropped, and sent again, and how long frames
are. Rates have the fidelity guard and `bench clocks`.
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments import own_kernel
from experiments.runner import guest_environment
from lab import machine
from lab.kernel import Kernel
from lab.session import Job
from tests.conftest import ROOT, run_in_lab
from tests.emulation.captures import Frame, read
from topologies import trial
from topologies.ground import MACHINE

pytestmark = pytest.mark.alone

SENDERS, ROUNDS, SRU_BYTES, MTU_BYTES, HEADER_BYTES = 6, 3, 64 << 10, 1500, 14
RATE_BPS = 20_000_000  # a machine that is busy with other tests still fills the buffer, of eight frames
KEYS: Mapping[str, Any] = {
    "senders": SENDERS,
    "rounds": ROUNDS,
    "bytes": "64KiB",
    "rate": "20Mbps",
    "buffer": "12KB",
    "delay": "0ns",
    "switch_delay": "0ns",
    "cc": "cubic",
}
RECEIVER = "10.0.0.1"
LIMIT_S = 100.0


MARKS: Mapping[str, Any] = {"queue": "dctcp", "kmin": "5KB", "kmax": "5KB", "cc": "dctcp"}
MARKED: Mapping[str, Any] = {**KEYS, **MARKS, "topology": "leaf_spine", "leaves": 2}


def words(folder: Path, **asked: tuple[str, Mapping[str, Any]]) -> tuple[str, ...]:
    arguments = {"asked": asked, "folder": str(folder)}
    return (sys.executable, "-m", "tests.emulation.real_ground_inside", json.dumps(arguments))


@pytest.fixture(scope="module")
def lab(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The kernels that the lab's can stand for, in one boot: Open vSwitch waits ten seconds after each."""
    folder = tmp_path_factory.mktemp("grounds")
    asked = words(folder, stock=("stock", KEYS), bare=("bare", KEYS), marked=("stock", MARKED))
    job = {"clock": "real", "watchdog_s": LIMIT_S, "memory_bytes": 1 << 30}
    return folder, run_in_lab(kernel, asked, results=folder, **job).json


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """This machine's own kernel, in namespaces of its own; skipped where it cannot carry a fabric."""
    obstacles = own_kernel.machine_obstacles()
    if obstacles:
        pytest.skip("; ".join(f"{each.what} (mended by: {each.fix})" for each in obstacles))
    folder = tmp_path_factory.mktemp("here")
    job = Job(words(folder, here=("here", KEYS)), folder, guest_environment(MACHINE), ROOT, watchdog_s=LIMIT_S)
    stdout, stderr = io.BytesIO(), io.BytesIO()
    outcome = machine.run(job, stdout=stdout, stderr=stderr)
    assert outcome.status == 0, stderr.getvalue().decode()
    return folder, json.loads(stdout.getvalue())


@pytest.fixture(
    params=[pytest.param("stock", marks=pytest.mark.lab), pytest.param("bare", marks=pytest.mark.lab), "here"]
)
def ran(request: pytest.FixtureRequest) -> tuple[Path, Any]:
    """The folder of captures, and what was told of one ground."""
    name = request.param
    folder, told = request.getfixturevalue("here" if name == "here" else "lab")
    return folder / name, told[name]


def data(frames: list[Frame]) -> list[Frame]:
    """Those to the receiver."""
    return [frame for frame in frames if frame.is_ip and frame.destination == RECEIVER]


def sent(folder: Path) -> list[Frame]:
    return [frame for number in range(2, SENDERS + 2) for frame in data(read(folder / f"h{number}-eth0.pcap"))]


# --- queues


def kinds(stack: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """In the order of their handles."""
    return sorted(((item["kind"], item["handle"], item["parent"]) for item in stack), key=lambda item: item[1])


@pytest.mark.lab
def test_a_stock_kernel_has_all_classes(lab: tuple[Path, Any]) -> None:
    classes = [("prio", "3:", "2:1"), ("bfifo", "4:", "3:1"), ("bfifo", "6:", "3:2"), ("bfifo", "8:", "3:3")]
    for where in ("port", "nic"):
        assert kinds(lab[1]["stock"][where]) == [("netem", "1:", "root"), ("tbf", "2:", "1:1"), *classes]


@pytest.mark.lab
def test_a_bare_kernel_has_a_rate_and_a_buffer(lab: tuple[Path, Any]) -> None:
    for where in ("port", "nic"):
        assert kinds(lab[1]["bare"][where]) == [("tbf", "2:", "root"), ("bfifo", "8:", "2:1")]


def test_this_kernel_has_what_the_trial_said(here: tuple[Path, Any]) -> None:
    told = here[1]["here"]
    assert set(told["kinds"]) == trial.kinds()
    assert {item["kind"] for item in told["port"]} <= trial.kinds()
    assert told["datapath"] == trial.here().datapath == (told["datapath_type"] or "system")


@pytest.mark.lab
def test_a_stock_kernel_marks_by_the_curve_that_the_controller_sets(lab: tuple[Path, Any]) -> None:
    """It refuses flags of RED that only ours knows."""
    told = lab[1]["marked"]
    (red,) = (item for item in told["port"] if item["handle"] == "7:")
    assert (red["options"]["kmin_bytes"], red["options"]["kmax_bytes"], red["options"]["ecn"]) == (5_000, 5_000, True)
    assert red["options"]["spaced"] is True
    assert red["marked"] > 0


@pytest.mark.lab
def test_the_switch_is_a_process_where_the_kernel_has_none(lab: tuple[Path, Any]) -> None:
    assert {name: lab[1][name]["datapath_type"] for name in ("stock", "bare")} == {"stock": "", "bare": "netdev"}


# --- traffic


def test_every_byte_arrives(ran: tuple[Path, Any]) -> None:
    assert [count for _, count in ran[1]["rounds"]] == ROUNDS * [SENDERS * SRU_BYTES]


def test_no_frame_is_longer_than_the_link_allows(ran: tuple[Path, Any]) -> None:
    """Neither where TCP hands segments to its NIC, nor behind the rate limiter of a switch."""
    folder, _ = ran
    lengths = {path.name: max(frame.wire_bytes for frame in read(path)) for path in sorted(folder.iterdir())}
    assert len(lengths) == 2 + SENDERS
    assert max(lengths.values()) == MTU_BYTES + HEADER_BYTES


def test_every_lost_frame_was_dropped_by_the_hot_port_s_queue(ran: tuple[Path, Any]) -> None:
    """What left the senders has left the hot port, or is counted there; nothing is lost untold."""
    folder, told = ran
    assert set(told["losses"].values()) == {0}, "captures lost frames"
    came, left = (Counter(frame.identity for frame in frames) for frames in (sent(folder), hot(folder)))
    dropped = next(item["drops"] for item in told["port"] if item["handle"] == "8:")
    assert dropped > 0
    assert not left - came
    assert (came - left).total() == dropped


def hot(folder: Path) -> list[Frame]:
    return data(read(folder / "leaf1-eth1.pcap"))


def test_what_was_dropped_was_sent_again(ran: tuple[Path, Any]) -> None:
    dropped = next(item["drops"] for item in ran[1]["port"] if item["handle"] == "8:")
    assert ran[1]["retransmits"] >= dropped


def test_the_line_is_never_faster_than_its_rate(ran: tuple[Path, Any]) -> None:
    """However late timers are: in the time of a round no more passes than the rate, and what the bucket had saved."""
    bucket_bytes = next(item["options"]["burst_bytes"] for item in ran[1]["port"] if item["kind"] == "tbf")
    for duration_ns, count in ran[1]["rounds"]:
        assert count <= bucket_bytes + duration_ns * RATE_BPS / 8e9


# --- hosts


def test_programs_get_the_congestion_control_that_was_asked_for(ran: tuple[Path, Any]) -> None:
    assert ran[1]["chosen"] == ["cubic", "cubic"]


def test_limits_of_all_namespaces_are_left_alone(here: tuple[Path, Any]) -> None:
    before, after = here[1]["limits"]
    assert before == after
