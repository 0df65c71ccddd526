"""MAC control frames that pause a link (pure): priority-based flow control of IEEE 802.1Qbb, and the older PAUSE of
IEEE 802.3 annex 31B.

 0            6            12       14       16        18                    34                 60
 +------------+------------+--------+--------+---------+---------------------+------------------+
 | 01:80:c2:  | source MAC | 0x8808 | 0x0101 | classes | quanta of class 0-7 | zeros; FCS (not  |
 | 00:00:01   |            |        |        | bit n:n | 16 bits each        | ours) behind it  |
 +------------+------------+--------+--------+---------+---------------------+------------------+
 PAUSE has opcode 0x0001 and one value of quanta at 16.

A quantum is 512 bit times of the link; 0 quanta resume. The destination is never forwarded by a bridge (IEEE 802.1D
table 7-10): the frame ends at the other side of the link.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

ETHERTYPE = 0x8808
FRAME_BYTES = 60  # the least that Ethernet carries, without FCS
PRIORITIES = 8
MOST_QUANTA = 0xFFFF
_DESTINATION = bytes.fromhex("0180c2000001")
_OPCODE_PAUSE, _OPCODE_PFC = 0x0001, 0x0101
_HEADER = struct.Struct("!6s6sHH")
_PFC = struct.Struct("!H8H")
_PAUSE = struct.Struct("!H")


def priority_of(dscp: int) -> int:
    """The priority (class of PFC) that packets of a DSCP travel in: its class selector, the upper three of its six
    bits (RFC 2474 section 4.2.2), as switches map them by default: 26 is priority 3."""
    return dscp >> 3


@dataclass(frozen=True)
class PfcFrame:
    """Pauses (quanta > 0) or resumes (0) each priority that is named in `quanta`: pairs of priority and quanta, in
    order; `source` is the MAC address of the port that sends it."""

    source: str
    quanta: tuple[tuple[int, int], ...]

    def encode(self) -> bytes:
        """The frame as it is sent, without FCS; raises struct.error when quanta are not of 16 bits."""
        values = [0] * PRIORITIES
        classes = 0
        for priority, quanta in self.quanta:
            classes |= 1 << priority
            values[priority] = quanta
        return _frame(self.source, _OPCODE_PFC, _PFC.pack(classes, *values))

    def quanta_of(self, priority: int) -> int | None:
        """What the frame says of a priority; None: nothing."""
        return dict(self.quanta).get(priority)


@dataclass(frozen=True)
class PauseFrame:
    """Pauses (quanta > 0) or resumes (0) everything but MAC control; a port that does PFC does not heed it
    (IEEE 802.1Qbb: a link has the one or the other)."""

    source: str
    quanta: int

    def encode(self) -> bytes:
        """The frame as it is sent, without FCS; raises struct.error when quanta are not of 16 bits."""
        return _frame(self.source, _OPCODE_PAUSE, _PAUSE.pack(self.quanta))


def _frame(source: str, opcode: int, parameters: bytes) -> bytes:
    header = _HEADER.pack(_DESTINATION, bytes.fromhex(source.replace(":", "")), ETHERTYPE, opcode)
    return (header + parameters).ljust(FRAME_BYTES, b"\0")


def decode(frame: bytes) -> PfcFrame | PauseFrame | None:
    """What a frame from the wire says; None when it is none of these, or cut short."""
    if len(frame) < _HEADER.size + _PFC.size:
        return None
    destination, source, ethertype, opcode = _HEADER.unpack_from(frame)
    if (destination, ethertype) != (_DESTINATION, ETHERTYPE):
        return None
    if opcode == _OPCODE_PAUSE:
        return PauseFrame(source.hex(":"), *_PAUSE.unpack_from(frame, _HEADER.size))
    if opcode != _OPCODE_PFC:
        return None
    classes, *quanta = _PFC.unpack_from(frame, _HEADER.size)
    named = tuple((priority, quanta[priority]) for priority in range(PRIORITIES) if classes >> priority & 1)
    return PfcFrame(source.hex(":"), named)
