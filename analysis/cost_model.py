"""What the arithmetic says: the way through a fabric, the round without loss, the round with one timeout, and how
fast a burst fills a buffer.

The senders of a round start within its jitter: at uniform times in [0, J], about J / N apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from topologies.units import BadRequest

ETHERNET_HEADER_BYTES = 14  # what Linux queues count of a frame: no FCS, preamble or gap
IP_TCP_HEADER_BYTES = 20 + 20
TCP_TIMESTAMPS_BYTES = 12  # the option of RFC 7323 with its padding, on every segment
ROCE_HEADER_BYTES = 20 + 8 + 12 + 4  # IPv4, UDP, BTH, ICRC (InfiniBand specification, annex A17)
RETH_BYTES = 16  # on the first packet of an RDMA WRITE
PAUSE_FRAME_BYTES = 60  # the least that Ethernet carries, without FCS
PAUSE_SOFTWARE_NS = 50  # from crossing to frame, and from frame to hold: the port agent's own time
# Topology -> links between the two hosts that are farthest apart; one switch less.
_LONGEST_LINKS = {"star": 2, "dumbbell": 3, "leaf_spine": 4, "fat_tree": 6, "gpu_pod": 4}


@dataclass(frozen=True)
class Path:
    """The way from a sender to the receiver: rate of the hosts' links in bits/s, one-way delay in ns without
    queueing, IP MTU in bytes, and how many links from switch to switch of which rate lie between; roce_mtu_bytes: the
    payload of a full RoCE packet, None where TCP is the transport; message_bytes: what the first packet of a message
    carries besides."""

    rate_bps: int
    delay_ns: int
    mtu_bytes: int
    uplinks: int = 0
    uplink_bps: int = 0
    roce_mtu_bytes: int | None = None
    message_bytes: int = 0

    @property
    def segment_bytes(self) -> int:
        """Payload of a full packet."""
        return self.roce_mtu_bytes or self.mtu_bytes - IP_TCP_HEADER_BYTES - TCP_TIMESTAMPS_BYTES

    @property
    def frame_bytes(self) -> int:
        """A full packet on the wire, as Linux queues count it."""
        full_bytes = self.roce_mtu_bytes + ROCE_HEADER_BYTES if self.roce_mtu_bytes else self.mtu_bytes
        return full_bytes + ETHERNET_HEADER_BYTES

    def wire_bytes(self, payload_bytes: int) -> int:
        """Payload and the headers of the packets that carry it, of RoCE as one message."""
        packets = math.ceil(payload_bytes / self.segment_bytes)
        return payload_bytes + packets * (self.frame_bytes - self.segment_bytes) + self.message_bytes


def longest_links(topology: str, switches: int | None = None) -> int:
    """Links between the two hosts of a topology that are farthest apart, of a ring of so many switches one way round;
    raises BadRequest for a topology without a model."""
    if topology == "ring" and switches:
        return switches + 1
    if topology not in _LONGEST_LINKS:
        raise BadRequest(f"topology: {topology!r} has no cost model; allowed: {', '.join((*_LONGEST_LINKS, 'ring'))}")
    return _LONGEST_LINKS[topology]


def one_way_delay_ns(topology: str, link_ns: int, switch_ns: int, switches: int | None = None) -> int:
    """Propagation and switching time between the two hosts that are farthest apart (longest_links)."""
    return delay_over_ns(longest_links(topology, switches), link_ns, switch_ns)


def delay_over_ns(links: int, link_ns: int, switch_ns: int) -> int:
    """Propagation and switching time over so many links, and the switches between them."""
    return links * link_ns + (links - 1) * switch_ns


def store_and_forward_ns(
    frame_bytes: int, links: int, rate_bps: int, uplink_bps: int, link_ns: int, switch_ns: int
) -> float:
    """One frame's time from host to host through idle links: sent whole on each link, the first and the last at the
    hosts' rate and those between at the uplinks', then one propagation; one pipeline delay in each switch between."""
    sending_s = 8 * frame_bytes * (min(links, 2) / rate_bps + max(links - 2, 0) / uplink_bps)
    return sending_s * 1e9 + links * link_ns + (links - 1) * switch_ns


def ideal_round_seconds(path: Path, senders: int, sender_bytes: int, jitter_ns: int = 0, beside: int = 0) -> float:
    """A round of `senders` blocks of `sender_bytes` without loss, to be expected over many seeds.

    The longer of two times: every wire bit once through the receiver's link, N B / C; and the last start,
    expected at J N / (N + 1) for N uniform starts in [0, J], with that sender's own block behind it, B / C.
    To it come one one-way delay, and the first frame's time on its sender's own link and on those between switches
    (store and forward). Senders `beside`, over a link of their own, do not share the receiver's; theirs is taken to be
    as fast. Links between switches that are too slow for all senders make the round longer. One sender
    of 256 KiB at 400 Gb/s with 100 us of jitter: 50 us + 5.5 us + 1.4 us + 0.03 us = 56.9 us.
    """
    block_s = 8 * path.wire_bytes(sender_bytes) / path.rate_bps
    frame_s = min(8 * path.frame_bytes / path.rate_bps, block_s)
    uplinks_s = path.uplinks * frame_s * path.rate_bps / path.uplink_bps if path.uplinks else 0.0
    last_start_s = jitter_ns / 1e9 * senders / (senders + 1)
    return max((senders - beside) * block_s, last_start_s + block_s) + path.delay_ns / 1e9 + frame_s + uplinks_s


def headroom_bytes(rate_bps: int, delay_ns: int, switch_ns: int, mtu_bytes: int, latency_ns: int = 0) -> int:
    """What a neighbour still sends once XOFF has been crossed: its link's rate for twice the one-way delay and for the
    reaction, and a frame begun at either end (IEEE 802.1Qbb, annex O).

    The reaction is the switch's pipeline twice (for the pause frame, and for data that is counted behind it), the pause
    frame itself, the agent's time, and the latency of a controller that orders the pause.
    """
    frame_ns = math.ceil(PAUSE_FRAME_BYTES * 8 * 1e9 / rate_bps)
    reaction_ns = 2 * switch_ns + frame_ns + PAUSE_SOFTWARE_NS + latency_ns
    flying_bytes = -(-rate_bps * (2 * delay_ns + reaction_ns) // (8 * 10**9))
    return flying_bytes + 2 * (mtu_bytes + ETHERNET_HEADER_BYTES)


def goodput_one_timeout_bps(block_bytes: int, rate_bps: float, rto_ns: int) -> float:
    """Goodput of rounds that each meet one timeout: B / (B/C + RTO) (Phanishayee et al., FAST 2008, section
    5)."""
    bits = 8 * block_bytes
    return bits / (bits / rate_bps + rto_ns / 1e9)


def buffer_fill_seconds(buffer_bytes: int, senders: int, rate_bps: float) -> float:
    """How long a burst takes at the least to fill the buffer: all at line rate at once, N senders bring N C, one
    link takes C away, so buffer / ((N - 1) C); infinite for a single sender.

    Starts spread over a jitter, and slow start, make it longer by an amount that hangs on each round's starts:
    spread evenly they would rarely fill a buffer that clusters of them do fill, so no mean load is modelled here.
    """
    return 8 * buffer_bytes / ((senders - 1) * rate_bps) if senders > 1 else math.inf


def line_rate_fill_seconds(buffer_bytes: int, rate_bps: float) -> float:
    """How long one line rate takes to fill a buffer that nothing leaves, buffer / C: 600 KB at 400 Gb/s in 12 us,
    the lecture's figure."""
    return 8 * buffer_bytes / rate_bps
