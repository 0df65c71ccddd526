"""The blocks of a flow: what it sent between two times in which it was idle.

A packet with the next new data begins a block when nothing is outstanding and either the other direction has just asked
for it (data came back since the packet before), or the flow had been silent for several round trips. A timeout or a
delayed acknowledgement is no such silence: something is outstanding meanwhile. Without acknowledgements what is
outstanding is not known, and silence alone has to tell.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from analysis.explain.model import SENDER, UNKNOWN, Block
from analysis.transport.sent import Sent

MOST_BLOCKS = 10_000  # of one flow
_IDLE_ROUND_TRIPS = 4
_SHORTEST_IDLE_NS = 10_000
_SILENT_WITHOUT_ACKS_NS = 1_000_000_000  # longer than the timeouts and delayed acknowledgements that it may be


def blocks_of(
    flow: Sent, brings: np.ndarray, asked_order: np.ndarray, asked_ns: np.ndarray, round_trip_ns: int, where: str
) -> tuple[Block, ...]:
    """The first MOST_BLOCKS blocks of a flow. brings (n,): which packets filled a gap; asked_order, asked_ns: places
    and times of the other direction's data packets; round_trip_ns: all of it, as far as it is known."""
    if not len(flow.send_ns):
        return ()
    first = _beginnings(flow, asked_order, round_trip_ns)
    highest = np.maximum.accumulate(flow.send_end)
    last = np.concatenate([first[1:], [len(highest)]]) - 1
    starts, ends = flow.send_start[first], highest[last]
    ended = (
        _acknowledged(flow, ends)
        if where in (SENDER, UNKNOWN) and len(flow.ack_ns)
        else _passed(flow, brings, first, last)
    )
    requests = _requests(flow, first, asked_order, asked_ns)
    columns = zip(flow.send_ns[first].tolist(), ended, starts.tolist(), ends.tolist(), requests)
    return tuple(Block(number, *values) for number, values in enumerate(islice(columns, MOST_BLOCKS), start=1))


def _beginnings(flow: Sent, asked_order: np.ndarray, round_trip_ns: int) -> np.ndarray:
    """The indices of the packets that begin a block, the first one among them."""
    order, acks = flow.send_order, flow.acks_before
    last_send = np.concatenate([flow.send_ns[:1], flow.send_ns[:-1]])
    is_new = flow.send_start == flow.highest_before  # beyond it, what was skipped had been sent, and lost
    if not len(flow.ack_ns):
        is_first = is_new & (flow.send_ns - last_send > _SILENT_WITHOUT_ACKS_NS)
    else:
        last_ack = np.concatenate([flow.send_ns[:1], flow.ack_ns])[acks]
        silent_ns = flow.send_ns - np.maximum(last_send, last_ack)
        idle = silent_ns > max(_IDLE_ROUND_TRIPS * round_trip_ns, _SHORTEST_IDLE_NS)
        asked = np.searchsorted(asked_order, order)
        was_asked = np.diff(asked, prepend=asked[:1]) > 0
        is_first = is_new & (flow.acked_before >= flow.highest_before) & (idle | was_asked)
    is_first[0] = True
    return np.flatnonzero(is_first)


def _acknowledged(flow: Sent, ends: np.ndarray) -> list[int | None]:
    """When each block was acknowledged as a whole; None where it was not."""
    covering = np.searchsorted(flow.ack_bytes, ends).tolist()
    return [int(flow.ack_ns[ack]) if ack < len(flow.ack_ns) else None for ack in covering]


def _passed(flow: Sent, brings: np.ndarray, first: np.ndarray, last: np.ndarray) -> list[int | None]:
    """When the last new bytes of each block passed; None for a block of which some never did."""
    beyond = flow.send_end - np.maximum(flow.send_start, flow.highest_before)
    fresh = np.where(brings, flow.send_end - flow.send_start, np.maximum(beyond, 0))
    ended = np.maximum.reduceat(np.where(fresh > 0, flow.send_ns, flow.send_ns[0]), first)
    seen = np.add.reduceat(fresh, first)
    highest = np.maximum.accumulate(flow.send_end)[last]
    whole = seen >= highest - flow.send_start[first]
    return [int(time) if is_whole else None for time, is_whole in zip(ended, whole)]


def _requests(flow: Sent, first: np.ndarray, asked_order: np.ndarray, asked_ns: np.ndarray) -> list[int | None]:
    """When the other direction asked for each block: its last data packet since the block before had begun."""
    before = np.concatenate([[-1], flow.send_order[first][:-1]])
    place = np.searchsorted(asked_order, flow.send_order[first]) - 1
    return [
        int(asked_ns[at]) if at >= 0 and asked_order[at] > since else None
        for at, since in zip(place.tolist(), before.tolist())
    ]
