"""A flow over time, in a bounded number of bins: what it sent, what was delivered, what was in flight, and its round
trips.

Bins are powers of two of a nanosecond long and begin at multiples of their length, so that those of different flows,
points and captures lie on each other, or several of one in one of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.explain.model import Series
from analysis.transport.sent import RoundTrips, Sent

MOST_BINS = 512


@dataclass(frozen=True)
class Marks:
    """Of each data packet (n,) whether it was sent again and whether it carries CE, of each acknowledgement (m,)
    whether it echoes congestion."""

    resent: np.ndarray
    ce: np.ndarray
    ece: np.ndarray


def bin_ns_of(begin_ns: int, end_ns: int) -> int:
    """The shortest power of two that needs no more than MOST_BINS bins."""
    shortest = max(-(-(end_ns - begin_ns) // (MOST_BINS - 1)), 1)
    return 1 << (shortest - 1).bit_length()


def series_of(flow: Sent, trips: RoundTrips, marks: Marks) -> Series | None:
    """The flow over time; None for one without packets."""
    if not len(flow.send_ns):
        return None
    times = [flow.send_ns, flow.ack_ns]
    begin_ns = int(min(each.min() for each in times if len(each)))
    end_ns = int(max(each.max() for each in times if len(each)))
    bin_ns = bin_ns_of(begin_ns, end_ns)
    begin_ns -= begin_ns % bin_ns
    count = (end_ns - begin_ns) // bin_ns + 1
    sends, acks = (flow.send_ns - begin_ns) // bin_ns, (flow.ack_ns - begin_ns) // bin_ns
    grown = np.diff(np.minimum(flow.ack_bytes, flow.send_end.max()), prepend=0)
    return Series(
        begin_ns=begin_ns,
        bin_ns=bin_ns,
        sent_bytes=_summed(sends, flow.send_end - flow.send_start, count),
        delivered_bytes=_summed(acks, grown, count),
        in_flight_bytes=_in_flight(flow, sends, acks, count),
        rtt_ns=_medians((trips.at_ns - begin_ns) // bin_ns, trips.length_ns, count),
        resent=np.bincount(sends[marks.resent], minlength=count),
        marked=np.bincount(sends[marks.ce], minlength=count),
        ece=np.bincount(acks[marks.ece], minlength=count),
    )


def _summed(bins: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(bins, weights=values, minlength=count).astype(np.int64)


def _in_flight(flow: Sent, sends: np.ndarray, acks: np.ndarray, count: int) -> np.ndarray:
    """The most that was outstanding in each bin; what was so before goes on until a packet changes it."""
    highest = np.maximum.accumulate(flow.send_end)
    sent_by_ack = np.concatenate([[0], highest])[np.searchsorted(flow.send_order, flow.ack_order)]
    after = np.concatenate([highest - flow.acked_before, sent_by_ack - flow.ack_bytes])
    order = np.argsort(np.concatenate([flow.send_order, flow.ack_order]), kind="stable")
    after = np.maximum(after[order], 0)
    bins = np.concatenate([sends, acks])[order]
    most, last = np.zeros(count, np.int64), np.full(count, -1)
    np.maximum.at(most, bins, after)
    last[bins] = np.arange(len(bins))
    carried = np.concatenate([[0], np.append(after, 0)[np.maximum.accumulate(last)]])[:-1]
    return np.maximum(most, carried)


def _medians(bins: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The lower median of the values in each bin, NaN where there are none."""
    found = np.full(count, np.nan)
    if len(bins):
        order = np.lexsort((values, bins))
        numbers, first, sizes = np.unique(bins[order], return_index=True, return_counts=True)
        found[numbers] = values[order][first + (sizes - 1) // 2]
    return found


def merged(parts: list[Series]) -> Series:
    """The series of a flow's parts as one; bins that two parts share hold both."""
    if len(parts) == 1:
        return parts[0]
    begin_ns = min(each.begin_ns for each in parts)
    end_ns = max(each.begin_ns + each.bin_ns * len(each.sent_bytes) for each in parts)
    bin_ns = max(bin_ns_of(begin_ns, end_ns), *(each.bin_ns for each in parts))
    begin_ns -= begin_ns % bin_ns
    count = (end_ns - 1 - begin_ns) // bin_ns + 1
    places = [(each.begin_ns + each.bin_ns * np.arange(len(each.sent_bytes)) - begin_ns) // bin_ns for each in parts]
    joined = np.concatenate(places)
    values = {name: np.concatenate([getattr(each, name) for each in parts]) for name in _SUMMED + _OTHERS}
    in_flight = np.zeros(count, np.int64)
    np.maximum.at(in_flight, joined, values["in_flight_bytes"])
    known = ~np.isnan(values["rtt_ns"])
    return Series(
        begin_ns=begin_ns,
        bin_ns=bin_ns,
        in_flight_bytes=in_flight,
        rtt_ns=_medians(joined[known], values["rtt_ns"][known], count),
        **{name: _summed(joined, values[name], count) for name in _SUMMED},
    )


_SUMMED = ("sent_bytes", "delivered_bytes", "resent", "marked", "ece")
_OTHERS = ("in_flight_bytes", "rtt_ns")
