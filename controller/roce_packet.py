"""RoCEv2 on the wire (pure): what a NIC's congestion control reads of a captured frame, the CNPs that it answers with,
and the filters that show it nothing else.

 0          14                34            42         43       44     46           47    50   54
 +----------+-----------------+-------------+----------+--------+------+------------+-----+----+ - - - -
 | Ethernet | IPv4, 20 bytes: | UDP, to     | BTH:     | flags  | PKey | FECN, BECN | QPN | PSN|
 |          | DSCP, ECN at 15 | 4791 at 36  | opcode   |        |      | (2 bits)   |     |    |
 +----------+-----------------+-------------+----------+--------+------+------------+-----+----+ - - - -

Sources: InfiniBand architecture specification, volume 1, section 9.2 (BTH), annex A17 (RoCEv2; A17.9.3: the CNP). As
everywhere in RoCEv2 over IPv4 there are no IP options. Classic BPF: linux/filter.h, linux/bpf_common.h.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from controller import bpf
from controller.bpf import NOTHING, instruction
from topologies.qdisc import CONTROL_DSCP

UDP_PORT = 4791
HEADER_BYTES = 54  # up to the end of the BTH
CNP_BYTES = HEADER_BYTES + 16 + 4  # and what A17 reserves, and the ICRC
CE = 3  # RFC 3168
CNP, ACKNOWLEDGE = 0x81, 0x11
_ETHERTYPE_IP, _WITHOUT_OPTIONS, _UDP, _TTL = 0x0800, 0x45, 17, 64
_DONT_FRAGMENT, _FRAGMENT = 0x4000, 0x3FFF  # the latter: more are to come, or it is not the first
_PKEY_DEFAULT, _BECN = 0xFFFF, 0x40
_ETHERNET = struct.Struct("!6s6sH")
_IP = struct.Struct("!BBHHHBBH4s4s")
_UDP_HEADER = struct.Struct("!HHHH")
_BTH = struct.Struct("!BBHII")


@dataclass(frozen=True)
class RocePacket:
    """What is read of a RoCEv2 frame; addresses as packed bytes, `queue_pair` the QPN that it is sent to."""

    destination_mac: bytes
    source_mac: bytes
    source_ip: bytes
    destination_ip: bytes
    source_port: int
    dscp: int
    ecn: int
    opcode: int
    becn: bool
    queue_pair: int


def parse(frame: bytes) -> RocePacket | None:
    """The fields of a captured Ethernet frame, which may be cut after its BTH; None when it is not RoCEv2 over IPv4."""
    if len(frame) < HEADER_BYTES:
        return None
    destination_mac, source_mac, ethertype = _ETHERNET.unpack_from(frame)
    version, tos, _, _, fragment, _, protocol, _, source_ip, destination_ip = _IP.unpack_from(frame, 14)
    source_port, port, _, _ = _UDP_HEADER.unpack_from(frame, 34)
    opcode, _, _, notification, _ = _BTH.unpack_from(frame, 42)
    told = (ethertype, version, protocol, port, fragment & _FRAGMENT)
    if told != (_ETHERTYPE_IP, _WITHOUT_OPTIONS, _UDP, UDP_PORT, 0):
        return None
    return RocePacket(
        destination_mac,
        source_mac,
        source_ip,
        destination_ip,
        source_port,
        tos >> 2,
        tos & 3,
        opcode,
        bool(notification >> 24 & _BECN),
        notification & 0xFFFFFF,
    )


def cnp(answered: RocePacket, queue_pair: int) -> bytes:
    """The CNP frame that goes back to who sent `answered`, for its queue pair of that number: to the MAC that the
    packet came from (the sender's own, or that of the last router), in the control class, and with the packet's own
    source port, so that CNPs spread over equal-cost paths as queue pairs do."""
    ethernet = _ETHERNET.pack(answered.source_mac, answered.destination_mac, _ETHERTYPE_IP)
    ip = _ip_header(answered.destination_ip, answered.source_ip, CNP_BYTES - _ETHERNET.size)
    length = CNP_BYTES - _ETHERNET.size - _IP.size
    udp = _UDP_HEADER.pack(answered.source_port, UDP_PORT, length, 0)  # no checksum: the ICRC covers more
    bth = _BTH.pack(CNP, 0, _PKEY_DEFAULT, _BECN << 24 | queue_pair, 0)
    packet = ip + udp + bth + bytes(16)
    return ethernet + packet + icrc(packet)


def _ip_header(source: bytes, destination: bytes, length: int) -> bytes:
    tos = CONTROL_DSCP << 2
    fields = (_WITHOUT_OPTIONS, tos, length, 0, _DONT_FRAGMENT, _TTL, _UDP)
    checksum = _checksum(_IP.pack(*fields, 0, source, destination))
    return _IP.pack(*fields, checksum, source, destination)


def _checksum(header: bytes) -> int:
    """The ones' complement sum of IPv4 (RFC 1071) over a header that holds 0 in its place."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def icrc(packet: bytes) -> bytes:
    """The invariant CRC of an IPv4 packet without it: of 64 ones in place of the LRH, then of the packet with ones for
    what may change on the way: TOS, TTL, both checksums, FECN, BECN and the bits behind them (annex A17)."""
    masked = bytearray(b"\xff" * 8 + packet)
    for start, end in ((1, 2), (8, 9), (10, 12), (26, 28), (32, 33)):
        masked[8 + start : 8 + end] = b"\xff" * (end - start)
    return zlib.crc32(masked).to_bytes(4, "little")


_MOST_MUTED = 2000  # two instructions each, of the 4,096 that a filter may have (BPF_MAXINSNS)
_HEADERS = instruction(bpf.RETURN, HEADER_BYTES)
# Of each line that compares, the jumps lead to the two returns at its end, or to what is added behind them.
_CONGESTION = b"".join(
    (
        instruction(bpf.LOAD_BYTE, 14),
        instruction(bpf.IF_EQUAL, _WITHOUT_OPTIONS, 0, 12),
        instruction(bpf.LOAD_BYTE, 23),
        instruction(bpf.IF_EQUAL, _UDP, 0, 10),
        instruction(bpf.LOAD_HALF, 20),
        instruction(bpf.IF_BITS, _FRAGMENT, 8, 0),
        instruction(bpf.LOAD_HALF, 36),
        instruction(bpf.IF_EQUAL, UDP_PORT, 0, 6),
        instruction(bpf.LOAD_BYTE, 42),
        instruction(bpf.IF_EQUAL, CNP, 5, 0),
        instruction(bpf.IF_EQUAL, ACKNOWLEDGE, 3, 0),
        instruction(bpf.LOAD_BYTE, 15),
        instruction(bpf.AND, CE),
        instruction(bpf.IF_EQUAL, CE, 2, 0),
        NOTHING,
        _HEADERS,
        instruction(bpf.LOAD_WORD, 46),
        instruction(bpf.AND, 0xFFFFFF),
    )
)


def congestion_filter(muted: Iterable[int]) -> bytes:
    """The program (struct sock_filter each) that passes the headers of CNPs, and of CE-marked RoCE packets to queue
    pairs that are not muted; for a packet socket bound to IPv4.

    Acknowledgements do not count, though A17 answers any packet: nothing that a CNP slows down sends them. Of more than
    2,000 muted queue pairs the rest is passed.
    """
    return (
        _CONGESTION
        + b"".join(instruction(bpf.IF_EQUAL, queue_pair, 0, 1) + NOTHING for queue_pair in islice(muted, _MOST_MUTED))
        + _HEADERS
    )
