"""The workload, and what is asked of those that are patterns of flows."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.keys.key import IPERF3, TO_ONE, TRANSFERS, WORKLOADS, doing, key
from experiments.kinds import AUTO, COUNT, DURATION, OWN, SIZE, SPAN, TRAFFIC, optional, own_or
from experiments.traffic import Flow
from topologies.plugins import Plug


@dataclass(frozen=True)
class TrafficKeys:
    """The workload, and what is asked of those that are patterns of flows."""

    workload: str | Plug = key(  # noqa: RUF009 (a Plug is frozen)
        "workload", own_or(*WORKLOADS), "incast", "what the hosts do, or a class of your own"
    )
    senders: int | None = key(
        "senders",
        optional(COUNT),
        AUTO,
        "hosts, from h2 on, that send to h1 at the same time; auto: all others (star without hosts: 64)",
        doing(*TO_ONE),
    )
    sru_bytes: int = key("bytes", SIZE, "256KiB", "bytes per flow and round (incast: the SRU)", doing(*TRANSFERS, OWN))
    rounds: int = key("rounds", COUNT, "4", "barrier-synchronised rounds", doing(*TRANSFERS, "federated", OWN))
    jitter_ns: int = key(
        "jitter",
        DURATION,
        "100us",
        "senders start within this time of a round's begin, seeded",
        doing(*TRANSFERS, IPERF3, OWN),
    )
    traffic: tuple[Flow, ...] | None = key(
        "traffic",
        optional(TRAFFIC),
        AUTO,
        "who sends to whom, and when, after the workload's begin; auto: all others to h1, for the whole duration",
        doing("long_flows"),
    )
    flows: int | None = key(
        "flows",
        optional(COUNT),
        AUTO,
        "random flows of one datagram each, of seeded sender, receiver and source port",
        doing("datagrams"),
        auto=1000,
    )
    interval_ns: int | None = key(
        "interval",
        optional(SPAN),
        AUTO,
        "between two datagrams of a host to its partner",
        doing("streams"),
        auto="10us",
    )
    duration_ns: int | None = key(
        "duration",
        optional(SPAN),
        AUTO,
        "how long the hosts send (iperf3: whole seconds, 2s where nothing is given)",
        doing("streams", "long_flows", IPERF3),
        auto="40ms",
    )
