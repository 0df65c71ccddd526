"""One host computes slowly, or has a slow link, or a lossy cable: what it costs the fifteen others, and what helps.

A ring over 16 hosts, and beside it what could cure: loss recovery without timeouts, or with one that suits the fabric;
four parameter servers that do not wait for the slowest worker; aggregation in the network, where a slow link carries
each gradient once each way, not nearly twice.
"""

from __future__ import annotations

from typing import Any

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

SLOW_HOST = {"slow_host": "h3:2"}
SLOW_LINK = {"slow_link": "h3:10Gbps"}
LOSSY_LINK = {"lossy_link": "h3:0.01"}
NEWRENO = {"sack": "off", "rack": "off", "tlp": "off"}  # loss recovery before RACK (RFC 8985): what is lost last waits
OFFLOADED = {"algorithm": "in_network"}
# All send to the servers at once: pauses keep that from being an incast, which is another question.
SERVED: dict[str, Any] = {"algorithm": "parameter_server", "shards": 4, "pfc": "on", "traffic_class": "lossless"}


def stragglers(spec: Spec) -> tuple[Case, ...]:
    """What slows a host down, each by itself, and the cures beside what they are to cure."""
    return (
        Case("slow_host", SLOW_HOST),
        Case("slow_link", SLOW_LINK),
        Case("lossy_cable", LOSSY_LINK),
        Case("lossy_cable-newreno", {**LOSSY_LINK, **NEWRENO}),
        Case("lossy_cable-newreno-rto_1ms", {**LOSSY_LINK, **NEWRENO, "rto_min": "1ms"}),
        Case("lossy_cable-roce", {**LOSSY_LINK, "transport": "roce", "pfc": "on"}),
        Case("offload", OFFLOADED),
        Case("offload-slow_link", {**OFFLOADED, **SLOW_LINK}),
        Case("servers", SERVED),
        Case("servers-slow_host", {**SERVED, **SLOW_HOST}),
        Case("servers-slow_host-backup_1", {**SERVED, **SLOW_HOST, "backup_workers": 1}),
    )


EXPERIMENT = Experiment(
    name="straggler",
    question="How much does one slow host, slow link or lossy cable slow all others down, and what cures it?",
    claim="slide 15: every GPU waits for the slowest",
    expects="a step takes the slowest host's or link's time; a loss at the end of a message costs all a timeout where"
    " nothing else recovers it; a backup worker leaves a slow host behind, a timeout of 1 ms costs a millisecond,"
    " aggregation in the network halves what a slow link carries",
    defaults={
        "topology": "star",
        "workload": "training",
        "ranks": 16,
        "rate": "100Gbps",
        "gradient": "8MiB",
        "bucket": "2MiB",
        "compute": "5ms",
        "steps": 8,
        "mtu": "9000B",
        "capture": "off",
        "telemetry": "off",
    },
    cases=stragglers,
)
