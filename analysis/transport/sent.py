"""What a flow sent and what came back, as one capture point saw it: the packets, and what they say of one another.

What is judged here needs no luck with the capture: it may begin in the middle of a connection, hold one direction
only, or be taken at the receiver. There, data below the highest byte that was never seen before fills a gap: it was
lost or overtaken before it came to the capture, and nothing was seen twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from analysis.transport.sequences import Holes, unwrap

_KEEP_ALIVE_NS = 1_000_000_000  # the shortest that Linux lets keep-alives be apart
_ASCENDING_SHARE = 0.6  # of a flow's neighbouring packets, for identifications to tell their order: by small steps
_LARGEST_STEP = 1_000


class RoundTrips(NamedTuple):
    """Samples (k,): when the acknowledgement came, and the time since the packet that it covers."""

    at_ns: np.ndarray
    length_ns: np.ndarray


@dataclass(frozen=True, eq=False)
class Sent:
    """The packets with data (n,) that left a sender and the acknowledgements (m,) that came back, as seen at one
    capture point: what flows of every transport have.

    name, source and destination ("address:port", of RoCE "address:queue pair"). *_order is the place in the capture,
    which settles what came first at equal times. send_start and send_end are byte positions [start, end);
    send_wire_bytes the frame's length; ack_bytes is the cumulative acknowledgement, running maximum taken.
    """

    name: str
    source: str
    destination: str
    send_ns: np.ndarray
    send_order: np.ndarray
    send_start: np.ndarray
    send_end: np.ndarray
    send_wire_bytes: np.ndarray
    ack_ns: np.ndarray
    ack_order: np.ndarray
    ack_bytes: np.ndarray

    @cached_property
    def highest_before(self) -> np.ndarray:
        """Highest byte position sent before each segment (n,); the first one's own start for the first."""
        return np.concatenate([self.send_start[:1], np.maximum.accumulate(self.send_end)[:-1]])

    @cached_property
    def is_retransmission(self) -> np.ndarray:
        """Which segments (n,) carry data below the highest byte already sent (at the sender's own capture they repeat
        it; elsewhere those that `fills_gap` names do not)."""
        return self.send_start < self.highest_before

    @cached_property
    def acks_before(self) -> np.ndarray:
        """How many acknowledgements (n,) had come back when each segment was sent."""
        return np.searchsorted(self.ack_order, self.send_order)

    @cached_property
    def acked_before(self) -> np.ndarray:
        """Cumulative acknowledgement (n,) known when each segment was sent: TCP's snd_una."""
        return np.concatenate([[0], self.ack_bytes])[self.acks_before]

    @cached_property
    def fills_gap(self) -> np.ndarray:
        """Which segments (n,) bring bytes below the highest one that were not seen before: lost, or overtaken, on the
        way to the capture point."""
        highest = self.highest_before.copy()
        highest[:1] = 0
        opens = self.send_start > highest
        fills = np.zeros(len(opens), np.bool_)
        holes = Holes()
        for place in np.flatnonzero(opens | (self.send_start < highest)).tolist() if opens.any() else ():
            start, end = int(self.send_start[place]), int(self.send_end[place])
            if opens[place]:
                holes.opened(int(highest[place]), start)
            else:
                fills[place] = holes.filled(start, end)
        return fills

    @cached_property
    def round_trips(self) -> RoundTrips:
        """The times from segments to the acknowledgements that cover them, in order of the segments.

        Segments sent again give none (Karn's rule, RFC 6298), nor do those whose acknowledgement had to wait
        for something else to be sent again.
        """
        resent = self.send_order[self.is_retransmission]
        covering = np.searchsorted(self.ack_bytes, self.send_end)
        sampled = np.flatnonzero(~self.is_retransmission & (covering < len(self.ack_bytes)))
        covering = covering[sampled]
        resent_before = np.searchsorted(resent, self.send_order[sampled])
        clean = np.searchsorted(resent, self.ack_order[covering]) == resent_before
        at_ns = self.ack_ns[covering[clean]]
        length_ns = at_ns - self.send_ns[sampled[clean]]
        # Where acknowledgements cover data before it passes, the capture missed packets, or its clock went backwards.
        return RoundTrips(at_ns[length_ns >= 0], length_ns[length_ns >= 0])

    def rtt_ns(self) -> np.ndarray:
        """The lengths of the round trips (k,)."""
        return self.round_trips.length_ns

    @cached_property
    def shortest_rtt_ns(self) -> int:
        """The smallest of the round-trip samples, 0 without any."""
        return int(self.rtt_ns().min()) if len(self.rtt_ns()) else 0

    @cached_property
    def median_rtt_ns(self) -> float:
        """The median of the round-trip samples, 0 without any."""
        return float(np.median(self.rtt_ns())) if len(self.rtt_ns()) else 0.0


@dataclass(frozen=True, eq=False)
class Flow(Sent):
    """A TCP flow: its data segments, and what its acknowledgements told.

    ack_advances: the cumulative acknowledgement grew; ack_is_duplicate: RFC 5681's duplicate (no data, same
    acknowledgement and window, data outstanding), or one that repeats the acknowledgement with SACK blocks.
    ack_sack_blocks: how many; ack_sacks (m, 4): the positions [start, end) of the first two; ack_dsack (m, 2): those of
    one that reports a duplicate (RFC 2883; 0, 0: none); ack_window: the advertised one, unscaled. send_stamp and
    ack_echo: RFC 7323's value and echo, -1 without the option; send_id: the IPv4 identification.

    rows, back_rows: the places in the capture of all of its packets and of all that came back, those without data too,
    copies left out; copies: how many frames were captured twice; has_syn: its own SYN was captured; syn_repeats and
    fin_repeats: how often SYN, and FIN without data, were sent again.
    """

    ack_advances: np.ndarray
    ack_is_duplicate: np.ndarray
    ack_sack_blocks: np.ndarray
    ack_dsack: np.ndarray
    ack_sacks: np.ndarray
    ack_window: np.ndarray
    ack_echo: np.ndarray
    send_stamp: np.ndarray
    send_id: np.ndarray
    rows: np.ndarray
    back_rows: np.ndarray
    copies: int
    has_syn: bool
    syn_repeats: int
    fin_repeats: int

    @cached_property
    def duplicates_since_advance(self) -> np.ndarray:
        """Duplicate acknowledgements (m,) since the cumulative one last grew, each acknowledgement
        included."""
        counted = np.cumsum(self.ack_is_duplicate)
        return counted - np.maximum.accumulate(np.where(self.ack_advances, counted, 0))

    @cached_property
    def is_retransmission(self) -> np.ndarray:
        """Which segments (n,) carry data below the highest byte already sent; probes of one byte and what was only
        overtaken are left out."""
        below = self.send_start < self.highest_before
        return below & ~self.is_window_probe & ~self.is_keep_alive & ~self.is_overtaken

    @cached_property
    def is_window_probe(self) -> np.ndarray:
        """Which segments (n,) repeat the last byte, alone, while the receiver's window is closed (RFC 9293, section
        3.8.6.1)."""
        closed = np.concatenate([[False], self.ack_window == 0])[self.acks_before]
        return self._repeats_last_byte & closed & (self.acked_before < self.send_end)

    @cached_property
    def is_keep_alive(self) -> np.ndarray:
        """Which segments (n,) repeat the last byte, alone, after it was acknowledged, or, where nothing tells of that,
        though it was sent as part of a longer segment (RFC 9293, section 3.8.4): as senders do that send a byte along;
        the others' keep-alives carry no data."""
        silent = np.diff(self.send_ns, prepend=self.send_ns[:1]) >= _KEEP_ALIVE_NS
        known = (self.acked_before >= self.send_end) | (not len(self.ack_bytes))
        first = np.searchsorted(np.maximum.accumulate(self.send_end), self.send_end)
        was_alone = self.send_start[first] == self.send_start
        return self._repeats_last_byte & known & (silent | ~was_alone)

    @property
    def _repeats_last_byte(self) -> np.ndarray:
        return (self.send_end - self.send_start == 1) & (self.send_end == self.highest_before)

    @cached_property
    def is_overtaken(self) -> np.ndarray:
        """Which of the segments that fill a gap (n,) left the sender before others that were seen earlier, by IPv4
        identifications where these ascend, or else by time stamps: reordered, not lost."""
        ids = unwrap(self.send_id, 16)
        steps = np.diff(ids)
        if ((steps > 0) & (steps <= _LARGEST_STEP)).sum() < _ASCENDING_SHARE * len(steps):
            ids = np.where(self.send_stamp < 0, 0, unwrap(np.maximum(self.send_stamp, 0)))
        return self.fills_gap & (ids < np.maximum.accumulate(ids))
