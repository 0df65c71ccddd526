"""Packets labelled in Wireshark's terms, to be held against its own labels.

The meanings are those of the Wireshark User's Guide, section 7.5 ("TCP Analysis"), with the limits that tshark 4.0
shows. They are judgements from one packet to the next, without the knowledge of what a sender does: what was sent again
is told in retransmits.py, and this is a second opinion. The first of the first four that fits is given.

fast_retransmission       data, SYN or FIN below the highest number seen of its side, within 20 ms after the second or a
                          later duplicate acknowledgement, which asks for it
spurious_retransmission   data that was acknowledged already
out_of_order              data, SYN or FIN below the highest number, within the handshake's round trip (3 ms without
                          one) after that came, and not ending there
retransmission            other data, SYN or FIN below the highest number
lost_segment              a number beyond the highest one of its side
ack_lost_segment          an acknowledgement beyond what was seen without a gap
keep_alive                no byte or one, one below the highest number; keep_alive_ack answers it
zero_window_probe         one byte at the highest number while the other side's window is closed;
                          zero_window_probe_ack answers it
zero_window               a window of 0
window_full               data up to the end of the other side's window, where the handshake tells its scale
window_update             no data, the same numbers as before, another window
duplicate_ack             no data, the same numbers and the same window as before
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.capture.packets import ACK, FIN, NO_SCALE, RST, SYN, TCP, Packets

RETRANSMISSION, FAST_RETRANSMISSION = "retransmission", "fast_retransmission"
SPURIOUS_RETRANSMISSION, OUT_OF_ORDER = "spurious_retransmission", "out_of_order"
LOST_SEGMENT, ACK_LOST_SEGMENT = "lost_segment", "ack_lost_segment"
KEEP_ALIVE, KEEP_ALIVE_ACK = "keep_alive", "keep_alive_ack"
ZERO_WINDOW_PROBE, ZERO_WINDOW_PROBE_ACK = "zero_window_probe", "zero_window_probe_ack"
ZERO_WINDOW, WINDOW_FULL, WINDOW_UPDATE = "zero_window", "window_full", "window_update"
DUPLICATE_ACK = "duplicate_ack"
NAMES = (
    *(RETRANSMISSION, FAST_RETRANSMISSION, SPURIOUS_RETRANSMISSION, OUT_OF_ORDER, LOST_SEGMENT, ACK_LOST_SEGMENT),
    *(KEEP_ALIVE, KEEP_ALIVE_ACK, ZERO_WINDOW_PROBE, ZERO_WINDOW_PROBE_ACK, ZERO_WINDOW, WINDOW_FULL, WINDOW_UPDATE),
    DUPLICATE_ACK,
)

_FAST_WITHIN_NS = 20_000_000
_OUT_OF_ORDER_NS = 3_000_000
_LEAST_DUPLICATES = 2
_TURN, _HALF = 1 << 32, 1 << 31


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of a capture's packets (n,): of NAMES one bit each, from the lowest on."""

    bits: np.ndarray

    def where(self, name: str) -> np.ndarray:
        """Which packets (n,) bear a label; raises ValueError for one that is not among NAMES."""
        return self.bits >> NAMES.index(name) & 1 > 0

    def of(self, row: int) -> tuple[str, ...]:
        """The labels of one packet."""
        return tuple(name for place, name in enumerate(NAMES) if int(self.bits[row]) >> place & 1)


class _Packet(NamedTuple):
    """What is looked at of a packet; end: the number after its last byte, or after its SYN or FIN."""

    time_ns: int
    seq: int
    end: int
    ack: int
    window: int
    payload: int
    flags: int


class _Side:
    """What one side of a conversation last said."""

    def __init__(self) -> None:
        self.next: int | None = None
        self.next_ns = 0
        self.contiguous: int | None = None
        self.ack: int | None = None
        self.ack_ns = 0
        self.window = -1
        self.scale: int | None = None
        self.duplicates = 0
        self.label: set[str] = set()


class _Conversation:
    """Two sides, and the handshake: when its SYN came, its number, and the round trip that it showed."""

    def __init__(self) -> None:
        self.sides = _Side(), _Side()
        self.syn_ns: int | None = None
        self.initial: int | None = None
        self.answered = False
        self.round_trip_ns: int | None = None


def labels(packets: Packets) -> Labels:
    """The labels of every packet of a capture; those that are not TCP's have none."""
    bits = np.zeros(len(packets), np.uint16)
    conversations: dict[tuple[int, int], _Conversation] = {}
    values = {name: 1 << place for place, name in enumerate(NAMES)}
    rows = np.flatnonzero((packets.protocol == TCP) & (packets.sport > 0))
    for row, source, destination, packet in zip(rows.tolist(), *_ends(packets, rows), _read(packets, rows)):
        pair = (source, destination) if source < destination else (destination, source)
        found = conversations.get(pair)
        fresh = packet.flags & (SYN | ACK) == SYN and found is not None and found.initial not in (None, packet.seq)
        if found is None or fresh:
            found = conversations[pair] = _Conversation()
        scale = int(packets.window_scale[row]) if packet.flags & SYN else NO_SCALE
        for name in _labelled(found, int(source > destination), packet, scale):
            bits[row] |= values[name]
    return Labels(bits)


def _ends(packets: Packets, rows: np.ndarray) -> tuple[list[int], list[int]]:
    source = packets.src_ip[rows] << 16 | packets.sport[rows]
    destination = packets.dst_ip[rows] << 16 | packets.dport[rows]
    return source.tolist(), destination.tolist()


def _read(packets: Packets, rows: np.ndarray) -> list[_Packet]:
    flags = packets.flags[rows]
    seq = packets.seq[rows].astype(np.int64)
    end = (seq + packets.payload_bytes[rows] + (flags & (SYN | FIN) > 0)) % _TURN
    columns = (packets.time_ns[rows], seq, end, packets.ack[rows], packets.window[rows], packets.payload_bytes[rows])
    return list(map(_Packet, *(column.tolist() for column in (*columns, flags))))


def _beyond(number: int, other: int) -> bool:
    """Whether a sequence number lies beyond another (RFC 9293, section 3.4)."""
    return 0 < (number - other) % _TURN < _HALF


def _labelled(conversation: _Conversation, side: int, packet: _Packet, scale: int) -> set[str]:
    """The labels of a packet, which moves the conversation on."""
    here, there = conversation.sides[side], conversation.sides[1 - side]
    found = _about_numbers(here, there, packet)
    if packet.ack != here.ack:
        here.duplicates = 0
    if packet.flags & ACK and there.contiguous is not None and _beyond(packet.ack, there.contiguous):
        found.add(ACK_LOST_SEGMENT)
        there.contiguous = packet.ack
    if (packet.payload or packet.flags & (SYN | FIN)) and KEEP_ALIVE not in found:
        threshold = conversation.round_trip_ns or _OUT_OF_ORDER_NS
        found |= _about_repetition(here, there, packet, threshold) if here.next is not None else set()
    _move_on(here, packet, found)
    _note_handshake(conversation, here, packet, scale)
    return found


def _about_numbers(here: _Side, there: _Side, packet: _Packet) -> set[str]:
    """The labels that numbers, lengths and windows give."""
    found: set[str] = set()
    plain = not packet.flags & (SYN | FIN | RST)
    in_place = packet.seq == here.next
    if packet.payload == 1 and in_place and there.window == 0:
        return {ZERO_WINDOW_PROBE}
    if packet.window == 0 and plain:
        found.add(ZERO_WINDOW)
    if here.next is not None and _beyond(packet.seq, here.next) and not packet.flags & RST:
        found.add(LOST_SEGMENT)
    if packet.payload <= 1 and here.next is not None and packet.seq == (here.next - 1) % _TURN and plain:
        found.add(KEEP_ALIVE)
    if plain and packet.payload and _fills_window(there, packet):
        found.add(WINDOW_FULL)
    if plain and not packet.payload and in_place:
        found |= _about_acknowledging(here, there, packet)
    return found


def _fills_window(there: _Side, packet: _Packet) -> bool:
    if there.scale is None or there.ack is None:
        return False
    return packet.end == (there.ack + (there.window << there.scale)) % _TURN


def _about_acknowledging(here: _Side, there: _Side, packet: _Packet) -> set[str]:
    """The label of an acknowledgement without data that says nothing new but, maybe, a window."""
    one_more = here.ack is not None and packet.ack == (here.ack + 1) % _TURN
    same = packet.ack == here.ack
    if packet.window != here.window:
        return {WINDOW_UPDATE} if same and packet.window else set()
    if packet.window and (same or one_more) and KEEP_ALIVE in there.label:
        return {KEEP_ALIVE_ACK}
    if not packet.window and (same or one_more) and ZERO_WINDOW_PROBE in there.label:
        return {ZERO_WINDOW_PROBE_ACK}
    if packet.window and same:
        here.duplicates += 1
        return {DUPLICATE_ACK}
    return set()


def _about_repetition(here: _Side, there: _Side, packet: _Packet, threshold_ns: int) -> set[str]:
    """The label of a segment that may not be new."""
    assert here.next is not None
    behind = _beyond(here.next, packet.seq) and not (packet.payload > 1 and packet.seq == (here.next - 1) % _TURN)
    asked = there.duplicates >= _LEAST_DUPLICATES and packet.time_ns - there.ack_ns < _FAST_WITHIN_NS
    if behind and asked and there.ack == packet.seq:
        return {FAST_RETRANSMISSION}
    if packet.payload and there.ack is not None and not _beyond(packet.end, there.ack):
        return {SPURIOUS_RETRANSMISSION}
    if behind and packet.time_ns - here.next_ns < threshold_ns and here.next != packet.end:
        return {OUT_OF_ORDER}
    return {RETRANSMISSION} if behind else set()


def _move_on(here: _Side, packet: _Packet, found: set[str]) -> None:
    """Remember what a packet said."""
    if ZERO_WINDOW_PROBE not in found:
        if here.next is None or _beyond(packet.end, here.next):
            here.next, here.next_ns = packet.end, packet.time_ns
        if here.contiguous is None or packet.seq == here.contiguous:
            here.contiguous = here.next
    here.ack, here.ack_ns, here.window = packet.ack, packet.time_ns, packet.window
    here.label = found


def _note_handshake(conversation: _Conversation, here: _Side, packet: _Packet, scale: int) -> None:
    if packet.flags & SYN:
        here.scale = 0 if scale == NO_SCALE else scale
        conversation.answered = bool(packet.flags & ACK)
        if not packet.flags & ACK:
            conversation.syn_ns, conversation.initial = packet.time_ns, packet.seq
    elif conversation.answered and conversation.syn_ns is not None and conversation.round_trip_ns is None:
        conversation.round_trip_ns = packet.time_ns - conversation.syn_ns
