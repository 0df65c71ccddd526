"""ECN thresholds (pure): from a link's rate and round-trip time to the marking curve of a port."""

from __future__ import annotations

from topologies.profiles import ETHERNET_HEADER_BYTES, Marking

# Below this a step mark would hit the bursts that hosts send back to back, not a standing queue: DCTCP's authors use
# K = 20 packets at 1 Gb/s and 65 at 10 Gb/s, above C x RTT / 7. Hosts here send no bursts of offloaded segments: 20
# do.
_DCTCP_LEAST_PACKETS = 20
_RED_KMIN_SHARE, _RED_KMAX_SHARE, _RED_PMAX = 0.25, 0.75, 0.1
_DCQCN_RATE_BPS, _DCQCN_KMIN_BYTES, _DCQCN_KMAX_BYTES, _DCQCN_PMAX = 40_000_000_000, 5_000, 200_000, 0.01


def dctcp_threshold_bytes(rate_bps: int, rtt_ns: int, mtu_bytes: int) -> int:
    """DCTCP's K: above C x RTT / 7 (SIGCOMM 2010, equation 13), at least 20 packets, a whole number of frames."""
    frame_bytes = mtu_bytes + ETHERNET_HEADER_BYTES
    needed_bytes = rate_bps * rtt_ns / (8e9 * 7)
    return max(_DCTCP_LEAST_PACKETS, int(needed_bytes // frame_bytes) + 1) * frame_bytes


def dctcp_step(threshold_bytes: int) -> Marking:
    """DCTCP's marking: every packet that finds more than the threshold queued."""
    return Marking(threshold_bytes, threshold_bytes, 1.0)


def dcqcn_curve(rate_bps: int, frame_bytes: int, most_bytes: int) -> Marking:
    """DCQCN's marking: 5 KB, 200 KB and 1 % at 40 Gb/s (SIGCOMM 2015, section 5), in proportion to the rate. Below a
    frame there is no queue to mark for; above `most_bytes` something else would act first."""
    kmin_bytes, kmax_bytes = (
        min(max(whole_bytes * rate_bps // _DCQCN_RATE_BPS, frame_bytes), most_bytes)
        for whole_bytes in (_DCQCN_KMIN_BYTES, _DCQCN_KMAX_BYTES)
    )
    return Marking(kmin_bytes, kmax_bytes, _DCQCN_PMAX)


def marking_for(given: Marking, usual_there: Marking, usual_here: Marking) -> Marking:
    """The curve of a port, where another one has the curve `given`: its thresholds in proportion to what is usual at
    the two ports' rates."""
    kmin_bytes = given.kmin_bytes * usual_here.kmin_bytes // usual_there.kmin_bytes
    kmax_bytes = given.kmax_bytes * usual_here.kmax_bytes // usual_there.kmax_bytes
    return Marking(min(kmin_bytes, kmax_bytes), kmax_bytes, given.pmax)


def red_drop(buffer_bytes: int, kmin_bytes: int | None, kmax_bytes: int | None, pmax: float | None) -> Marking:
    """Early random drop between kmin and kmax on the instantaneous queue; defaults are a quarter and three
    quarters of the buffer, 10 %."""
    return Marking(
        kmin_bytes if kmin_bytes is not None else int(buffer_bytes * _RED_KMIN_SHARE),
        kmax_bytes if kmax_bytes is not None else int(buffer_bytes * _RED_KMAX_SHARE),
        pmax if pmax is not None else _RED_PMAX,
        drop=True,
    )
