"""Resolves what a spec leaves to be derived, and refuses what cannot work, with the numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from controller.marking import dctcp_step, dctcp_threshold_bytes, red_drop
from experiments.spec import AUTO, Spec
from topologies.profiles import ETHERNET_HEADER_BYTES, HostProfile, LinkProfile, Marking, SwitchProfile
from topologies.units import BadRequest, format_bytes, format_duration, format_rate

TICK_NS = 1_000_000  # the lab kernel's HZ is 1000
LEAST_MTU_BYTES, MOST_MTU_BYTES = 576, 9000
MOST_HOSTS = 1024
LEAST_RATE_BPS, MOST_RATE_BPS = 100_000, 3_200_000_000_000
MOST_RTT_NS = 900_000_000
MOST_BUFFER_BYTES = 1 << 31
MOST_JITTER_NS = 3_600_000_000_000
LEAST_PMAX = 1e-6
_GUEST_BASE_BYTES = 320 << 20
_HOST_BYTES = 2 << 20
_CAPTURE_BYTES = 24 << 20  # a tcpdump with its ring
_CAPTURED_PACKET_BYTES = 116
_SEND_BUFFER_BYTES = 4 << 20
_TCP_IP_HEADER_BYTES = 52
_SKB_OVERHEAD = 3  # kernel memory per payload byte in flight: sender's copy, receiver's, and their headers


def resolve(spec: Spec) -> Spec:
    """The spec with every "auto" replaced by its value, checked; raises BadRequest naming the key, the value
    and what is allowed."""
    _check(spec)
    cc = ("dctcp" if spec.queue == "dctcp" else "cubic") if spec.cc == AUTO else spec.cc
    marking = _marking(spec)
    if marking is None:
        return replace(spec, cc=cc, kmin_bytes=None, kmax_bytes=None, pmax=None)
    return replace(spec, cc=cc, kmin_bytes=marking.kmin_bytes, kmax_bytes=marking.kmax_bytes, pmax=marking.pmax)


def _refuse(key: str, given: str, allowed: str) -> NoReturn:
    raise BadRequest(f"{key}: {given}; allowed: {allowed}")


def _check(spec: Spec) -> None:
    frame_bytes = spec.mtu_bytes + ETHERNET_HEADER_BYTES
    if not LEAST_MTU_BYTES <= spec.mtu_bytes <= MOST_MTU_BYTES:
        _refuse("mtu", f"{format_bytes(spec.mtu_bytes)} is given", f"{LEAST_MTU_BYTES}B to {MOST_MTU_BYTES}B")
    if spec.buffer_bytes < frame_bytes:
        _refuse(
            "buffer",
            f"{format_bytes(spec.buffer_bytes)} is given and holds no packet",
            f"one frame of {frame_bytes}B or more",
        )
    if spec.rto_min_ns % TICK_NS:
        _refuse(
            "rto_min",
            f"{format_duration(spec.rto_min_ns)} is given",
            f"whole timer ticks of {format_duration(TICK_NS)}, one or more",
        )
    if spec.hosts > MOST_HOSTS:
        _refuse("senders", f"{spec.senders} is given", f"up to {MOST_HOSTS - 1}")
    if spec.rate_bps % 8 or not LEAST_RATE_BPS <= spec.rate_bps <= MOST_RATE_BPS:
        _refuse(
            "rate",
            f"{format_rate(spec.rate_bps)} is given",
            f"whole bytes per second, {format_rate(LEAST_RATE_BPS)} to {format_rate(MOST_RATE_BPS)}",
        )
    if spec.rtt_ns > MOST_RTT_NS:
        _refuse(
            "delay, switch_delay",
            f"a round trip of {spec.rtt_ns / 1e9:g}s is given",
            f"up to {format_duration(MOST_RTT_NS)} (ARP and SYN give up after a second)",
        )
    if spec.buffer_bytes > MOST_BUFFER_BYTES:
        _refuse("buffer", f"{format_bytes(spec.buffer_bytes)} is given", f"up to {format_bytes(MOST_BUFFER_BYTES)}")
    if spec.jitter_ns > MOST_JITTER_NS:
        _refuse("jitter", f"{format_duration(spec.jitter_ns)} is given", f"up to {format_duration(MOST_JITTER_NS)}")
    if spec.pmax is not None and spec.pmax < LEAST_PMAX:
        _refuse("pmax", f"{spec.pmax} is given", f"{LEAST_PMAX} to 1")
    if not spec.rack and spec.sack:
        # Linux 6.17 removed the loss recovery that RACK had replaced (RFC 6675).
        _refuse("rack", "off is given with sack on", "off only together with sack=off")
    if spec.queue == "droptail" and (spec.kmin_bytes, spec.kmax_bytes, spec.pmax) != (None, None, None):
        _refuse("kmin, kmax, pmax", "given with queue=droptail", "with queue=red or queue=dctcp")


def _marking(spec: Spec) -> Marking | None:
    """The marking curve of every switch port, or None for plain tail drop."""
    if spec.queue == "droptail":
        return None
    if spec.queue == "red":
        marking = red_drop(spec.buffer_bytes, spec.kmin_bytes, spec.kmax_bytes, spec.pmax)
    else:
        marking = _dctcp(spec)
    if marking.kmin_bytes > marking.kmax_bytes:
        _refuse(
            "kmin", f"{format_bytes(marking.kmin_bytes)} is above kmax {format_bytes(marking.kmax_bytes)}", "up to kmax"
        )
    if marking.kmax_bytes >= spec.buffer_bytes:
        _refuse(
            "kmax",
            f"{format_bytes(marking.kmax_bytes)} is not below the buffer of {format_bytes(spec.buffer_bytes)}: the tail"
            " would drop before all is marked",
            "below the buffer",
        )
    return marking


def _dctcp(spec: Spec) -> Marking:
    if spec.kmin_bytes != spec.kmax_bytes or spec.pmax not in (None, 1.0):
        raise BadRequest("kmin, kmax, pmax: queue=dctcp marks at a step; allowed: kmin equal to kmax, pmax 1")
    return dctcp_step(spec.kmin_bytes or dctcp_threshold_bytes(spec.rate_bps, spec.rtt_ns, spec.mtu_bytes))


def link_profile(spec: Spec) -> LinkProfile:
    """Every link of the fabric."""
    return LinkProfile(spec.rate_bps, spec.delay_ns, spec.mtu_bytes)


def switch_profile(spec: Spec) -> SwitchProfile:
    """Every switch of the fabric."""
    return SwitchProfile(spec.switch_delay_ns, spec.buffer_bytes, _marking(spec))


def host_profile(spec: Spec) -> HostProfile:
    """Every host of the fabric; ECN is negotiated where the switch marks."""
    return HostProfile(spec.cc, spec.rto_min_ns, spec.sack, spec.tlp, spec.rack, ecn=spec.queue == "dctcp")


def segment_bytes(spec: Spec) -> int:
    """Payload of a full TCP segment with the timestamp option."""
    return spec.mtu_bytes - _TCP_IP_HEADER_BYTES


def memory_bytes(spec: Spec) -> int:
    """Guest memory that the run may touch: hosts, bytes in flight, captures. Raises BadRequest when it is not there."""
    flight_bytes = spec.senders * min(spec.sru_bytes, _SEND_BUFFER_BYTES) * _SKB_OVERHEAD
    needed_bytes = _GUEST_BASE_BYTES + spec.hosts * _HOST_BYTES + flight_bytes + _captured_bytes(spec)
    available_bytes = _available_bytes()
    if needed_bytes > available_bytes:
        _refuse(
            "senders",
            f"{spec.senders} with bytes={format_bytes(spec.sru_bytes)}, rounds={spec.rounds}, capture={spec.capture}"
            f" need {needed_bytes >> 20} MiB of memory",
            f"what this machine has free, {available_bytes >> 20} MiB",
        )
    return needed_bytes


def _captured_bytes(spec: Spec) -> int:
    """Capture rings, and the capture files, which lie in guest memory until the end."""
    points = {"off": 0, "hot": 1, "all": 1 + spec.senders}[spec.capture]
    times_seen = {"off": 0, "hot": 2, "all": 4}[spec.capture]  # data and acknowledgements, at each point on the path
    packets = spec.senders * spec.rounds * (spec.sru_bytes // spec.mtu_bytes + 1)
    return points * _CAPTURE_BYTES + packets * times_seen * _CAPTURED_PACKET_BYTES


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("/proc/meminfo tells no MemAvailable")
