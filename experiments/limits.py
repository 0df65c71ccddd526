"""Resolves what a spec leaves to be derived, and refuses what cannot work, with the numbers."""

from __future__ import annotations

import math
from dataclasses import replace

from experiments import cluster, lossless, marks, roce
from experiments.failures import check_failures
from experiments.iperf3 import check_iperf3, with_seconds
from experiments.memory import memory_bytes as memory_bytes
from experiments.memory import pairs, socket_buffer_bytes
from experiments.own_workloads import rehearsal
from experiments.policies import check_policy
from experiments.shape import MOST_NVLINK_RATE_BPS, check_rate, lay_out, sized
from experiments.spec import MARKING_QUEUES, Spec, decided, known, refuse, unfit, with_plain_autos
from experiments.traffic import Flow, checked_flows
from experiments.training_rules import check_training
from topologies.describe import describe
from topologies.profiles import ETHERNET_HEADER_BYTES, HostProfile, LinkProfile, SwitchProfile
from topologies.units import format_bytes, format_duration, format_rate

TICK_NS = 1_000_000  # the lab kernel's HZ is 1000
LEAST_MTU_BYTES, MOST_MTU_BYTES = 576, 9000
MOST_RTT_NS = 900_000_000
MOST_RTO_NS = 120_000_000_000  # TCP_RTO_MAX of include/net/tcp.h: a longer timeout is cut down to it
MOST_INITIAL_WINDOW = 10_000
MOST_FAILURES = 1000
MOST_PROBED_PAIRS = 20_000  # a millisecond of wall time each, and more
MOST_BUFFER_BYTES = 1 << 31
MOST_SPAN_NS = 3_600_000_000_000
MOST_CONTROL_LATENCY_NS = 1_000_000_000
LEAST_CONTROL_LATENCY_NS = 1_000_000  # where something fails
LEAST_PMAX = 1e-6
STREAM_FRAME_BYTES = 64 + ETHERNET_HEADER_BYTES  # of a datagram of the streams: 64 bytes of IP
_TCP_IP_HEADER_BYTES = 52
_TCP_BESIDE_ROCE = "cubic"  # a host has some, though nothing of the workload is sent by it


def resolve(spec: Spec) -> Spec:
    """The spec with a value for every key that applies, checked; raises BadRequest naming the key, the value and what
    is allowed."""
    _check_fit(spec)
    _check_rates(spec)
    spec = with_plain_autos(with_seconds(cluster.with_algorithm(decided(spec))))
    spec = cluster.with_cluster(sized(cluster.with_hosts(spec)))
    _check(spec)
    _check_streams(spec)
    _check_pings(spec)
    check_training(spec)
    check_iperf3(spec)
    spec = _with_traffic(_controlled(roce.with_transport(spec)))
    rehearsal(spec)  # raises what is wrong with a workload of the user's own
    spec = marks.with_marking(lossless.with_thresholds(spec))
    check_policy(spec)
    return spec


def warnings(spec: Spec) -> list[str]:
    """What a resolved spec is run with all the same: a line each, to be read before its result is trusted."""
    return [*roce.warnings(spec), *lossless.warnings(spec), *marks.warnings(spec), *_idle_pauses(spec)]


def weight(spec: Spec) -> int:
    """How long a run of a resolved spec looks, beside others: by its hosts, and twice that where all are captured."""
    return known(spec.hosts) * (2 if spec.capture == "all" else 1)


def _idle_pauses(spec: Spec) -> list[str]:
    """Windows may keep the fabric so empty that PFC is never asked."""
    if spec.pfc == "off" or not spec.window_bytes:
        return []
    flows, xoff_bytes = pairs(spec), lossless.first_pause_bytes(spec)
    if flows * spec.window_bytes > xoff_bytes:
        return []
    window, xoff = format_bytes(spec.window_bytes), format_bytes(xoff_bytes)
    return [f"pfc: {flows} windows of {window} are not above xoff {xoff}: it never acts"]


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
    if not LEAST_MTU_BYTES <= spec.mtu_bytes <= MOST_MTU_BYTES:
        refuse("mtu", f"{format_bytes(spec.mtu_bytes)} is given", f"{LEAST_MTU_BYTES}B to {MOST_MTU_BYTES}B")
    if spec.buffer_bytes < spec.frame_bytes:
        refuse(
            "buffer",
            f"{format_bytes(spec.buffer_bytes)} is given and holds no packet",
            f"one frame of {spec.frame_bytes}B or more",
        )
    if spec.rto_min_ns % TICK_NS or spec.rto_min_ns > MOST_RTO_NS:
        refuse(
            "rto_min",
            f"{format_duration(spec.rto_min_ns)} is given",
            f"whole timer ticks of {format_duration(TICK_NS)}, one or more, up to {format_duration(MOST_RTO_NS)}",
        )
    if spec.initial_window_packets > MOST_INITIAL_WINDOW:
        refuse("initial_window", f"{spec.initial_window_packets} is given", f"1 to {MOST_INITIAL_WINDOW}")
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
        ("pfc_watchdog", spec.pfc_watchdog_ns or 0, MOST_SPAN_NS),
        ("dcqcn_cnp_interval", spec.dcqcn_cnp_interval_ns or 0, MOST_SPAN_NS),
        ("dcqcn_alpha_timer", spec.dcqcn_alpha_timer_ns or 0, MOST_SPAN_NS),
        ("dcqcn_rate_timer", spec.dcqcn_rate_timer_ns or 0, MOST_SPAN_NS),
        ("control_latency", spec.control_latency_ns or 0, MOST_CONTROL_LATENCY_NS),
    ):
        if span_ns > most_ns:
            refuse(key, f"{format_duration(span_ns)} is given", f"up to {format_duration(most_ns)}")
    if spec.pmax is not None and spec.pmax < LEAST_PMAX:
        refuse("pmax", f"{spec.pmax} is given", f"{LEAST_PMAX} to 1")
    if not spec.rack and spec.sack:
        # Linux 6.17 removed the loss recovery that RACK had replaced (RFC 6675).
        refuse("rack", "off is given with sack on", "off only together with sack=off")
    if spec.queue == "droptail" and (spec.kmin_bytes, spec.kmax_bytes, spec.pmax) != (None, None, None):
        refuse("kmin, kmax, pmax", "given with queue=droptail", "with queue=red, dctcp or dcqcn")


def _check_pings(spec: Spec) -> None:
    """Every pair is probed, one after the other."""
    if spec.workload == "pings" and pairs(spec) > MOST_PROBED_PAIRS:
        refuse(
            "hosts",
            f"{spec.hosts} with workload=pings are {pairs(spec):,} pairs",
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
    if not spec.is_routed:
        return spec
    seeds = spec.ecmp_seed or ("same" if spec.openflow == "1.3" else "per_switch")
    if seeds == "per_switch" and spec.openflow == "1.3":
        refuse("ecmp_seed", "per_switch is given with openflow=1.3, which has no seeds", "same, or openflow=1.5")
    if spec.failures:
        if len(spec.failures) > MOST_FAILURES:
            refuse("failure", f"{len(spec.failures)} events are given", f"up to {MOST_FAILURES}")
        check_failures(spec.failures, describe(lay_out(spec)), spec.duration_ns or MOST_SPAN_NS)
        if known(spec.control_latency_ns) < LEAST_CONTROL_LATENCY_NS:
            refuse(
                "control_latency",
                f"{format_duration(known(spec.control_latency_ns))} is given with a failure",
                f"{format_duration(LEAST_CONTROL_LATENCY_NS)} or more (what fails together is told port by port)",
            )
    return replace(spec, ecmp_seed=seeds)


def _with_traffic(spec: Spec) -> Spec:
    """The spec with its long flows, each with an end."""
    if spec.workload != "long_flows":
        return spec
    receiver, *others = spec.host_names
    flows = spec.traffic or tuple(Flow(sender, receiver, 0) for sender in others)
    return replace(spec, traffic=checked_flows(flows, spec.host_names, known(spec.duration_ns)))


# --- profiles


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
    """Every switch of the fabric; its ports mark where the controller does not."""
    by_ports = None if spec.marking == "controller" else marks.marking(spec)
    return SwitchProfile(spec.switch_delay_ns, spec.buffer_bytes, by_ports, lossless.lossless(spec))


def host_profile(spec: Spec) -> HostProfile:
    """Every host of the fabric; ECN is negotiated where the switch marks."""
    is_roce = spec.transport == "roce"
    return HostProfile(
        _TCP_BESIDE_ROCE if is_roce else spec.cc,
        spec.rto_min_ns,
        spec.sack,
        spec.tlp,
        spec.rack,
        ecn=spec.queue in MARKING_QUEUES,
        socket_buffer_bytes=socket_buffer_bytes(spec),
        roce=is_roce,
        initial_window_packets=spec.initial_window_packets,
    )


def segment_bytes(spec: Spec) -> int:
    """Payload of a full TCP segment with the timestamp option."""
    return spec.mtu_bytes - _TCP_IP_HEADER_BYTES
