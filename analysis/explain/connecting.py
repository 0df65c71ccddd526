"""Connections that had to be asked for more than once: a SYN, or the answer to it, was lost."""

from __future__ import annotations

import numpy as np

from analysis import text
from analysis.capture.packets import ACK, SYN, Packets
from analysis.explain.model import CERTAIN, FlowStall
from analysis.explain.reasons import SYN_AGAIN
from analysis.transport.sent import Flow, Sent


def connecting_stalls(flow: Sent, packets: Packets) -> list[FlowStall]:
    """The waits from a SYN to its repetition (RFC 6298: 1 s, then twice as long each time), or where there are none
    from a SYN/ACK to its own. A connection with data both ways tells them of the direction that begins with the SYN."""
    if not isinstance(flow, Flow) or not len(flow.send_order):
        return []
    speaks_back = bool((packets.payload_bytes[flow.ack_order] > 0).any())
    there, back = (opening_syns(packets, rows[rows <= flow.send_order[0]]) for rows in (flow.rows, flow.back_rows))
    before = there if len(there) > 1 or speaks_back else back
    waits = enumerate(zip(before, before[1:]))
    # a damaged capture's times may run backwards
    in_time = [each for each in waits if packets.time_ns[each[1][0]] <= packets.time_ns[each[1][1]]]
    return [_stall(flow, packets, first, last, place) for place, (first, last) in in_time]


def _stall(flow: Sent, packets: Packets, first: int, last: int, place: int) -> FlowStall:
    start_ns, end_ns = int(packets.time_ns[first]), int(packets.time_ns[last])
    what = "SYN/ACK" if packets.flags[first] & ACK else "SYN"
    times = f"{what} number {place + 1} (packet {packets.number[first]})"
    waited = text.seconds((end_ns - start_ns) / 1e9)
    reason = f"{times} led to nothing for {waited}, and was sent again: it, or the answer to it, was lost"
    numbers = int(packets.number[first]), int(packets.number[last])
    return FlowStall(flow.name, start_ns, end_ns, SYN_AGAIN, CERTAIN, reason, *numbers)


def opening_syns(packets: Packets, rows: np.ndarray) -> list[int]:
    """The SYNs, or SYN/ACKs, among the packets of one direction of a connection that began it: those with the last
    one's sequence number; of a frame that was captured twice one alone is among them."""
    asked = rows[packets.flags[rows] & SYN > 0]
    return asked[packets.seq[asked] == packets.seq[asked[-1]]].tolist() if len(asked) else []
