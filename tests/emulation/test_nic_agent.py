"""DCQCN in the emulated NIC: CNPs cross the fabric and are heeded, by the clock and as often as they may."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import rdpcap

from controller.nic_agent import CNP_RECEIVED, CNP_SENT, RATE
from controller.roce_packet import CNP, icrc, parse
from lab.kernel import Kernel
from tests.conftest import run_in_lab
from tests.emulation.nic_agent_inside import ACKNOWLEDGE, ALONE, CE, ECT, RECEIVER, SENDER, WRITE_MIDDLE
from topologies.qdisc import LOSSLESS_DSCP

pytestmark = pytest.mark.lab

LINE = 100 * 10**9
HOST_NS, SWITCH_NS = 1_000, 1_500  # how long a packet takes to the switch, and from it to a host
PROGRAM_NS = 100  # in virtual time a system call takes a nanosecond
Marks = Callable[..., Any]


@pytest.fixture
def marks(kernel: Kernel, tmp_path: Path) -> Marks:
    """Call tests/emulation/nic_agent_inside.py in the lab."""

    def call(ecn: list[int], gap_ns: int, settle_ms: int = 1, **others: int) -> Any:
        frames = {"ecn": ecn, "gap_ns": gap_ns, "opcode": WRITE_MIDDLE, "queue_pair": RECEIVER, "dscp": LOSSLESS_DSCP}
        keys = {**frames, "settle_ms": settle_ms, "folder": str(tmp_path), **others}
        words = (sys.executable, "-m", "tests.emulation.nic_agent_inside", json.dumps(keys))
        return run_in_lab(kernel, words, results=tmp_path, memory_bytes=512 << 20).json

    return call


def rows(told: Any, event: int) -> list[list[int]]:
    return [row for row in told["rows"] if row[2] == event]


def test_marks_are_answered_once_an_interval_and_every_cnp_is_heeded(marks: Marks, tmp_path: Path) -> None:
    told = marks([ECT] * 10 + [CE] * 990, gap_ns=500, dscp=0)  # not of the class that the limiter paces
    sent_ns = [row[0] for row in rows(told, CNP_SENT)]
    received = rows(told, CNP_RECEIVED)
    # The first mark is answered as it comes; from then on the first that comes an interval after the last.
    assert sent_ns[0] == pytest.approx(5_000 + HOST_NS + SWITCH_NS, abs=PROGRAM_NS)
    gaps_ns = [after - before for before, after in zip(sent_ns, sent_ns[1:])]
    assert len(gaps_ns) == 9
    assert all(50_000 <= gap_ns <= 51_000 + PROGRAM_NS for gap_ns in gaps_ns)
    assert told["heard"] == len(sent_ns)  # nothing else was handed to the agent
    assert told["queue_pairs"] == [["10.0.0.1", RECEIVER]]
    # Each CNP crosses the fabric in the control class.
    crossing_ns = [row[0] - at_ns for row, at_ns in zip(received, sent_ns)]
    assert crossing_ns == pytest.approx([HOST_NS + SWITCH_NS] * 10, abs=PROGRAM_NS)
    assert told["control_packets"] == 10
    # alpha stays 1 between CNPs that are closer than its timer: each halves the rate, down to the least.
    halved = [max(LINE // 2**number, 10_000_000) for number in range(11)]
    assert [row[3] for row in received] == halved[1:]
    assert [row[5] for row in received] == halved[:-1]
    assert {row[4] for row in received} == {10**9}
    cnps = [bytes(packet) for packet in rdpcap(str(tmp_path / "h2-eth0.pcap"))]
    cnps = [frame for frame in cnps if (packet := parse(frame)) and packet.opcode == CNP]
    assert len(cnps) == 10
    for frame in cnps:
        packet = parse(frame)
        assert packet is not None
        assert (packet.queue_pair, packet.becn, packet.dscp, packet.ecn) == (SENDER, True, 48, 0)
        assert icrc(frame[14:-4]) == frame[-4:]


def test_a_limiter_recovers_and_is_released(marks: Marks) -> None:
    told = marks([CE, ECT], gap_ns=200_000)
    ((arrived_ns, *_, target_bps),) = rows(told, CNP_RECEIVED)
    assert (arrived_ns, target_bps) == (pytest.approx(2 * (HOST_NS + SWITCH_NS), abs=PROGRAM_NS), LINE)
    rates_bps = [row[3] for row in rows(told, RATE)]
    assert rates_bps[:5] == [LINE - LINE // 2**number for number in range(2, 7)]  # fast recovery
    assert rates_bps == sorted(rates_bps)
    assert rates_bps[-1] == LINE
    assert told["rates_bps"] == {f"10.0.0.1:{RECEIVER}": None}
    timers_ns = [row[0] - arrived_ns for row in rows(told, RATE)]
    assert timers_ns == [55_000 * number for number in range(1, len(timers_ns) + 1)]


def test_the_kernel_paces_at_the_machines_rate_a_link_delay_later(marks: Marks) -> None:
    """Asked at the first timer's own time, when it has not been served, and a link's delay after it, when it has."""
    first_timer_ns = 2 * (HOST_NS + SWITCH_NS) + 55_000
    for ends_ns, rate_bps in ((first_timer_ns, LINE // 2), (first_timer_ns + HOST_NS + PROGRAM_NS, LINE * 3 // 4)):
        told = marks([CE], gap_ns=ends_ns, settle_ms=0)
        assert told["rates_bps"] == {f"10.0.0.1:{RECEIVER}": rate_bps}


@pytest.mark.parametrize(
    ("opcode", "queue_pair", "ecn"),
    [(WRITE_MIDDLE, RECEIVER, ECT), (ACKNOWLEDGE, RECEIVER, CE), (WRITE_MIDDLE, ALONE, CE)],
)
def test_nothing_else_is_answered(marks: Marks, opcode: int, queue_pair: int, ecn: int) -> None:
    """Packets without a mark, acknowledgements, packets to a queue pair that is connected to nothing."""
    told = marks([ecn] * 10, gap_ns=1_000, opcode=opcode, queue_pair=queue_pair)
    assert told["rows"] == []
    assert told["heard"] == (1 if queue_pair == ALONE else 0)
    assert told["control_packets"] == 0
