"""pcapng (draft-ietf-opsawg-pcapng): sections of either byte order, any number of interfaces, enhanced, simple and
obsolete packet blocks; other blocks are passed over."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from analysis.capture.records import (
    FEW_ALIKE,
    LARGEST_RECORD_BYTES,
    UNKNOWN_LINK,
    Ending,
    Places,
    Records,
    Walk,
    gather,
)
from analysis.capture.resuming import Plausible, resume
from analysis.capture.source import Window
from analysis.capture.timestamps import MICROSECONDS, to_ns

MAGIC = b"\x0a\x0d\x0d\x0a"  # a section header's block type, the same in both byte orders
_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_SMALLEST_BLOCK_BYTES, _SMALLEST_SECTION_BYTES = 12, 28
_LARGEST_BLOCK_BYTES = LARGEST_RECORD_BYTES + (1 << 16)  # of one with a packet: its options and header are extra
# Type of a block with a packet -> what it has besides the frame.
_OVERHEAD_BYTES = {_ENHANCED: 32, _OLD_PACKET: 32, _SIMPLE: 16}
_MOST_INTERFACES = 65_535  # as many as the column tells apart
_OPTION_RESOLUTION, _OPTION_FCS, _OPTION_OFFSET = 9, 13, 14


class Interface(NamedTuple):
    """What packets were captured at: link type, if_tsresol, if_tsoffset, and the bytes of frame check sequence."""

    link_type: int
    resolution: int = MICROSECONDS
    offset_s: int = 0
    fcs_bytes: int = 0


@dataclass
class _Section:
    """The section that is being read: its byte order, and the interfaces of the file, its own from `first` on."""

    order: str
    first: int = 0
    interfaces: list[Interface] = field(default_factory=list)


def batches(window: Window, ending: Ending) -> Iterator[Records]:
    """The records of a file whose window stands at its first byte, a batch or more for each window, each valid until
    the next is asked for; how the file ended is noted in `ending`."""
    section = _Section("<")
    while True:
        walk = _walk(window, section.order)
        window.at = walk.at
        if len(walk.places):
            yield _records(window.array, walk.places, section)
        if walk.is_over:
            if not _pass_other_block(window, section) and not resume(window, _plausible(section.order), ending):
                ending.is_truncated = True
                return
        elif not window.advance():
            ending.is_truncated |= len(window) > 0
            return


def _walk(window: Window, order: str) -> Walk:
    """The whole packets of the window from `at` on, up to what has to be looked at by itself. The loop does no more
    than it must; lengths are looked at after."""
    data, at, end, is_over = window.data, window.at, window.end, False
    block_at, last = struct.Struct(order + "II").unpack_from, end - 8
    places, before, alike = Places(), -1, 0
    add = places.add
    while at <= last:
        kind, length = block_at(data, at)
        if kind != _ENHANCED or length < _OVERHEAD_BYTES[_ENHANCED]:
            if kind not in _OVERHEAD_BYTES:
                is_over = not _can_be_passed(data, at, order, kind, length)
                if is_over or at + length > end:
                    break
                at += length
                continue
            if length < _OVERHEAD_BYTES[kind]:
                is_over = True
                break
        add(at)
        at += length
        if length != before:
            before, alike = length, 0
            continue
        alike += 1
        if alike == FEW_ALIKE:
            at, alike = places.add_run(data, at, end, length, ((0, 8), (length - 4, 4))), 0
    found = places.all()
    return Walk(found, at, is_over).until(_are_bad(window.array, found, order, end)).whole(end)


def _can_be_passed(data: bytearray, at: int, order: str, kind: int, length: int) -> bool:
    """Whether a block without a packet is short and sound, as far as it is here."""
    if kind in (_SECTION, _INTERFACE) or length % 4 or not _SMALLEST_BLOCK_BYTES <= length <= _LARGEST_BLOCK_BYTES:
        return False
    again = data[at + length - 4 : at + length]
    return len(again) < 4 or struct.unpack(order + "I", again)[0] == length


def _are_bad(data: np.ndarray, places: np.ndarray, order: str, end: int) -> np.ndarray:
    """Which blocks (n,) have an impossible length, or not the same one at their end as at their beginning."""
    word = np.dtype(order + "u4")
    length = gather(data, places + 4, word).astype(np.int64)
    again_at = places + length - 4
    again = gather(data, np.minimum(again_at, end), word)
    return (length > _LARGEST_BLOCK_BYTES) | (length % 4 > 0) | ((again_at <= end - 4) & (again != length))


def _pass_other_block(window: Window, section: _Section) -> bool:
    """Take in a section header or an interface, or pass over a large block; False where the file is damaged."""
    if not window.has(_SMALLEST_BLOCK_BYTES):
        return False
    head = bytes(window.data[window.at : window.at + _SMALLEST_BLOCK_BYTES])
    if head[:4] == MAGIC:
        if head[8:12] not in _ORDERS:
            return False
        section.order, section.first = _ORDERS[head[8:12]], len(section.interfaces)
    kind, length = struct.unpack(section.order + "II", head[:8])
    if length % 4 or length < (_SMALLEST_SECTION_BYTES if kind == _SECTION else _SMALLEST_BLOCK_BYTES):
        return False
    if kind in _OVERHEAD_BYTES:
        return False  # its own length is impossible, or not the same at its end
    if kind == _INTERFACE:
        return _take_interface(window, section, length)
    if length <= _LARGEST_BLOCK_BYTES and window.has(length):
        (again,) = struct.unpack_from(section.order + "I", window.data, window.at + length - 4)
        if again != length:
            return False
    return window.skip(length)


def _take_interface(window: Window, section: _Section, length: int) -> bool:
    if not 20 <= length <= _LARGEST_BLOCK_BYTES or not window.has(length):
        return False
    block = bytes(window.data[window.at : window.at + length])
    if block[-4:] != block[4:8]:
        return False
    if len(section.interfaces) < _MOST_INTERFACES:
        section.interfaces.append(_interface(block, section.order))
    return window.skip(length)


def _interface(block: bytes, order: str) -> Interface:
    """What an interface description block tells; options that make no sense are left out."""
    (link_type,) = struct.unpack_from(order + "H", block, 8)
    options = dict(_options(block[16:-4], order))
    resolution, offset, fcs = (options.get(code, b"") for code in (_OPTION_RESOLUTION, _OPTION_OFFSET, _OPTION_FCS))
    return Interface(
        link_type,
        resolution[0] if resolution else MICROSECONDS,
        struct.unpack(order + "q", offset)[0] if len(offset) == 8 else 0,
        fcs[0] if fcs else 0,
    )


def _options(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from(order + "HH", data, at)
        if code == 0 or at + 4 + length > len(data):
            return
        yield code, data[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4


def _records(data: np.ndarray, places: np.ndarray, section: _Section) -> Records:
    """The packets of blocks at `places`, of one section."""
    block = gather(data, places, np.dtype((section.order + "u4", 7))).astype(np.int64)
    kind = block[:, 0]
    is_simple = kind == _SIMPLE
    begin, room = places + 28, block[:, 1] - 32
    number, captured, wire_bytes = block[:, 2], block[:, 5], block[:, 6]
    if is_simple.any():
        begin, room = begin - 16 * is_simple, room + 16 * is_simple
        number, wire_bytes = np.where(is_simple, 0, number), np.where(is_simple, block[:, 2], wire_bytes)
        captured = np.where(is_simple, wire_bytes, captured)
    if (kind == _OLD_PACKET).any():
        short = gather(data, places + 8, np.dtype(section.order + "u2"))
        number = np.where(kind == _OLD_PACKET, short, number)
    units = block[:, 3].astype(np.uint64) << np.uint64(32) | block[:, 4].astype(np.uint64)
    interface, link_type, time_ns, fcs_bytes = _by_interface(number, units, section)
    return Records(
        data=data,
        begin=begin,
        captured=np.minimum(captured, room),
        wire_bytes=np.maximum(wire_bytes - fcs_bytes, 0),
        time_ns=time_ns,
        interface=interface.astype(np.uint16),
        link_type=link_type,
        is_untimed=is_simple if is_simple.any() else None,
    )


def _by_interface(
    number: np.ndarray, units: np.ndarray, section: _Section
) -> tuple[np.ndarray, int | np.ndarray, np.ndarray, int | np.ndarray]:
    """Interfaces as the file counts them, and link types, times and check sequences' bytes as these have them; of
    packets whose interface their section does not describe the link is unknown."""
    every = [*section.interfaces, Interface(UNKNOWN_LINK)]
    interface = np.minimum(number + section.first, len(every) - 1)
    found = np.unique(interface)
    if len(found) == 1:
        one = every[found[0]]
        return interface, one.link_type, to_ns(units, one.resolution, one.offset_s), one.fcs_bytes
    time_ns, link_type, fcs_bytes = (np.zeros(len(number), np.int64) for _ in range(3))
    for each in found:
        which, one = interface == each, every[each]
        time_ns[which] = to_ns(units[which], one.resolution, one.offset_s)
        link_type[which], fcs_bytes[which] = one.link_type, one.fcs_bytes
    return interface, link_type, time_ns, fcs_bytes


def _plausible(order: str) -> Plausible:
    """Blocks with a packet whose length is the same at both their ends."""
    word = np.dtype(order + "u4")

    def may_begin(words: np.ndarray) -> np.ndarray:
        return (words == _ENHANCED) | (words == _SIMPLE) | (words == _OLD_PACKET)

    def which(data: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        length = gather(data, at + 4, word).astype(np.int64)
        again = gather(data, np.clip(at + length - 4, 0, len(data) - 4), word)
        sound = may_begin(gather(data, at, word)) & (length >= 16) & (length <= _LARGEST_BLOCK_BYTES)
        return sound & (length % 4 == 0) & (again == length), length

    return Plausible(order, may_begin, which, header_bytes=8)
