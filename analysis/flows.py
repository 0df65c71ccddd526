"""TCP flows from the packets of one capture point: what was sent, what was acknowledged, what was sent again.

A flow is one direction of a connection that carries data. Byte positions are unwrapped to 64 bits and count
from the flow's first data byte, so that they neither wrap at 2^32 nor depend on the initial sequence number.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from analysis.capture.packets import ACK, FIN, RST, SYN, TCP, Packets

_Numbers = TypeVar("_Numbers", int, np.ndarray)


@dataclass(frozen=True, eq=False)
class Sent:
    """The packets with data (n,) that left a sender and the acknowledgements (m,) that came back, as seen at one
    capture point: what flows of every transport have.

    name, source and destination ("address:port", of RoCE "address:queue pair"). *_order is the place in the capture,
    which settles what came first at equal times. send_start and send_end are byte positions [start, end);
    send_wire_bytes the frame's length; ack_bytes is the cumulative acknowledgement, running maximum taken.
    """

    name: str
    source: str
    destination: str
    send_ns: np.ndarray
    send_order: np.ndarray
    send_start: np.ndarray
    send_end: np.ndarray
    send_wire_bytes: np.ndarray
    ack_ns: np.ndarray
    ack_order: np.ndarray
    ack_bytes: np.ndarray

    @property
    def highest_before(self) -> np.ndarray:
        """Highest byte position sent before each segment (n,); the first one's own start for the first."""
        return np.concatenate([self.send_start[:1], np.maximum.accumulate(self.send_end)[:-1]])

    @property
    def is_retransmission(self) -> np.ndarray:
        """Which segments (n,) carry data below the highest byte already sent (meaningful at the sender's own
        capture)."""
        return self.send_start < self.highest_before

    @property
    def acks_before(self) -> np.ndarray:
        """How many acknowledgements (n,) had come back when each segment was sent."""
        return np.searchsorted(self.ack_order, self.send_order)

    @property
    def acked_before(self) -> np.ndarray:
        """Cumulative acknowledgement (n,) known when each segment was sent: TCP's snd_una."""
        return np.concatenate([[0], self.ack_bytes])[self.acks_before]

    def rtt_ns(self) -> np.ndarray:
        """Round-trip samples: the time from a segment to the acknowledgement that covers it.

        Segments sent again give none (Karn's rule, RFC 6298), nor do those whose acknowledgement had to wait
        for something else to be sent again.
        """
        resent = self.send_order[self.is_retransmission]
        covering = np.searchsorted(self.ack_bytes, self.send_end)
        sampled = np.flatnonzero(~self.is_retransmission & (covering < len(self.ack_bytes)))
        covering = covering[sampled]
        resent_before = np.searchsorted(resent, self.send_order[sampled])
        clean = np.searchsorted(resent, self.ack_order[covering]) == resent_before
        return self.ack_ns[covering[clean]] - self.send_ns[sampled[clean]]


@dataclass(frozen=True, eq=False)
class Flow(Sent):
    """A TCP flow: its data segments, and what its acknowledgements told.

    ack_advances: the cumulative acknowledgement grew; ack_is_duplicate: RFC 5681's duplicate (no data, same
    acknowledgement and window, data outstanding), or one that repeats the acknowledgement with SACK blocks.
    """

    ack_advances: np.ndarray
    ack_is_duplicate: np.ndarray
    ack_sack_blocks: np.ndarray

    @property
    def duplicates_since_advance(self) -> np.ndarray:
        """Duplicate acknowledgements (m,) since the cumulative one last grew, each acknowledgement
        included."""
        counted = np.cumsum(self.ack_is_duplicate)
        return counted - np.maximum.accumulate(np.where(self.ack_advances, counted, 0))


def unwrap(numbers: np.ndarray, bits: int = 32) -> np.ndarray:
    """Sequence numbers (n,) of so many bits as 64-bit positions relative to the first.

    Each is taken to lie within half of the space of the one before, on either side (RFC 9293, section 3.4: numbers
    compare modulo 2^32).
    """
    whole = numbers.astype(np.int64)
    return np.cumsum(distance(whole, np.concatenate([whole[:1], whole[:-1]]), bits), dtype=np.int64)


def distance(number: _Numbers, origin: _Numbers, bits: int = 32) -> _Numbers:
    """Signed distance from `origin` to `number` in a sequence space of so many bits."""
    half = 1 << (bits - 1)
    return (number - origin + half) % (2 * half) - half


def flows_of(packets: Packets, names: Mapping[tuple[str, str], str] | None = None) -> list[Flow]:
    """Every direction of a TCP connection that carries data, in order of its first data packet.

    names: (source, destination) -> name; a flow without one is called "source > destination".
    """
    rows = np.flatnonzero((packets.protocol == TCP) & (packets.flags & RST == 0) & (packets.sport > 0))
    pair, reverse = _pairs(packets, rows)
    by_pair = _rows_by_pair(rows, pair)
    carrying = packets.payload_bytes[rows] > 0
    directions = dict(zip(pair[carrying].tolist(), reverse[carrying].tolist()))
    nothing = rows[:0]
    return [
        _flow(packets, by_pair[there], by_pair.get(back, nothing), names or {}) for there, back in directions.items()
    ]


def _pairs(packets: Packets, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number for each row's (source, destination) pair of endpoints, and the number of the pair the other
    way round."""
    source = packets.src_ip[rows].astype(np.int64) << 16 | packets.sport[rows]
    destination = packets.dst_ip[rows].astype(np.int64) << 16 | packets.dport[rows]
    known, numbers = np.unique(np.concatenate([source, destination]), return_inverse=True)
    numbers = numbers.reshape(2, -1)
    return numbers[0] * len(known) + numbers[1], numbers[1] * len(known) + numbers[0]


def _rows_by_pair(rows: np.ndarray, pair: np.ndarray) -> dict[int, np.ndarray]:
    """The rows of each pair, in the capture's order."""
    order = np.argsort(pair, kind="stable")
    values, begins = np.unique(pair[order], return_index=True)
    return dict(zip(values.tolist(), np.split(rows[order], begins[1:])))


def _endpoint(address: int, port: int) -> str:
    return f"{socket.inet_ntoa(struct.pack('>I', address))}:{port}"


def _flow(packets: Packets, sent: np.ndarray, received: np.ndarray, names: Mapping[tuple[str, str], str]) -> Flow:
    """The flow whose packets are the rows `sent` one way and `received` the other."""
    source = _endpoint(int(packets.src_ip[sent[0]]), int(packets.sport[sent[0]]))
    destination = _endpoint(int(packets.dst_ip[sent[0]]), int(packets.dport[sent[0]]))
    data = sent[packets.payload_bytes[sent] > 0]
    positions = unwrap(packets.seq[data])
    starts = positions - positions.min()
    sends = _Sends(data, starts, starts + packets.payload_bytes[data])
    acks = received[packets.flags[received] & ACK > 0]
    return Flow(
        name=names.get((source, destination), f"{source} > {destination}"),
        source=source,
        destination=destination,
        send_ns=packets.time_ns[data],
        send_order=data,
        send_start=sends.start,
        send_end=sends.end,
        send_wire_bytes=packets.wire_bytes[data],
        ack_ns=packets.time_ns[acks],
        ack_order=acks,
        **_acknowledgements(packets, acks, sends, int(packets.seq[data[0]]) + int(positions.min())),
    )


class _Sends(NamedTuple):
    """A flow's data segments: place in the capture, first byte position, position after the last."""

    order: np.ndarray
    start: np.ndarray
    end: np.ndarray


def _acknowledgements(packets: Packets, rows: np.ndarray, sends: _Sends, origin: int) -> dict[str, np.ndarray]:
    """The judged ack_* columns of a flow whose first data byte has sequence number `origin` (modulo 2^32)."""
    relative = unwrap(packets.ack[rows])
    if len(rows):
        relative = relative + distance(int(packets.ack[rows[0]]), origin)
    highest = np.maximum.accumulate(np.maximum(relative, 0))
    before = np.concatenate([[0], highest])[:-1]
    sent = np.concatenate([[0], np.maximum.accumulate(sends.end)])[np.searchsorted(sends.order, rows)]
    window, blocks = packets.window[rows], packets.sack_blocks[rows]
    same_window = window == np.concatenate([[0], window])[:-1]
    bare = (packets.payload_bytes[rows] == 0) & (packets.flags[rows] & (SYN | FIN) == 0)
    return {
        "ack_bytes": highest,
        "ack_advances": highest > before,
        "ack_is_duplicate": bare & (relative == before) & (sent > before) & (same_window | (blocks > 0)),
        "ack_sack_blocks": blocks,
    }
