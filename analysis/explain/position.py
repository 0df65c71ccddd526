"""Where on a flow's path a capture was taken: at its sender, at its receiver, or between the two.

A round trip is seen in two parts. From a data packet to its acknowledgement is the way onward, to the receiver and
back; from an acknowledgement to the first data packet that echoes its time stamp (RFC 7323) is the way back, to the
sender and back; the handshake shows both. At the sender the second is next to nothing, at the receiver the first. What
was sent again tells as well: bytes that only come when they are sent again were lost before this point, which is then
not the sender. A switch beside a host cannot be told from the host by packets alone: only names of a run make it
certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.capture.packets import ACK, SYN, Packets
from analysis.explain.model import CERTAIN, LIKELY, MIDDLE, RECEIVER, SENDER, UNKNOWN, UNSURE
from analysis.transport.sent import Sent

_NEXT_TO_NOTHING = 0.1  # of the whole round trip
_CLEARLY_NOTHING = 0.02
_LITTLE = 0.3  # a host's own queues and a first link, where everything that was sent again had passed here before
_NEAR_ROWS = 4_096  # so many packets of all connections may lie between a SYN/ACK and its acknowledgement
_SHORTEST_ROUND_TRIP_NS = 200  # below this a capture's clock cannot tell the parts apart


@dataclass(frozen=True)
class Evidence:
    """What tells the position: the shortest onward and back parts of the round trip in ns (None: not seen), whether
    data was sent again at all, and whether some of it had never passed here before."""

    onward_ns: int | None
    back_ns: int | None
    resent: bool
    lost_before: bool


@dataclass(frozen=True)
class Position:
    """Where (SENDER, RECEIVER, MIDDLE, UNKNOWN), how sure, and why in one sentence."""

    where: str
    confidence: str
    because: str


def back_ns(packets: Packets, flow: Sent) -> int | None:
    """The shortest of the waits for an echo: an acknowledgement can be echoed no earlier than it has come to the
    sender. None without time stamps."""
    waits = echo_waits_ns(packets, flow)
    return int(waits.min()) if len(waits) and waits.min() >= 0 else None


def echo_waits_ns(packets: Packets, flow: Sent) -> np.ndarray:
    """The times from each acknowledgement with a new time stamp (RFC 7323) to the first data packet that echoes it
    (n,); none without time stamps."""
    acks, sends = flow.ack_order, flow.send_order
    acks = acks[packets.has_timestamps[acks]]
    sends = sends[packets.has_timestamps[sends]]
    told, first = np.unique(packets.timestamp_value[acks], return_index=True)
    echoed, answer = np.unique(packets.timestamp_echo[sends], return_index=True)
    _, at_ack, at_send = np.intersect1d(told, echoed, assume_unique=True, return_indices=True)
    first_ack, first_send = acks[first[at_ack]], sends[answer[at_send]]
    # One that came before the acknowledgement echoes an earlier packet of this stamp, which was not captured.
    return (packets.time_ns[first_send] - packets.time_ns[first_ack])[first_send > first_ack]


@dataclass(frozen=True)
class Handshake:
    """The times of a connection's SYN, SYN/ACK and first acknowledgement after it, where captured; opener: whether the
    data's sender opened it."""

    syn_ns: int | None
    answer_ns: int | None
    third_ns: int | None
    opener: bool

    @property
    def parts(self) -> tuple[int | None, int | None]:
        """The onward and the back part of the round trip as the handshake shows them."""
        first = None if self.syn_ns is None or self.answer_ns is None else max(self.answer_ns - self.syn_ns, 0)
        second = None if self.answer_ns is None or self.third_ns is None else max(self.third_ns - self.answer_ns, 0)
        return (first, second) if self.opener else (second, first)


def handshake(packets: Packets, there: Sequence[int], back: Sequence[int]) -> Handshake | None:
    """The handshake of the connection whose SYNs and SYN/ACKs are the rows `there` (the data's direction) and `back`;
    None when none was captured."""
    if not there and not back:
        return None
    opening = [row for row in (*there, *back) if not packets.flags[row] & ACK]
    answers = [row for row in (*there, *back) if packets.flags[row] & ACK]
    # A SYN or an answer that was sent again tells no round trip (Karn's rule, RFC 6298).
    clean = len(opening) <= 1 and len(answers) == 1
    third = _follows(packets, answers[0]) if clean else None
    return Handshake(
        syn_ns=int(packets.time_ns[opening[0]]) if clean and opening else None,
        answer_ns=int(packets.time_ns[answers[0]]) if clean else None,
        third_ns=None if third is None else int(packets.time_ns[third]),
        opener=any(row in opening for row in there) or any(row in answers for row in back),
    )


def _follows(packets: Packets, answer: int) -> int | None:
    """The first packet after a SYN/ACK that its receiver sent on the same connection; None when it is not near."""
    near = slice(answer + 1, answer + 1 + _NEAR_ROWS)
    same = (packets.sport[near] == packets.dport[answer]) & (packets.dport[near] == packets.sport[answer])
    same &= (packets.src_ip[near] == packets.dst_ip[answer]) & (packets.dst_ip[near] == packets.src_ip[answer])
    found = np.flatnonzero(same & (packets.flags[near] & SYN == 0))
    return answer + 1 + int(found[0]) if len(found) else None


def position_of(found: Evidence, host_at_point: str = "") -> Position:
    """Where the capture was taken; host_at_point: SENDER or RECEIVER where the names of a run tell that the capture is
    that host's own."""
    if host_at_point:
        return Position(
            host_at_point, CERTAIN, f"the names of the run tell that this is the {host_at_point}'s own link"
        )
    if found.onward_ns is None or found.back_ns is None:
        return _from_one_part(found)
    whole = found.onward_ns + found.back_ns
    if whole < _SHORTEST_ROUND_TRIP_NS:
        return Position(UNKNOWN, UNSURE, "the round trip is too short for the capture's clock")
    share = found.back_ns / whole
    because = f"of the round trip {share:.0%} lies between here and the sender"
    nearby = _LITTLE if found.resent else _NEXT_TO_NOTHING
    if share <= nearby and not found.lost_before:
        return Position(SENDER, LIKELY if share <= _CLEARLY_NOTHING else UNSURE, because)
    if share >= 1 - _NEXT_TO_NOTHING:
        return Position(RECEIVER, LIKELY if share >= 1 - _CLEARLY_NOTHING else UNSURE, because)
    also = ", and packets were lost before they came here" if found.lost_before else ""
    return Position(MIDDLE, LIKELY if share > _NEXT_TO_NOTHING else UNSURE, because + also)


def _from_one_part(found: Evidence) -> Position:
    """Where, from one part of the round trip, or from what was sent again alone."""
    if found.lost_before:
        return Position(MIDDLE, UNSURE, "packets were lost before they came here: it is not the sender")
    if found.resent:
        return Position(SENDER, UNSURE, "all that was sent again had passed here before")
    return Position(UNKNOWN, UNSURE, "no full round trip was captured, and nothing that was sent again")
