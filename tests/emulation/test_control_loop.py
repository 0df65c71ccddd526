"""The controller's part of marking and pausing: what it orders, seen on the wire, and when."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.pfc_frame import PfcFrame, decode
from experiments.runner import guest_environment
from lab.kernel import Kernel
from tests.conftest import run_in_lab
from tests.emulation.captures import Frame, read
from topologies.qdisc import LOSSLESS_RED, LOSSY_RED

pytestmark = pytest.mark.lab

InLab = Callable[..., Any]
ON, OFF, COUNT = 30, 60, 100
NOT_ECT, ECT_1, ECT_0, CE = range(4)  # RFC 3168
TOS, PORTS, PAYLOAD = 15, 34, 42  # where a frame has its type of service, UDP ports and payload
DELAY_NS = 1_500  # of a link and the switch before it
AT_ONCE_NS = 1_000  # a few wake-ups of processes, a hundred ns in virtual time
FULL_FRAME = 1514
FRAME_NS = FULL_FRAME * 8 / 20  # of both senders together, 10 Gb/s each


@pytest.fixture
def inside(kernel: Kernel, tmp_path: Path) -> InLab:
    """Call a function of tests/emulation/control_inside.py in the lab; `env` is laid over the lab's environment."""

    def call(name: str, env: dict[str, str] | None = None, **arguments: Any) -> Any:
        words = (sys.executable, "-m", "tests.emulation.control_inside", name, json.dumps(arguments))
        job = {"memory_bytes": 1 << 30, "env": {**guest_environment(), **(env or {})}}
        return run_in_lab(kernel, words, results=tmp_path, **job).json

    return call


# --- marks


def by_flow(path: Path) -> list[list[tuple[int, int, int]]]:
    """Of each numbered flow in a capture: number, ECN and time of its datagrams in order; ordered by what ECN it began
    with."""
    found: dict[bytes, list[tuple[int, int, int]]] = defaultdict(list)
    for frame in read(path):
        if frame.is_ip and len(frame.kept) >= PAYLOAD + 4:
            number = struct.unpack_from("!I", frame.kept, PAYLOAD)[0]
            ecn = frame.kept[TOS] & CE
            found[frame.kept[PORTS : PORTS + 4]].append((number, ecn, frame.time_ns))
    return sorted(found.values(), key=lambda flow: flow[0][1])


@pytest.mark.parametrize(
    ("fabric", "pair", "ports", "openflow"),
    [
        ("dumbbell", ("h1", "h3"), [("left1", 3)], "1.5"),
        ("leaf_spine", ("h1", "h3"), [("leaf2", 1)], "1.5"),
        ("leaf_spine", ("h1", "h3"), [("leaf1", 3), ("leaf1", 4)], "1.3"),
        ("fat_tree", ("h1", "h16"), [("edge1", 3), ("edge1", 4)], "1.5"),
        ("ring", ("h1", "h4"), [("sw5", 3)], "1.5"),
    ],
)
def test_a_port_marks_from_the_order_on_until_the_next(
    inside: InLab, tmp_path: Path, fabric: str, pair: tuple[str, str], ports: list[Any], openflow: str
) -> None:
    """The last port of a way, the first of all ways there are, a trunk of one that is the only one: every datagram that
    is sent after the order is given is marked, but the one that is not ECT; all arrive, in order."""
    what = {"fabric": fabric, "pair": pair, "ports": ports, "openflow": openflow}
    told = inside("marks", **what, on=ON, off=OFF, count=COUNT, folder=str(tmp_path))
    check_marks(told, tmp_path / f"{pair[1]}.pcap", len(ports))


def check_marks(told: Any, path: Path, ports: int) -> None:
    flows = by_flow(path)
    assert [[number for number, _, _ in flow] for flow in flows] == 3 * [list(range(COUNT))]
    for was, flow in zip((NOT_ECT, ECT_1, ECT_0), flows):
        then = was if was == NOT_ECT else CE
        assert [ecn for _, ecn, _ in flow] == [then if ON <= number < OFF else was for number in range(COUNT)]
    assert [each["on"] for each in told["told"]] == ports * [True] + ports * [False]
    for each in told["told"]:
        asked_ns = told["begin_ns"] + (ON if each["on"] else OFF) * 10_000
        assert 0 <= each["time_ns"] - asked_ns < AT_ONCE_NS


def test_the_other_framework_marks_alike(inside: InLab, tmp_path: Path) -> None:
    pytest.importorskip("os_ken")
    what = {"fabric": "leaf_spine", "pair": ("h1", "h3"), "ports": [("leaf2", 1)]}
    env = {"FABRICLAB_OPENFLOW_FRAMEWORK": "os_ken"}
    told = inside("marks", env=env, **what, on=ON, off=OFF, count=COUNT, folder=str(tmp_path))
    check_marks(told, tmp_path / "h3.pcap", 1)


@pytest.mark.parametrize("latency_ns", [0, 10_000, 100_000])
def test_a_crossing_is_answered_by_marks_one_control_latency_later(
    inside: InLab, tmp_path: Path, latency_ns: int
) -> None:
    """Two to one: from the threshold on the queue grows by a frame in FRAME_NS, and the first that is marked is the one
    that comes to the switch a control latency after the crossing."""
    told = inside(
        "closed_loop", latency_ns=latency_ns, datagrams=300, threshold_bytes=20 * FULL_FRAME, folder=str(tmp_path)
    )
    (up_ns, port, up), (down_ns, same, down) = told["mark_crossings"]
    assert (port, up, same, down) == ("leaf1-eth1", True, "leaf1-eth1", False)
    marking = [(each["switch"], each["port"], each["on"]) for each in told["told"]]
    assert marking == [("leaf1", 1, True), ("leaf1", 1, False)]
    for each, crossed_ns in zip(told["told"], (up_ns, down_ns)):
        assert 0 <= each["time_ns"] - crossed_ns - latency_ns < AT_ONCE_NS
    frames = [frame for frame in read(tmp_path / "h1.pcap") if frame.wire_bytes == FULL_FRAME]
    assert len(frames) == 600
    at_queue_ns = up_ns - frames[0].time_ns + latency_ns + DELAY_NS
    first = next(number for number, frame in enumerate(frames) if frame.is_marked)
    assert first == pytest.approx(at_queue_ns / FRAME_NS, abs=2)
    assert all(frame.is_marked for frame in frames[first:])


# --- pauses


def pause_frames(path: Path) -> list[Frame]:
    return [frame for frame in read(path) if frame.kept[12:14] == b"\x88\x08"]


@pytest.mark.parametrize("openflow", ["1.3", "1.5"])
def test_an_ordered_pause_is_a_frame_on_the_wire(inside: InLab, tmp_path: Path, openflow: str) -> None:
    """A link's delay after the order, at a host and at a switch; decoded by us."""
    told = inside("pauses", quanta=[65535, 0], folder=str(tmp_path), openflow=openflow)
    assert [(each["port"], each["quanta"]) for each in told["told"]] == [(1, 65535), (3, 65535), (1, 0), (3, 0)]
    for end, port in (("h1", "leaf1-eth1"), ("spine1-eth1", "leaf1-eth3")):
        frames = pause_frames(tmp_path / f"{end}.pcap")
        source = told["macs"][port]
        assert [decode(each.kept) for each in frames] == [PfcFrame(source, ((3, quanta),)) for quanta in (65535, 0)]
        for frame, sent_ns in zip(frames, told["sent"]):
            assert DELAY_NS < frame.time_ns - sent_ns < DELAY_NS + AT_ONCE_NS


def test_an_outside_judge_reads_the_frames_alike(inside: InLab, tmp_path: Path) -> None:
    """tshark: opcode 0x0101, class 3 enabled, its quanta."""
    inside("pauses", quanta=[1234, 0], folder=str(tmp_path))
    fields = ("macc.opcode", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3")
    words = ["tshark", "-r", str(tmp_path / "h1.pcap"), "-Y", "macc", "-T", "fields"]
    words += [word for field in fields for word in ("-e", field)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert [line.split() for line in said.splitlines()] == [["0x0101", "0x0008", "1234"], ["0x0101", "0x0008", "0"]]


def test_what_is_no_command_is_told_and_the_next_one_obeyed(inside: InLab) -> None:
    lines = ("dance", "pause leaf1 1 70000", "pause leaf9 1 5", "pause leaf1 77 5", "mark leaf1 1 on")
    *errors, last = inside("nonsense", lines=lines)
    said = [each["what"] for each in errors]
    assert [each.partition(" is given")[0] for each in said[:2]] == [
        f"command: {line.encode()!r}" for line in lines[:2]
    ]
    assert said[2:] == [
        "port 1 of switch leaf9 cannot send: it is not there",
        "port 77 of switch leaf1 cannot send: it is not there",
        "port 1 of switch leaf1 cannot mark by rules: marking=switch",
    ]
    assert (last["event"], last["switch"], last["port"], last["quanta"]) == ("paused", "leaf1", 1, 0)


# --- thresholds


def test_markers_have_the_curves_that_the_controller_set(inside: InLab) -> None:
    """By the rate of each port's link, in both classes, before anything is told to be ready; the queues behind the
    markers stay."""
    slow = {"kmin_bytes": 1_500, "kmax_bytes": 50_000, "pmax": 0.01}
    fast = {"kmin_bytes": 5_000, "kmax_bytes": 200_000, "pmax": 0.02}
    first = {"kmin_bytes": 7_000, "kmax_bytes": 8_000, "pmax": 1.0}
    told = inside("thresholds", curves=[(10_000_000_000, slow), (40_000_000_000, fast)], first=first)
    wanted = {name: fast if name.startswith("spine") or name[-1] in "34" else slow for name in told["markers"]}
    assert len(wanted) == 12
    events = {name: curve for each in told["told"] for name, curve in each["ports"].items()}
    assert events == {name: {**curve, "drop": False} for name, curve in wanted.items()}
    for name, markers in told["markers"].items():
        assert set(map(int, markers)) == {LOSSLESS_RED, LOSSY_RED}
        for options in markers.values():
            assert (options["kmin_bytes"], options["kmax_bytes"]) == (
                wanted[name]["kmin_bytes"],
                wanted[name]["kmax_bytes"],
            )
            assert options["pmax"] == pytest.approx(wanted[name]["pmax"], abs=1e-9)
        assert told["behind"][name] == [["bfifo", LOSSY_RED | 1], ["pfc", LOSSLESS_RED | 1]]
