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


@dataclass(frozen=True)
class LinkProfile:
    """One link, the same both ways: rate in bits/s, one-way propagation in ns, IP MTU in bytes."""

    rate_bps: int
    delay_ns: int
    mtu_bytes: int

    @property
    def frame_bytes(self) -> int:
        """Largest Ethernet frame on the link without FCS, preamble and gap: what Linux qdiscs count."""
        return self.mtu_bytes + ETHERNET_HEADER_BYTES


@dataclass(frozen=True)
class SwitchProfile:
    """One switch: pipeline delay per packet in ns, egress buffer per port in bytes, marking of the lossy class
    (None: tail drop)."""

    delay_ns: int
    buffer_bytes: int
    marking: Marking | None = None


@dataclass(frozen=True)
class HostProfile:
    """TCP of one host: congestion control by its kernel name, RTO minimum in ns, the loss-recovery options of Linux,
    and the most that a socket may buffer each way, in bytes (Linux 7.3: 4 MiB to send, 32 MiB to receive)."""

    cc: str
    rto_min_ns: int
    sack: bool = True
    tlp: bool = True
    rack: bool = True
    ecn: bool = False
    socket_buffer_bytes: int = 6 << 20
