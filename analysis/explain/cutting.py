"""Where a long conversation may be cut in two with the least harm to what is told of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.capture.packets import ACK, TCP, Packets
from analysis.transport.sequences import distance, unwrap


@dataclass(frozen=True)
class Cut:
    """The first packet behind it, and whether nothing was outstanding there."""

    place: int
    is_idle: bool


def best_cut(packets: Packets, earliest: int) -> Cut:
    """The last place at `earliest` or behind where nothing of a TCP connection was outstanding; where there is none,
    and for RoCEv2, the longest silence."""
    if (packets.protocol == TCP).all():
        idle = np.flatnonzero(_is_idle(packets)[earliest:-1])
        if len(idle):
            return Cut(earliest + int(idle[-1]) + 1, True)
    silences = np.diff(packets.time_ns[earliest:])
    return Cut(earliest + 1 + int(np.argmax(silences)), False)


def _is_idle(packets: Packets) -> np.ndarray:
    """After which packets (n,) of one TCP connection all data of both directions so far had been acknowledged."""
    one = (packets.src_ip == packets.src_ip[0]) & (packets.sport == packets.sport[0])
    return _acknowledged(packets, one, ~one) & _acknowledged(packets, ~one, one)


def _acknowledged(packets: Packets, there: np.ndarray, back: np.ndarray) -> np.ndarray:
    """After which packets (n,) the data sent by those of `there` had been acknowledged by those of `back`."""
    data = np.flatnonzero(there & (packets.payload_bytes > 0))
    acks = np.flatnonzero(back & (packets.flags & ACK > 0))
    if not len(data):
        return np.ones(len(packets), np.bool_)
    if not len(acks):
        return np.zeros(len(packets), np.bool_)
    ends = unwrap(packets.seq[data]) + packets.payload_bytes[data]
    told = unwrap(packets.ack[acks]) + distance(int(packets.ack[acks[0]]), int(packets.seq[data[0]]))
    before = np.arange(len(packets))
    highest = np.append(0, np.maximum.accumulate(ends))[np.searchsorted(data, before, side="right")]
    acked = np.append(0, np.maximum.accumulate(told))[np.searchsorted(acks, before, side="right")]
    return acked >= highest
