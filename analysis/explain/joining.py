"""The same packets at several capture points: what got from one to the next, how long it took, and where it was lost.

A packet is told by what no switch changes: of TCP the connection, IPv4's identification, sequence and acknowledgement
numbers, flags, length and time stamps (RFC 7323), of RoCEv2 the queue pair, opcode and packet sequence number. Where
several packets of a flow are alike in all of these, the last of them at one point is taken for the last at the other,
the one before for the one before: a sender repeats a packet until one gets through.

The order of the points along a flow's path is not given. Of two points the first is the one that names of a run tell to
be the sender's, or the other one the receiver's; else the one that has packets which the other lacks, if that has none
of its own; else the one from which the shortest round trip to the receiver is longer; else the one where packets are
earlier, which alone depends on the clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from analysis.capture.packets import Packets
from analysis.explain.conversations import mixed
from analysis.explain.model import CERTAIN, MIDDLE, RECEIVER, SENDER, FlowStory, Hop, Point
from analysis.transport.sent import Flow, Sent

_TCP_TOLD_BY = ("ip_id", "seq", "ack", "flags", "payload_bytes", "timestamp_value", "timestamp_echo")
_ROCE_TOLD_BY = ("ip_id", "qpn", "psn", "opcode", "payload_bytes")
_LEAST_SHARE_PAIRED = 0.1  # below it two captures hold packets that were cut up differently
_PLACES = {SENDER: 0, MIDDLE: 1, RECEIVER: 2}


@dataclass(frozen=True, eq=False)
class Trace:
    """The data packets (n,) of a flow at one point, for comparison with other points: what tells each packet, its time,
    its number in the capture, whether its bytes were surely not sent again (single), and whether they were
    acknowledged; place: where the point lies on the path, and whether that is certain; onward_ns: the shortest round
    trip from here on, None where none was seen."""

    flow: str
    source: str
    destination: str
    point: str
    key: np.ndarray
    time_ns: np.ndarray
    number: np.ndarray
    single: np.ndarray
    acked: np.ndarray
    place: str
    is_certain: bool
    onward_ns: int | None


@dataclass(frozen=True)
class Clocks:
    """Two points whose clocks differ as far as packets tell: the second is ahead of the first by about offset_ns, to
    within uncertain_ns (None: nothing bounds it)."""

    first: str
    second: str
    offset_ns: int
    uncertain_ns: int | None


def trace_of(packets: Packets, flow: Sent, story: FlowStory) -> Trace:
    """A flow's trace at one point."""
    names = _TCP_TOLD_BY if isinstance(flow, Flow) else _ROCE_TOLD_BY
    key = np.zeros(len(flow.send_order), np.uint64)
    for name in names:
        key = mixed(key + getattr(packets, name)[flow.send_order].astype(np.uint64))
    acked = int(flow.ack_bytes[-1]) if len(flow.ack_bytes) else 0
    return Trace(
        flow=flow.name,
        source=flow.source,
        destination=flow.destination,
        point=story.point,
        key=key,
        time_ns=flow.send_ns,
        number=packets.number[flow.send_order],
        single=_single(flow),
        acked=flow.send_end <= acked,
        place=story.position,
        is_certain=story.position_confidence == CERTAIN,
        onward_ns=story.rtt_min_ns,
    )


def _single(flow: Sent) -> np.ndarray:
    """Which packets (n,) come before higher positions only, and behind lower ones: their bytes were surely sent once.
    (A repetition may be lost where an earlier sending has arrived.)"""
    if not len(flow.send_start):
        return np.zeros(0, np.bool_)
    lowest_from = np.minimum.accumulate(flow.send_start[::-1])[::-1]
    return (flow.send_start < np.append(lowest_from[1:], np.iinfo(np.int64).max)) & ~flow.is_retransmission


@dataclass(frozen=True, eq=False)
class _Pairing:
    """Which packets of two traces are the same: places (k,) in the first and in the second."""

    first: np.ndarray
    second: np.ndarray


def _paired(first: Trace, second: Trace) -> _Pairing:
    """The packets that both traces have; of packets that are alike the last goes with the last."""
    keys = np.concatenate([first.key, second.key])
    _, numbers = np.unique(keys, return_inverse=True)
    ours, theirs = numbers[: len(first.key)], numbers[len(first.key) :]
    _, at_first, at_second = np.intersect1d(
        _with_place(ours), _with_place(theirs), assume_unique=True, return_indices=True
    )
    order = np.argsort(at_first)
    return _Pairing(at_first[order], at_second[order])


def _with_place(numbers: np.ndarray) -> np.ndarray:
    """Each number (n,) with its place among its likes, counted from the end: different for all."""
    order = np.argsort(numbers, kind="stable")
    inside = numbers[order]
    ends = np.searchsorted(inside, inside, side="right")
    place = np.empty(len(numbers), np.int64)
    place[order] = ends - np.arange(len(numbers))
    return numbers.astype(np.int64) << 32 | place


def _is_before(first: Trace, second: Trace, pairing: _Pairing) -> bool:
    """Whether the first point lies nearer to the sender."""
    places = _PLACES.get(first.place), _PLACES.get(second.place)
    if None not in places and places[0] != places[1] and (first.is_certain or second.is_certain):
        return places[0] < places[1]  # type: ignore[operator]
    only_first, only_second = len(first.key) - len(pairing.first), len(second.key) - len(pairing.second)
    if (only_first == 0) != (only_second == 0):
        return only_second == 0
    if first.onward_ns is not None and second.onward_ns is not None and first.onward_ns != second.onward_ns:
        return first.onward_ns > second.onward_ns
    return float(np.median(second.time_ns[pairing.second] - first.time_ns[pairing.first])) >= 0


def hops_of(traces: Sequence[Trace], points: Mapping[str, Point]) -> tuple[list[Hop], list[str]]:
    """The hops of one flow between the points that saw it, in the path's order, and what could not be joined, in
    sentences."""
    pairings = {}
    for one, other in combinations(range(len(traces)), 2):
        pairings[one, other] = _paired(traces[one], traces[other])
        pairings[other, one] = _Pairing(pairings[one, other].second, pairings[one, other].first)
    after = {
        each: sum(
            not _is_before(traces[each], traces[other], pairings[each, other])
            for other in range(len(traces))
            if other != each and len(pairings[each, other].first)
        )
        for each in range(len(traces))
    }
    order = sorted(after, key=lambda each: after[each])
    hops, notes = [], []
    for place, (one, other) in enumerate(zip(order, order[1:])):
        behind = [pairings[one, far].first for far in order[place + 2 :]]
        found = pairings[one, other]
        if len(found.first) < _LEAST_SHARE_PAIRED * min(len(traces[one].key), len(traces[other].key)):
            notes.append(_cannot_join(traces[one], traces[other], len(found.first)))
        else:
            hops.append(_hop(traces[one], traces[other], found, behind, points))
    return hops, notes


def _cannot_join(first: Trace, second: Trace, paired: int) -> str:
    return (
        f"{first.flow}: {first.point} and {second.point} have {paired:,} packets in common: too few to join them "
        "(another time, or packets cut up differently by a host's offload)"
    )


def _hop(
    first: Trace, second: Trace, pairing: _Pairing, behind: Sequence[np.ndarray], points: Mapping[str, Point]
) -> Hop:
    """What got from the first point to the second, and what did not; behind: which of the
    first point's packets came to each of the points behind."""
    delay_ns = second.time_ns[pairing.second] - first.time_ns[pairing.first]
    least_ns = int(delay_ns.min())
    lost = np.ones(len(first.key), np.bool_)
    lost[pairing.first] = False
    for came in behind:
        lost[came] = False  # the second capture missed it
    lost &= ~(first.single & first.acked)  # delivered, and never sent again: missed too
    lost &= _in_time(first, points[second.point], delay_ns)
    return Hop(
        flow=first.flow,
        first=first.point,
        second=second.point,
        paired=len(delay_ns),
        delay_min_ns=least_ns,
        delay_median_ns=int(np.partition(delay_ns, (len(delay_ns) - 1) // 2)[(len(delay_ns) - 1) // 2]),
        delay_max_ns=int(delay_ns.max()),
        lost_number=first.number[lost],
        lost_ns=first.time_ns[lost],
        unpaired=len(second.key) - len(pairing.second),
        same_clock=least_ns >= 0 and not _is_too_long(least_ns, first),
        sent_ns=first.time_ns[pairing.first],
        delay_ns=delay_ns,
    )


def _in_time(first: Trace, second: Point, delay_ns: np.ndarray) -> np.ndarray:
    """Which packets would have come to the second point while it captured."""
    typical_ns = int(np.median(delay_ns))
    longest_ns = max(int(delay_ns.max()), typical_ns)
    arrives_ns = first.time_ns + typical_ns
    return (arrives_ns >= second.first_ns) & (first.time_ns + longest_ns <= second.last_ns)


def _is_too_long(delay_ns: int, first: Trace) -> bool:
    """Whether a delay one way is more than the whole round trip from the first point on, which it is a part of."""
    return first.onward_ns is not None and delay_ns > first.onward_ns


def clocks_of(hops: Sequence[Hop], traces: Sequence[Trace]) -> list[Clocks]:
    """The pairs of points whose clocks differ, with the offset that centres the shortest delay within the round trip
    that it is part of."""
    onward: dict[str, list[int]] = {}
    for trace in traces:
        onward.setdefault(trace.point, []).extend([] if trace.onward_ns is None else [trace.onward_ns])
    found: dict[tuple[str, str], Clocks] = {}
    for hop in hops:
        if hop.same_clock or hop.delay_min_ns is None:
            continue
        room_ns = min(onward.get(hop.first, []), default=None)
        offset_ns = hop.delay_min_ns - (room_ns or 0) // 2
        found.setdefault((hop.first, hop.second), Clocks(hop.first, hop.second, offset_ns, room_ns and room_ns // 2))
    return list(found.values())


def join(traces: Sequence[Trace], points: Sequence[Point]) -> tuple[list[Hop], list[str]]:
    """The hops of all flows that several points saw, and what could not be joined."""
    by_flow: dict[tuple[str, str, str], list[Trace]] = {}
    for trace in traces:
        by_flow.setdefault((trace.flow, trace.source, trace.destination), []).append(trace)
    named, hops, notes = {point.name: point for point in points}, [], []
    for seen in by_flow.values():
        found, told = hops_of(seen, named) if len(seen) > 1 else ([], [])
        hops += found
        notes += told
    return _with_one_clock(hops), notes


def _with_one_clock(hops: Sequence[Hop]) -> list[Hop]:
    """Two points' clocks differ for all of their flows when they do for one."""
    apart = {frozenset((hop.first, hop.second)) for hop in hops if not hop.same_clock}
    return [replace(hop, same_clock=frozenset((hop.first, hop.second)) not in apart) for hop in hops]
