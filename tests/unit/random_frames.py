"""Frames of every kind that the reader knows, built by scapy, and what of them has to be read."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from typing import Any

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_EOL, IPOption_NOP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
)
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

ETHERNET, COOKED, COOKED_2, NULL, LOOP = 1, 113, 276, 0, 108
RAW_IP = (12, 14, 101, 228, 229)
LINK_TYPES = (ETHERNET, COOKED, COOKED_2, NULL, LOOP, *RAW_IP)
ROCE_PORT, NO_SCALE = 4791, 255
_AF_INET, _AF_INET6 = 2, 30


@dataclass(frozen=True)
class Built:
    """A frame, and the columns' values: those that are not named are 0 (window_scale: 255)."""

    frame: bytes
    expected: dict[str, Any]


def build(chance: random.Random, link_type: int) -> Built:
    """A frame at random for a link type."""
    version = {228: 4, 229: 6}.get(link_type) or chance.choice((4, 6))
    expected: dict[str, Any] = {"ip_version": version}
    transport = _transport(chance, expected)
    network = _ipv4(chance, transport, expected) if version == 4 else _ipv6(chance, transport, expected)
    frame = bytes(_link(chance, link_type, version, network, expected))
    return Built(frame, {**expected, "wire_bytes": len(frame), "captured_bytes": len(frame)})


def _transport(chance: random.Random, expected: dict[str, Any]) -> Packet:
    size = chance.choice((0, 1, chance.randrange(1400)))
    kind = chance.choice(("tcp", "tcp", "tcp", "udp", "roce", "other"))
    if kind == "other":
        expected["protocol"] = 1
        return ICMP() / Raw(bytes(size))
    ports: dict[str, Any] = {
        "sport": chance.randrange(1, 2**16),
        "dport": chance.choice((80, chance.randrange(1, 4000))),
    }
    if kind == "tcp":
        expected.update(protocol=6, payload_bytes=size, **ports)
        return _tcp(chance, ports, expected) / Raw(bytes(size))
    if kind == "udp":
        expected.update(protocol=17, payload_bytes=size, **ports)
        return UDP(**ports) / Raw(bytes(size))
    expected.update(protocol=17, sport=ports["sport"], dport=ROCE_PORT)
    return UDP(sport=ports["sport"], dport=ROCE_PORT) / _roce(chance, size, expected)


def _tcp(chance: random.Random, ports: dict[str, Any], expected: dict[str, Any]) -> Packet:
    fields: dict[str, Any] = {name: chance.randrange(2**32) for name in ("seq", "ack")}
    flags, window = chance.randrange(256), chance.randrange(2**16)
    expected.update(fields, flags=flags, window=window)
    return TCP(**ports, **fields, flags=flags, window=window, options=_options(chance, bool(flags & 2), expected))


def _options(chance: random.Random, is_syn: bool, expected: dict[str, Any]) -> list[tuple[str, Any]]:
    """In any order, with fillers, of no more than 40 bytes."""
    options: list[tuple[str, Any]] = []
    if chance.random() < 0.7:
        pair = chance.randrange(2**32), chance.randrange(2**32)
        options.append(("Timestamp", pair))
        expected.update(has_timestamps=True, timestamp_value=pair[0], timestamp_echo=pair[1])
    if is_syn:
        mss, scale = chance.randrange(2**16), chance.randrange(15)
        options += [("MSS", mss), ("WScale", scale), ("SAckOK", b"")]
        expected.update(mss=mss, window_scale=scale)
    elif chance.random() < 0.5:
        blocks = chance.randrange(1, 4 if options else 5)
        edges = [chance.randrange(2**32) for _ in range(2 * blocks)]
        options.append(("SAck", tuple(edges)))
        expected.update(sack_blocks=blocks, sack_edges=[*edges, 0, 0][:4])
    if chance.random() < 0.5:
        chance.shuffle(options)
    return [("NOP", None)] * chance.choice((0, 2)) + options


def _roce(chance: random.Random, size: int, expected: dict[str, Any]) -> Packet:
    pad, opcode = -size % 4, chance.choice((7, 17, 129))
    qpn, psn, asks = chance.randrange(2**24), chance.randrange(2**24), chance.randrange(2)
    expected.update(opcode=opcode, qpn=qpn, psn=psn, ack_request=bool(asks))
    bth = BTH(opcode=opcode, dqpn=qpn, psn=psn, ackreq=asks, padcount=pad if opcode == 7 else 0)
    if opcode == 17:
        expected["syndrome"] = chance.randrange(256)
        return bth / AETH(syndrome=expected["syndrome"], msn=3)
    expected["payload_bytes"] = size if opcode == 7 else 0
    return bth / Raw(bytes(size + pad if opcode == 7 else 16))


def _class(chance: random.Random, expected: dict[str, Any]) -> int:
    dscp, ecn = chance.randrange(64), chance.randrange(4)
    expected.update(dscp=dscp, ecn=ecn)
    return dscp << 2 | ecn


def _later_fragment(expected: dict[str, Any]) -> Packet:
    """Not the first of its datagram: of what it carries only the protocol is known."""
    kept = ("ip_version", "protocol")
    for name in [each for each in expected if each not in kept]:
        del expected[name]
    expected["is_fragment"] = True
    return Raw(bytes(64))


def _ipv4(chance: random.Random, transport: Packet, expected: dict[str, Any]) -> Packet:
    offset = chance.choice((0, 0, 0, 0, 100))
    inner = _later_fragment(expected) if offset else transport
    ends = [chance.randrange(1, 2**32 - 1) for _ in range(2)]
    src, dst = (".".join(str(each >> shift & 255) for shift in (24, 16, 8, 0)) for each in ends)
    number, ttl = chance.randrange(2**16), chance.randrange(256)
    expected.update(src_ip=src, dst_ip=dst, ip_id=number, ttl=ttl)
    options = chance.choice(([], [], [IPOption_NOP(), IPOption_EOL()]))
    tos, proto = _class(chance, expected), expected["protocol"]
    header = IP(src=src, dst=dst, id=number, ttl=ttl, tos=tos, frag=offset, proto=proto, options=options)
    return header / inner


def _ipv6(chance: random.Random, transport: Packet, expected: dict[str, Any]) -> Packet:
    src, dst = (f"2001:db8::{chance.randrange(1, 2**16):x}" for _ in range(2))
    limit = chance.randrange(256)
    extensions: list[Packet] = []
    if chance.random() < 0.3:
        extensions.append(IPv6ExtHdrHopByHop(options=[PadN(optdata=bytes(chance.randrange(20)))]))
    if chance.random() < 0.3:
        extensions.append(IPv6ExtHdrRouting(addresses=["2001:db8::5"] * chance.randrange(3)))
    inner = transport
    if chance.random() < 0.3:
        offset = chance.choice((0, 9))
        extensions.append(IPv6ExtHdrFragment(offset=offset, m=1 if not offset else 0, id=7))
        inner = _later_fragment(expected) if offset else transport
    elif chance.random() < 0.3:
        extensions.append(IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))]))
    expected.update(src_ip=src, dst_ip=dst, ttl=limit)
    for each in extensions[-1:]:
        each.nh = expected["protocol"]
    first = {} if extensions else {"nh": expected["protocol"]}
    packet = IPv6(src=src, dst=dst, hlim=limit, tc=_class(chance, expected), **first)
    for each in (*extensions, inner):
        packet = packet / each
    return packet


def _link(chance: random.Random, link_type: int, version: int, network: Packet, expected: dict[str, Any]) -> Packet:
    if link_type in RAW_IP:
        return network
    ethertype = 0x0800 if version == 4 else 0x86DD
    mac = chance.randrange(2**40)
    src = ":".join(f"{mac >> shift & 255:02x}" for shift in range(40, -1, -8))
    if link_type in (NULL, LOOP):
        family = _AF_INET if version == 4 else _AF_INET6
        return Raw(struct.pack((chance.choice("<>") if link_type == NULL else ">") + "I", family)) / network
    expected["src_mac"] = mac
    if link_type == COOKED:
        return CookedLinux(lladdrlen=6, src=bytes.fromhex(src.replace(":", "")), proto=ethertype) / network
    if link_type == COOKED_2:
        return CookedLinuxV2(lladdrlen=6, src=bytes.fromhex(src.replace(":", "")), proto=ethertype) / network
    frame: Packet = Ether(src=src, dst="02:00:00:00:00:01")
    for depth in range(chance.choice((0, 0, 1, 2, 3))):
        expected["vlan"] = chance.randrange(2**12)
        frame = frame / (Dot1AD if depth == 0 and chance.random() < 0.5 else Dot1Q)(vlan=expected["vlan"])
    return frame / network
