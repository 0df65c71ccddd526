"""Pause frames, byte for byte as scapy builds and reads them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.mac_control import MACControl, MACControlClassBasedFlowControl, MACControlPause
from scapy.layers.l2 import Ether

from controller.pfc_frame import FRAME_BYTES, PRIORITIES, PauseFrame, PfcFrame, decode, priority_of
from topologies.qdisc import CONTROL_DSCP, LOSSLESS_DSCP

MAC = "02:01:00:00:00:07"
QUANTA = st.integers(0, 0xFFFF)
MACS = st.binary(min_size=6, max_size=6).map(lambda packed: packed.hex(":"))


def frames() -> st.SearchStrategy[PfcFrame]:
    chosen = st.dictionaries(st.integers(0, PRIORITIES - 1), QUANTA).map(lambda found: tuple(sorted(found.items())))
    return st.builds(PfcFrame, MACS, chosen)


def by_scapy(frame: PfcFrame) -> bytes:
    control = MACControlClassBasedFlowControl()
    for priority, quanta in frame.quanta:
        control.setfieldval(f"c{priority}_enabled", 1)
        control.setfieldval(f"c{priority}_pause_time", quanta)
    return bytes(Ether(src=frame.source, dst=MACControl.DEFAULT_DST_MAC) / control)


def test_a_frame_worked_by_hand() -> None:
    """Class 3 for 65535 quanta: IEEE 802.1Qbb figure 36-3."""
    frame = PfcFrame(MAC, ((3, 0xFFFF),)).encode()
    assert frame.hex() == "0180c2000001020100000007880801010008" + 3 * "0000" + "ffff" + 4 * "0000" + 52 * "0"
    assert len(frame) == FRAME_BYTES


@given(frames())
def test_frames_are_those_of_scapy(frame: PfcFrame) -> None:
    assert frame.encode() == by_scapy(frame)


@given(frames())
def test_scapy_reads_them(frame: PfcFrame) -> None:
    read = Ether(frame.encode())
    assert (read.src, read.dst, read.type) == (frame.source, "01:80:c2:00:00:01", 0x8808)
    body = read[MACControlClassBasedFlowControl]
    said = [
        (priority, body.getfieldval(f"c{priority}_pause_time"))
        for priority in range(PRIORITIES)
        if body.getfieldval(f"c{priority}_enabled")
    ]
    assert said == list(frame.quanta)


@given(frames())
def test_what_is_encoded_is_decoded(frame: PfcFrame) -> None:
    assert decode(frame.encode()) == frame


@given(MACS, QUANTA)
def test_the_older_pause_is_that_of_scapy(source: str, quanta: int) -> None:
    built = bytes(Ether(src=source, dst=MACControl.DEFAULT_DST_MAC) / MACControlPause(pause_time=quanta))
    assert PauseFrame(source, quanta).encode() == built
    assert decode(built) == PauseFrame(source, quanta)


def test_a_frame_speaks_of_the_classes_that_it_names_alone() -> None:
    frame = PfcFrame(MAC, ((0, 7), (3, 0)))
    assert [frame.quanta_of(priority) for priority in range(5)] == [7, None, None, 0, None]


def test_what_is_no_pause_is_nothing() -> None:
    pause = PfcFrame(MAC, ((3, 1),)).encode()
    others = {
        "empty": b"",
        "cut short": pause[:33],
        "another destination": b"\1\x80\xc2\0\0\2" + pause[6:],
        "another protocol": pause[:12] + b"\x08\x00" + pause[14:],
        "another opcode": pause[:14] + b"\0\2" + pause[16:],  # a gate of EPON
    }
    assert {name: decode(frame) for name, frame in others.items()} == dict.fromkeys(others)


def test_what_follows_the_quanta_and_reserved_bits_of_the_classes_are_ignored() -> None:
    pause = bytearray(PfcFrame(MAC, ((3, 1),)).encode())
    pause[16], pause[40:] = 0xFF, b"\xff" * 30
    assert decode(bytes(pause)) == PfcFrame(MAC, ((3, 1),))


@pytest.mark.parametrize("quanta", [-1, 0x10000])
def test_quanta_have_16_bits(quanta: int) -> None:
    with pytest.raises(struct.error):
        PfcFrame(MAC, ((3, quanta),)).encode()


def test_the_lossless_class_is_priority_3_and_control_6() -> None:
    assert priority_of(LOSSLESS_DSCP) == 3
    assert priority_of(CONTROL_DSCP) == 6
    assert priority_of(0) == 0
    assert priority_of(63) == 7
