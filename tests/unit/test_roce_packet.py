"""RoCEv2 packets as scapy reads and builds them, and the filter as the kernel runs it."""

from __future__ import annotations

import ctypes
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from controller.roce_packet import (
    ACKNOWLEDGE,
    CE,
    CNP,
    CNP_BYTES,
    HEADER_BYTES,
    RocePacket,
    cnp,
    congestion_filter,
    icrc,
    parse,
)

WRITE_MIDDLE, READ_RESPONSE = 0x07, 0x0E
MARKED = RocePacket(
    destination_mac=bytes.fromhex("000000000001"),
    source_mac=bytes.fromhex("02fffffffffe"),
    source_ip=socket.inet_aton("10.1.2.3"),
    destination_ip=socket.inet_aton("10.0.1.1"),
    source_port=51234,
    dscp=26,
    ecn=CE,
    opcode=WRITE_MIDDLE,
    becn=False,
    queue_pair=17,
)
PACKETS = st.builds(
    RocePacket,
    destination_mac=st.binary(min_size=6, max_size=6),
    source_mac=st.binary(min_size=6, max_size=6),
    source_ip=st.binary(min_size=4, max_size=4),
    destination_ip=st.binary(min_size=4, max_size=4),
    source_port=st.integers(0, 65535),
    dscp=st.integers(0, 63),
    ecn=st.integers(0, 3),
    opcode=st.integers(0, 255),
    becn=st.booleans(),
    queue_pair=st.integers(0, 0xFFFFFF),
)


def frame(packet: RocePacket, payload: bytes = bytes(64)) -> bytes:
    """As scapy builds it, with its ICRC."""
    ethernet = Ether(dst=packet.destination_mac.hex(":"), src=packet.source_mac.hex(":"), type=0x0800)
    ip = IP(
        src=socket.inet_ntoa(packet.source_ip),
        dst=socket.inet_ntoa(packet.destination_ip),
        tos=packet.dscp << 2 | packet.ecn,
        flags="DF",
    )
    bth = BTH(opcode=packet.opcode, becn=int(packet.becn), dqpn=packet.queue_pair, psn=0x123456, pkey=0xFFFF)
    return bytes(ethernet / ip / UDP(sport=packet.source_port, dport=4791, chksum=0) / bth / Raw(payload))


# --- parse


@given(PACKETS)
def test_what_scapy_builds_is_read(packet: RocePacket) -> None:
    assert parse(frame(packet)) == packet
    assert parse(frame(packet)[:HEADER_BYTES]) == packet


def changed(offset: int, value: int) -> bytes:
    data = bytearray(frame(MARKED))
    data[offset] = value
    return bytes(data)


NOT_ROCE = {
    "cut short": frame(MARKED)[: HEADER_BYTES - 1],
    "not IPv4": changed(12, 0x86),
    "with IP options": changed(14, 0x46),
    "TCP": changed(23, 6),
    "another port": changed(37, 0xB8),
    "a first fragment": changed(20, 0x20),
    "a later fragment": changed(21, 1),
}


@pytest.mark.parametrize("data", NOT_ROCE.values(), ids=NOT_ROCE.keys())
def test_what_is_not_roce_is_not_read(data: bytes) -> None:
    assert parse(data) is None


# --- CNP


@given(PACKETS, st.integers(0, 0xFFFFFF))
def test_a_cnp_goes_back_to_the_sender_in_the_control_class(packet: RocePacket, queue_pair: int) -> None:
    answer = cnp(packet, queue_pair)
    assert len(answer) == CNP_BYTES
    assert parse(answer) == RocePacket(
        destination_mac=packet.source_mac,
        source_mac=packet.destination_mac,
        source_ip=packet.destination_ip,
        destination_ip=packet.source_ip,
        source_port=packet.source_port,
        dscp=48,
        ecn=0,
        opcode=CNP,
        becn=True,
        queue_pair=queue_pair,
    )


@given(PACKETS, st.integers(0, 0xFFFFFF))
def test_scapy_computes_the_same_cnp(packet: RocePacket, queue_pair: int) -> None:
    """Lengths, IP checksum and ICRC are left to scapy to fill in."""
    ethernet = Ether(dst=packet.source_mac.hex(":"), src=packet.destination_mac.hex(":"), type=0x0800)
    ip = IP(
        src=socket.inet_ntoa(packet.destination_ip),
        dst=socket.inet_ntoa(packet.source_ip),
        tos=48 << 2,
        id=0,
        flags="DF",
        ttl=64,
    )
    udp = UDP(sport=packet.source_port, dport=4791, chksum=0)
    bth = BTH(opcode=0x81, becn=1, dqpn=queue_pair, pkey=0xFFFF)
    assert cnp(packet, queue_pair) == bytes(ethernet / ip / udp / bth / Raw(bytes(16)))


@given(PACKETS, st.binary(max_size=100))
def test_the_icrc_of_any_packet_is_scapys(packet: RocePacket, payload: bytes) -> None:
    data = frame(packet, payload)
    assert icrc(data[14:-4]) == data[-4:]


@given(st.integers(0, 255), st.integers(0, 255), st.binary(min_size=2, max_size=2), st.integers(0, 255))
def test_the_icrc_bears_what_changes_on_the_way(tos: int, ttl: int, checksum: bytes, notification: int) -> None:
    before = bytearray(frame(MARKED)[14:-4])
    after = bytearray(before)
    after[1], after[8], after[10:12], after[26:28], after[32] = tos, ttl, checksum, checksum, notification
    assert icrc(bytes(after)) == icrc(bytes(before))


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_the_cnp(tmp_path: Path) -> None:
    wrpcap(str(tmp_path / "cnp.pcap"), [Ether(cnp(MARKED, 0xABCDE))])
    names = ("opcode", "destqp", "p_key", "psn")
    fields = [*(f"infiniband.bth.{name}" for name in names), "ip.dsfield.dscp", "ip.dst", "ip.checksum.status"]
    words = ["-o", "ip.check_checksum:TRUE", "-T", "fields", *(word for field in fields for word in ("-e", field))]
    done = subprocess.run(
        ["tshark", "-r", str(tmp_path / "cnp.pcap"), *words], capture_output=True, text=True, check=True
    )
    *numbers, dscp, destination, checksum = done.stdout.strip().split("\t")
    assert [int(each, 0) for each in numbers] == [0x81, 0xABCDE, 0xFFFF, 0]
    assert (dscp, destination, checksum) == ("48", "10.1.2.3", "1")


# --- the filter, run by the kernel over datagrams that hold a frame each


class Filtered:
    """A socket behind the filter."""

    def __init__(self, muted: Iterable[int]) -> None:
        self._sending, self._receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._receiving.setblocking(False)
        self.mute(muted)

    def mute(self, muted: Iterable[int]) -> None:
        program = congestion_filter(muted)
        held = ctypes.create_string_buffer(program, len(program))
        fprog = struct.pack("HL", len(program) // 8, ctypes.addressof(held))
        self._receiving.setsockopt(socket.SOL_SOCKET, 26, fprog)  # SO_ATTACH_FILTER

    def passed(self, data: bytes) -> bytes:
        """What the socket gets of a frame: nothing when it does not pass."""
        try:
            self._sending.send(data)  # what a filter refuses, a UNIX socket does not take
        except PermissionError:
            return b""
        try:
            return self._receiving.recv(1 << 16)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self._sending.close()
        self._receiving.close()


@pytest.fixture
def filtered() -> Iterator[Filtered]:
    made = Filtered([])
    yield made
    made.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    PACKETS,
    st.sampled_from([CNP, ACKNOWLEDGE, WRITE_MIDDLE, READ_RESPONSE, None]),
    st.sampled_from([CE, None]),
    st.lists(st.integers(0, 0xFFFFFF), max_size=300),
    st.booleans(),
)
def test_the_filter_passes_the_headers_of_congestion_alone(
    filtered: Filtered, packet: RocePacket, opcode: int | None, ecn: int | None, muted: list[int], with_own: bool
) -> None:
    fields = {**vars(packet)}
    fields.update({} if opcode is None else {"opcode": opcode}, **({} if ecn is None else {"ecn": ecn}))
    packet = RocePacket(**fields)
    filtered.mute(muted := muted + [packet.queue_pair] * with_own)
    is_marked_data = packet.ecn == CE and packet.opcode != ACKNOWLEDGE and packet.queue_pair not in muted
    passes = packet.opcode == CNP or is_marked_data
    assert filtered.passed(frame(packet)) == (frame(packet)[:HEADER_BYTES] if passes else b"")


@pytest.mark.parametrize("what", ["with IP options", "TCP", "another port", "a first fragment", "a later fragment"])
def test_what_is_not_roce_does_not_pass(filtered: Filtered, what: str) -> None:
    assert filtered.passed(NOT_ROCE[what]) == b""


def test_cnps_pass_whatever_is_muted(filtered: Filtered) -> None:
    filtered.mute([17, 18])
    answer = cnp(MARKED, 17)
    assert filtered.passed(answer) == answer[:HEADER_BYTES]
    assert filtered.passed(frame(MARKED)) == b""
    filtered.mute([18])
    assert filtered.passed(frame(MARKED)) == frame(MARKED)[:HEADER_BYTES]


def test_more_queue_pairs_than_a_filter_may_have_instructions(filtered: Filtered) -> None:
    filtered.mute(range(1, 10_000))
    assert filtered.passed(frame(MARKED)) == b""
