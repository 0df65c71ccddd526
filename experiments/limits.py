"""Resolves what a spec leaves to be derived, and refuses what cannot work, with the numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from controller.marking import dctcp_step, dctcp_threshold_bytes, red_drop
from experiments.failures import check_failures
from experiments.shape import MOST_NVLINK_RATE_BPS, check_rate, lay_out, sized
from experiments.spec import AUTO, Spec, known, refuse, unfit, with_plain_autos
from topologies.describe import describe
from topologies.gpu_pod import GPUS_PER_SERVER as RAILS
from topologies.profiles import ETHERNET_HEADER_BYTES, HostProfile, LinkProfile, Marking, SwitchProfile
from topologies.units import BadRequest, format_bytes, format_duration, format_rate

TICK_NS = 1_000_000  # the lab kernel's HZ is 1000
LEAST_MTU_BYTES, MOST_MTU_BYTES = 576, 9000
MOST_RTT_NS = 900_000_000
MOST_FAILURES = 1000
MOST_PROBED_PAIRS = 20_000  # a millisecond of wall time each, and more
MOST_BUFFER_BYTES = 1 << 31
MOST_SPAN_NS = 3_600_000_000_000
MOST_CONTROL_LATENCY_NS = 1_000_000_000
LEAST_CONTROL_LATENCY_NS = 1_000_000
LEAST_PMAX = 1e-6
STREAM_FRAME_BYTES = 64 + ETHERNET_HEADER_BYTES  # of a datagram of the streams: 64 bytes of IP
_GUEST_BASE_BYTES = 320 << 20
_HOST_BYTES = 2 << 20
_SWITCH_BYTES, _SWITCH_LINK_BYTES = 1 << 20, 128 << 10
_CONTROLLER_BYTES, _CONTROLLER_LINK_BYTES = 100 << 20, 64 << 10
_CONNECTION_BYTES = 32 << 10  # both sockets, and what Python keeps of them
_FACT_BYTES = 1 << 10  # a probe, or a datagram of a stream, until it is written down
_FLOW_BYTES = 8 << 10  # a datagram with a socket of its own
_CAPTURE_BYTES = 24 << 20  # a tcpdump with its ring
_CAPTURED_PACKET_BYTES = 116
_TCP_IP_HEADER_BYTES = 52
_LEAST_SOCKET_BUFFER_BYTES, _BDPS_BUFFERED = 6 << 20, 4
_MOST_SOCKET_BUFFER_BYTES = (1 << 31) - 1  # tcp_rmem and tcp_wmem are ints
_SKB_OVERHEAD = 3  # kernel memory per payload byte in flight: sender's copy, receiver's, and their headers


def resolve(spec: Spec) -> Spec:
    """The spec with a value for every key that applies, checked; raises BadRequest naming the key, the value and what
    is allowed."""
    _check_fit(spec)
    _check_rates(spec)
    spec = sized(with_plain_autos(spec))
    _check(spec)
    _check_streams(spec)
    _check_pings(spec)
    spec = _controlled(spec)
    cc = ("dctcp" if spec.queue == "dctcp" else "cubic") if spec.cc == AUTO else spec.cc
    marking = _marking(spec)
    if marking is None:
        return replace(spec, cc=cc, kmin_bytes=None, kmax_bytes=None, pmax=None)
    return replace(spec, cc=cc, kmin_bytes=marking.kmin_bytes, kmax_bytes=marking.kmax_bytes, pmax=marking.pmax)


def _check_fit(spec: Spec) -> None:
    for key in unfit(spec):
        needed = " or ".join(key.needed)
        refuse(key.name, f"{key.value} is given with {key.other}={key.other_value}", f"with {key.other}={needed}")


def _check_rates(spec: Spec) -> None:
    check_rate("rate", spec.rate_bps)
    if spec.uplink_rate_bps is not None:
        check_rate("uplink_rate", spec.uplink_rate_bps)
    if spec.nvlink_rate_bps is not None:
        check_rate("nvlink_rate", spec.nvlink_rate_bps, MOST_NVLINK_RATE_BPS)


def _check(spec: Spec) -> None:
    frame_bytes = spec.mtu_bytes + ETHERNET_HEADER_BYTES
    if not LEAST_MTU_BYTES <= spec.mtu_bytes <= MOST_MTU_BYTES:
        refuse("mtu", f"{format_bytes(spec.mtu_bytes)} is given", f"{LEAST_MTU_BYTES}B to {MOST_MTU_BYTES}B")
    if spec.buffer_bytes < frame_bytes:
        refuse(
            "buffer",
            f"{format_bytes(spec.buffer_bytes)} is given and holds no packet",
            f"one frame of {frame_bytes}B or more",
        )
    if spec.rto_min_ns % TICK_NS:
        refuse(
            "rto_min",
            f"{format_duration(spec.rto_min_ns)} is given",
            f"whole timer ticks of {format_duration(TICK_NS)}, one or more",
        )
    if spec.rtt_ns > MOST_RTT_NS:
        refuse(
            "delay, switch_delay",
            f"a round trip of {spec.rtt_ns / 1e9:g}s is given",
            f"up to {format_duration(MOST_RTT_NS)} (ARP and SYN are sent again after a second)",
        )
    if spec.buffer_bytes > MOST_BUFFER_BYTES:
        refuse("buffer", f"{format_bytes(spec.buffer_bytes)} is given", f"up to {format_bytes(MOST_BUFFER_BYTES)}")
    for key, span_ns, most_ns in (
        ("jitter", spec.jitter_ns, MOST_SPAN_NS),
        ("duration", spec.duration_ns or 0, MOST_SPAN_NS),
        ("control_latency", spec.control_latency_ns or 0, MOST_CONTROL_LATENCY_NS),
    ):
        if span_ns > most_ns:
            refuse(key, f"{format_duration(span_ns)} is given", f"up to {format_duration(most_ns)}")
    if spec.control_latency_ns is not None and spec.control_latency_ns < LEAST_CONTROL_LATENCY_NS:
        refuse(
            "control_latency",
            f"{format_duration(spec.control_latency_ns)} is given",
            f"{format_duration(LEAST_CONTROL_LATENCY_NS)} or more (what fails together is told port by port)",
        )
    if spec.pmax is not None and spec.pmax < LEAST_PMAX:
        refuse("pmax", f"{spec.pmax} is given", f"{LEAST_PMAX} to 1")
    if not spec.rack and spec.sack:
        # Linux 6.17 removed the loss recovery that RACK had replaced (RFC 6675).
        refuse("rack", "off is given with sack on", "off only together with sack=off")
    if spec.queue == "droptail" and (spec.kmin_bytes, spec.kmax_bytes, spec.pmax) != (None, None, None):
        refuse("kmin, kmax, pmax", "given with queue=droptail", "with queue=red or queue=dctcp")


def _check_pings(spec: Spec) -> None:
    """Every pair is probed, one after the other."""
    if spec.workload == "pings" and _pairs(spec) > MOST_PROBED_PAIRS:
        refuse(
            "hosts",
            f"{spec.hosts} with workload=pings are {_pairs(spec):,} pairs",
            f"up to {MOST_PROBED_PAIRS:,} pairs, {math.isqrt(MOST_PROBED_PAIRS)} hosts",
        )


def _check_streams(spec: Spec) -> None:
    """All streams together must fit into one link: then none is ever lost to a full queue, and each loss is a
    failure's."""
    if spec.workload != "streams":
        return
    interval_ns, duration_ns = known(spec.interval_ns), known(spec.duration_ns)
    slowest_bps = min(spec.rate_bps, spec.uplink_rate_bps or spec.rate_bps)
    least_ns = -(-known(spec.hosts) * STREAM_FRAME_BYTES * 8 * 10**9 // slowest_bps)
    if interval_ns < least_ns:
        refuse(
            "interval",
            f"{format_duration(interval_ns)} is given: {spec.hosts} streams of {STREAM_FRAME_BYTES}B frames could"
            f" fill a link of {format_rate(slowest_bps)}",
            f"{format_duration(least_ns)} or more",
        )
    if duration_ns < interval_ns:
        refuse(
            "duration",
            f"{format_duration(duration_ns)} is given",
            f"interval={format_duration(interval_ns)} or more",
        )


def _controlled(spec: Spec) -> Spec:
    """The spec with its hash seeds, what the controller is to do and what is to fail checked."""
    if spec.openflow is None:
        return spec
    seeds = spec.ecmp_seed or ("same" if spec.openflow == "1.3" else "per_switch")
    if seeds == "per_switch" and spec.openflow == "1.3":
        refuse("ecmp_seed", "per_switch is given with openflow=1.3, which has no seeds", "same, or openflow=1.5")
    if spec.failures:
        if len(spec.failures) > MOST_FAILURES:
            refuse("failure", f"{len(spec.failures)} events are given", f"up to {MOST_FAILURES}")
        check_failures(spec.failures, describe(lay_out(spec)), spec.duration_ns or MOST_SPAN_NS)
    return replace(spec, ecmp_seed=seeds)


def _marking(spec: Spec) -> Marking | None:
    """The marking curve of every switch port, or None for plain tail drop."""
    if spec.queue == "droptail":
        return None
    if spec.queue == "red":
        marking = red_drop(spec.buffer_bytes, spec.kmin_bytes, spec.kmax_bytes, spec.pmax)
    else:
        marking = _dctcp(spec)
    if marking.kmin_bytes > marking.kmax_bytes:
        refuse(
            "kmin", f"{format_bytes(marking.kmin_bytes)} is above kmax {format_bytes(marking.kmax_bytes)}", "up to kmax"
        )
    if marking.kmax_bytes >= spec.buffer_bytes:
        refuse(
            "kmax",
            f"{format_bytes(marking.kmax_bytes)} is not below the buffer of {format_bytes(spec.buffer_bytes)}: the tail"
            " would drop before all is marked",
            "below the buffer",
        )
    return marking


def _dctcp(spec: Spec) -> Marking:
    if spec.kmin_bytes != spec.kmax_bytes or spec.pmax not in (None, 1.0):
        raise BadRequest("kmin, kmax, pmax: queue=dctcp marks at a step; allowed: kmin equal to kmax, pmax 1")
    # One threshold for all ports: a lower one than the fastest link needs would leave that link idle.
    fastest_bps = max(spec.rate_bps, spec.uplink_rate_bps or 0)
    return dctcp_step(spec.kmin_bytes or dctcp_threshold_bytes(fastest_bps, spec.rtt_ns, spec.mtu_bytes))


def link_profile(spec: Spec) -> LinkProfile:
    """Every host's link to its switch (NVSwitches excepted)."""
    return LinkProfile(spec.rate_bps, spec.delay_ns, spec.mtu_bytes)


def uplink_profile(spec: Spec) -> LinkProfile | None:
    """Every link between switches; None where there is one switch."""
    return _profile(spec, spec.uplink_rate_bps)


def nvlink_profile(spec: Spec) -> LinkProfile | None:
    """Every GPU's link to the NVSwitch of its server; None where there are no servers."""
    return _profile(spec, spec.nvlink_rate_bps)


def _profile(spec: Spec, rate_bps: int | None) -> LinkProfile | None:
    return None if rate_bps is None else LinkProfile(rate_bps, spec.delay_ns, spec.mtu_bytes)


def switch_profile(spec: Spec) -> SwitchProfile:
    """Every switch of the fabric."""
    return SwitchProfile(spec.switch_delay_ns, spec.buffer_bytes, _marking(spec))


def host_profile(spec: Spec) -> HostProfile:
    """Every host of the fabric; ECN is negotiated where the switch marks."""
    return HostProfile(
        spec.cc,
        spec.rto_min_ns,
        spec.sack,
        spec.tlp,
        spec.rack,
        ecn=spec.queue == "dctcp",
        socket_buffer_bytes=_socket_buffer_bytes(spec),
    )


def _socket_buffer_bytes(spec: Spec) -> int:
    """Several times the bandwidth-delay product: Linux counts the memory of a packet, about twice its payload."""
    bdp_bytes = spec.rate_bps * spec.rtt_ns // 8_000_000_000
    return min(max(_LEAST_SOCKET_BUFFER_BYTES, _BDPS_BUFFERED * bdp_bytes), _MOST_SOCKET_BUFFER_BYTES)


def segment_bytes(spec: Spec) -> int:
    """Payload of a full TCP segment with the timestamp option."""
    return spec.mtu_bytes - _TCP_IP_HEADER_BYTES


def memory_bytes(spec: Spec) -> int:
    """Guest memory that the run may touch: fabric, controller, workload, captures. Raises BadRequest when it is not
    there."""
    needed_bytes = _GUEST_BASE_BYTES + _fabric_bytes(spec) + _workload_bytes(spec) + _captured_bytes(spec)
    available_bytes = _available_bytes()
    if needed_bytes > available_bytes:
        key, number = ("hosts", spec.hosts) if spec.senders is None else ("senders", spec.senders)
        refuse(
            key,
            f"{number} with {_demands(spec)} need {needed_bytes >> 20} MiB of memory",
            f"what this machine has free, {available_bytes >> 20} MiB",
        )
    return needed_bytes


def _demands(spec: Spec) -> str:
    """The keys that memory follows from, as given."""
    interval, duration = (format_duration(span_ns or 0) for span_ns in (spec.interval_ns, spec.duration_ns))
    words = {
        "pings": "workload=pings",
        "datagrams": f"flows={spec.flows}",
        "streams": f"interval={interval}, duration={duration}",
    }
    workload = "" if spec.workload == "incast" else f"workload={spec.workload}, "
    transfers = f"{workload}bytes={format_bytes(spec.sru_bytes)}, rounds={spec.rounds}"
    return f"{words.get(spec.workload, transfers)}, capture={spec.capture}"


def _fabric_bytes(spec: Spec) -> int:
    """Hosts with their links, switches and the links between them, and the controller that knows them all."""
    hosts_bytes = known(spec.hosts) * _HOST_BYTES
    if spec.uplink_rate_bps is None:
        return hosts_bytes
    switches, links = _switches_and_links(spec)
    controller_bytes = _CONTROLLER_BYTES + links * _CONTROLLER_LINK_BYTES
    return hosts_bytes + switches * _SWITCH_BYTES + links * _SWITCH_LINK_BYTES + controller_bytes


def _switches_and_links(spec: Spec) -> tuple[int, int]:
    """Switches, and links between them; a GPU's second link counts too."""
    if spec.topology == "fat_tree":
        k = known(spec.k)
        return 5 * k**2 // 4, k**3 // 2
    if spec.topology == "dumbbell":
        return 2, 1
    leaves, spines, servers = spec.leaves or RAILS, known(spec.spines), spec.servers or 0
    return leaves + spines + servers, leaves * spines + RAILS * servers


def _pairs(spec: Spec) -> int:
    """Flows of a workload of transfers, or probes: how many pairs of hosts take part."""
    hosts = known(spec.hosts)
    return {"incast": spec.senders or 0, "permutation": hosts}.get(spec.workload, hosts * (hosts - 1))


def _stream_datagrams(spec: Spec) -> int:
    return known(spec.hosts) * -(-known(spec.duration_ns) // known(spec.interval_ns))


def _workload_bytes(spec: Spec) -> int:
    """Connections and their bytes in flight, or what is noted of each datagram."""
    if spec.workload == "pings":
        return _pairs(spec) * _FACT_BYTES
    if spec.workload == "datagrams":
        return known(spec.flows) * _FLOW_BYTES
    if spec.workload == "streams":
        return _stream_datagrams(spec) * _FACT_BYTES
    flight_bytes = min(spec.sru_bytes, _socket_buffer_bytes(spec)) * _SKB_OVERHEAD
    return _pairs(spec) * (flight_bytes + _CONNECTION_BYTES)


def _packets(spec: Spec) -> int:
    """Data packets, probes or datagrams that the workload sends."""
    if spec.workload == "pings":
        return _pairs(spec)
    if spec.workload == "datagrams":
        return known(spec.flows)
    if spec.workload == "streams":
        return _stream_datagrams(spec)
    return _pairs(spec) * spec.rounds * (spec.sru_bytes // spec.mtu_bytes + 1)


def _captured_bytes(spec: Spec) -> int:
    """Capture rings, and the capture files, which lie in guest memory until the end."""
    points = {"off": 0, "hot": 1, "all": 1 + (spec.senders or known(spec.hosts))}[spec.capture]
    times_seen = {"off": 0, "hot": 2, "all": 4}[spec.capture]  # data and acknowledgements, at each point on the path
    return points * _CAPTURE_BYTES + _packets(spec) * times_seen * _CAPTURED_PACKET_BYTES


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("/proc/meminfo tells no MemAvailable")
