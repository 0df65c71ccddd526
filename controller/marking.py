"""ECN thresholds (pure): from a link's rate and round-trip time to the marking curve of a port."""

from __future__ import annotations

from topologies.profiles import ETHERNET_HEADER_BYTES, Marking

# Below this a step mark would hit the bursts that hosts send back to back, not a standing queue: DCTCP's authors use
# K = 20 packets at 1 Gb/s and 65 at 10 Gb/s, above C x RTT / 7. Hosts here send no bursts of offloaded segments: 20
# do.
_DCTCP_LEAST_PACKETS = 20
_RED_KMIN_SHARE, _RED_KMAX_SHARE, _RED_PMAX = 0.25, 0.75, 0.1


def dctcp_threshold_bytes(rate_bps: int, rtt_ns: int, mtu_bytes: int) -> int:
    """DCTCP's K: above C x RTT / 7 (SIGCOMM 2010, equation 13), at least 20 packets, a whole number of frames."""
    frame_bytes = mtu_bytes + ETHERNET_HEADER_BYTES
    needed_bytes = rate_bps * rtt_ns / (8e9 * 7)
    return max(_DCTCP_LEAST_PACKETS, int(needed_bytes // frame_bytes) + 1) * frame_bytes


def dctcp_step(threshold_bytes: int) -> Marking:
    """DCTCP's marking: every packet that finds more than the threshold queued."""
    return Marking(threshold_bytes, threshold_bytes, 1.0)


def red_drop(buffer_bytes: int, kmin_bytes: int | None, kmax_bytes: int | None, pmax: float | None) -> Marking:
    """Early random drop between kmin and kmax on the instantaneous queue; defaults are a quarter and three
    quarters of the buffer, 10 %."""
    return Marking(
        kmin_bytes if kmin_bytes is not None else int(buffer_bytes * _RED_KMIN_SHARE),
        kmax_bytes if kmax_bytes is not None else int(buffer_bytes * _RED_KMAX_SHARE),
        pmax if pmax is not None else _RED_PMAX,
        drop=True,
    )
