"""pcapng: sections, interfaces, resolutions, kinds of packet blocks, blocks to pass over, and damage."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.capture.packets import COLUMNS, Packets
from analysis.capture.reader import read_capture
from analysis.capture.timestamps import to_ns
from tests.unit.frames import T0_NS, pcap_bytes, tcp_frame
from tests.unit.pcapng_blocks import (
    NANOSECONDS,
    block,
    enhanced,
    interface,
    old_packet,
    option,
    section,
    simple,
)

FRAME = tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4, 50)
T0_US = T0_NS // 1000


def read(folder: Path, content: bytes) -> Packets:
    path = folder / "some.pcapng"
    path.write_bytes(content)
    return read_capture(path)


@pytest.mark.parametrize("order", ["<", ">"])
def test_all_columns_are_those_of_the_same_packets_in_a_pcap(tmp_path: Path, order: str) -> None:
    frames = [tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3 + n, 4, 50 + n, sacks=n % 3) for n in range(100)]
    blocks = [enhanced(T0_NS + n, frame, order=order) for n, frame in enumerate(frames)]
    found = read(tmp_path, section(order) + interface(1, NANOSECONDS, order=order) + b"".join(blocks))
    (tmp_path / "a.pcap").write_bytes(pcap_bytes([(T0_NS + n, frame) for n, frame in enumerate(frames)], snaplen=9999))
    expected = read_capture(tmp_path / "a.pcap")
    for name in COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert found.damage == expected.damage


@pytest.mark.parametrize(
    ("resolution", "units", "time_ns"),
    [
        (None, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (0, 1_700_000_000, 1_700_000_000_000_000_000),
        (3, 1_700_000_000_123, 1_700_000_000_123_000_000),
        (9, T0_NS, T0_NS),
        (12, 1_700_000_123_456_789, 1_700_000_123_456),
        (0x80 | 20, (1_700_000_000 << 20) + (1 << 19), 1_700_000_000_500_000_000),
        (0x80 | 33, (7 << 33) + 1, 7_000_000_000),
        (0x80 | 63, (1 << 63) + (1 << 62), 1_500_000_000),
        (0x80 | 64, 1 << 63, 500_000_000),
    ],
)
@pytest.mark.parametrize("offset_s", [None, 1_000, -1_000])
def test_any_resolution_and_offset(
    tmp_path: Path, resolution: int | None, units: int, time_ns: int, offset_s: int | None
) -> None:
    found = read(tmp_path, section() + interface(1, resolution, offset_s) + enhanced(units, FRAME))
    assert found.time_ns.tolist() == [time_ns + (offset_s or 0) * 10**9]


@given(st.integers(0, 2**64 - 1), st.integers(0, 255), st.integers(-(2**63), 2**63 - 1))
def test_times_are_exact_or_end_in_2116(units: int, resolution: int, offset_s: int) -> None:
    bits_or_digits = resolution & 0x7F
    per_s = 2**bits_or_digits if resolution & 0x80 else 10**bits_or_digits
    latest = 2**62
    whole = units * 10**9 // per_s
    (found,) = to_ns(np.array([units], np.uint64), resolution, offset_s).tolist()
    assert -latest <= found <= latest
    if whole < latest - 10**10 and abs(offset_s) < 4 * 10**9:
        assert found == max(min(whole + offset_s * 10**9, latest), -latest)


def test_interfaces_of_several_link_types_and_resolutions(tmp_path: Path) -> None:
    raw = FRAME[14:]
    found = read(
        tmp_path,
        section()
        + interface(1)
        + interface(101, NANOSECONDS)
        + enhanced(T0_NS, raw, 1)
        + enhanced(T0_US, FRAME, 0)
        + interface(147)
        + enhanced(T0_US, FRAME, 2)
        + old_packet(T0_US, FRAME, 0, drops=9),
    )
    assert found.interface.tolist() == [1, 0, 2, 0]
    assert found.time_ns.tolist() == [T0_NS, *[T0_US * 1000] * 3]
    assert found.sport.tolist() == [5, 5, 0, 5]
    assert found.damage.foreign_link == 1


def test_a_second_section_has_its_own_interfaces_and_byte_order(tmp_path: Path) -> None:
    one = section("<") + interface(1) + enhanced(T0_US, FRAME)
    two = section(">") + interface(101, NANOSECONDS, order=">") + enhanced(T0_NS, FRAME[14:], 0, ">")
    found = read(tmp_path, one + two)
    assert found.interface.tolist() == [0, 1]
    assert found.sport.tolist() == [5, 5]
    assert found.time_ns.tolist() == [T0_US * 1000, T0_NS]


def test_a_packet_without_a_time_has_that_of_the_one_before(tmp_path: Path) -> None:
    blocks = simple(FRAME), enhanced(T0_US, FRAME), simple(FRAME[:20], wire=99), simple(FRAME), enhanced(7, FRAME)
    found = read(tmp_path, section() + interface() + b"".join(blocks))
    assert found.time_ns.tolist() == [0, *[T0_US * 1000] * 3, 7000]
    assert found.wire_bytes.tolist() == [len(FRAME), len(FRAME), 99, len(FRAME), len(FRAME)]
    assert found.captured_bytes.tolist() == [len(FRAME), len(FRAME), 20, len(FRAME), len(FRAME)]
    assert found.sport.tolist() == [5, 5, 0, 5, 5]
    assert (found.damage.untimed, found.damage.backwards) == (3, 1)


def test_other_blocks_and_options_are_passed_over(tmp_path: Path) -> None:
    comment = option(1, b"<b>hello</b>") + option(0, b"")
    statistics, secrets, names = block(5, bytes(20)), block(10, bytes(9)), block(4, bytes(200))
    huge = block(0x0BAD, bytes(6_000_000))
    packets = enhanced(T0_US, FRAME, options=comment) + huge + enhanced(T0_US, FRAME)
    found = read(tmp_path, section() + statistics + interface() + secrets + packets + names)
    assert found.sport.tolist() == [5, 5]
    assert found.damage == read(tmp_path, section()).damage


def test_a_check_sequence_is_not_counted(tmp_path: Path) -> None:
    found = read(tmp_path, section() + interface(fcs=4) + enhanced(T0_US, FRAME + bytes(4)))
    assert (found.wire_bytes[0], found.captured_bytes[0]) == (len(FRAME), len(FRAME) + 4)


def test_a_packet_of_an_interface_that_is_not_described_is_foreign(tmp_path: Path) -> None:
    found = read(tmp_path, section() + enhanced(T0_US, FRAME, 0) + interface() + enhanced(T0_US, FRAME, 9))
    assert (found.protocol.tolist(), found.damage.foreign_link) == ([0, 0], 2)


def test_a_captured_length_beyond_its_block_does_not_reach_into_the_next(tmp_path: Path) -> None:
    lying = bytearray(enhanced(T0_US, FRAME[:16]))
    lying[20:24] = struct.pack("<I", 90)
    found = read(tmp_path, section() + interface() + bytes(lying) + enhanced(T0_US, FRAME))
    assert found.captured_bytes.tolist() == [16, len(FRAME)]
    assert found.sport.tolist() == [0, 5]


@pytest.mark.parametrize("missing", [1, 4, 30, len(FRAME)])
def test_a_file_cut_inside_a_block_keeps_what_came_before(tmp_path: Path, missing: int) -> None:
    found = read(tmp_path, (section() + interface() + enhanced(T0_US, FRAME) * 2)[:-missing])
    assert (len(found), found.truncated) == (1, True)


@pytest.mark.parametrize("length", [0, 8, 11, 34, 2**31, 2**32 - 4])
@pytest.mark.parametrize("kind", [1, 2, 3, 6, 0x0A0D0D0A, 0x0BAD])
def test_an_impossible_length_ends_the_file_there(tmp_path: Path, kind: int, length: int) -> None:
    bad = struct.pack("<II", kind, length) + b"\x4d\x3c\x2b\x1a" + bytes(100)
    found = read(tmp_path, section() + interface() + enhanced(T0_US, FRAME) + bad)
    assert (len(found), found.truncated) == (1, True)


def test_reading_goes_on_where_blocks_surely_begin_again(tmp_path: Path) -> None:
    good = [enhanced(T0_US + n, FRAME) for n in range(40)]
    broken = good[9][:4] + b"\xff\xff\xff\x7f" + good[9][8:]
    found = read(tmp_path, section() + interface() + b"".join([*good[:9], broken, *good[10:]]))
    assert (len(found), found.truncated, found.damage.garbage_bytes) == (39, False, len(good[9]))
    assert found.time_ns.tolist() == [(T0_US + n) * 1000 for n in range(40) if n != 9]


def test_many_interfaces_do_not_overflow_their_column(tmp_path: Path) -> None:
    described = block(1, struct.pack("<HHI", 1, 0, 0))
    found = read(tmp_path, section() + described * 70_000 + enhanced(T0_US, FRAME, 65_534) + enhanced(1, FRAME, 65_600))
    assert found.interface.tolist() == [65_534, 65_535]
    assert (found.sport.tolist(), found.damage.foreign_link) == ([5, 0], 1)
