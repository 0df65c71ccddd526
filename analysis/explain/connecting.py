"""Connections that had to be asked for more than once: a SYN, or the answer to it, was lost."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from analysis import text
from analysis.capture.packets import ACK, SYN, TCP, Packets
from analysis.explain.model import CERTAIN, FlowStall
from analysis.explain.reasons import SYN_AGAIN
from analysis.flows import Flow, Sent

_Ends = tuple[int, int, int, int]
_known: WeakKeyDictionary[Packets, Mapping[_Ends, list[int]]] = WeakKeyDictionary()


def connecting_stalls(flow: Sent, packets: Packets) -> list[FlowStall]:
    """The waits from a SYN to its repetition (RFC 6298: 1 s, then twice as long each time), or where there are none
    from a SYN/ACK to its own. A connection with data both ways tells them of the direction that begins with the SYN."""
    if not isinstance(flow, Flow) or not len(flow.send_order):
        return []
    there = _ends(packets, int(flow.send_order[0]))
    back = (*there[2:], *there[:2])
    again = _repeated(packets)
    speaks_back = bool((packets.payload_bytes[flow.ack_order] > 0).any())
    rows = again.get(there) or ([] if speaks_back else again.get(back)) or []
    before = [row for row in rows if row <= flow.send_order[0]]
    return [_stall(flow, packets, first, last, place) for place, (first, last) in enumerate(zip(before, before[1:]))]


def _stall(flow: Sent, packets: Packets, first: int, last: int, place: int) -> FlowStall:
    start_ns, end_ns = int(packets.time_ns[first]), int(packets.time_ns[last])
    what = "SYN/ACK" if packets.flags[first] & ACK else "SYN"
    times = f"{what} number {place + 1} (packet {packets.number[first]})"
    waited = text.seconds((end_ns - start_ns) / 1e9)
    reason = f"{times} led to nothing for {waited}, and was sent again: it, or the answer to it, was lost"
    numbers = int(packets.number[first]), int(packets.number[last])
    return FlowStall(flow.name, start_ns, end_ns, SYN_AGAIN, CERTAIN, reason, *numbers)


def _ends(packets: Packets, row: int) -> _Ends:
    columns = packets.src_ip, packets.sport, packets.dst_ip, packets.dport
    source, sport, destination, dport = (int(column[row]) for column in columns)
    return source, sport, destination, dport


def _repeated(packets: Packets) -> Mapping[_Ends, list[int]]:
    """The rows of SYNs, and of SYN/ACKs, that were sent more than once with one sequence number, by their ends; worked
    out once for all flows of a capture."""
    if packets not in _known:
        rows = np.flatnonzero((packets.protocol == TCP) & (packets.flags & SYN > 0) & (packets.sport > 0))
        columns = (packets.src_ip, packets.sport, packets.dst_ip, packets.dport, packets.seq, packets.flags & ACK)
        table = np.stack([column[rows].astype(np.int64) for column in columns]) if len(rows) else np.zeros((6, 0), int)
        _, number, count = np.unique(table, axis=1, return_inverse=True, return_counts=True)
        found: dict[_Ends, list[int]] = {}
        for row in rows[count[number.reshape(-1)] > 1].tolist():
            found.setdefault(_ends(packets, row), []).append(row)
        _known[packets] = found
    return _known[packets]
