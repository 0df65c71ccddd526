"""When a flow stood still with work to do, for how long, and why.

A flow stalls when none of its packets passes the sender's capture, either way, while data is outstanding, or
while part of its block in this round is still unsent, for longer than half of the shortest timer that may end
it: RTOmin, or the two ticks that Linux lets pass at least before a loss probe or RACK's timer where these are
on; and for longer than 8 median round trips. The round's end closes the books: silence that lasts beyond it
held nobody up, because every byte had arrived by then. A flow that has finished its block waits for the
round's slowest (the barrier): that is no stall, and `waits` lists it.

What ends the silence, and what was known while it lasted, names the cause:

rto_lost_retransmission  an RTO resends a segment that had been sent again before: the retransmission was lost
                         as well.
rto_few_duplicates       an RTO, though duplicates or SACK blocks came: too few for a fast retransmission.
rto_after_recovery       an RTO, though three duplicates came: a sender without SACK ignores them while the
                         acknowledgement stands exactly where its last recovery was to end (RFC 6582, section
                         4.1; tcp_try_undo_recovery in Linux).
rto_full_window_loss     an RTO, nothing sent after the lost segment arrived, and either more of the block was
                         waiting for the window to open or nothing of the block had arrived: the whole window
                         was lost.
rto_tail_loss            an RTO, nothing sent after the lost segment arrived, and the block was sent to its
                         end: its tail was lost, so that no duplicate could tell.
loss_probe               a tail loss probe (RFC 8985): a retransmission of the last segment, or new data, sent
                         out of the silence.
rack_timer               a fast retransmission out of silence: RACK's reordering timer.
delayed_ack              an acknowledgement of what was outstanding, within RFC 1122's 500 ms, and nothing was
                         sent again.
application_idle         nothing outstanding, part of the block unsent: the sender had nothing to send, or no
                         window.
unexplained              none of these.

A RoCE flow has a queue pair's timeout in place of RTOmin, and causes of its own (analysis/transport/roce.py):

qp_timeout_not_told      the timeout went back, and no NAK had come since the flow last went back: the end of the block
                         was lost, or the receiver had told of this gap already and tells once.
qp_timeout_nak_ignored   the timeout went back although a NAK had come: soft-RoCE ignores it until something has been
                         acknowledged since it last went back.
paused                   the sender's NIC was held by a pause for half of the silence or longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.transport.events import FAST, PROBE, RACK, RTO
from analysis.transport.recovery import Recovery
from analysis.transport.retransmits import DUPLICATES_FOR_FAST, Retransmission, retransmissions
from analysis.transport.sent import Flow, Sent
from analysis.transport.spans import Span, common, total_ns, without

LOST_RETRANSMISSION, FEW_DUPLICATES = "rto_lost_retransmission", "rto_few_duplicates"
AFTER_RECOVERY = "rto_after_recovery"
FULL_WINDOW, TAIL = "rto_full_window_loss", "rto_tail_loss"
LOSS_PROBE, RACK_TIMER, DELAYED_ACK = "loss_probe", "rack_timer", "delayed_ack"
APPLICATION_IDLE, UNEXPLAINED = "application_idle", "unexplained"
NOT_TOLD, NAK_IGNORED, PAUSED = "qp_timeout_not_told", "qp_timeout_nak_ignored", "paused"
CAUSES = (
    *(TAIL, FULL_WINDOW, LOST_RETRANSMISSION, FEW_DUPLICATES, AFTER_RECOVERY),
    *(LOSS_PROBE, RACK_TIMER, DELAYED_ACK, APPLICATION_IDLE, UNEXPLAINED),
    *(NOT_TOLD, NAK_IGNORED, PAUSED),
)

MEANINGS = {
    TAIL: "timeout: the end of the block was lost, so nothing came after it to tell",
    FULL_WINDOW: "timeout: everything in flight was lost",
    LOST_RETRANSMISSION: "timeout: the retransmission was lost as well",
    FEW_DUPLICATES: "timeout: duplicates or SACK blocks came, but too few to tell what was lost",
    AFTER_RECOVERY: "timeout: duplicates ignored right after a recovery (no SACK)",
    LOSS_PROBE: "the tail loss probe was awaited",
    RACK_TIMER: "RACK's reordering timer was awaited",
    DELAYED_ACK: "the receiver delayed its acknowledgement",
    APPLICATION_IDLE: "the sender had nothing to send",
    UNEXPLAINED: "no rule explains it",
    NOT_TOLD: "queue pair's timeout: no NAK told of the loss",
    NAK_IGNORED: "queue pair's timeout: a NAK came, but the sender was still going back after the one before",
    PAUSED: "the sender's NIC was paused",
}

SHARE_OF_TIMER = 0.5
_SHORTEST_PROBE_NS = 2_000_000  # TCP_TIMEOUT_MIN of Linux: two ticks, at 1000 a second
ROUND_TRIPS = 8
LONGEST_DELAYED_ACK_NS = 500_000_000  # RFC 1122, section 4.2.3.2


@dataclass(frozen=True)
class Round:
    """One barrier-synchronised round: its times on the captures' clock, and the payload delivered in it."""

    start_ns: int
    end_ns: int
    payload_bytes: int

    @property
    def seconds(self) -> float:
        """How long the round took."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def goodput_bps(self) -> float:
        """Payload bits per second of the round."""
        return self.payload_bytes * 8e9 / (self.end_ns - self.start_ns)


@dataclass(frozen=True)
class Stall:
    """A silence of one flow: its start in seconds since the first round began, its length in seconds, its
    cause (one of CAUSES)."""

    flow: str
    start_s: float
    seconds: float
    cause: str


@dataclass(frozen=True)
class Wait:
    """A flow that had finished its block and waited at the barrier: start since the first round began, and
    length, in seconds."""

    flow: str
    start_s: float
    seconds: float


class Gap(NamedTuple):
    """No packet of a flow passed from start_ns to end_ns; first and last are the places in the capture of the packets
    around it."""

    start_ns: int
    end_ns: int
    first: int
    last: int


@dataclass(frozen=True)
class Silence:
    """A gap between two packets of a flow, and the round it lies in.

    outstanding and unsent in bytes; block_started: some of the round's block had been acknowledged;
    next_send: index of the segment that ended it, or None when an acknowledgement did; acked: whether that
    acknowledgement was a new one.
    """

    start_ns: int
    end_ns: int
    outstanding: int
    unsent: int
    block_started: bool
    next_send: int | None
    acked: bool


def stalls(flows: Iterable[Flow], rounds: Sequence[Round], recovery: Recovery) -> list[Stall]:
    """Every stall of `flows` (sender captures) within `rounds`, in order of time, then of flow."""
    found = [stall for flow in flows for stall in _stalls_of(flow, rounds, recovery)]
    return sorted(found, key=lambda stall: (stall.start_s, stall.flow))


def waits(flows: Iterable[Sent], rounds: Sequence[Round]) -> list[Wait]:
    """For every flow and round, the time from the flow's last packet in the round to the round's end."""
    return [
        Wait(flow.name, (last_ns - rounds[0].start_ns) / 1e9, (end.end_ns - last_ns) / 1e9)
        for flow in flows
        for end in rounds
        for last_ns in [_last_packet_ns(flow, end)]
        if last_ns is not None
    ]


def stood_still(flows: Iterable[Sent], rounds: Sequence[Round], found: Iterable[Stall]) -> list[Span]:
    """The spans of the rounds in which one flow at least was stalled, and none moved: the others were stalled too, or
    done, or had not begun. What an application let pass is no stall here."""
    origin_ns, stalled = rounds[0].start_ns, [stall for stall in found if stall.cause != APPLICATION_IDLE]
    lost: dict[str, list[Span]] = {}
    for stall in stalled:
        start_ns = origin_ns + round(stall.start_s * 1e9)
        lost.setdefault(stall.flow, []).append((start_ns, start_ns + round(stall.seconds * 1e9)))
    moving = [span for flow in flows for span in without(_busy(flow, rounds), lost.get(flow.name, ()))]
    return without([span for spans in lost.values() for span in spans], moving)


def _busy(flow: Sent, rounds: Sequence[Round]) -> list[Span]:
    """From the flow's first packet in each round to its last, either way."""
    times = np.sort(np.concatenate([flow.send_ns, flow.ack_ns]))
    found = []
    for each in rounds:
        inside = times[np.searchsorted(times, each.start_ns) : np.searchsorted(times, each.end_ns, side="right")]
        found += [(int(inside[0]), int(inside[-1]))] if len(inside) else []
    return found


def _last_packet_ns(flow: Sent, within: Round) -> int | None:
    """When the flow's last packet in the round passed, either way."""
    times = np.concatenate([flow.send_ns, flow.ack_ns])
    inside = times[(times >= within.start_ns) & (times <= within.end_ns)]
    return int(inside.max()) if len(inside) else None


def threshold_ns(flow: Flow, recovery: Recovery) -> float:
    """The silence that counts as a stall of this flow: half of the shortest timer, and 8 median round
    trips."""
    return max(SHARE_OF_TIMER * shortest_timer_ns(recovery), ROUND_TRIPS * flow.median_rtt_ns)


def shortest_timer_ns(recovery: Recovery) -> int:
    """The shortest timer that may end a silence."""
    probing = recovery.tlp or recovery.rack
    return min(recovery.rto_min_ns, _SHORTEST_PROBE_NS) if probing else recovery.rto_min_ns


def _stalls_of(flow: Flow, rounds: Sequence[Round], recovery: Recovery) -> list[Stall]:
    resent = {event.index: event for event in retransmissions(flow, recovery)}
    found = []
    for silence in silences(flow, rounds, threshold_ns(flow, recovery)):
        event = resent.get(silence.next_send) if silence.next_send is not None else None
        start_s = (silence.start_ns - rounds[0].start_ns) / 1e9
        found.append(
            Stall(
                flow.name,
                start_s,
                (silence.end_ns - silence.start_ns) / 1e9,
                cause_of(silence, event, recovery),
            )
        )
    return found


def silences(flow: Sent, rounds: Sequence[Round], longest_ns: float) -> list[Silence]:
    """The gaps of a flow that are longer than `longest_ns`, end within a round, and find work undone."""
    found = []
    for gap in gaps(flow, longest_ns):
        for during in rounds:
            if during.start_ns <= gap.start_ns and gap.end_ns <= during.end_ns:
                silence = silence_of(flow, gap, _block(flow, during))
                found += [silence] if silence.outstanding > 0 or silence.unsent > 0 else []
    return found


def gaps(flow: Sent, longest_ns: float) -> list[Gap]:
    """The times longer than `longest_ns` in which no packet of a flow passed, either way."""
    order = np.concatenate([flow.send_order, flow.ack_order])
    in_time = np.argsort(order, kind="stable")
    times = np.concatenate([flow.send_ns, flow.ack_ns])[in_time]
    return [
        Gap(*times[place : place + 2].tolist(), *order[in_time[place : place + 2]].tolist())
        for place in np.flatnonzero(np.diff(times) > longest_ns).tolist()
    ]


def _block(flow: Sent, during: Round) -> tuple[int, int]:
    """The byte positions [start, end) of what the flow sent in a round."""
    start = int(flow.send_end[: np.searchsorted(flow.send_ns, during.start_ns)].max(initial=0))
    return start, int(flow.send_end[: np.searchsorted(flow.send_ns, during.end_ns, side="right")].max(initial=0))


def silence_of(flow: Sent, gap: Gap, block: tuple[int, int]) -> Silence:
    """What was known during a gap in a block of byte positions [start, end)."""
    sent, acks = (int(np.searchsorted(known, gap.last)) for known in (flow.send_order, flow.ack_order))
    highest = int(flow.send_end[:sent].max()) if sent else 0
    acked = int(flow.ack_bytes[acks - 1]) if acks else 0
    ends_with_send = sent < len(flow.send_order) and flow.send_order[sent] == gap.last
    return Silence(
        start_ns=gap.start_ns,
        end_ns=gap.end_ns,
        outstanding=highest - acked,
        unsent=block[1] - highest,
        block_started=acked > block[0],
        next_send=sent if ends_with_send else None,
        acked=not ends_with_send and int(flow.ack_bytes[acks]) > acked,
    )


def cause_of(silence: Silence, event: Retransmission | None, recovery: Recovery) -> str:
    """The first of the module's rules that fits a silence of TCP; `event`: what was sent again at its end."""
    if silence.outstanding <= 0:
        return APPLICATION_IDLE
    if event is not None:
        named = {RTO: _timeout_cause(silence, event), PROBE: LOSS_PROBE, FAST: RACK_TIMER, RACK: RACK_TIMER}
        return named.get(event.kind, UNEXPLAINED)
    if silence.next_send is not None:
        return LOSS_PROBE if recovery.tlp else UNEXPLAINED
    on_time = silence.end_ns - silence.start_ns <= LONGEST_DELAYED_ACK_NS
    return DELAYED_ACK if silence.acked and on_time else UNEXPLAINED


def is_held(silence: Silence, held: Iterable[Span]) -> bool:
    """Whether pauses `held` the sender for half of the silence or longer."""
    paused_ns = total_ns(common([(silence.start_ns, silence.end_ns)], held))
    return 2 * paused_ns >= silence.end_ns - silence.start_ns


def _timeout_cause(silence: Silence, event: Retransmission) -> str:
    """Why an RTO had to fire: what told the sender too little, too late."""
    if event.earlier:
        return LOST_RETRANSMISSION
    if event.duplicates >= DUPLICATES_FOR_FAST:
        return AFTER_RECOVERY if event.recovered_to_here and not event.sacked else UNEXPLAINED
    if event.sacked or event.duplicates:
        return FEW_DUPLICATES
    return FULL_WINDOW if silence.unsent > 0 or not silence.block_started else TAIL
