"""Frozen descriptions of what a link, a switch port and a host are; every value carries its unit in its name."""

from __future__ import annotations

from dataclasses import dataclass

ETHERNET_HEADER_BYTES = 14


@dataclass(frozen=True)
class Marking:
    """ECN marking on the instantaneous queue: probability 0 below kmin, rising to pmax at kmax, 1 above (DCQCN,
    SIGCOMM 2015, figure 5).

    kmin_bytes == kmax_bytes is DCTCP's step. `drop` turns marks into drops (plain RED, Floyd and Jacobson 1993,
    without averaging).
    """

    kmin_bytes: int
    kmax_bytes: int
    pmax: float
    drop: bool = False

    def at(self, rate_bps: int) -> Marking:
        """The marking of a port of this rate: one curve for all, see MarkingByRate."""
        return self

    def up_to(self, most_bytes: int) -> Marking:
        """The same with no threshold above `most_bytes`."""
        kmin_bytes, kmax_bytes = min(self.kmin_bytes, most_bytes), min(self.kmax_bytes, most_bytes)
        return Marking(kmin_bytes, kmax_bytes, self.pmax, self.drop)


@dataclass(frozen=True)
class MarkingByRate:
    """A marking for each rate in bits/s that links have: faster ports mark at longer queues."""

    curves: tuple[tuple[int, Marking], ...]

    def at(self, rate_bps: int) -> Marking:
        """The marking of a port of this rate; raises KeyError for a rate that no link has."""
        return dict(self.curves)[rate_bps]


@dataclass(frozen=True)
class Lossless:
    """PFC of a switch's lossless class (IEEE 802.1Qbb): a neighbour is paused when more than xoff is counted and
    resumed when no more than xon is; headroom, for each neighbour, takes what still arrives from it in between.

    Counted are the bytes that came in by one port, over all queues that they wait in, or (`at` = "egress") those in the
    queue of one port, for all neighbours that feed it. With `alpha` the limit is not fixed: it is alpha times what is
    free of the switch's shared `pool_bytes`, in which headroom is not (Choudhury and Hahne, 1998). xoff_bytes is then
    the most that this can give a port alone, and xon stays as far below the limit as xon_bytes is below xoff_bytes.
    """

    xoff_bytes: int
    xon_bytes: int
    headroom_bytes: int
    at: str = "ingress"
    pool_bytes: int | None = None
    alpha: float | None = None


@dataclass(frozen=True)
class LinkProfile:
    """One link, the same both ways: rate in bits/s, one-way propagation in ns, IP MTU in bytes, and the probability
    that its cable loses a packet."""

    rate_bps: int
    delay_ns: int
    mtu_bytes: int
    loss: float = 0.0

    @property
    def frame_bytes(self) -> int:
        """Largest Ethernet frame on the link without FCS, preamble and gap: what Linux qdiscs count."""
        return self.mtu_bytes + ETHERNET_HEADER_BYTES


@dataclass(frozen=True)
class SwitchProfile:
    """One switch: pipeline delay per packet in ns, buffer per port and class in bytes, marking of both classes (None:
    tail drop), and PFC of the lossless class (None: it drops at its buffer's end too)."""

    delay_ns: int
    buffer_bytes: int
    marking: Marking | MarkingByRate | None = None
    lossless: Lossless | None = None


@dataclass(frozen=True)
class HostProfile:
    """TCP of one host: congestion control by its kernel name, RTO minimum in ns, the loss-recovery options of Linux,
    the most that a socket may buffer each way, in bytes (Linux 7.3: 4 MiB to send, 32 MiB to receive), and the packets
    that a connection begins with (Linux: 10, RFC 6928). `roce`: it has an RDMA device too (soft-RoCE)."""

    cc: str
    rto_min_ns: int
    sack: bool = True
    tlp: bool = True
    rack: bool = True
    ecn: bool = False
    socket_buffer_bytes: int = 6 << 20
    roce: bool = False
    initial_window_packets: int = 10
