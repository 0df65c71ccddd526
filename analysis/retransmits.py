"""Why each segment was sent again: the rules that follow Linux's own loss recovery (net/ipv4/tcp_input.c,
tcp_output.c, tcp_recovery.c, tcp_timer.c).

A retransmission is data below the highest byte already sent, at the sender's own capture. With U the
cumulative acknowledgement known when it was sent and H the highest byte sent before it, the first rule that
fits names its kind:

probe        (TLP, RFC 8985 section 7) the last segment (it ends at H), out of silence of two smallest round
             trips or more, outside of recovery, once per flight. Linux sends a probe no later than the RTO
             would fire, so a flight of one segment is probed when its RTO is due.
rto          (RFC 6298) the first segment outstanding (it holds U), not sent for RTOmin or longer, out of
             silence of a tenth of RTOmin or more. While SACK blocks are in hand and that segment was sent
             once only, a silence shorter than RTOmin, or than 10 ms, ends by RACK's timer instead: fast.
go_back_n    after an RTO, anything below the H of that moment, until U reaches it: Linux counts these as
             TCPSlowStartRetrans.
fast         (RFC 5681, 6675, 8985) three duplicates or a SACK block in hand, or the recovery that these began
             is not over (U below its H), or the flow was not silent for its smallest round trip: Linux sends
             again on a timer or on an acknowledgement only, and the timers are the rules above. Linux counts
             these as TCPFastRetrans.
unexplained  none of these.

Deviations: an undone (spurious) timeout keeps its go_back_n label until U reaches H; the kernel's reordering
window is not modelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from analysis.flows import Flow

FAST, RTO, GO_BACK_N, PROBE, UNEXPLAINED = "fast", "rto", "go_back_n", "probe", "unexplained"
KINDS = (FAST, RTO, GO_BACK_N, PROBE, UNEXPLAINED)

_DUPLICATES_FOR_FAST = 3  # RFC 5681's threshold
_EARLY_SHARE_OF_RTO = 0.9  # a capture's times leave out the wait in the sender's own queue
_SILENT_SHARE_OF_RTO = 0.1
_LONGEST_RACK_TIMER_NS = 10_000_000  # a round trip and a quarter, in whole ticks of 1 ms: a few of them
_SILENT_ROUND_TRIPS = 2  # the probe timeout of RFC 8985


@dataclass(frozen=True)
class Recovery:
    """The loss recovery of a sender: RTO minimum in ns, and whether TLP and RACK are on."""

    rto_min_ns: int
    tlp: bool = True
    rack: bool = True


@dataclass(frozen=True)
class Resent:
    """One packet sent again, over any transport: its index into the flow's send_* columns, when, its byte positions
    [start, end), and its kind."""

    index: int
    time_ns: int
    start: int
    end: int
    kind: str


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
    classifier = _Classifier(flow, recovery)
    return [classifier.classify(index) for index in np.flatnonzero(flow.is_retransmission).tolist()]


class _Classifier:
    """Walks a flow's retransmissions in order, remembering up to which bytes the sender recovers."""

    def __init__(self, flow: Flow, recovery: Recovery) -> None:
        self._flow, self._recovery = flow, recovery
        self._highest, self._acked = flow.highest_before, flow.acked_before
        self._acks_before = flow.acks_before
        self._duplicates = np.concatenate([[0], flow.duplicates_since_advance])
        self._sacks = np.concatenate([[0], flow.ack_sack_blocks])
        round_trips = flow.rtt_ns()
        self._round_trip_ns = int(round_trips.min()) if len(round_trips) else 0
        self._loss_until = self._recovery_until = self._probed_until = -1

    def classify(self, index: int) -> Retransmission:
        """The retransmission at `index`; moves the remembered state on."""
        flow, acks = self._flow, int(self._acks_before[index])
        start = int(flow.send_start[index])
        sends = np.flatnonzero((flow.send_start[:index] <= start) & (flow.send_end[:index] > start))
        time_ns, last_ns = int(flow.send_ns[index]), int(flow.send_ns[index - 1])
        last_ack_ns = int(flow.ack_ns[acks - 1]) if acks else last_ns
        event = Retransmission(
            index=index,
            time_ns=time_ns,
            start=start,
            end=int(flow.send_end[index]),
            kind=UNEXPLAINED,
            silent_ns=time_ns - max(last_ns, last_ack_ns),
            age_ns=time_ns - int(flow.send_ns[sends[-1]]) if len(sends) else 0,
            earlier=max(len(sends) - 1, 0),
            duplicates=int(self._duplicates[acks]),
            sacked=bool(self._sacks[acks]),
            recovered_to_here=int(self._acked[index]) in (self._loss_until, self._recovery_until),
        )
        return self._named(event, acked=int(self._acked[index]), highest=int(self._highest[index]))

    def _named(self, event: Retransmission, acked: int, highest: int) -> Retransmission:
        kind = self._kind(event, acked, highest)
        if kind == PROBE:
            self._probed_until = highest
        elif kind == RTO:
            self._loss_until, self._recovery_until = highest, -1
        elif kind == FAST and acked >= self._recovery_until:
            self._recovery_until = highest
        return replace(event, kind=kind)

    def _kind(self, event: Retransmission, acked: int, highest: int) -> str:
        """The first of the module's rules that fits."""
        # Data acknowledged by now was sent again before the sender knew: the acknowledgement crossed it in
        # the sender's own queue.
        known = min(acked, event.start)
        in_recovery = known < max(self._loss_until, self._recovery_until)
        if self._is_probe(event, acked, highest, in_recovery):
            return PROBE
        if self._is_timeout(event, acked, in_recovery):
            return RTO
        if known < self._loss_until:
            return GO_BACK_N
        told = event.sacked or event.duplicates >= _DUPLICATES_FOR_FAST
        return FAST if in_recovery or told or event.silent_ns < self._round_trip_ns else UNEXPLAINED

    def _is_probe(self, event: Retransmission, acked: int, highest: int, in_recovery: bool) -> bool:
        possible = self._recovery.tlp and not in_recovery and acked >= self._probed_until
        silent = event.silent_ns >= max(_SILENT_ROUND_TRIPS * self._round_trip_ns, 1)
        return possible and silent and event.end == highest and not event.sacked

    def _is_timeout(self, event: Retransmission, acked: int, in_recovery: bool) -> bool:
        rto_min_ns = self._recovery.rto_min_ns
        if not event.start <= acked < event.end or event.age_ns < _EARLY_SHARE_OF_RTO * rto_min_ns:
            return False
        is_short = event.silent_ns < max(_EARLY_SHARE_OF_RTO * rto_min_ns, _LONGEST_RACK_TIMER_NS)
        rack_timer = self._recovery.rack and event.sacked and not event.earlier and not in_recovery and is_short
        return event.silent_ns >= _SILENT_SHARE_OF_RTO * rto_min_ns and not rack_timer


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
    "TCPFastRetrans": ("fast retransmissions", (FAST,)),
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
