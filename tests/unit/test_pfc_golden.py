"""Pause frames as the lab has captured them, read by our decoder, by scapy and by tshark, who have to agree.

pfc_leaf.pcap: a leaf pauses h2 (600 quanta at 10 Gb/s), refreshes that four times, and resumes it.
pfc_host.pcap: a frame that h1 sends: 7 quanta for priority 0, 2,000 for 3, 65,535 for 7.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.l2 import Ether

from controller.pause import pause_ns
from controller.pfc_frame import PRIORITIES, PfcFrame, decode
from tests.emulation.captures import Frame, read

GOLDEN = Path(__file__).parents[1] / "golden"
LEAF = "02:01:00:00:00:02"
EXPECTED: dict[str, list[PfcFrame]] = {
    "pfc_leaf": [*(5 * [PfcFrame(LEAF, ((3, 600),))]), PfcFrame(LEAF, ((3, 0),))],
    "pfc_host": [PfcFrame("00:00:00:00:00:01", ((0, 7), (3, 2000), (7, 65535)))],
}
CLOCK_NS = 10


def frames(name: str) -> list[Frame]:
    return read(GOLDEN / f"{name}.pcap")


@pytest.mark.parametrize("name", EXPECTED)
def test_we_read_them(name: str) -> None:
    assert [decode(frame.kept) for frame in frames(name)] == EXPECTED[name]
    assert [frame.encode() for frame in EXPECTED[name]] == [frame.kept for frame in frames(name)]


@pytest.mark.parametrize("name", EXPECTED)
def test_scapy_reads_the_same(name: str) -> None:
    found = []
    for frame in frames(name):
        packet = Ether(frame.kept)
        body = packet[MACControlClassBasedFlowControl]
        named = tuple(
            (priority, body.getfieldval(f"c{priority}_pause_time"))
            for priority in range(PRIORITIES)
            if body.getfieldval(f"c{priority}_enabled")
        )
        found.append(PfcFrame(packet.src, named))
    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_tshark_reads_the_same(name: str) -> None:
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed: apt-get install tshark")
    fields = ["frame.protocols", "eth.src", "eth.dst", "macc.opcode", "macc.cbfc.enbv"]
    fields += [f"macc.cbfc.pause_time.c{priority}" for priority in range(PRIORITIES)]
    words = ["tshark", "-r", str(GOLDEN / f"{name}.pcap"), "-T", "fields"]
    for field in fields:
        words += ["-e", field]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(EXPECTED[name])
    for line, frame in zip(lines, EXPECTED[name]):
        protocols, source, destination, opcode, classes, *quanta = line.split("\t")
        named = [priority for priority in range(PRIORITIES) if int(classes, 0) >> priority & 1]
        assert protocols.startswith("eth:ethertype:macc")
        assert (source, destination, int(opcode, 0)) == (frame.source, "01:80:c2:00:00:01", 0x0101)
        assert tuple((priority, int(quanta[priority])) for priority in named) == frame.quanta


def test_a_refresh_comes_at_half_of_the_quanta() -> None:
    *pauses, resume = frames("pfc_leaf")
    half_ns = pause_ns(600, 10 * 10**9) // 2
    for before, after in zip(pauses, pauses[1:]):
        assert 0 <= after.time_ns - before.time_ns - half_ns <= CLOCK_NS
    assert resume.time_ns - pauses[-1].time_ns < half_ns
