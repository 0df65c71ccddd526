"""How long a flow may be silent before its round trip no longer explains it."""

from __future__ import annotations

import numpy as np

from analysis.capture.packets import Packets
from analysis.explain.model import SENDER
from analysis.explain.position import echo_waits_ns
from analysis.transport import roce, stalls
from analysis.transport.queue_pairs import RoceFlow
from analysis.transport.recovery import Recovery
from analysis.transport.sent import Flow, Sent
from analysis.transport.stalls import ROUND_TRIPS, SHARE_OF_TIMER

_LONG_ROUND_TRIPS = 2
_PROMPT_SHARE = 0.25
_MOST_QUEUED = 8  # of the shortest round trip: what queues may add to it
_LONG_NS = 50_000_000  # with two round trips: what is left of Linux's 200 ms timer on a path of many milliseconds


def longest_quiet_ns(flow: Sent, packets: Packets, position: str, recovery: Recovery) -> float:
    """The silence that counts as a stall: as analysis.transport.stalls has it, by the whole round trip however much of
    it lies behind the capture point. Of long round trips two and a bit decide, or else timeouts that add only RTOmin to
    them were too short to count."""
    if isinstance(flow, RoceFlow):
        return roce.threshold_ns(flow)
    onward_ns, behind_ns = _usual(flow.rtt_ns()), 0.0 if position == SENDER else _usual_back_ns(packets, flow)
    if onward_ns is None or behind_ns is None or not isinstance(flow, Flow):
        return SHARE_OF_TIMER * recovery.rto_min_ns
    shortest_ns = stalls.shortest_timer_ns(recovery) * SHARE_OF_TIMER
    whole_ns = onward_ns + behind_ns
    return max(shortest_ns, min(ROUND_TRIPS * whole_ns, _LONG_ROUND_TRIPS * whole_ns + _LONG_NS))


def _usual_back_ns(packets: Packets, flow: Sent) -> float | None:
    """The wait for an echo that a quarter of them keep to: the sender does not always have something to send. None
    without time stamps."""
    waits_ns = echo_waits_ns(packets, flow)
    return float(np.sort(waits_ns)[int(_PROMPT_SHARE * len(waits_ns))]) if len(waits_ns) else None


def _usual(round_trips_ns: np.ndarray) -> float | None:
    """The median, but no more than a few of the shortest: a stall makes round trips of all that waited in it."""
    if not len(round_trips_ns):
        return None
    return float(min(np.median(round_trips_ns), _MOST_QUEUED * np.min(round_trips_ns)))
