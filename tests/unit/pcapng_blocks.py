"""pcapng files by hand, block by block."""

from __future__ import annotations

import struct

SECTION, INTERFACE, OLD_PACKET, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
MICROSECONDS, NANOSECONDS = 6, 9


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Any block: its type, its length, its body padded to 32 bits, its length again."""
    padded = body + bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(padded))
    return struct.pack(order + "I", kind) + length + padded + length


def section(order: str = "<", options: bytes = b"") -> bytes:
    """A section header of unknown section length."""
    return block(SECTION, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(
    link_type: int = 1, resolution: int | None = None, offset_s: int | None = None, order: str = "<", fcs: int = 0
) -> bytes:
    """An interface description; without a resolution it counts microseconds."""
    options = option(2, b"leaf1-eth1", order)
    options += option(9, bytes([resolution]), order) if resolution is not None else b""
    options += option(13, bytes([fcs]), order) if fcs else b""
    options += option(14, struct.pack(order + "q", offset_s), order) if offset_s is not None else b""
    return block(INTERFACE, struct.pack(order + "HHI", link_type, 0, 0) + options + option(0, b"", order), order)


def enhanced(
    units: int, frame: bytes, number: int = 0, order: str = "<", wire: int | None = None, options: bytes = b""
) -> bytes:
    """A packet of an interface, at a time in that interface's units."""
    lengths = (len(frame), len(frame) if wire is None else wire)
    head = struct.pack(order + "IIIII", number, units >> 32, units & 0xFFFFFFFF, *lengths)
    return block(ENHANCED, head + frame + bytes(-len(frame) % 4) + options, order)


def simple(frame: bytes, order: str = "<", wire: int | None = None) -> bytes:
    """A packet of the first interface without a time."""
    return block(SIMPLE, struct.pack(order + "I", len(frame) if wire is None else wire) + frame, order)


def old_packet(units: int, frame: bytes, number: int = 0, order: str = "<", drops: int = 0) -> bytes:
    """A packet of an interface, in the block that the enhanced one replaced."""
    times = struct.pack(order + "IIII", units >> 32, units & 0xFFFFFFFF, len(frame), len(frame))
    return block(OLD_PACKET, struct.pack(order + "HH", number, drops) + times + frame, order)
