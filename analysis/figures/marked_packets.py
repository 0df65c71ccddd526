"""How long the hot port's queue was when each packet joined it, and whether the port marked it: from the captures of
the senders and of the port alone, to the byte.

A packet joins the queue when it has left its sender's NIC (the sender's capture) and crossed link and switch (the
spec's delays). The queue it finds is what joined before it and had not left yet (the port's capture): packets leave in
the order in which they joined. Dropped ones are in no queue, so that no drop need be known. Both captures are of one
clock. This holds where one switch lies between all senders and the port.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.capture.packets import CE, NOT_ECT, Packets
from analysis.measures import marking_bytes
from analysis.run import Run
from analysis.spec import INCAST, LOSSY


class Curve(NamedTuple):
    """The configured marking: none up to kmin, then on a line to pmax at kmax, all above (DCQCN, SIGCOMM 2015, figure
    5); with kmin = kmax DCTCP's step."""

    kmin_bytes: int
    kmax_bytes: int
    pmax: float

    def probability(self, queue_bytes: np.ndarray) -> np.ndarray:
        """Of a mark, at these queues (n,)."""
        span = max(self.kmax_bytes - self.kmin_bytes, 1)
        line = self.pmax * np.clip((queue_bytes - self.kmin_bytes) / span, 0, 1)
        return np.where(queue_bytes > self.kmax_bytes, 1.0, np.where(queue_bytes <= self.kmin_bytes, 0.0, line))


@dataclass(frozen=True, eq=False)
class Joined:
    """The packets with data that passed the hot port and could be marked (n,): the bytes that each found in the queue,
    and whether it left marked."""

    queue_bytes: np.ndarray
    is_marked: np.ndarray


def curve(run: Run) -> Curve | None:
    """The marking that the hot port was configured with, as read back where the run has it; None where nothing is
    marked."""
    kmin_bytes, kmax_bytes = marking_bytes(run)
    if kmin_bytes is None or run.parameters.queue in ("droptail", "none"):
        return None
    handle = "7:" if run.parameters.traffic_class == LOSSY else "5:"
    levels = run.measured.get("ports", {}).get(run.hot_port, {}).get("qdiscs", [])
    found = [each.get("options", {}) for each in levels if each.get("handle") == handle]
    asked = run.given("pmax")
    pmax = found[0].get("pmax") if found else asked if isinstance(asked, float) else None
    return Curve(kmin_bytes, kmax_bytes or kmin_bytes, 1.0 if pmax is None else float(pmax))


def trouble(run: Run) -> str:
    """Why a run does not tell at which queues its hot port marked; empty when it does."""
    if run.workload != INCAST or run.parameters.path.uplinks or run.parameters.nvlink_senders:
        return "packets are marked on more than one port, or their way to the port is not captured"
    if curve(run) is None:
        return "the hot port marks nothing"
    senders = [f"{name}-eth0" for name in run.senders]
    missing = [point for point in (run.hot_port, *senders) if not run.has_capture(point)]
    return f"no capture of {missing[0]}" if missing else ""


def joined(run: Run) -> Joined:
    """The packets that joined the hot port's queue; of a run without `trouble`."""
    left = run.packets(str(run.hot_port))
    left = left.select(left.payload_bytes > 0)
    joined_ns = _joined_ns(run, left)
    known = joined_ns >= 0
    queue_bytes = _queue_before(joined_ns, left)
    markable = known & (left.ecn != NOT_ECT)
    return Joined(queue_bytes[markable], (left.ecn == CE)[markable])


def _joined_ns(run: Run, left: Packets) -> np.ndarray:
    """When each packet that left the port had joined its queue (n,); -1 where its sender's capture lacks it."""
    found = np.full(len(left), -1, np.int64)
    addresses = {
        each["source"].rpartition(":")[0]: each["sender"] for each in run.entries("flows", ("source", "sender"))
    }
    for number in np.unique(left.src_ip).tolist():
        sender = addresses.get(left.address(number))
        if sender is not None:
            rows = np.flatnonzero(left.src_ip == number)
            sent = run.packets(f"{sender}-eth0")
            sent = sent.select((sent.src_ip == number) & (sent.payload_bytes > 0))
            found[rows] = _sent_ns(sent, left.select(rows), run.parameters.port_delay_ns)
    return found


def _sent_ns(sent: Packets, left: Packets, delay_ns: int) -> np.ndarray:
    """When each packet that left (n,) came to the port: of its copies in the sender's capture the last one that can
    have."""
    keys, wanted = _keys(sent), _keys(left)
    order = np.lexsort((sent.time_ns, keys))
    keys, times_ns = keys[order], sent.time_ns[order] + delay_ns
    place = np.searchsorted(keys, wanted, side="right") - 1
    for _ in range(len(keys)):
        late = (place >= 0) & (keys[place] == wanted) & (times_ns[place] > left.time_ns)
        if not late.any():
            break
        place = place - late
    fits = (place >= 0) & (keys[place] == wanted)
    return np.where(fits, times_ns[place], -1)


def _keys(packets: Packets) -> np.ndarray:
    """What tells the packets of one sender apart (n,): sequence number (of TCP, or of the queue pair) and IP's ID."""
    number = np.where(packets.is_roce, packets.psn, packets.seq).astype(np.int64)
    return number << 16 | packets.ip_id


def _queue_before(joined_ns: np.ndarray, left: Packets) -> np.ndarray:
    """The bytes (n,) that each packet found in the queue: of those that left before it what left later than it
    joined."""
    gone = np.concatenate([[0], np.cumsum(left.wire_bytes)])
    order = np.arange(len(left))
    already = np.minimum(np.searchsorted(left.time_ns, joined_ns, side="right"), order)
    return gone[order] - gone[already]
