"""Classic pcap (libpcap's savefile(5), version 2.4): both byte orders, microseconds and nanoseconds, and the form with
longer record headers that old Linux tools wrote (magic number a1b2cd34).

Record headers are walked once, because each one's place depends on the length of the one before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
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
    unsigned_at,
)
from analysis.capture.resuming import Plausible, resume
from analysis.capture.source import Window
from topologies.units import BadRequest

FILE_HEADER_BYTES = 24
_CAPTURED_AT = 8  # in a record's header
_RECORD_BYTES, _MODIFIED_RECORD_BYTES = 16, 24
_TIME_AND_LENGTHS = np.dtype(("u8", 2))
_SAME_DAY_S = 86_400
_FCS_IS_TOLD = 1 << 26  # in the link type field, whose top four bits then count the FCS in units of 16 bits


class Layout(NamedTuple):
    """What the file header says: struct byte order, nanoseconds per unit of a record's fraction, bytes of a record's
    header; link type, and bytes of frame check sequence at the end of the frames."""

    order: str
    fraction_ns: int
    header_bytes: int = _RECORD_BYTES
    link_type: int = UNKNOWN_LINK
    fcs_bytes: int = 0


MAGICS = {
    b"\xd4\xc3\xb2\xa1": Layout("<", 1000),
    b"\xa1\xb2\xc3\xd4": Layout(">", 1000),
    b"\x4d\x3c\xb2\xa1": Layout("<", 1),
    b"\xa1\xb2\x3c\x4d": Layout(">", 1),
    b"\x34\xcd\xb2\xa1": Layout("<", 1000, _MODIFIED_RECORD_BYTES),
    b"\xa1\xb2\xcd\x34": Layout(">", 1000, _MODIFIED_RECORD_BYTES),
}


def batches(window: Window, ending: Ending) -> Iterator[Records]:
    """The records of a file whose window stands at its first byte, one batch for each window, valid until the next is
    asked for; how it ended is noted in `ending`.

    Raises BadRequest, naming the file, when it ends inside its header.
    """
    if not window.has(FILE_HEADER_BYTES):
        had = f"ends after {len(window)} bytes, inside the pcap file header of {FILE_HEADER_BYTES}"
        raise BadRequest(f"{window.source.name}: {had}")
    layout = _file_layout(bytes(window.data[window.at : window.at + FILE_HEADER_BYTES]))
    window.at += FILE_HEADER_BYTES
    last_s = None
    while True:
        walk = _walk(window, layout)
        window.at = walk.at
        if len(walk.places):
            records = _records(window.array, walk.places, layout)
            last_s = int(records.time_ns[-1]) // 1_000_000_000
            yield records
        if walk.is_over:
            if last_s is None or not resume(window, _plausible(layout, last_s), ending):
                ending.is_truncated = True
                return
        elif not window.advance():
            ending.is_truncated |= len(window) > 0
            return


def _file_layout(header: bytes) -> Layout:
    layout = MAGICS[header[:4]]
    told = struct.unpack(layout.order + "I", header[20:24])[0]
    return layout._replace(link_type=told & 0xFFFF, fcs_bytes=(told >> 28) * 2 if told & _FCS_IS_TOLD else 0)


def _walk(window: Window, layout: Layout) -> Walk:
    """The whole records of the window from `at` on. The loop does no more than it must; lengths are looked at after."""
    data, at, end, header_bytes = window.data, window.at, window.end, layout.header_bytes
    captured_at, last = unsigned_at(layout.order).unpack_from, end - header_bytes
    places, before, alike = Places(), -1, 0
    add = places.add
    while at <= last:
        (captured,) = captured_at(data, at + _CAPTURED_AT)
        add(at)
        at += header_bytes + captured
        if captured != before:
            before, alike = captured, 0
            continue
        alike += 1
        if alike == FEW_ALIKE:
            at, alike = places.add_run(data, at, end, header_bytes + captured, ((_CAPTURED_AT, 4),)), 0
    found = places.all()
    lengths = np.diff(found, append=at)
    bad = lengths > header_bytes + LARGEST_RECORD_BYTES
    bad |= _are_nothing(window.array, found, lengths == header_bytes)
    return Walk(found, at).until(bad).whole(end)


def _are_nothing(data: np.ndarray, places: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """Which records (n,) of those that are empty are zeros: room that was kept for a file, and not used."""
    nothing = empty.copy()
    nothing[empty] = (gather(data, places[empty], _TIME_AND_LENGTHS) == 0).all(axis=1)
    return nothing


def _records(data: np.ndarray, places: np.ndarray, layout: Layout) -> Records:
    record = gather(data, places, np.dtype((layout.order + "u4", 4))).astype(np.int64)
    return Records(
        data=data,
        begin=places + layout.header_bytes,
        captured=record[:, 2],
        wire_bytes=np.maximum(record[:, 3] - layout.fcs_bytes, 0),
        time_ns=record[:, 0] * 1_000_000_000 + record[:, 1] * layout.fraction_ns,
        interface=np.zeros(len(places), np.uint16),
        link_type=layout.link_type,
    )


def _plausible(layout: Layout, last_s: int) -> Plausible:
    """Headers of records of about the time `last_s` that have not more captured than there was."""

    def may_begin(words: np.ndarray) -> np.ndarray:
        return np.abs(words.astype(np.int64) - last_s) <= _SAME_DAY_S

    def which(data: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        header = gather(data, at, np.dtype((layout.order + "u4", 4))).astype(np.int64)
        seconds, fraction, captured, wire_bytes = header.T
        sound = (np.abs(seconds - last_s) <= _SAME_DAY_S) & (fraction * layout.fraction_ns < 1_000_000_000)
        sound &= (captured > 0) & (captured <= LARGEST_RECORD_BYTES) & (captured <= wire_bytes)
        return sound, layout.header_bytes + captured

    return Plausible(layout.order, may_begin, which, layout.header_bytes)
