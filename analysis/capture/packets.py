"""The packets of captures as columns, and the numbers of the protocols that they name."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

TCP, UDP = 6, 17
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80

NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3  # the ECN field (RFC 3168)
ROCE_PORT = 4791
ACKNOWLEDGE, CNP = 0x11, 0x81  # BTH opcodes
ACK_SYNDROME, RNR_SYNDROME, NAK_SYNDROME = 0x00, 0x20, 0x60  # AETH: its upper three bits
SEQUENCE_ERROR = 0x60  # AETH: the NAK of a gap in the packet sequence
SYNDROME_KIND = 0xE0
PAUSE, PFC = 0x0001, 0x0101  # MAC control opcodes
PAUSE_CLASSES = 8
NO_SCALE = 255  # of window_scale: the option was not there
FIRST_IPV6 = 1 << 32  # numbers of addresses from here on are places in the address table


@dataclass(frozen=True)
class Damage:
    """What is wrong with a capture, counted; all zero for a sound one.

    truncated: the file ends inside a record, which is left out; foreign_link: packets of a link type that is not read;
    cut_headers: packets captured shorter than their headers; empty: records of no bytes; backwards: packets whose time
    lies before that of the packet before them (on the same interface); garbage_bytes: bytes between records that are
    no record; untimed: packets for which the file has no time, so that they have that of the packet before them.
    """

    truncated: bool = False
    foreign_link: int = 0
    cut_headers: int = 0
    empty: int = 0
    backwards: int = 0
    garbage_bytes: int = 0
    untimed: int = 0

    def __add__(self, other: Damage) -> Damage:
        return Damage(
            self.truncated or other.truncated,
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)[1:]),
        )


@dataclass(frozen=True, eq=False)
class Packets:
    """The packets of one capture in file order: columns of equal length (n,), one entry per packet.

    number is the packet's place in the file, from 1 as Wireshark counts; time_ns since the epoch; wire_bytes without
    FCS, captured_bytes what the file has of them; interface that of a pcapng; src_mac as a number; vlan the inner-most
    tag's 12 bits. ip_version 4 or 6; src_ip and dst_ip are numbers: an IPv4 address itself, or FIRST_IPV6 and the place
    in `ipv6` (16 bytes each). ip_id of IPv4; is_fragment: not the first fragment of a datagram, so that no ports are
    known; ecn and dscp (RFC 3168, RFC 2474); protocol behind IPv6's extension headers. sport, dport of TCP and UDP.
    Of TCP the fields of RFC 9293, window_scale (NO_SCALE: none) and mss of a SYN, timestamps of RFC 7323, and of RFC
    2018 the number of SACK blocks and the edges of the first two (n, 4: left, right, left, right). Of RoCEv2 the
    opcode, destination queue pair, packet sequence number and acknowledge request of its BTH, and the syndrome of its
    AETH. payload_bytes: of TCP, of UDP, or of a RoCEv2 packet on a reliable connection, as the headers tell, whatever
    was captured. mac_control is the opcode of a MAC control frame (PAUSE or PFC), pause_classes the bits of the classes
    that it tells, all of them for PAUSE, and pause_quanta (n, 8) each class's. A field that a packet lacks, or that was
    not captured, is 0; protocol is 0 for anything but IP.
    """

    number: np.ndarray
    time_ns: np.ndarray
    wire_bytes: np.ndarray
    captured_bytes: np.ndarray
    interface: np.ndarray
    src_mac: np.ndarray
    vlan: np.ndarray
    ip_version: np.ndarray
    protocol: np.ndarray
    payload_bytes: np.ndarray
    src_ip: np.ndarray
    dst_ip: np.ndarray
    ip_id: np.ndarray
    is_fragment: np.ndarray
    ttl: np.ndarray
    ecn: np.ndarray
    dscp: np.ndarray
    sport: np.ndarray
    dport: np.ndarray
    seq: np.ndarray
    ack: np.ndarray
    flags: np.ndarray
    window: np.ndarray
    window_scale: np.ndarray
    mss: np.ndarray
    has_timestamps: np.ndarray
    timestamp_value: np.ndarray
    timestamp_echo: np.ndarray
    sack_blocks: np.ndarray
    sack_edges: np.ndarray
    opcode: np.ndarray
    qpn: np.ndarray
    psn: np.ndarray
    ack_request: np.ndarray
    syndrome: np.ndarray
    mac_control: np.ndarray
    pause_classes: np.ndarray
    pause_quanta: np.ndarray
    ipv6: Sequence[bytes] = ()
    damage: Damage = field(default_factory=Damage)

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def truncated(self) -> bool:
        """Whether the file ends inside a record."""
        return self.damage.truncated

    @property
    def is_roce(self) -> np.ndarray:
        """Which packets (n,) are RoCEv2's."""
        return (self.protocol == UDP) & (self.dport == ROCE_PORT)

    def address(self, number: int) -> str:
        """An address in words: "10.0.0.1", "fe80::1"."""
        if number < FIRST_IPV6:
            return str(ipaddress.IPv4Address(int(number)))
        return str(ipaddress.IPv6Address(self.ipv6[number - FIRST_IPV6]))

    def endpoint(self, number: int, port: int) -> str:
        """An address and a port, or queue pair, in words: "10.0.0.1:5000", "[fe80::1]:5000" (RFC 3986)."""
        return f"{self.host(number)}:{port}"

    def host(self, number: int) -> str:
        """An address as an endpoint has it in front of its port: "10.0.0.1", "[fe80::1]"."""
        address = self.address(number)
        return f"[{address}]" if number >= FIRST_IPV6 else address

    def select(self, which: np.ndarray | slice) -> Packets:
        """The packets that a boolean mask (n,), an index array or a slice picks, in its order."""
        return replace(self, **{name: getattr(self, name)[which] for name in COLUMNS})


COLUMNS = tuple(each.name for each in fields(Packets) if each.name not in ("ipv6", "damage"))
DTYPES = {
    **dict.fromkeys(COLUMNS, np.uint32),
    **dict.fromkeys(("number", "time_ns", "wire_bytes", "payload_bytes", "src_mac", "src_ip", "dst_ip"), np.int64),
    **dict.fromkeys(("ip_version", "protocol", "ttl", "ecn", "dscp", "flags", "sack_blocks"), np.uint8),
    **dict.fromkeys(("opcode", "syndrome", "pause_classes", "window_scale"), np.uint8),
    **dict.fromkeys(("interface", "vlan", "sport", "dport", "window", "mss", "mac_control", "pause_quanta"), np.uint16),
    **dict.fromkeys(("is_fragment", "has_timestamps", "ack_request"), np.bool_),
}
WIDTHS = {"pause_quanta": (PAUSE_CLASSES,), "sack_edges": (4,)}  # what a packet has several of


def empty_columns(count: int) -> dict[str, np.ndarray]:
    """Columns of `count` packets that have nothing yet."""
    columns = {name: np.zeros((count, *WIDTHS.get(name, ())), dtype) for name, dtype in DTYPES.items()}
    columns["window_scale"].fill(NO_SCALE)
    return columns


def joined(parts: Iterable[Packets]) -> Packets:
    """Parts of one capture as one, in their order; the last part's address table must hold those of all."""
    found = list(parts)
    columns = {name: np.concatenate([getattr(each, name) for each in found]) for name in COLUMNS}
    return Packets(**columns, ipv6=found[-1].ipv6, damage=sum((each.damage for each in found), Damage()))
