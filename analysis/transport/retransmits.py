"""Why each segment was sent again: the rules that follow Linux's own loss recovery (net/ipv4/tcp_input.c,
tcp_output.c, tcp_recovery.c, tcp_timer.c).

A retransmission is data below the highest byte already sent, at the sender's own capture. With U the
cumulative acknowledgement known when it was sent and H the highest byte sent before it, the first rule that
fits names its kind:

probe        (TLP, RFC 8985 section 7) the last segment (it ends at H), out of silence of two smallest round
             trips or more, outside of recovery, once per flight. Linux sends a probe no later than the RTO
             would fire, so a flight of one segment is probed when its RTO is due. Only with SACK.
rto          (RFC 6298) the first segment outstanding (it holds U), not sent for RTOmin or longer, out of
             silence of a tenth of RTOmin or more, alone: nothing follows it until something is heard. In recovery
             no new acknowledgement came for RTOmin either. Where something sent later is known to have arrived,
             outside of recovery or before new data, a silence shorter than RTOmin, or than 4 ms and 1.25 round
             trips, ends by RACK's timer instead: rack; unless new data was sent out of silence in between (a
             probe), after which Linux waits for the RTO alone.
rack         (RFC 8985) told by the order of sending: a segment that this recovery had sent again already, so
             that the retransmission was lost; one that RACK's timer sends out of a silence of a millisecond or
             more; or one behind which something that was sent later arrived, though nothing of the rule for
             fast tells of it. After an RTO, the first of these ends go_back_n: Linux goes over to fast recovery.
go_back_n    after an RTO, anything below the H of that moment, until U reaches it, or until the RTO is proven
             needless: Linux counts these as TCPSlowStartRetrans.
fast         (RFC 5681, 6675, 8985) three duplicates or a SACK block in hand, or the recovery that these began
             is not over (U below its H), or the flow was not silent for its smallest round trip: Linux sends
             again on a timer or on an acknowledgement only, and the timers are the rules above. Linux counts
             these and rack as TCPFastRetrans.
unexplained  none of these.

A retransmission is spurious, whatever its kind, where it is proven that the data had arrived without it: a DSACK
reports the data as having come twice (RFC 2883, RFC 3708; of several retransmissions each DSACK proves one), or the
first new acknowledgement after the first outstanding segment was sent again echoes an older time stamp than the
retransmission's (the Eifel detection, RFC 3522).

Deviations: the kernel's reordering window is not modelled; a paced sender's retransmission that comes alone, after
RTOmin or longer, is taken for a timeout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from analysis.transport.events import (
    FAST,
    GO_BACK_N,
    KINDS,
    PROBE,
    RACK,
    RTO,
    UNEXPLAINED,
    Event,
    events_of,
    is_overtaken,
    needless,
)
from analysis.transport.loss_state import LossState
from analysis.transport.recovery import SILENT_ROUND_TRIPS, TICK_NS, Recovery
from analysis.transport.sent import Flow

DUPLICATES_FOR_FAST = 3  # RFC 5681's threshold
_EARLY_SHARE_OF_RTO = 0.9  # a capture's times leave out the wait in the sender's own queue
_SILENT_SHARE_OF_RTO = 0.1
_LONGEST_RACK_TIMER_NS = 4_000_000  # of Linux, beside the round trips: two ticks, and two for rounding
_RACK_ROUND_TRIPS = 1.25


@dataclass(frozen=True)
class Resent:
    """One packet sent again, over any transport: its index into the flow's send_* columns, when, its byte positions
    [start, end), its kind, and whether it is proven to have been needless."""

    index: int
    time_ns: int
    start: int
    end: int
    kind: str
    spurious: bool


@dataclass(frozen=True)
class Retransmission(Resent):
    """One TCP segment sent again, and what was known when it was sent.

    silent_ns since the flow's last packet either way; age_ns since these bytes were last sent; earlier: how many times
    they had been sent again before; duplicates and sacked: the duplicate acknowledgements since the cumulative one
    grew, and whether the last acknowledgement carried SACK blocks; recovered_to_here: the cumulative acknowledgement
    stands exactly where the last recovery was to end.
    """

    silent_ns: int
    age_ns: int
    earlier: int
    duplicates: int
    sacked: bool
    recovered_to_here: bool


def retransmissions(flow: Flow, recovery: Recovery) -> list[Retransmission]:
    """Every segment of `flow` that was sent again, with its kind, in order of time."""
    events = events_of(flow)
    if not events:
        return []
    classifier, spurious = _Classifier(flow, recovery), needless(flow, events)
    found = []
    for event, is_needless in zip(events, spurious):
        kind, recovered_to_here = classifier.classify(event)
        found.append(
            Retransmission(
                event.segment,
                event.time_ns,
                event.start,
                event.end,
                kind,
                is_needless,
                event.silent_ns,
                event.age_ns,
                event.earlier,
                event.duplicates,
                event.sacked,
                recovered_to_here,
            )
        )
    return found


class _Classifier:
    """Walks a flow's retransmissions in order."""

    def __init__(self, flow: Flow, recovery: Recovery) -> None:
        self._flow, self._recovery = flow, recovery
        self._sack = _has_sack(flow, recovery)
        self._round_trip_ns = flow.shortest_rtt_ns
        self._repeats = flow.is_retransmission
        self._probed_until = -1
        self._state = LossState(flow, self._sack)

    def classify(self, event: Event) -> tuple[str, bool]:
        """The kind of the next retransmission, and whether the acknowledgement stands where the last recovery was to
        end; moves the remembered state on."""
        recovered_to_here = event.acked == self._state.until
        self._state.hear(event)
        kind = self._kind(event)
        self._state.note(event, kind)
        if kind == PROBE:
            self._probed_until = event.highest
        return kind, recovered_to_here

    def _kind(self, event: Event) -> str:
        """The first of the module's rules that fits."""
        state = self._state
        if self._is_probe(event):
            return PROBE
        if self._is_timeout(event):
            return RTO
        if state.recovers and self._sack and event.last >= state.since and self._repeats[event.last]:
            return RACK
        if state.after_timeout:
            return GO_BACK_N
        told = event.sacked or event.duplicates >= DUPLICATES_FOR_FAST
        if self._sack and event.sacked and event.silent_ns >= max(TICK_NS, self._round_trip_ns):
            return RACK
        if state.recovers or told or event.silent_ns < self._round_trip_ns:
            return FAST
        return RACK if self._sack and is_overtaken(self._flow, event) else UNEXPLAINED

    def _is_probe(self, event: Event) -> bool:
        possible = self._recovery.tlp and self._sack and not self._state.recovers and event.acked >= self._probed_until
        silent = event.silent_ns >= max(SILENT_ROUND_TRIPS * self._round_trip_ns, 1)
        return possible and silent and event.end == event.highest and not event.sacked

    def _is_timeout(self, event: Event) -> bool:
        rto_min_ns = self._recovery.rto_min_ns
        due_ns = _EARLY_SHARE_OF_RTO * rto_min_ns + TICK_NS
        if not event.start <= event.acked < event.end or event.age_ns < due_ns or not event.is_alone:
            return False
        if event.silent_ns < _SILENT_SHARE_OF_RTO * rto_min_ns or (self._state.recovers and event.advance_ns < due_ns):
            return False
        return not self._is_racks_timer(event)

    def _is_racks_timer(self, event: Event) -> bool:
        """Whether RACK's timer was to fire first: it is set when what was sent later arrives, and gives way to RTO's
        when new data probes for a loss. A sender that recovers mostly waits no longer, but takes the segment for lost
        at once; not so one that sends new data before it, nor, while nothing else is outstanding, a paced one."""
        timer_ns = _LONGEST_RACK_TIMER_NS + _RACK_ROUND_TRIPS * self._round_trip_ns
        longest_ns = max(_EARLY_SHARE_OF_RTO * self._recovery.rto_min_ns, timer_ns)
        has_timer = not self._state.recovers or (not self._state.after_timeout and self._was_passed_over(event))
        if (
            not (self._recovery.rack and self._sack and has_timer)
            or event.silent_ns >= longest_ns
            or self._was_probed(event)
        ):
            return False
        return is_overtaken(self._flow, event)

    def _was_passed_over(self, event: Event) -> bool:
        """Whether a segment could have been sent at the last acknowledgement: new data was sent since then, or nothing
        else was outstanding."""
        first = int(np.searchsorted(self._flow.send_order, self._flow.ack_order[event.acks - 1])) if event.acks else 0
        return event.end == event.highest or not self._repeats[first : event.segment].all()

    def _was_probed(self, event: Event) -> bool:
        """Whether the segment before was sent out of silence."""
        flow, before = self._flow, event.segment - 1
        heard_ns = int(flow.ack_ns[event.acks - 1]) if event.acks else 0
        last_ns = max(heard_ns, int(flow.send_ns[before - 1])) if before else heard_ns
        return int(flow.send_ns[before]) - last_ns >= max(TICK_NS, self._round_trip_ns)


def _has_sack(flow: Flow, recovery: Recovery) -> bool:
    """Whether both ends use SACK: as the receiver shows, or else as the sender is set up."""
    if flow.ack_sack_blocks.any():
        return True
    return recovery.sack and not flow.ack_is_duplicate.any()


@dataclass(frozen=True)
class CounterMatch:
    """One kernel counter beside what the sender captures show: the same events, seen twice."""

    counter: str
    meaning: str
    kernel: int
    captured: int

    @property
    def agrees(self) -> bool:
        """Whether both counted the same."""
        return self.kernel == self.captured


_COUNTERS = {  # kernel counter -> (what it counts, the kinds of retransmission that it counts)
    "RetransSegs": ("segments sent again", KINDS),
    "TCPTimeouts": ("retransmission timeouts", (RTO,)),
    "TCPFastRetrans": ("fast retransmissions", (FAST, RACK)),
    "TCPSlowStartRetrans": ("go-back-N after a timeout", (GO_BACK_N,)),
}


def compare_with_kernel(kinds: Iterable[str], kernel: Mapping[str, int]) -> list[CounterMatch]:
    """The kernel's counters (nstat names, absent ones are 0) against the kinds of the retransmissions
    captured.

    Loss probes are compared within RetransSegs only, because TCPLossProbes also counts probes that carry new
    data.
    """
    captured = Counter(kinds)
    return [
        CounterMatch(name, meaning, kernel.get(name, 0), sum(captured[kind] for kind in counted))
        for name, (meaning, counted) in _COUNTERS.items()
    ]
