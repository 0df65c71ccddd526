"""Whether a TCP sender recovers, from what, and up to which byte: Linux's congestion states (net/ipv4/tcp_input.c,
tcp_fastretrans_alert), as far as packets at the sender show them.

A timeout begins a recovery up to the highest byte sent; so does the first retransmission that an acknowledgement
brings. It is over when all of that is acknowledged, unless something that was sent again is still on its way then: with
SACK the sender goes on recovering, up to the highest byte of that moment. A timeout's recovery also ends when the
sender finds the timeout to have been needless: a new acknowledgement echoes a time stamp older than the recovery's
first retransmission (the Eifel response, RFC 4015), DSACKs have reported all that was sent again (RFC 3708), or data
that was never sent again is acknowledged or reported by SACK before anything but the first segment is sent again
(F-RTO, RFC 5682).
"""

from __future__ import annotations

import numpy as np

from analysis.transport.events import FAST, PROBE, RACK, RTO, Event
from analysis.transport.sent import Flow
from analysis.transport.sequences import distance

_LEAST_KEPT = 64


class LossState:
    """The state of a flow's sender while its retransmissions are walked through in order: for each, first `hear` of
    what came back, then `note` its kind.

    recovers; after_timeout: it does, from a timeout; until: the byte at which that ends, or the last one ended; since:
    index of the segment that began it.
    """

    def __init__(self, flow: Flow, sack: bool) -> None:
        self._flow, self._sack = flow, sack
        self.recovers = self.after_timeout = False
        self.until, self.since = -1, 0
        self._stamp = -1  # of the recovery's first retransmission
        self._heard = 0  # acknowledgements looked at for undoing
        self._can_tell = False  # F-RTO is under way: after the first timeout of a recovery, and after recurring ones
        self._timeout_acked = -1  # what was acknowledged at the last timeout
        self._unreported = 0  # segments sent again in this recovery that no DSACK reported yet
        self._resent: list[Event] = []  # those that may be outstanding, and some that no longer are
        self._most_resent = _LEAST_KEPT

    def hear(self, event: Event) -> None:
        """Take in the acknowledgements that were known when a segment was sent again. One that covers it was not: it
        crossed the segment in the sender's own queue."""
        known = min(event.acked, event.start)
        if self.after_timeout and self._sack and self._is_undone(event):
            self.recovers = self.after_timeout = False
        while self.recovers and known >= self.until:
            self._end(int(np.searchsorted(self._flow.ack_bytes, self.until)))

    def note(self, event: Event, kind: str) -> None:
        """A segment was sent again for this reason."""
        if not self.recovers and kind != PROBE:
            self._stamp, self._unreported = int(self._flow.send_stamp[event.segment]), 0
        if kind == RTO:
            recurs = self._timeout_acked == event.acked
            self._can_tell = not self.recovers or recurs
            self._unreported *= recurs or not self.after_timeout
            self._timeout_acked = event.acked
            self._begin(event, after_timeout=True)
        elif kind in (FAST, RACK) and (not self.recovers or self.after_timeout):
            self._begin(event, after_timeout=False)
        if kind != RTO:
            self._can_tell = False
        self._unreported += 1
        self._resent.append(event)
        if len(self._resent) > self._most_resent:
            self._resent = [each for each in self._resent if each.end > event.acked]
            self._most_resent = 2 * len(self._resent) + _LEAST_KEPT

    def _begin(self, event: Event, after_timeout: bool) -> None:
        self.recovers, self.after_timeout = True, after_timeout
        self.until, self.since, self._heard = event.highest, event.segment, event.acks

    def _end(self, place: int) -> None:
        """The acknowledgement at `place` covers all that was to be recovered."""
        acked, order = int(self._flow.ack_bytes[place]), int(self._flow.ack_order[place])
        waiting = [each for each in self._resent if each.end > acked and self._flow.send_order[each.segment] < order]
        waiting = [each for each in waiting if not self._is_sacked(each, place)]
        self.recovers, self.after_timeout, self._unreported = self._sack and bool(waiting), False, len(waiting)
        if self.recovers:
            sent = int(np.searchsorted(self._flow.send_order, order))
            self.until = int(self._flow.send_end[:sent].max())

    def _is_sacked(self, event: Event, place: int) -> bool:
        """Whether the acknowledgements up to `place` reported a segment that was sent again."""
        blocks = self._flow.ack_sacks[event.acks : place + 1]
        covers = (blocks[:, 0::2] <= event.start) & (blocks[:, 1::2] >= event.end)
        return bool(covers.any())

    def _is_undone(self, event: Event) -> bool:
        """Whether an acknowledgement before this retransmission, since the timeout, undid the timeout."""
        known = int(np.searchsorted(self._flow.ack_bytes, event.start, side="right"))
        for place in range(self._heard, min(event.acks, known)):
            self._heard = place + 1
            self._unreported -= bool(self._flow.ack_dsack[place].any())
            proven = self._is_older(place) or self._unreported <= 0
            if (self._flow.ack_advances[place] and proven) or (self._can_tell and self._is_original(place)):
                return True
        return False

    def _is_older(self, place: int) -> bool:
        echo = int(self._flow.ack_echo[place])
        return min(echo, self._stamp) >= 0 and distance(echo, self._stamp) < 0

    def _is_original(self, place: int) -> bool:
        """Whether an acknowledgement tells of a byte, sent before the timeout, that was never sent again and that none
        told of before."""
        flow = self._flow
        first = int(np.searchsorted(flow.ack_bytes, flow.ack_bytes[place - 1])) if place else 0
        told = [*_blocks(flow, first, place), *((each.start, each.end) for each in self._resent)]
        acked = int(flow.ack_bytes[place - 1]) if place else 0
        news = [(acked, int(flow.ack_bytes[place])), *_blocks(flow, place, place + 1)]
        return any(_has_other(start, min(end, self.until), told) for start, end in news)


def _blocks(flow: Flow, first: int, after: int) -> list[tuple[int, int]]:
    """The data that the acknowledgements [first, after) reported beyond what they acknowledged."""
    edges = flow.ack_sacks[first:after].reshape(-1, 2)
    beyond = np.repeat(flow.ack_bytes[first:after], 2) < edges[:, 1]
    return [(start, end) for start, end in edges[beyond].tolist()]


def _has_other(start: int, end: int, known: list[tuple[int, int]]) -> bool:
    """Whether [start, end) has a byte outside of the known ranges."""
    reached = start
    for begin, stop in sorted(known):
        if begin > reached:
            break
        reached = max(reached, stop)
    return reached < end
