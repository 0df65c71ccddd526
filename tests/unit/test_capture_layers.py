"""Every link layer, IPv4 and IPv6, TCP's options, UDP, RoCEv2: what scapy builds is what is read, and tshark agrees."""

from __future__ import annotations

import ipaddress
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Dot1Q, Ether

from analysis.capture.packets import ACK, COLUMNS, Damage, Packets
from analysis.capture.reader import read_capture
from tests.unit.frames import T0_NS, pcap_bytes, tcp_frame
from tests.unit.pcapng_blocks import NANOSECONDS, enhanced, interface, section
from tests.unit.random_frames import LINK_TYPES, NO_SCALE, Built, build

TIMES = ("number", "time_ns", "interface")  # of the file, not of the frame


def row(packets: Packets, place: int) -> dict[str, Any]:
    """A packet's columns, addresses in words."""
    found = {name: getattr(packets, name)[place].tolist() for name in COLUMNS if name not in TIMES}
    for name in ("src_ip", "dst_ip"):
        found[name] = packets.address(found[name])
    return found


def expected_row(built: Built) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(set(COLUMNS) - set(TIMES), 0)
    nothing.update(window_scale=NO_SCALE, sack_edges=[0] * 4, pause_quanta=[0] * 8)
    return {**nothing, **built.expected}


def write(path: Path, frames: list[bytes], link_type: int, form: str) -> Path:
    """The frames a microsecond apart, as "pcap" or "pcapng", little-endian "<" or big-endian ">"."""
    kind, order = form.split()
    records = [(T0_NS // 1000 * 1000 + 1000 * n, frame) for n, frame in enumerate(frames)]
    if kind == "pcap":
        content = pcap_bytes(records, 0xA1B23C4D, order, 9999, link_type)
    else:
        blocks = [enhanced(*record, order=order) for record in records]
        content = section(order) + interface(link_type, NANOSECONDS, order=order) + b"".join(blocks)
    path.write_bytes(content)
    return path


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 6),
    link_type=st.sampled_from(LINK_TYPES),
    form=st.sampled_from(["pcap <", "pcap >", "pcapng <", "pcapng >"]),
)
def test_what_scapy_builds_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, link_type: int, form: str
) -> None:
    chance = random.Random(seed)
    built = [build(chance, link_type) for _ in range(count)]
    path = tmp_path_factory.mktemp("built") / "x"
    packets = read_capture(write(path, [each.frame for each in built], link_type, form))
    assert [row(packets, place) for place in range(count)] == [expected_row(each) for each in built]
    assert packets.damage == Damage()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), link_type=st.sampled_from(LINK_TYPES), kept=st.integers(0, 150))
def test_what_the_snaplen_cuts_is_left_out_and_nothing_else_is_read(
    tmp_path_factory: pytest.TempPathFactory, seed: int, link_type: int, kept: int
) -> None:
    built = build(random.Random(seed), link_type)
    path = tmp_path_factory.mktemp("cut") / "x.pcap"
    path.write_bytes(pcap_bytes([(T0_NS, built.frame)], snaplen=kept, link_type=link_type))
    packets = read_capture(path)
    found, expected = row(packets, 0), expected_row(built)
    expected["captured_bytes"] = min(kept, len(built.frame))
    nothing = expected_row(Built(b"", {}))
    wrong = {name: value for name, value in found.items() if value not in (expected[name], nothing[name])}
    no_address = {name for name in ("src_ip", "dst_ip") if found[name] == "0.0.0.0"}
    assert not set(wrong) - no_address - {"vlan"}  # of tags the inner-most that was captured is told
    lost = {name for name, value in found.items() if value != expected[name]}
    assert bool(lost) <= bool(packets.damage.cut_headers or packets.damage.empty)
    assert packets.damage.empty == (kept == 0)


# --- tshark's values

FIELDS = {
    "number": "frame.number",
    "time_ns": "frame.time_epoch",
    "wire_bytes": "frame.len",
    "captured_bytes": "frame.cap_len",
    "vlan": "vlan.id",
    "ecn": "ip.dsfield.ecn",
    "dscp": "ip.dsfield.dscp",
    "ip_id": "ip.id",
    "ttl": "ip.ttl",
    "seq": "tcp.seq_raw",
    "ack": "tcp.ack_raw",
    "window": "tcp.window_size_value",
    "mss": "tcp.options.mss_val",
    "timestamp_value": "tcp.options.timestamp.tsval",
    "timestamp_echo": "tcp.options.timestamp.tsecr",
    "sack_blocks": "tcp.options.sack.count",
    "opcode": "infiniband.bth.opcode",
    "qpn": "infiniband.bth.destqp",
    "psn": "infiniband.bth.psn",
    "ack_request": "infiniband.bth.a",
    "syndrome": "infiniband.aeth.syndrome",
}
IPV6_FIELDS = {"ecn": "ipv6.tclass.ecn", "dscp": "ipv6.tclass.dscp", "ttl": "ipv6.hlim"}
OTHERS = ("ip.version", "ipv6.version", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport")
MORE = (
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "tcp.len",
    "tcp.flags",
    "eth.src",
    "sll.src.eth",
    "frame.interface_id",
)


def tshark(path: Path) -> Iterator[dict[str, str]]:
    """What tshark reads of each packet: field -> its value, the last one of several, without fields that are not
    there."""
    fields = [*FIELDS.values(), *IPV6_FIELDS.values(), *OTHERS, *MORE]
    words = [
        "tshark",
        "-r",
        str(path),
        "-o",
        "tcp.relative_sequence_numbers:FALSE",
        "-T",
        "fields",
        "-E",
        "occurrence=l",
    ]
    listed = [word for field in fields for word in ("-e", field)]
    done = subprocess.run([*words, *listed], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        yield {name: value for name, value in zip(fields, line.split("\t")) if value}


def number(text: str) -> int:
    """A number as tshark writes them: a time in s with nine digits as ns, "True", hexadecimal or decimal."""
    if "." in text:
        seconds, _, fraction = text.partition(".")
        return int(seconds) * 10**9 + int(fraction)
    return int(text in ("True", "1")) if text in ("True", "False") else int(text, 0)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed: apt-get install tshark")
@pytest.mark.parametrize(("link_type", "form"), [*((each, "pcap <") for each in LINK_TYPES), (1, "pcapng >")])
def test_tshark_reads_the_same(tmp_path: Path, link_type: int, form: str) -> None:
    chance = random.Random(link_type)
    path = write(tmp_path / "x", [build(chance, link_type).frame for _ in range(150)], link_type, form)
    packets = read_capture(path)
    theirs = list(tshark(path))
    assert len(theirs) == len(packets) == 150
    for place, fields in enumerate(theirs):
        ours = {name: int(getattr(packets, name)[place]) for name in COLUMNS if getattr(packets, name).ndim == 1}
        names = {**FIELDS, **(IPV6_FIELDS if ours["ip_version"] == 6 else {})}
        found = {name: number(fields[field]) for name, field in names.items() if field in fields}
        assert {name: ours[name] for name in found} == found
        assert_the_rest_is_the_same(packets, place, ours, fields)


def assert_the_rest_is_the_same(packets: Packets, place: int, ours: dict[str, int], fields: dict[str, str]) -> None:
    version = "ipv6" if ours["ip_version"] == 6 else "ip"
    for end in ("src", "dst"):
        address = packets.address(getattr(packets, f"{end}_ip")[place])
        assert ipaddress.ip_address(fields[f"{version}.{end}"]) == ipaddress.ip_address(address)
    transport = {6: "tcp", 17: "udp"}.get(ours["protocol"], "") if not ours["is_fragment"] else ""
    if transport and f"{transport}.srcport" in fields:
        assert (ours["sport"], ours["dport"]) == tuple(int(fields[f"{transport}.{end}port"]) for end in ("src", "dst"))
    if transport == "tcp" and "tcp.len" in fields:
        assert ours["payload_bytes"] == int(fields["tcp.len"])
        assert ours["flags"] == int(fields["tcp.flags"], 0) & 0xFF
    if transport == "udp" and not packets.is_roce[place] and "udp.length" in fields:
        assert ours["payload_bytes"] == int(fields["udp.length"]) - 8
    mac = fields.get("eth.src", fields.get("sll.src.eth", "0")).replace(":", "")
    assert ours["src_mac"] == int(mac, 16)


# --- by hand


def read_frames(folder: Path, *frames: bytes, link_type: int = 1, snaplen: int = 9999) -> Packets:
    path = folder / "a.pcap"
    path.write_bytes(pcap_bytes([(T0_NS, frame) for frame in frames], snaplen=snaplen, link_type=link_type))
    return read_capture(path)


def test_a_link_type_that_is_not_read_keeps_its_packets(tmp_path: Path) -> None:
    packets = read_frames(tmp_path, bytes(60), bytes(70), link_type=147)
    assert packets.wire_bytes.tolist() == [60, 70]
    assert packets.protocol.tolist() == [0, 0]
    assert packets.damage == Damage(foreign_link=2)


def test_frames_of_nothing_but_tags_or_extensions_end(tmp_path: Path) -> None:
    tags = bytes(12) + b"\x81\x00\x00\x07" * 20_000
    head = b"\x60\x00\x00\x00\x00\x00\x00\x40" + bytes(32)
    chain = bytes(12) + b"\x86\xdd" + head + bytes(8) * 10_000
    packets = read_frames(tmp_path, tags, chain, snaplen=200_000)
    assert packets.protocol.tolist() == [0, 0]
    assert packets.vlan.tolist() == [7, 0]


def test_a_segment_that_the_nic_will_cut_up_has_the_bytes_on_the_wire(tmp_path: Path) -> None:
    frame = bytearray(tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4, 20_000))
    frame[16:18] = bytes(2)
    packets = read_frames(tmp_path, bytes(frame), snaplen=100)
    assert (packets.payload_bytes[0], packets.wire_bytes[0]) == (20_000, len(frame))


@pytest.mark.parametrize("offset", [0, 4, 15])
def test_a_data_offset_out_of_range_stays_inside_the_segment(tmp_path: Path, offset: int) -> None:
    frame = bytearray(tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4))
    frame[46] = offset << 4
    packets = read_frames(tmp_path, bytes(frame), tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4))
    assert packets.payload_bytes.tolist() == [0 if offset > 5 else 12, 0]
    assert packets.damage == Damage(cut_headers=int(offset > 5))


@pytest.mark.parametrize("first", [0x44, 0x65, 0x00])
def test_what_is_no_ipv4_header_is_left_alone(tmp_path: Path, first: int) -> None:
    frame = bytearray(tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4))
    frame[14] = first
    packets = read_frames(tmp_path, bytes(frame))
    assert (packets.protocol[0], packets.ip_version[0], packets.src_ip[0], packets.sport[0]) == (0, 0, 0, 0)


def test_padding_behind_a_short_datagram_is_no_header(tmp_path: Path) -> None:
    """A datagram of 24 bytes has no room for TCP's header, however much follows it in the frame."""
    frame = bytearray(tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4))
    frame[16:18] = struct.pack(">H", 24)
    packets = read_frames(tmp_path, bytes(frame))
    assert (packets.protocol[0], packets.sport[0], packets.payload_bytes[0]) == (6, 0, 0)
    assert packets.damage == Damage()


def test_tagged_and_untagged_frames_of_one_file_keep_their_order(tmp_path: Path) -> None:
    chance = np.random.default_rng(4)
    tags, ports = chance.integers(0, 4, 300), chance.integers(1, 2**16, 300)
    frames = []
    for count, port in zip(tags, ports):
        frame = Ether()
        for depth in range(count):
            frame = frame / Dot1Q(vlan=100 + depth)
        frames.append(bytes(frame / IP() / TCP(sport=int(port), flags="A")))
    packets = read_frames(tmp_path, *frames)
    assert np.array_equal(packets.sport, ports)
    assert np.array_equal(packets.vlan, np.where(tags > 0, 99 + tags, 0))
    assert (packets.flags == ACK).all()


@pytest.mark.parametrize(("magic", "order"), [(0xA1B2CD34, "<"), (0xA1B2CD34, ">")])
def test_the_longer_record_headers_of_old_linux_tools(tmp_path: Path, magic: int, order: str) -> None:
    frame = tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4, 50)
    record = struct.pack(order + "IIII", 7, 9, len(frame), len(frame)) + bytes(8) + frame
    path = tmp_path / "old.pcap"
    path.write_bytes(struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 9999, 1) + record * 40)
    packets = read_capture(path)
    assert packets.sport.tolist() == [5] * 40
    assert set(packets.time_ns) == {7_000_009_000}


def test_a_check_sequence_that_the_header_tells_is_not_counted(tmp_path: Path) -> None:
    four_bytes = 2 << 28 | 1 << 26
    packets = read_frames(tmp_path, tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4) + bytes(4), link_type=four_bytes | 1)
    assert (packets.wire_bytes[0], packets.sport[0]) == (66, 5)


# --- damage in the middle


def test_reading_goes_on_where_records_surely_begin_again(tmp_path: Path) -> None:
    frames = [tcp_frame("1.2.3.4:5", "6.7.8.9:10", n, 4, n) for n in range(40)]
    records = [pcap_bytes([(T0_NS + n, frame)], snaplen=9999)[24:] for n, frame in enumerate(frames)]
    records[9] = records[9][:8] + b"\xff\xff\xff\x7f" + records[9][12:]
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([]) + b"".join(records))
    packets = read_capture(path)
    assert packets.seq.tolist() == [n for n in range(40) if n != 9]
    assert packets.damage == Damage(garbage_bytes=len(records[9]))


def test_zeros_are_no_records(tmp_path: Path) -> None:
    """Room that a machine kept for a file when it went down."""
    frame = tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4, 50)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes([(T0_NS, frame)] * 3) + bytes(5000))
    packets = read_capture(path)
    assert (len(packets), packets.truncated, packets.damage.garbage_bytes) == (3, True, 5000)


def test_packets_without_bytes_are_kept_and_counted(tmp_path: Path) -> None:
    packets = read_frames(tmp_path, b"", tcp_frame("1.2.3.4:5", "6.7.8.9:10", 3, 4), b"")
    assert packets.captured_bytes.tolist() == [0, 66, 0]
    assert packets.damage == Damage(empty=2)
