"""Frames into capture files of every form that the reader takes, and small captures back into frames.

Written for tests alone, from the formats' own documents (pcap: savefile(5); pcapng: draft-ietf-opsawg-pcapng; cooked
frames: LINKTYPE_LINUX_SLL and LINKTYPE_LINUX_SLL2 of tcpdump.org): what the project reads is not written by what reads
it.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

ETHERNET, NULL, RAW, SLL, SLL2 = 1, 0, 101, 113, 276
LINKS = (ETHERNET, NULL, RAW, SLL, SLL2)
ORDERS = ("<", ">")
_ETHERNET_BYTES = 14
_IP_FAMILIES = {b"\x08\x00": 2, b"\x86\xdd": 30}  # of BSD's null link type
_SECTION, _INTERFACE, _SIMPLE, _PACKET = 0x0A0D0D0A, 1, 3, 6


@dataclass(frozen=True)
class Frame:
    """One frame: time in ns since the epoch, bytes on the wire, the bytes that were kept, and its interface."""

    time_ns: int
    wire_bytes: int
    data: bytes
    interface: int = 0


def frames_of(path: Path) -> list[Frame]:
    """The frames of a golden capture: a little-endian pcap of Ethernet in nanoseconds, packed or not."""
    content = path.read_bytes()
    data = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    magic, *_, link = struct.unpack_from("<IHHiIII", data)
    if (magic, link) != (0xA1B23C4D, ETHERNET):
        raise ValueError(f"{path}: no nanosecond pcap of Ethernet")
    frames, offset = [], 24
    while offset < len(data):
        seconds, fraction, kept, wire = struct.unpack_from("<IIII", data, offset)
        frames.append(Frame(seconds * 10**9 + fraction, wire, data[offset + 16 : offset + 16 + kept]))
        offset += 16 + kept
    return frames


def linked(data: bytes, link: int) -> bytes:
    """An Ethernet frame as another link type shows it."""
    kind, rest = data[12:14], data[_ETHERNET_BYTES:]
    if link == NULL:
        return struct.pack("<I", _IP_FAMILIES.get(kind, 0)) + rest
    if link == RAW:
        return rest
    if link == SLL:
        return struct.pack("!HHH", 0, 1, 6) + data[6:12] + b"\0\0" + kind + rest
    if link == SLL2:
        return kind + struct.pack("!HIHBB", 0, 2, 1, 0, 6) + data[6:12] + b"\0\0" + rest
    return data


def pcap(frames: Sequence[Frame], order: str = "<", nanoseconds: bool = True, link: int = ETHERNET) -> bytes:
    """A classic capture file."""
    unit_ns = 1 if nanoseconds else 1000
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
    for frame in frames:
        data = linked(frame.data, link)
        seconds, rest_ns = divmod(frame.time_ns, 10**9)
        wire = max(frame.wire_bytes - len(frame.data) + len(data), 0) & 0xFFFFFFFF
        out += [struct.pack(order + "IIII", seconds & 0xFFFFFFFF, rest_ns // unit_ns, len(data), wire), data]
    return b"".join(out)


def pcapng(
    frames: Sequence[Frame], order: str = "<", resolution: int = 9, link: int = ETHERNET, interfaces: int = 1
) -> bytes:
    """A pcapng of one section; `resolution`: if_tsresol as it stands in the file (9: ns, 0x80 | n: 2^-n s)."""
    out = [_block(order, _SECTION, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    option = struct.pack(order + "HHBxxx", 9, 1, resolution) + bytes(4)
    out += [_block(order, _INTERFACE, struct.pack(order + "HHI", link, 0, 0) + option)] * interfaces
    ticks = 1 << (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    for frame in frames:
        data = linked(frame.data, link)
        time = frame.time_ns * ticks // 10**9 & (1 << 64) - 1
        fields = (frame.interface % interfaces, time >> 32, time & 0xFFFFFFFF, len(data), frame.wire_bytes & 0xFFFFFFFF)
        out.append(_block(order, _PACKET, struct.pack(order + "IIIII", *fields) + data + bytes(-len(data) % 4)))
    return b"".join(out)


def simple(frames: Sequence[Frame], order: str = "<", link: int = ETHERNET) -> bytes:
    """A pcapng of simple packet blocks, which have no times."""
    out = [_block(order, _SECTION, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out.append(_block(order, _INTERFACE, struct.pack(order + "HHI", link, 0, 1 << 16)))
    for frame in frames:
        data = linked(frame.data, link)
        out.append(_block(order, _SIMPLE, struct.pack(order + "I", len(data)) + data + bytes(-len(data) % 4)))
    return b"".join(out)


def _block(order: str, kind: int, body: bytes) -> bytes:
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def packed(data: bytes, how: str) -> bytes:
    """gzip, zstd, or as it is."""
    if how == "gzip":
        return gzip.compress(data, 1, mtime=0)
    return zstandard.compress(data, 1) if how == "zstd" else data
