"""How RoCE hosts send: the keys of RoCE and DCQCN derived and checked."""

from __future__ import annotations

from dataclasses import replace

from controller.dcqcn import Dcqcn
from experiments.spec import MARKING_QUEUES, Spec, known, refuse
from topologies.rdma import HEADER_BYTES, largest_mtu_bytes
from topologies.units import format_bytes, format_duration, format_rate


def with_transport(spec: Spec) -> Spec:
    """The spec with every key of RoCE that applies; raises BadRequest for what its hosts cannot do."""
    if spec.cc == "dcqcn":
        _check_dcqcn(spec)
    return _with_packets(spec) if spec.transport == "roce" else spec


def dcqcn(spec: Spec) -> Dcqcn | None:
    """The parameters of DCQCN of a resolved spec; None without it."""
    if spec.cc != "dcqcn":
        return None
    return Dcqcn(
        known(spec.dcqcn_cnp_interval_ns),
        known(spec.dcqcn_alpha_timer_ns),
        known(spec.dcqcn_rate_timer_ns),
        known(spec.dcqcn_byte_counter_bytes),
        known(spec.dcqcn_f),
        known(spec.dcqcn_g),
        known(spec.dcqcn_rai_bps),
        known(spec.dcqcn_rhai_bps),
        known(spec.dcqcn_min_rate_bps),
    )


def warnings(spec: Spec) -> list[str]:
    """What is of no use in a resolved spec, a line each."""
    if spec.cc == "dcqcn" and spec.queue not in MARKING_QUEUES:
        return [f"cc: dcqcn slows down for marks, and queue={spec.queue} makes none: it never acts"]
    return []


def _check_dcqcn(spec: Spec) -> None:
    if spec.traffic_class == "lossy":
        refuse("traffic_class", "lossy is given with cc=dcqcn, which paces the lossless class", "lossless")
    least_bps = known(spec.dcqcn_min_rate_bps)
    if least_bps > spec.rate_bps:
        given = f"{format_rate(least_bps)} is above rate={format_rate(spec.rate_bps)}"
        refuse("dcqcn_min_rate", given, "up to the rate")
    if known(spec.dcqcn_alpha_timer_ns) <= known(spec.dcqcn_cnp_interval_ns):
        refuse(
            "dcqcn_alpha_timer",
            f"{format_duration(known(spec.dcqcn_alpha_timer_ns))} is not above the interval between two CNPs: alpha"
            " would fall though marks go on",
            f"above dcqcn_cnp_interval={format_duration(known(spec.dcqcn_cnp_interval_ns))}",
        )


def _with_packets(spec: Spec) -> Spec:
    """The spec with its RoCE MTU, and its window checked."""
    largest_bytes = largest_mtu_bytes(spec.mtu_bytes)
    roce_mtu_bytes = spec.roce_mtu_bytes or largest_bytes
    if roce_mtu_bytes > largest_bytes:
        refuse(
            "roce_mtu",
            f"{roce_mtu_bytes}B and {HEADER_BYTES}B of headers are above mtu={format_bytes(spec.mtu_bytes)}",
            f"up to {largest_bytes}B, or mtu={roce_mtu_bytes + HEADER_BYTES}B",
        )
    window_bytes = known(spec.window_bytes)
    if 0 < window_bytes < roce_mtu_bytes:
        refuse("window", f"{format_bytes(window_bytes)} holds no packet", f"off, or roce_mtu={roce_mtu_bytes}B or more")
    return replace(spec, roce_mtu_bytes=roce_mtu_bytes)
