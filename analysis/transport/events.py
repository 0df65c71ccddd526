"""The segments of a flow that were sent again, what was known when they were, and which of them were needless."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.transport.sent import Flow
from analysis.transport.sequences import distance

FAST, RACK, RTO, GO_BACK_N, PROBE, UNEXPLAINED = "fast", "rack", "rto", "go_back_n", "probe", "unexplained"
KINDS = (FAST, RACK, RTO, GO_BACK_N, PROBE, UNEXPLAINED)


class Event(NamedTuple):
    """A segment sent again (its index), and what was known: U and H of the module's rules, how many acknowledgements
    had come, how long ago a new one had, and the index of the segment that last sent its first byte before (-1 for
    none); is_alone: nothing was sent behind it at once; the others as in Retransmission."""

    segment: int
    time_ns: int
    start: int
    end: int
    acked: int
    highest: int
    acks: int
    advance_ns: int
    last: int
    is_alone: bool
    earlier: int
    silent_ns: int
    age_ns: int
    duplicates: int
    sacked: bool


def events_of(flow: Flow) -> list[Event]:
    """The segments of a flow that were sent again, in order."""
    index = np.flatnonzero(flow.is_retransmission)
    if not len(index):
        return []
    time_ns, acks = flow.send_ns[index], flow.acks_before[index]
    heard_ns = np.concatenate([flow.send_ns[:1], flow.ack_ns])[acks]
    last, earlier = _sent_before(flow, index)
    sacks = flow.ack_sack_blocks > (flow.ack_dsack[:, 1] > flow.ack_dsack[:, 0])
    columns = (
        index,
        time_ns,
        flow.send_start[index],
        flow.send_end[index],
        flow.acked_before[index],
        flow.highest_before[index],
        acks,
        time_ns - _advanced_ns(flow)[acks],
        last,
        _are_alone(flow, index),
        earlier,
        time_ns - np.maximum(flow.send_ns[index - 1], np.where(acks > 0, heard_ns, flow.send_ns[index - 1])),
        np.where(last >= 0, time_ns - flow.send_ns[last], 0),
        np.concatenate([[0], flow.duplicates_since_advance])[acks],
        np.concatenate([[False], sacks])[acks],
    )
    return list(map(Event, *(column.tolist() for column in columns)))


def _advanced_ns(flow: Flow) -> np.ndarray:
    """When the cumulative acknowledgement had last grown, before any acknowledgement (m + 1,) and after each; the
    flow's begin before it first did."""
    places = np.maximum.accumulate(np.where(flow.ack_advances, np.arange(1, len(flow.ack_ns) + 1), 0))
    return np.concatenate([flow.send_ns[:1], flow.ack_ns])[np.concatenate([[0], places])]


def _are_alone(flow: Flow, index: np.ndarray) -> np.ndarray:
    """Behind which of the segments in `index` nothing was sent within a smallest round trip unless an acknowledgement
    came."""
    following = np.minimum(index + 1, len(flow.send_ns) - 1)
    soon = flow.send_ns[following] - flow.send_ns[index] < flow.shortest_rtt_ns
    return ~(soon & (following > index) & (flow.acks_before[following] == flow.acks_before[index]))


def _sent_before(flow: Flow, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each segment in `index` the one that last sent its first byte before (-1: none), and how often that had been
    sent again."""
    begins = np.unique(flow.send_start[index])
    low, high = np.searchsorted(begins, flow.send_start), np.searchsorted(begins, flow.send_end)
    last, times = np.full(len(begins), -1), np.zeros(len(begins), np.int64)
    before, count = [], []
    is_asked = np.zeros(len(low), np.bool_)
    is_asked[index] = True
    touching = np.flatnonzero(low < high)
    for place, first, end, asked in zip(
        touching.tolist(), low[touching].tolist(), high[touching].tolist(), is_asked[touching].tolist()
    ):
        if asked:
            before.append(last[first])
            count.append(times[first])
        last[first:end] = place
        times[first:end] += 1
    return np.array(before, np.int64), np.maximum(np.array(count, np.int64) - 1, 0)


def needless(flow: Flow, events: list[Event]) -> list[bool]:
    """Which of the retransmissions are proven to be spurious."""
    found = [_is_older(flow, event) for event in events]
    starts, by_start = np.array([event.start for event in events]), np.argsort([event.start for event in events])
    longest = max(event.end - event.start for event in events)
    for place in np.flatnonzero(flow.ack_dsack[:, 1] > flow.ack_dsack[:, 0]).tolist():
        start, end = flow.ack_dsack[place].tolist()
        near = slice(*np.searchsorted(starts[by_start], [start - longest + 1, end]))
        for number in sorted(by_start[near].tolist()):
            event = events[number]
            proven = event.start < end and start < event.end and flow.send_order[event.segment] < flow.ack_order[place]
            if proven and not found[number]:
                found[number] = True
                break
    return found


def _is_older(flow: Flow, event: Event) -> bool:
    """Whether the first new acknowledgement after the first outstanding segment was sent again echoes an older time
    stamp than its own."""
    if not event.start <= event.acked < event.end:
        return False
    place = int(np.searchsorted(flow.ack_bytes, event.acked, side="right"))
    if place == len(flow.ack_bytes):
        return False
    stamp, echo = int(flow.send_stamp[event.segment]), int(flow.ack_echo[place])
    return min(stamp, echo) >= 0 and distance(echo, stamp) < 0


def is_overtaken(flow: Flow, event: Event) -> bool:
    """Whether something that was sent after a segment's last sending is known to have arrived when it was sent again.

    Later is by another acknowledgement, or further up: what a sender sends at once bears one time. Of something sent
    again itself this is known only where a smallest round trip has passed since (RFC 8985, section 6.2, step 2). SACK
    blocks of which the edges were not captured count as telling of it.
    """
    if not event.acks:
        return False
    between = slice(event.last + 1, event.segment)
    heard_ns, blocks = flow.ack_ns[event.acks - 1], flow.ack_sacks[event.acks - 1].reshape(2, 2)
    if event.sacked and not (blocks[:, 1] > np.maximum(blocks[:, 0], event.acked)).any():
        return not event.earlier
    start, end = flow.send_start[between], flow.send_end[between]
    arrived = end <= event.acked
    for left, right in blocks.tolist():
        arrived |= (start >= left) & (end <= right)
    sure = ~flow.is_retransmission[between] | (heard_ns - flow.send_ns[between] >= flow.shortest_rtt_ns)
    later = (flow.acks_before[between] > flow.acks_before[event.last]) | (end > event.end)
    return bool((arrived & sure & later).any())
