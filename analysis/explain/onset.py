"""When collapse began, with how many senders, and how long the first burst took to fill the hot queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.explain.crowd import FEWEST_SENDERS, by_receiver, host_of
from analysis.explain.lost_time import is_lost, lost_together, working
from analysis.explain.model import FlowStory, Hop, each_once
from analysis.explain.reasons import TIMEOUTS


@dataclass(frozen=True)
class Onset:
    """When the flows to `receiver` first stood still together until a timeout ended it, and how many hosts had sent to
    it in the burst before."""

    time_ns: int
    receiver: str
    senders: int


def onset(flows: Sequence[FlowStory]) -> Onset | None:
    """The first collapse of all; None without one."""
    found = [each for receiver, group in by_receiver(each_once(flows)).items() if (each := _of_group(receiver, group))]
    return min(found, key=lambda each: each.time_ns, default=None)


def _of_group(receiver: str, flows: Sequence[FlowStory]) -> Onset | None:
    if len({host_of(flow.source) for flow in flows}) < FEWEST_SENDERS:
        return None
    timeouts = [stall for flow in flows for stall in flow.stalls if stall.cause in TIMEOUTS and is_lost(stall)]
    stills = [
        start
        for start, end in lost_together(flows)
        if any(each.start_ns < end and start < each.end_ns for each in timeouts)
    ]
    if not stills:
        return None
    time_ns = min(stills)
    began_ns = max((start for flow in flows for start, _ in working(flow) if start <= time_ns), default=time_ns)
    active = {host_of(flow.source) for flow in flows if _worked(flow, began_ns, time_ns)}
    return Onset(time_ns, receiver, len(active))


def _worked(flow: FlowStory, since_ns: int, until_ns: int) -> bool:
    """Whether a flow had work to do in the burst that was begun by then."""
    return any(start <= until_ns and end >= since_ns for start, end in working(flow))


def onset_ns(flows: Sequence[FlowStory], hops: Sequence[Hop]) -> int | None:
    """When collapse began: with joined captures the first packet lost before the first common stand-still, else the
    stand-still's own begin; None without one."""
    found = onset(flows)
    if found is None:
        return None
    losses = [int(each) for hop in hops for each in hop.lost_ns.tolist() if each <= found.time_ns]
    return min(losses, default=found.time_ns)


def fill_s(hops: Sequence[Hop], flows: Sequence[FlowStory]) -> float | None:
    """Seconds from the packet that found the hot queue empty to the first one that did not fit, by packets that two
    points saw: their delay beyond the least one is their wait, and the first that is missing at the second point did
    not fit. None without such points, without a loss between them, or where the queue was never seen empty before it.
    """
    ends: dict[str, list[Hop]] = {}
    for hop in hops:
        if hop.same_clock and hop.delay_min_ns is not None:
            ends.setdefault(hop.second, []).append(hop)
    hot = max(ends.values(), key=lambda some: sum(len(hop.lost_ns) for hop in some), default=[])
    return _fill_s([hop for hop in hot if hop.delay_min_ns is not None])


def _fill_s(hops: Sequence[Hop]) -> float | None:
    """Over all hops that end at one point. Senders are taken to be equally far from it, since most flows of a burst
    never meet an empty queue to tell: a packet comes to the queue the least delay of all after it was sent, and finds
    it empty when all before it have left."""
    lost_ns = np.concatenate([np.zeros(0, np.int64), *(hop.lost_ns for hop in hops)])
    if not len(lost_ns):
        return None
    least_ns = min(hop.delay_min_ns for hop in hops if hop.delay_min_ns is not None)
    sent_ns = np.concatenate([hop.sent_ns for hop in hops])
    comes_ns, leaves_ns = sent_ns + least_ns, sent_ns + np.concatenate([hop.delay_ns for hop in hops])
    order = np.argsort(comes_ns, kind="stable")
    emptied_ns = np.maximum.accumulate(np.concatenate([[0], leaves_ns[order][:-1]]))
    began_ns = comes_ns[order][comes_ns[order] >= emptied_ns]
    full_ns = int(lost_ns.min()) + least_ns
    began_ns = began_ns[began_ns < full_ns]
    return (full_ns - int(began_ns[-1])) / 1e9 if len(began_ns) else None
