"""How senders recover from loss: as they are set up, or as the timeouts, probes and SACK blocks of their flows show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from analysis.transport.events import events_of
from analysis.transport.sent import Flow

LINUX_RTO_MIN_NS = 200_000_000  # TCP_RTO_MIN of include/net/tcp.h
TICK_NS = 1_000_000  # of Linux's timers, at 1000 a second: the shortest one
SILENT_ROUND_TRIPS = 2  # the probe timeout of RFC 8985
_FEWEST_ALIKE, _ALIKE_SHARE = 2, 0.5
_ALIKE_FACTOR = 1.1  # a timer of Linux's wheel fires up to an eighth late (kernel/time/timer.c), mostly less


@dataclass(frozen=True)
class Recovery:
    """The loss recovery of a sender: RTO minimum in ns, and whether TLP, RACK and SACK are on."""

    rto_min_ns: int
    tlp: bool = True
    rack: bool = True
    sack: bool = True


@dataclass(frozen=True)
class Inferred:
    """The recovery of senders of which nothing but their packets is known, whether that is sure, and why, in a
    sentence."""

    recovery: Recovery
    is_certain: bool
    because: str


def infer_recovery(flows: Iterable[Flow]) -> Inferred:
    """What the timeouts, probes and SACK blocks of flows at their senders show of the loss recovery there.

    Silences, less a round trip, that ended with the first outstanding segment and that nothing else explains give
    RTOmin, a whole number of ms, where several of them agree: on short paths timeouts are all as long as RTOmin. Where
    they do not, something else ended them, or the round trip rules the timeouts, and Linux's 200 ms are assumed. A
    measured RTO may be longer than RTOmin, so that even many are no proof.
    """
    measured, sack, told = [], False, False
    for flow in flows:
        sack = sack or bool(flow.ack_sack_blocks.any())
        told = told or bool(flow.ack_is_duplicate.any())
        measured += _timeouts_ns(flow)
    sack = sack or not told
    agreed_ns, agreeing = _agreed(measured)
    if agreeing < _FEWEST_ALIKE or agreeing < _ALIKE_SHARE * len(measured):
        because = "no timeouts agree on another RTOmin: Linux's 200 ms are assumed"
        return Inferred(Recovery(LINUX_RTO_MIN_NS, rack=sack, sack=sack), False, because)
    rto_min_ns = max(round(agreed_ns / TICK_NS), 1) * TICK_NS
    because = f"{agreeing} of {len(measured)} timeouts came after {agreed_ns / 1e6:.3g} ms or little more"
    return Inferred(Recovery(rto_min_ns, rack=sack, sack=sack), False, f"{because}, a round trip left out")


def _agreed(measured_ns: Iterable[int]) -> tuple[int, int]:
    """The length that most of the silences have, or little more, and how many those are; 0, 0 for none."""
    lengths_ns = np.sort(np.fromiter(measured_ns, np.int64))
    if not len(lengths_ns):
        return 0, 0
    alike = np.searchsorted(lengths_ns, lengths_ns * _ALIKE_FACTOR + TICK_NS, side="right") - np.arange(len(lengths_ns))
    place = int(np.argmax(alike))
    return int(lengths_ns[place]), int(alike[place])


def _timeouts_ns(flow: Flow) -> list[int]:
    """The silences, less the median round trip, before the first outstanding segment was sent again for the first time
    without any duplicate."""
    round_trip_ns = int(flow.median_rtt_ns)
    return [
        event.silent_ns - round_trip_ns
        for event in events_of(flow)
        if event.start <= event.acked < event.end
        and not event.earlier
        and not event.duplicates
        and not event.sacked
        and event.silent_ns > max(SILENT_ROUND_TRIPS * 2 * round_trip_ns, TICK_NS // 2)
    ]
