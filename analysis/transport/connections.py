"""The TCP packets of a capture by connection and direction, whatever the capture holds.

A direction is what one endpoint sent to another during one connection. A SYN with another initial sequence number,
after its sender has sent something else, begins a new connection of the same two endpoints (RFC 9293, section 3.6.1).

Frames that were captured twice (analysis/transport/copies.py) are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.capture.packets import ACK, FIN, RST, SYN, TCP, Packets
from analysis.transport.copies import copies_among
from analysis.transport.sequences import differs, numbered, sorting

_WRITTEN_BY_SENDER = ("seq", "ack", "flags", "window", "payload_bytes", "timestamp_value", "timestamp_echo")


class Directions(NamedTuple):
    """rows: the packets' places in the capture, direction by direction (n,); begins: where each direction begins in
    them (k,); mate: the number of the direction the other way, -1 where nothing of it was captured; reuse: 0 for the
    first connection of two endpoints, 1 for the second, ...; copies: how many were left out."""

    rows: np.ndarray
    begins: np.ndarray
    mate: np.ndarray
    reuse: np.ndarray
    copies: np.ndarray


def directions_of(packets: Packets) -> Directions:
    """The directions of all connections; RST and what has no ports are left out."""
    rows = np.flatnonzero((packets.protocol == TCP) & (packets.flags & RST == 0) & (packets.sport > 0))
    addresses, ports = (packets.src_ip[rows], packets.dst_ip[rows]), (packets.sport[rows], packets.dport[rows])
    source, destination = numbered(np.concatenate(addresses) << 16 | np.concatenate(ports)).reshape(2, -1)
    is_back = source > destination
    low, high = np.where(is_back, destination, source), np.where(is_back, source, destination)
    pair = numbered(low * (int(high.max(initial=0)) + 1) + high)
    order = sorting(pair)
    rows, pair, is_back = rows[order], pair[order], is_back[order]
    reuse = _reuses(packets, rows, pair, is_back)
    connection = np.cumsum(differs(pair) | differs(reuse)) - 1
    side = connection * 2 + is_back
    order = sorting(side)
    return _without_copies(packets, rows[order], side[order], reuse[order])


def _reuses(packets: Packets, rows: np.ndarray, pair: np.ndarray, is_back: np.ndarray) -> np.ndarray:
    """The number (n,) of the connection, among those of the same two endpoints, that each of the rows belongs to."""
    numbers = np.zeros(len(rows), np.int64)
    syns = np.flatnonzero(packets.flags[rows] & SYN > 0)
    side = pair * 2 + is_back
    first = np.zeros(int(side.max(initial=-1)) + 1, np.int64)
    first[side[::-1]] = np.arange(len(rows))[::-1]
    opening = rows[first[side[syns]]]
    same = (packets.flags[opening] & SYN > 0) & (packets.seq[opening] == packets.seq[rows[syns]])
    begins = np.flatnonzero(differs(pair))
    for number in np.unique(pair[syns[~same]]).tolist():
        begin, end = int(begins[number]), int(np.append(begins, len(rows))[number + 1])
        steps = np.zeros(end - begin, np.int64)
        steps[_reopened(packets, rows[begin:end], is_back[begin:end])] = 1
        numbers[begin:end] = np.cumsum(steps)
    return numbers


def _reopened(packets: Packets, rows: np.ndarray, is_back: np.ndarray) -> list[int]:
    """At which of the rows of two endpoints a further connection of theirs begins."""
    is_syn = packets.flags[rows] & SYN > 0
    others = [np.flatnonzero(~is_syn & (is_back == side)) for side in (False, True)]
    initial: list[int | None] = [None, None]
    found: list[int] = []
    since = 0
    for place in np.flatnonzero(is_syn).tolist():
        row, side = rows[place], int(is_back[place])
        number, peers = int(packets.seq[row]), initial[1 - side]
        answers = packets.flags[row] & ACK and peers is not None and int(packets.ack[row]) == (peers + 1) % 2**32
        said_more = np.searchsorted(others[side], place) > np.searchsorted(others[side], since)
        if number != initial[side] and said_more and not answers:
            found.append(place)
            since, initial = place, [None, None]
        initial[side] = number
    return found


def _without_copies(packets: Packets, rows: np.ndarray, side: np.ndarray, reuse: np.ndarray) -> Directions:
    """The directions of rows that are sorted by `side`, copies left out."""
    begins = np.flatnonzero(differs(side))
    full = (packets.payload_bytes[rows] > 0) | (packets.flags[rows] & (SYN | FIN) > 0)
    is_copy = copies_among(packets, rows, begins, _WRITTEN_BY_SENDER, full)
    copies = np.add.reduceat(is_copy, begins, dtype=np.int64) if len(begins) else begins
    sides, kept = side[begins], ~is_copy  # the first of a direction is no copy, so that none is emptied
    mate = np.searchsorted(sides, sides ^ 1)
    mate[mate == len(sides)] = 0
    mate = np.where(sides[mate] == sides ^ 1, mate, -1)
    return Directions(rows[kept], np.flatnonzero(differs(side[kept])), mate, reuse[begins], copies)
