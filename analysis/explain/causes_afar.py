"""Why a flow was silent, as captures tell that were not taken at its sender: at the hot port, at the receiver, or with
one direction only.

What was lost before it came to such a point was never seen there, so that a timeout looks like new data after a pause
of the application. The IPv4 identification tells them apart: Linux counts it up by one with each packet of a
connection, whether it arrives or not, so that numbers which are missing before the packet that ends a silence are
packets that were lost on the way to this point. Where identifications do not count (0, random, IPv6) the cause is no
more than likely, or unsure. From a round trip's length on a delayed acknowledgement is certain at the receiver alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis import text
from analysis.capture.packets import Packets
from analysis.explain.model import CERTAIN, LIKELY, RECEIVER, UNSURE
from analysis.explain.reasons import SPURIOUS, TIMEOUT, Told, idle, length
from analysis.transport.queue_pairs import RoceFlow
from analysis.transport.recovery import Recovery
from analysis.transport.sent import Flow, Sent
from analysis.transport.stalls import (
    APPLICATION_IDLE,
    DELAYED_ACK,
    FEW_DUPLICATES,
    FULL_WINDOW,
    LONGEST_DELAYED_ACK_NS,
    LOSS_PROBE,
    LOST_RETRANSMISSION,
    NOT_TOLD,
    RACK_TIMER,
    TAIL,
    UNEXPLAINED,
    Gap,
    Silence,
    gaps,
    silence_of,
)

_EARLY = 0.9  # of RTOmin: the silence begins when the last packet passes, which may be after the timer was set
_COUNTING_SHARE = 0.5  # of a flow's steps from one identification to the next: they count packets
_LEAST_STEPS = 4
_MOST_MISSING = 1 << 15  # half of the space: beyond it a step is one backwards
_ENOUGH_DUPLICATES = 3
_SHORTEST_IDLE_NS = 100_000
_MOST_IDLE = 1_000


@dataclass(frozen=True, eq=False)
class Sighting:
    """A flow as the packets of one capture show it, and what is worked out once for all of its silences."""

    flow: Sent
    packets: Packets

    @cached_property
    def counts_packets(self) -> bool:
        """Whether its IP identifications count packets."""
        return counts_packets(self.flow, self.packets)

    @cached_property
    def idle_ends(self) -> list[tuple[int, int]]:
        """How long the flow was silent where, with everything acknowledged and nothing lost; the longest times."""
        return list(_idle_ends(self))


def told(seen: Sighting, gap: Gap, silence: Silence, position: str, recovery: Recovery) -> Told:
    """The cause of a silence of a flow at a capture that is not its sender's."""
    flow = seen.flow
    if not len(flow.ack_ns):
        return one_way(flow, gap, silence, recovery)
    if silence.next_send is None:
        return _acknowledged(gap, silence, position)
    if isinstance(flow, RoceFlow):
        return _of_pair(flow, gap, silence)
    if flow.send_start[silence.next_send] < flow.highest_before[silence.next_send]:
        if position == RECEIVER and _passed(flow, silence):
            return _had_arrived(flow, gap, silence, recovery)
        return _sent_again(seen, gap, silence, recovery)
    return _went_on(seen, gap, silence, recovery)


def one_way(flow: Sent, gap: Gap, silence: Silence, recovery: Recovery) -> Told:
    """The cause where no acknowledgements were captured: nobody knows what was outstanding."""
    index, lasted = silence.next_send, length(gap)
    if index is not None and flow.send_start[index] < flow.highest_before[index] and _is_timeout(gap, recovery):
        return Told(TIMEOUT, LIKELY, f"{lasted}, then earlier data was sent again; no acknowledgements were captured")
    unknown = f"{lasted}; without acknowledgements nobody can tell whether it waited for one or had nothing to send"
    return Told(UNEXPLAINED, UNSURE, unknown)


def _acknowledged(gap: Gap, silence: Silence, position: str) -> Told:
    """A silence that an acknowledgement ended."""
    left, lasted = text.counted(silence.outstanding, "byte"), length(gap)
    if silence.outstanding <= 0:
        return Told(APPLICATION_IDLE, LIKELY, idle(gap))
    if not silence.acked or gap.end_ns - gap.start_ns > LONGEST_DELAYED_ACK_NS:
        return Told(UNEXPLAINED, UNSURE, f"{lasted} with {left} unacknowledged; no rule explains it")
    where = "here at the receiver" if position == RECEIVER else "behind this point"
    reason = f"{left} waited {lasted} {where} for their acknowledgement, and nothing was sent again"
    return Told(DELAYED_ACK, CERTAIN if position == RECEIVER else LIKELY, reason)


def _of_pair(flow: RoceFlow, gap: Gap, silence: Silence) -> Told:
    """A queue pair's silence, ended by a packet: one sent again after so long was its timeout's."""
    index, lasted = silence.next_send, length(gap)
    if index is not None and flow.is_retransmission[index]:
        return Told(NOT_TOLD, LIKELY, f"{lasted}, then packets were sent again from number {flow.send_psn[index]:,} on")
    if index and flow.send_psn[index] > flow.highest_psn_before[index] + 1:
        missing = int(flow.send_psn[index] - flow.highest_psn_before[index] - 1)
        return Told(TIMEOUT, UNSURE, f"{lasted}; {text.counted(missing, 'packet')} before its end never passed here")
    if silence.outstanding <= 0:
        reason = f"{idle(gap)}; or packets were lost before they came here, which then cannot be told"
        return Told(APPLICATION_IDLE, UNSURE, reason)
    return Told(UNEXPLAINED, UNSURE, f"{lasted}; no rule explains it")


def _passed(flow: Sent, silence: Silence) -> int:
    """How often the first byte of what ended a silence had passed before."""
    index = silence.next_send or 0
    start = int(flow.send_start[index])
    return int(((flow.send_start[:index] <= start) & (flow.send_end[:index] > start)).sum())


def _had_arrived(flow: Sent, gap: Gap, silence: Silence, recovery: Recovery) -> Told:
    """What ended a silence had come to its receiver before: it was awaited there, or its acknowledgement elsewhere."""
    index = silence.next_send or 0
    what = f"position {int(flow.send_start[index]):,}, which had arrived, was sent again after {length(gap)}"
    if _is_timeout(gap, recovery):
        return Told(SPURIOUS, LIKELY, f"{what}: its acknowledgement was lost, or later than the sender's timer")
    if silence.outstanding > 0:
        return Told(DELAYED_ACK, CERTAIN, f"{what}, before the receiver had acknowledged it")
    return Told(DELAYED_ACK, LIKELY, f"{what}: its acknowledgement was lost, or late")


def _sent_again(sighting: Sighting, gap: Gap, silence: Silence, recovery: Recovery) -> Told:
    """A silence that ended with data below the highest seen: it was lost before this point, or behind it."""
    flow, index = sighting.flow, silence.next_send or 0
    start = int(flow.send_start[index])
    seen = _passed(flow, silence)
    duplicates, sacked = _duplicates(flow, index)
    passed = f"position {start:,} was sent again, which had passed here {_times(seen)}"
    if not _is_timeout(gap, recovery):
        cause = RACK_TIMER if sacked or duplicates else LOSS_PROBE
        return Told(cause, LIKELY, f"{length(gap)}, shorter than a timeout; then {passed}")
    missing = missing_before(sighting, gap) or 0
    if (missing and (sacked or duplicates)) or seen > 1 or duplicates >= _ENOUGH_DUPLICATES:
        unseen = f", and {_lost(missing)} meanwhile" if missing else ""
        return Told(LOST_RETRANSMISSION, LIKELY, f"{length(gap)}; {passed}{_and_duplicates(duplicates)}{unseen}")
    if duplicates or sacked:
        return Told(FEW_DUPLICATES, LIKELY, f"{length(gap)}; {passed}{_and_duplicates(duplicates)}")
    cause = FULL_WINDOW if silence.unsent > 0 or not silence.block_started else TAIL
    return Told(cause, LIKELY, f"{length(gap)}; {passed}, and no duplicate acknowledgement came")


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _and_duplicates(count: int) -> str:
    return f", after {text.counted(count, 'duplicate acknowledgement')}" if count else ", after SACK blocks"


def _duplicates(flow: Sent, index: int) -> tuple[int, bool]:
    """The duplicate acknowledgements since the last new one, and whether the last had SACK blocks."""
    acks = int(np.searchsorted(flow.ack_order, flow.send_order[index]))
    if not acks or not isinstance(flow, Flow):
        return 0, False
    return int(flow.duplicates_since_advance[acks - 1]), bool(flow.ack_sack_blocks[acks - 1])


def _went_on(seen: Sighting, gap: Gap, silence: Silence, recovery: Recovery) -> Told:
    """A silence that ended with data that follows what was seen, or leaves a gap."""
    missing = missing_before(seen, gap)
    if missing and silence.outstanding <= 0 and _ends_a_block(seen, gap):
        reason = f"{length(gap)}; a block ended, and {_lost(missing)}: when the flow went on within it is not known"
        return Told(APPLICATION_IDLE, UNSURE, reason)
    if missing:
        return _lost_before(seen.flow, gap, silence, missing, recovery)
    if silence.outstanding > 0:
        return Told(UNEXPLAINED, UNSURE, f"{length(gap)} with data unacknowledged, then new data; no rule explains it")
    if missing == 0:
        reason = f"{idle(gap)} (IP identifications go on without a gap: no packet was lost before this point)"
        return Told(APPLICATION_IDLE, CERTAIN, reason)
    if not _is_timeout(gap, recovery):
        return Told(APPLICATION_IDLE, LIKELY, idle(gap))
    reason = f"{idle(gap)}; or the end of a block was lost before it came here and a timeout followed: nothing tells"
    return Told(APPLICATION_IDLE, UNSURE, reason)


def _lost_before(flow: Sent, gap: Gap, silence: Silence, missing: int, recovery: Recovery) -> Told:
    """Packets were sent that never came here."""
    index = silence.next_send or 0
    size = int(flow.send_end[index] - flow.send_start[index])
    lost = _lost(missing)
    if not _is_timeout(gap, recovery):
        return Told(LOSS_PROBE, LIKELY, f"{length(gap)}, shorter than a timeout; {lost}")
    rest = _until_idle(flow, index) - int(flow.send_start[index])
    cause = TAIL if rest <= size * (missing + 1) else FULL_WINDOW
    return Told(cause, LIKELY, f"{length(gap)}; {lost}, and nothing behind them did")


def _lost(missing: int) -> str:
    return f"{text.counted(missing, 'packet')} of the flow, by IP identifications, never came to this point"


def _ends_a_block(seen: Sighting, gap: Gap) -> bool:
    """Whether what had passed before a gap is a whole number of the flow's blocks. Their size is that between two
    positions at which the flow was idle with no packet lost: it sends what it is given, again and again."""
    index = int(np.searchsorted(seen.flow.send_order, gap.last))
    ends = _sure_ends(seen, (gap.end_ns - gap.start_ns) // 2)
    position = int(seen.flow.send_end[:index].max(initial=0))
    return bool(len(ends)) and position % int(np.diff(ends, prepend=0).min()) == 0


def _sure_ends(seen: Sighting, silent_ns: int) -> list[int]:
    """The positions, in order, at which the flow was silent for at least half as long, with everything acknowledged
    and nothing lost."""
    return sorted({position for lasted_ns, position in seen.idle_ends if 2 * lasted_ns >= silent_ns} - {0})


def _idle_ends(seen: Sighting) -> Iterator[tuple[int, int]]:
    flow = seen.flow
    silent = sorted(gaps(flow, _SHORTEST_IDLE_NS), key=lambda gap: gap.start_ns - gap.end_ns)
    for gap in silent[:_MOST_IDLE]:
        silence = silence_of(flow, gap, (0, 0))
        sent = int(np.searchsorted(flow.send_order, gap.last))
        if silence.next_send is not None and silence.outstanding <= 0 and missing_before(seen, gap) == 0:
            yield gap.end_ns - gap.start_ns, int(flow.send_end[:sent].max(initial=0))


def _until_idle(flow: Sent, index: int) -> int:
    """The highest position that passes before the flow is as silent again as it was before the packet at `index`."""
    silent_ns = int(flow.send_ns[index] - flow.send_ns[index - 1]) if index else 0
    later = np.flatnonzero(np.diff(flow.send_ns[index:]) > silent_ns // 2)
    last = index + int(later[0]) if len(later) else len(flow.send_ns) - 1
    return int(flow.send_end[index : last + 1].max())


def missing_before(seen: Sighting, gap: Gap) -> int | None:
    """How many packets of the flow's sender are missing, by IP identifications, between the last that was seen before
    the packet that ends a gap and that one; None where identifications do not count packets."""
    if not seen.counts_packets:
        return None
    flow, packets = seen.flow, seen.packets
    index = int(np.searchsorted(flow.send_order, gap.last))
    here = int(flow.send_order[index])
    since = int(flow.send_order[index - 1]) if index else gap.first
    own = [since] * (index > 0) + _own_rows(packets, since + 1, here)
    if not own:
        return None
    step = (int(packets.ip_id[here]) - int(packets.ip_id[own[0]])) % (1 << 16)
    return max(step - len(own), 0) if step < _MOST_MISSING else None


def _own_rows(packets: Packets, first: int, here: int) -> list[int]:
    """The rows of [first, here) with packets of the same source and destination as those of the row `here`."""
    rows = slice(first, here)
    own = (packets.src_ip[rows] == packets.src_ip[here]) & (packets.sport[rows] == packets.sport[here])
    own &= (packets.dst_ip[rows] == packets.dst_ip[here]) & (packets.dport[rows] == packets.dport[here])
    return (first + np.flatnonzero(own)).tolist()


def counts_packets(flow: Sent, packets: Packets) -> bool:
    """Whether the IPv4 identification goes up by one from most data packets to the next."""
    rows = flow.send_order
    steps = np.diff(packets.ip_id[rows].astype(np.int64)) % (1 << 16)
    is_ipv4 = bool(len(rows)) and packets.ip_version[rows[0]] == 4
    return bool(is_ipv4 and len(steps) >= _LEAST_STEPS and (steps == 1).mean() >= _COUNTING_SHARE)


def _is_timeout(gap: Gap, recovery: Recovery) -> bool:
    return gap.end_ns - gap.start_ns >= _EARLY * recovery.rto_min_ns
