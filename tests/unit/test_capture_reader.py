"""Reading captures: files written by scapy and by hand, whole, cut short, damaged, and no captures at all."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.mac_control import MACControlClassBasedFlowControl, MACControlGate, MACControlPause
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from analysis.capture.packets import ACK, PAUSE, PFC, SYN
from analysis.capture.reader import read_capture
from tests.unit.frames import T0_NS, Capture, pcap_bytes, tcp_frame
from topologies.units import BadRequest


def test_fields_of_a_file_written_by_scapy(tmp_path: Path) -> None:
    options = [
        ("NOP", None),
        ("NOP", None),
        ("Timestamp", (11, 22)),
        ("NOP", None),
        ("NOP", None),
        ("SAck", (1, 2, 3, 4)),
    ]
    tcp = TCP(sport=20000, dport=5000, seq=2**32 - 1, ack=77, flags="SA", window=4321, options=options)
    frames = [
        Ether() / IP(src="10.0.0.2", dst="10.1.2.3", tos=0b101110_11) / tcp / Raw(bytes(1300)),
        Ether()
        / Dot1Q(vlan=5)
        / Dot1Q(vlan=6)
        / IP(src="10.0.0.9", dst="10.0.0.1")
        / TCP(sport=1, dport=2)
        / Raw(b"xyz"),
    ]
    for place, frame in enumerate(frames):
        frame.time = 1_700_000_000 + place
    wrpcap(str(tmp_path / "scapy.pcap"), frames, nano=True)

    packets = read_capture(tmp_path / "scapy.pcap")

    assert packets.time_ns.tolist() == [1_700_000_000 * 10**9, 1_700_000_001 * 10**9]
    assert packets.wire_bytes.tolist() == [len(frame) for frame in frames]
    assert packets.payload_bytes.tolist() == [1300, 3]
    assert [packets.src_ip[0], packets.dst_ip[0], packets.src_ip[1]] == [0x0A000002, 0x0A010203, 0x0A000009]
    assert [packets.ecn[0], packets.dscp[0]] == [3, 46]
    assert [packets.sport[0], packets.dport[0], packets.sport[1]] == [20000, 5000, 1]
    assert [packets.seq[0], packets.ack[0], packets.window[0]] == [2**32 - 1, 77, 4321]
    assert packets.flags[0] == SYN | ACK
    assert [packets.timestamp_value[0], packets.timestamp_echo[0], packets.sack_blocks[0]] == [11, 22, 2]
    assert packets.sack_blocks[1] == 0
    assert not packets.truncated


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "resolution_ns"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_both_byte_orders_and_resolutions(tmp_path: Path, order: str, magic: int, resolution_ns: int) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([(T0_NS, tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4, 50))], magic, order))
    packets = read_capture(path)
    assert packets.time_ns.tolist() == [T0_NS // resolution_ns * resolution_ns]
    assert packets.payload_bytes.tolist() == [50]


def test_packets_of_other_protocols_and_later_fragments_are_kept_without_ports(tmp_path: Path) -> None:
    sctp = Ether() / IP(src="10.0.0.2", dst="10.0.0.1", proto=132) / Raw(bytes(64))
    fragment = Ether() / IP(src="10.0.0.2", dst="10.0.0.1", frag=100, proto=6) / Raw(bytes(64))
    wrpcap(str(tmp_path / "mixed.pcap"), [Ether() / ARP(), sctp, fragment])
    packets = read_capture(tmp_path / "mixed.pcap")
    assert packets.protocol.tolist() == [0, 132, 6]
    assert packets.sport.tolist() == [0, 0, 0]
    assert packets.payload_bytes.tolist() == [0, 0, 0]
    assert packets.is_fragment.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("snaplen", "protocol", "sport", "timestamp"),
    [(20, 0, 0, 0), (40, 6, 0, 0), (54, 6, 5, 0), (66, 6, 5, 7)],
)
def test_headers_cut_by_the_snaplen_are_zero(
    tmp_path: Path, snaplen: int, protocol: int, sport: int, timestamp: int
) -> None:
    path = tmp_path / "short.pcap"
    path.write_bytes(pcap_bytes([(T0_NS, tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4, 50))], snaplen=snaplen))
    packets = read_capture(path)
    assert (packets.protocol[0], packets.sport[0], packets.timestamp_value[0]) == (protocol, sport, timestamp)


def test_options_cut_by_the_snaplen_do_not_reach_into_the_next_record(tmp_path: Path) -> None:
    path = tmp_path / "short.pcap"
    path.write_bytes(pcap_bytes([(T0_NS, tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4))] * 2, snaplen=60))
    assert read_capture(path).timestamp_value.tolist() == [0, 0]


def test_a_record_cut_off_at_the_end_is_left_out_and_said(tmp_path: Path) -> None:
    whole = Capture().send(0, 0).send(1, 1000).write(tmp_path / "whole.pcap")
    data = whole.read_bytes()
    cut = tmp_path / "cut.pcap"
    for missing in (1, 50, 99, 110):
        cut.write_bytes(data[:-missing])
        packets = read_capture(cut)
        assert (len(packets), packets.truncated) == (1, True)
    assert (len(read_capture(whole)), read_capture(whole).truncated) == (2, False)


def test_a_record_of_impossible_length_ends_the_file(tmp_path: Path) -> None:
    path = tmp_path / "damaged.pcap"
    path.write_bytes(pcap_bytes([(T0_NS, bytes(60))]) + struct.pack("<IIII", 0, 0, 2**31, 60) + bytes(400_000))
    packets = read_capture(path)
    assert (len(packets), packets.truncated) == (1, True)


def test_a_capture_without_packets(tmp_path: Path) -> None:
    path = tmp_path / "none.pcap"
    path.write_bytes(pcap_bytes([]))
    packets = read_capture(path)
    assert (len(packets), packets.truncated) == (0, False)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "empty"),
        (b"PK\x03\x04" + bytes(100), "504b0304"),
        (b"\x4d\x3c\xb2\xa1\x02\x00", "6 bytes"),
    ],
)
def test_a_file_that_is_no_capture_is_named_with_what_was_found(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "stranger.bin"
    path.write_bytes(content)
    with pytest.raises(BadRequest, match=r"stranger.bin") as error:
        read_capture(path)
    assert found in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"nowhere.pcap"):
        read_capture(tmp_path / "nowhere.pcap")


def test_more_records_than_one_chunk(tmp_path: Path) -> None:
    count = 70_000
    path = tmp_path / "long.pcap"
    path.write_bytes(pcap_bytes([(T0_NS + n, tcp_frame("1.2.3.4:5", "6.7.8.9:10", n, 4, n % 3)) for n in range(count)]))
    packets = read_capture(path)
    assert np.array_equal(packets.seq, np.arange(count))
    assert np.array_equal(packets.payload_bytes, np.arange(count) % 3)
    assert np.array_equal(packets.time_ns, T0_NS + np.arange(count))


@settings(max_examples=300, deadline=None)
@given(
    frames=st.lists(st.binary(max_size=120), max_size=6),
    mutations=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=8),
    cut=st.integers(0, 200),
)
def test_no_damage_raises_anything_but_a_bad_request(
    tmp_path_factory: pytest.TempPathFactory, frames: list[bytes], mutations: list[tuple[int, int]], cut: int
) -> None:
    good = tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4, 5, sacks=2)
    data = bytearray(pcap_bytes([(T0_NS, frame) for frame in [good, *frames, good]]))
    for place, value in mutations:
        data[place % len(data)] = value
    path = tmp_path_factory.mktemp("damage") / "x.pcap"
    path.write_bytes(bytes(data[: max(len(data) - cut, 0)]))
    try:
        packets = read_capture(path)
    except BadRequest:
        return
    assert len({len(getattr(packets, name)) for name in ("time_ns", "seq", "payload_bytes", "sack_blocks")}) == 1
    assert (packets.payload_bytes >= 0).all()


def test_roce_packets_written_by_scapy(tmp_path: Path) -> None:
    """A WRITE's first packet, a padded last one with immediate data, a NAK, a CNP, and UDP that is none of it."""
    ends, udp = IP(src="10.0.0.2", dst="10.0.0.1", tos=26 << 2 | 2), UDP(sport=50_000, dport=4791)
    first = BTH(opcode=0x06, dqpn=0xABCDEF, psn=0xFFFFFF) / Raw(bytes(16 + 1000))
    last = BTH(opcode=0x09, dqpn=18, psn=0, ackreq=1, padcount=3) / Raw(bytes(4 + 997 + 3))
    nak = BTH(opcode=0x11, dqpn=17, psn=5) / AETH(syndrome=0x60, msn=3)
    cnp = BTH(opcode=0x81, dqpn=17) / Raw(bytes(16))
    frames = [Ether() / ends / udp / each for each in (first, last, nak, cnp)]
    wrpcap(str(tmp_path / "roce.pcap"), [*frames, Ether() / ends / UDP(sport=1, dport=2) / Raw(bytes(40))])

    packets = read_capture(tmp_path / "roce.pcap")

    assert packets.is_roce.tolist() == [True] * 4 + [False]
    assert packets.opcode.tolist() == [0x06, 0x09, 0x11, 0x81, 0]
    assert packets.qpn.tolist() == [0xABCDEF, 18, 17, 17, 0]
    assert packets.psn.tolist() == [0xFFFFFF, 0, 5, 0, 0]
    assert packets.ack_request.tolist() == [False, True, False, False, False]
    assert packets.syndrome.tolist() == [0, 0, 0x60, 0, 0]
    assert packets.payload_bytes.tolist() == [1000, 997, 0, 0, 40]
    assert (packets.sport[0], packets.dscp[0], packets.ecn[0]) == (50_000, 26, 2)


def test_pause_frames_written_by_scapy(tmp_path: Path) -> None:
    pfc = MACControlClassBasedFlowControl(c3_enabled=1, c0_enabled=1, c3_pause_time=65535, c0_pause_time=7)
    frames = [
        Ether() / pfc / Raw(bytes(26)),
        Ether() / MACControlPause(pause_time=300) / Raw(bytes(42)),
        Ether() / MACControlGate() / Raw(bytes(40)),
    ]
    wrpcap(str(tmp_path / "pause.pcap"), frames)
    packets = read_capture(tmp_path / "pause.pcap")
    assert packets.mac_control.tolist() == [PFC, PAUSE, 0]
    assert packets.pause_classes.tolist() == [0b1001, 0xFF, 0]
    assert packets.pause_quanta.tolist() == [[7, 0, 0, 65535, 0, 0, 0, 0], [300] * 8, [0] * 8]
    assert packets.select(packets.mac_control == PFC).pause_quanta.shape == (1, 8)


@pytest.mark.parametrize(("snaplen", "is_roce", "syndrome"), [(53, False, 0), (54, True, 0), (55, True, 0x60)])
def test_roce_headers_cut_by_the_snaplen(tmp_path: Path, snaplen: int, is_roce: bool, syndrome: int) -> None:
    path = tmp_path / "short.pcap"
    frame = bytes(Ether() / IP() / UDP(dport=4791) / BTH(opcode=0x11, dqpn=1, psn=2) / AETH(syndrome=0x60))
    path.write_bytes(pcap_bytes([(T0_NS, frame)], snaplen=snaplen))
    packets = read_capture(path)
    assert (packets.is_roce[0], packets.syndrome[0]) == (is_roce, syndrome)
