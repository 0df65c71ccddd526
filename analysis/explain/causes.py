"""Why a flow stood still, from the captures of any point, without knowing the rounds of a run.

A flow stalls when none of its packets passes, either way, for longer than its round trip explains, while data is
outstanding, or something holds it back. At the sender's own capture the rules are those of analysis/transport/stalls.py
and analysis/transport/roce.py, with blocks in place of rounds; analysis/explain/causes_afar.py has those for captures
from further on. Here come, before them, what headers tell at every point:

zero_window          the receiver's last advertisement was 0: its application did not read (RFC 9293, section 3.8.6.1).
receiver_not_ready   the receiver's last word was an RNR NAK: it had no buffer for the message (InfiniBand).
syn_retransmission   the connection was asked for once more (RFC 6298: after 1 s, then twice as long each time).
rto_spurious         a timeout, and what it sent again had arrived: the acknowledgement came later than the timer.
paused               the sender's link was held by pause frames for half of the silence or longer.

application_idle is no loss of time: everything was acknowledged, and the sender had nothing to send. It becomes
waited_for_straggler where other flows show what it waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.capture.packets import FIN, RNR_SYNDROME, SYNDROME_KIND, Packets
from analysis.explain import causes_afar, reasons, stall_threshold
from analysis.explain.connecting import connecting_stalls
from analysis.explain.model import CERTAIN, LIKELY, SENDER, UNKNOWN, UNSURE, Block, FlowStall, least_sure
from analysis.explain.reasons import (
    MEANINGS as MEANINGS,
)
from analysis.explain.reasons import NEVER_WENT_ON, NOT_READY, SPURIOUS, ZERO_WINDOW, Told
from analysis.transport import roce, stalls
from analysis.transport.events import RTO
from analysis.transport.queue_pairs import RoceFlow
from analysis.transport.recovery import Recovery
from analysis.transport.retransmits import Resent, Retransmission
from analysis.transport.roce import GoBack
from analysis.transport.sent import Flow, Sent
from analysis.transport.spans import Span
from analysis.transport.stalls import (
    APPLICATION_IDLE,
    DELAYED_ACK,
    LOSS_PROBE,
    PAUSED,
    TAIL,
    UNEXPLAINED,
    Gap,
    Silence,
    gaps,
    silence_of,
)

CAUSES = tuple(MEANINGS)
_LEFT_OPEN = 1.25  # of RTOmin: silence before a capture's end that is long enough to be told
MOST_STALLS = 5_000  # of one flow
_SOON_SHARE = 0.1  # of a silence: a flow that goes on so soon after a pause waited for its end


@dataclass(frozen=True, eq=False)
class _Scene:
    """A flow and all that is known of it; timeouts_before: for each packet that a timeout sent again, how many timeouts
    had sent it again before; begins_ns: of the blocks; quiet_ns: the longest silence that round trips explain."""

    flow: Sent
    sighting: causes_afar.Sighting
    resent: Mapping[int, Resent]
    backs: Mapping[int, GoBack]
    timeouts_before: Mapping[int, int]
    blocks: Sequence[Block]
    begins_ns: Sequence[int]
    packets: Packets
    position: str
    position_confidence: str
    held: Sequence[Span]
    recovery: Recovery
    quiet_ns: float


def stalls_of(
    flow: Sent,
    repeats: Sequence[Resent],
    blocks: Sequence[Block],
    packets: Packets,
    position: str,
    held: Sequence[Span],
    recovery: Recovery,
    position_confidence: str = CERTAIN,
) -> tuple[FlowStall, ...]:
    """The stalls of a flow, the MOST_STALLS longest ones, in order of time; held: the spans, in order, in which pause
    frames held its sender's link, as far as the capture at `position` tells. Silences in which the application had
    nothing to send are among them (APPLICATION_IDLE), each with how sure that is; what rests on the position is no
    surer than that."""
    resent = {each.index: each for each in repeats}
    longest_ns = stall_threshold.longest_quiet_ns(flow, packets, position, recovery)
    scene = _Scene(
        flow=flow,
        sighting=causes_afar.Sighting(flow, packets),
        resent=resent,
        backs={index: each for index, each in resent.items() if isinstance(each, GoBack)},
        timeouts_before=_timeouts_before(repeats),
        blocks=blocks,
        begins_ns=[block.begin_ns for block in blocks],
        packets=packets,
        position=position,
        position_confidence=position_confidence,
        held=held,
        recovery=recovery,
        quiet_ns=longest_ns,
    )
    found = connecting_stalls(flow, packets)
    connected_ns = max((stall.end_ns for stall in found), default=None)
    silent = [gap for gap in gaps(flow, longest_ns) if connected_ns is None or gap.end_ns > connected_ns]
    silent = sorted(silent, key=lambda gap: gap.start_ns - gap.end_ns)[:MOST_STALLS]
    found += [*(_stall(scene, gap) for gap in silent), *_left_open(scene, longest_ns)]
    return _merged(sorted(found, key=lambda stall: stall.start_ns))


def _timeouts_before(repeats: Sequence[Resent]) -> dict[int, int]:
    seen: Counter[int] = Counter()
    found = {}
    for each in repeats:
        if each.kind == RTO:
            found[each.index] = seen[each.start]
            seen[each.start] += 1
    return found


def _stall(scene: _Scene, gap: Gap) -> FlowStall:
    silence = silence_of(scene.flow, gap, _block(scene, gap))
    told = _held_back(scene, gap, silence) or _by_rules(scene, gap, silence)
    return _flow_stall(scene, gap, told)


def _flow_stall(scene: _Scene, gap: Gap, told: Told) -> FlowStall:
    number = scene.packets.number
    places = int(number[gap.first]), int(number[gap.last])
    return FlowStall(scene.flow.name, gap.start_ns, gap.end_ns, told.cause, told.confidence, told.reason, *places)


def _block(scene: _Scene, gap: Gap) -> tuple[int, int]:
    """The byte positions of the block that a gap lies in: the last one begun before it."""
    begun = bisect_right(scene.begins_ns, gap.start_ns)
    if begun:
        return scene.blocks[begun - 1].start, scene.blocks[begun - 1].end
    return 0, int(scene.flow.send_end.max(initial=0))


def _held_back(scene: _Scene, gap: Gap, silence: Silence) -> Told | None:
    """What headers tell at every point: a receiver that is not ready, or a pause."""
    acks = int(np.searchsorted(scene.flow.ack_order, gap.last))
    last_ack = int(scene.flow.ack_order[acks - 1]) if acks else None
    if last_ack is not None and isinstance(scene.flow, RoceFlow):
        if scene.packets.syndrome[last_ack] & SYNDROME_KIND == RNR_SYNDROME:
            return Told(NOT_READY, CERTAIN, reasons.not_ready(gap))
    elif last_ack is not None and scene.packets.window[last_ack] == 0:
        return Told(ZERO_WINDOW, CERTAIN, reasons.zero_window(gap, int(scene.packets.number[last_ack])))
    return _paused(scene, gap, silence)


def _paused(scene: _Scene, gap: Gap, silence: Silence) -> Told | None:
    """Whether pauses held the link for most of a silence. Where everything was acknowledged the application may have
    been idle meanwhile, unless the flow goes on as soon as a pause ends."""
    first, last = (bisect_right(scene.held, (time_ns, 0)) for time_ns in (gap.start_ns, gap.end_ns))
    held = scene.held[max(first - 1, 0) : last]
    if not held or not stalls.is_held(silence, held):
        return None
    released = gap.end_ns - held[-1][1] <= _SOON_SHARE * (gap.end_ns - gap.start_ns)
    if silence.outstanding <= 0 and not released:
        return None
    sure = scene.position == SENDER and silence.outstanding > 0
    return Told(PAUSED, CERTAIN if sure else LIKELY, reasons.paused(gap, held))


def _by_rules(scene: _Scene, gap: Gap, silence: Silence) -> Told:
    """What the rules for the capture's position say, no surer than that itself where it is taken for the sender's."""
    told = _told(scene, gap, silence)
    if scene.position != SENDER or scene.position_confidence == CERTAIN:
        return told
    return replace(told, confidence=least_sure(told.confidence, LIKELY))


def _told(scene: _Scene, gap: Gap, silence: Silence) -> Told:
    if scene.position != SENDER:
        return causes_afar.told(scene.sighting, gap, silence, scene.position, scene.recovery)
    if isinstance(scene.flow, RoceFlow):
        return _of_pair(scene, gap, silence)
    return _of_tcp(scene, gap, silence)


def _of_pair(scene: _Scene, gap: Gap, silence: Silence) -> Told:
    """A queue pair's silence at its sender's capture."""
    if silence.outstanding <= 0:
        return Told(APPLICATION_IDLE, CERTAIN, reasons.idle(gap))
    cause = roce.cause_of(silence, scene.backs, scene.held)
    sure = UNSURE if cause == UNEXPLAINED else CERTAIN
    return Told(cause, sure, reasons.of_pair(cause, gap, silence))


def _of_tcp(scene: _Scene, gap: Gap, silence: Silence) -> Told:
    """A TCP flow's silence at its sender's capture."""
    flow, ended_by = scene.flow, scene.resent.get(-1 if silence.next_send is None else silence.next_send)
    event = ended_by if isinstance(ended_by, Retransmission) else None
    if not len(flow.ack_ns):
        return causes_afar.one_way(flow, gap, silence, scene.recovery)
    if event is not None and event.kind == RTO and event.spurious:
        return Told(SPURIOUS, CERTAIN, reasons.spurious(gap, event))
    cause = stalls.cause_of(silence, event, scene.recovery)
    if cause == LOSS_PROBE and event is not None and event.spurious:
        return Told(DELAYED_ACK, LIKELY, reasons.needless_probe(gap, silence))
    if cause == LOSS_PROBE and event is None and not _tells_of_loss(flow, silence):
        return Told(APPLICATION_IDLE, LIKELY, reasons.new_data(gap, silence))
    return Told(
        cause,
        LIKELY if cause == TAIL and not _has_ended(scene, gap) else _sureness(cause),
        reasons.of_tcp(cause, gap, silence, event, scene.timeouts_before.get(event.index, 0) if event else 0),
    )


def _has_ended(scene: _Scene, gap: Gap) -> bool:
    """Whether the block that a gap lies in is known to its end: another one follows, the flow was shut, or the capture
    goes on in silence. Else there may have been more of it."""
    flow, begun = scene.flow, bisect_right(scene.begins_ns, gap.start_ns)
    if 0 < begun < len(scene.blocks):
        return True
    end_ns = scene.blocks[begun - 1].end_ns if begun else None
    silent = end_ns is not None and int(scene.packets.time_ns.max()) - end_ns > scene.quiet_ns
    return silent or (isinstance(flow, Flow) and bool((scene.packets.flags[flow.rows] & FIN > 0).any()))


def _sureness(cause: str) -> str:
    """At a sender's capture the rules are exact; only who held up an acknowledgement is not seen there."""
    return {UNEXPLAINED: UNSURE, DELAYED_ACK: LIKELY}.get(cause, CERTAIN)


def _tells_of_loss(flow: Sent, silence: Silence) -> bool:
    """Whether a packet of new data that was sent out of silence drew duplicates or SACK blocks, or something was sent
    again soon: it was a probe that found a loss, and no new data of an application."""
    index = silence.next_send
    if index is None or not isinstance(flow, Flow):
        return False
    first = int(np.searchsorted(flow.ack_order, flow.send_order[index]))
    answered = slice(first, first + 2)
    told = bool((flow.ack_is_duplicate[answered] | (flow.ack_sack_blocks[answered] > 0)).any())
    return told or bool(flow.is_retransmission[index + 1 : index + 3].any())


def _left_open(scene: _Scene, longest_ns: float) -> list[FlowStall]:
    """The silence from a flow's last packet to the end of the capture, with something outstanding; nothing where it is
    too short to tell, or acknowledgements were not captured."""
    flow, packets = scene.flow, scene.packets
    if not len(flow.ack_ns) or not len(flow.send_ns) or scene.position == UNKNOWN:
        return []
    last = max(int(flow.send_order[-1]), int(flow.ack_order[-1]))
    gap = Gap(int(packets.time_ns[last]), int(packets.time_ns.max()), last, last)
    outstanding = int(flow.send_end.max()) - int(flow.ack_bytes[-1])
    if outstanding <= 0 or gap.end_ns - gap.start_ns < max(longest_ns, _LEFT_OPEN * scene.recovery.rto_min_ns):
        return []
    return [_flow_stall(scene, gap, Told(NEVER_WENT_ON, UNSURE, reasons.never_went_on(gap, outstanding)))]


def _merged(found: Sequence[FlowStall]) -> tuple[FlowStall, ...]:
    """Stalls, those that are one wait as one: a closed window that probes break into many silences, and an
    acknowledgement that is awaited on after a packet was needlessly sent again."""
    told: list[FlowStall] = []
    for stall in found:
        before = told[-1] if told else None
        if before and _is_one_wait(before, stall):
            told[-1] = reasons.one_of(before, stall)
        else:
            told.append(stall)
    return tuple(told)


def _is_one_wait(before: FlowStall, after: FlowStall) -> bool:
    if before.cause == after.cause == ZERO_WINDOW:
        return after.start_ns - before.end_ns <= (after.end_ns - before.start_ns) // 100
    return before.cause in (SPURIOUS, DELAYED_ACK) and after.cause == DELAYED_ACK and before.last == after.first
