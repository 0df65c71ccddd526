"""RoCEv2 flows from the packets of one capture point: what a queue pair sent, what was acknowledged, and when and why
it went back.

A reliable connection knows no selective repair (InfiniBand specification, volume 1, section 9.7): the receiver answers
the first packet behind a gap with a NAK, once for each gap, and drops what follows; the sender goes back to the packet
that the NAK names and sends everything from there again (go-back-N). What was lost without a packet behind it, the
queue pair's timeout has to find. Soft-RoCE adds a rule of its own (drivers/infiniband/sw/rxe/rxe_comp.c): a NAK that
comes before anything has been acknowledged since the sender last went back is ignored, so that a second loss among the
packets sent again costs a timeout too.

A flow goes back where a packet repeats a number that was sent before, and the one before it does not lead up to it:

qp_timeout   out of silence for half of the queue pair's timeout or longer; or no NAK has come since the flow last went
             back, and nothing else for nine tenths of the timeout.
nak          a NAK has come since the flow last went back.
unexplained  neither.

What follows in sequence, up to the highest number sent before, is go_back_n.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.transport.events import GO_BACK_N, UNEXPLAINED
from analysis.transport.queue_pairs import RoceFlow
from analysis.transport.retransmits import CounterMatch, Resent
from analysis.transport.spans import Span
from analysis.transport.stalls import (
    NAK_IGNORED,
    NOT_TOLD,
    PAUSED,
    ROUND_TRIPS,
    SHARE_OF_TIMER,
    Round,
    Silence,
    Stall,
    is_held,
    silences,
)
from analysis.transport.stalls import UNEXPLAINED as NO_CAUSE

NAK, QP_TIMEOUT = "nak", "qp_timeout"
# 4.096 us x 2^14 (InfiniBand specification, volume 1, section 9.9.2.4.2): what the workload gives its queue pairs.
QP_TIMEOUT_NS = 4096 << 14
_EARLY_SHARE_OF_TIMEOUT = 0.9  # a capture's times leave out the wait in the sender's own queue


@dataclass(frozen=True)
class GoBack(Resent):
    """The first packet of those sent again. told: a NAK had come since the flow last went back."""

    told: bool


def go_backs(flow: RoceFlow) -> list[GoBack]:
    """Every time that the flow went back, in order."""
    steps = np.diff(flow.send_psn, prepend=flow.send_psn[:1] - 1)
    found: list[GoBack] = []
    for index in np.flatnonzero(flow.is_retransmission & (steps != 1)).tolist():
        found.append(_go_back(flow, index, found[-1] if found else None))
    return found


def _go_back(flow: RoceFlow, index: int, before: GoBack | None) -> GoBack:
    acks = int(np.searchsorted(flow.ack_order, flow.send_order[index]))
    since = int(np.searchsorted(flow.ack_order, flow.send_order[before.index])) if before else 0
    time_ns, told = int(flow.send_ns[index]), bool(flow.ack_is_nak[since:acks].any())
    heard_ns = int(flow.ack_ns[acks - 1]) if acks else int(flow.send_ns[0])
    silent_ns = time_ns - max(heard_ns, int(flow.send_ns[index - 1]))
    unheard_ns = time_ns - max(heard_ns, before.time_ns if before else 0)
    overdue = not told and unheard_ns >= _EARLY_SHARE_OF_TIMEOUT * QP_TIMEOUT_NS
    late = silent_ns >= SHARE_OF_TIMER * QP_TIMEOUT_NS or overdue
    kind = QP_TIMEOUT if late else NAK if told else UNEXPLAINED
    return GoBack(*_resent(flow, index, kind), told)


def resent(flow: RoceFlow) -> list[Resent]:
    """Every packet of `flow` that was sent again, with its kind, in order of time."""
    first = {each.index: each for each in go_backs(flow)}
    return [
        first.get(index) or Resent(*_resent(flow, index, GO_BACK_N))
        for index in np.flatnonzero(flow.is_retransmission).tolist()
    ]


def _resent(flow: RoceFlow, index: int, kind: str) -> tuple[int, int, int, int, str, bool]:
    start, end = int(flow.send_start[index]), int(flow.send_end[index])
    return index, int(flow.send_ns[index]), start, end, kind, bool(flow.is_needless[index])


def roce_stalls(flows: Iterable[RoceFlow], rounds: Sequence[Round], held: Mapping[str, Sequence[Span]]) -> list[Stall]:
    """Every stall of `flows` (sender captures) within `rounds`, in order of time, then of flow; held: for each flow the
    spans in ns during which its sender's NIC was paused."""
    found = [
        Stall(
            flow.name,
            (silence.start_ns - rounds[0].start_ns) / 1e9,
            (silence.end_ns - silence.start_ns) / 1e9,
            cause_of(silence, backs, held.get(flow.name, ())),
        )
        for flow in flows
        for backs in [{each.index: each for each in go_backs(flow)}]
        for silence in silences(flow, rounds, threshold_ns(flow))
    ]
    return sorted(found, key=lambda stall: (stall.start_s, stall.flow))


def threshold_ns(flow: RoceFlow) -> float:
    """The silence that counts as a stall of this flow: half of the timeout, and 8 median round trips."""
    return max(SHARE_OF_TIMER * QP_TIMEOUT_NS, ROUND_TRIPS * flow.median_rtt_ns)


def cause_of(silence: Silence, backs: Mapping[int, GoBack], held: Iterable[Span]) -> str:
    """Why a queue pair was silent: `backs` by the packets that they begin with, `held` when its sender was paused."""
    back = backs.get(silence.next_send) if silence.next_send is not None else None
    if back is not None and back.kind == QP_TIMEOUT:
        return NAK_IGNORED if back.told else NOT_TOLD
    return PAUSED if is_held(silence, held) else NO_CAUSE


def compare_with_soft_roce(
    flows: Sequence[RoceFlow], counters: Mapping[str, Mapping[str, int]], senders: Iterable[str]
) -> list[CounterMatch]:
    """Soft-RoCE's counters of each host (rxe_hw_counters.c) against what the sender captures show."""
    sending = set(senders)
    return [
        CounterMatch(
            "sent_pkts",
            "packets sent by the senders",
            sum(told.get("sent_pkts", 0) for host, told in counters.items() if host in sending),
            sum(len(flow.send_ns) for flow in flows),
        ),
        CounterMatch(
            "out_of_seq_request",
            "NAKs of a gap in the sequence",
            sum(told.get("out_of_seq_request", 0) for told in counters.values()),
            sum(int(flow.ack_is_nak.sum()) for flow in flows),
        ),
        CounterMatch(
            "completer_retry_err",
            "times that a sender went back",
            sum(told.get("completer_retry_err", 0) for told in counters.values()),
            sum(len(go_backs(flow)) for flow in flows),
        ),
    ]
