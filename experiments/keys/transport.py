"""How hosts send: the transport, its congestion control, their parameters."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.keys.key import LAUNCH, STREAMED, Needs, doing, each, key
from experiments.kinds import (
    AUTO,
    COUNT,
    OFF,
    PROBABILITY,
    RATE,
    ROCE_MTU,
    SIZE,
    SPAN,
    SWITCH,
    choice,
    off_or,
    optional,
)

TCP_ALGORITHMS = ("reno", "cubic", "dctcp", "bbr")
ROCE_ALGORITHMS = ("dcqcn", "none")
TCP: Needs = {"transport": ("tcp",)}
ROCE: Needs = {"transport": ("roce",)}
DCQCN: Needs = {"cc": ("dcqcn",)}
LOSSLESS: Needs = {"traffic_class": ("lossless",)}
UNMARKED: Needs = {"queue": ("droptail", "red")}


@dataclass(frozen=True)
class TransportKeys:
    """How hosts send: the transport, its congestion control, their parameters."""

    transport: str = key(
        "transport", choice("tcp", "roce"), "tcp", "how hosts send: Linux TCP, or RoCEv2", doing(*STREAMED, LAUNCH)
    )
    cc: str = key(
        "cc",
        choice(AUTO, *TCP_ALGORITHMS, *ROCE_ALGORITHMS),
        AUTO,
        "congestion control, of TCP or (dcqcn, none) RoCE; auto: dctcp or dcqcn where ports mark, else cubic or none",
        # What BBR or no congestion control at all sends may be marked, and they do not heed it.
        values={
            **each(TCP_ALGORITHMS, TCP),
            "bbr": {**TCP, **UNMARKED},
            "dcqcn": {**ROCE, **LOSSLESS},
            "none": {**ROCE, **UNMARKED},
        },
    )
    sack: bool = key("sack", SWITCH, "on", "selective acknowledgements (RFC 2018)", TCP)
    tlp: bool = key("tlp", SWITCH, "on", "tail loss probe (RFC 8985)", TCP)
    rack: bool = key(
        "rack",
        SWITCH,
        "on",
        "RACK loss detection (RFC 8985); Linux from 6.17 on cannot switch it off while sack is on",
        TCP,
    )
    rto_min_ns: int = key("rto_min", SPAN, "200ms", "lower bound of the retransmission timeout", TCP)
    initial_window_packets: int = key(
        "initial_window",
        COUNT,
        10,
        "packets that a connection begins with (RFC 6928), and again once it was idle for a retransmission timeout",
        TCP,
    )
    verb: str | None = key(
        "verb", optional(choice("write", "send")), AUTO, "RDMA operation that moves the data", ROCE, auto="write"
    )
    roce_mtu_bytes: int | None = key(
        "roce_mtu",
        optional(ROCE_MTU),
        AUTO,
        "most payload of a RoCE packet; auto: the largest that fits mtu with 80 bytes of headers",
        ROCE,
    )
    window_bytes: int | None = key(
        "window",
        optional(off_or(SIZE)),
        AUTO,
        "most unacknowledged bytes of a queue pair (HPCC, SIGCOMM 2019, section 5.1)",
        ROCE,
        auto=OFF,
    )
    dcqcn_cnp_interval_ns: int | None = key(
        "dcqcn_cnp_interval",
        optional(SPAN),
        AUTO,
        "a receiver sends no second CNP for a queue pair within it",
        DCQCN,
        auto="50us",
    )
    dcqcn_alpha_timer_ns: int | None = key(
        "dcqcn_alpha_timer", optional(SPAN), AUTO, "alpha falls after each that brings no CNP", DCQCN, auto="55us"
    )
    dcqcn_rate_timer_ns: int | None = key(
        "dcqcn_rate_timer", optional(SPAN), AUTO, "a sender's rate is increased after each", DCQCN, auto="55us"
    )
    dcqcn_byte_counter_bytes: int | None = key(
        "dcqcn_byte_counter", optional(SIZE), AUTO, "and after each so many bytes sent", DCQCN, auto="10MB"
    )
    dcqcn_f: int | None = key(
        "dcqcn_f", optional(COUNT), AUTO, "increases of fast recovery, before those by dcqcn_rai", DCQCN, auto=5
    )
    dcqcn_g: float | None = key(
        "dcqcn_g", optional(PROBABILITY), AUTO, "gain of alpha's moving average", DCQCN, auto=0.00390625
    )
    dcqcn_rai_bps: int | None = key(
        "dcqcn_rai", optional(RATE), AUTO, "step of additive increase", DCQCN, auto="40Mbps"
    )
    dcqcn_rhai_bps: int | None = key(
        "dcqcn_rhai", optional(RATE), AUTO, "step of hyper increase", DCQCN, auto="200Mbps"
    )
    dcqcn_min_rate_bps: int | None = key(
        "dcqcn_min_rate", optional(RATE), AUTO, "a sender's rate is cut no further", DCQCN, auto="10Mbps"
    )
