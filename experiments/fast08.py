"""Incast as Phanishayee et al. measured and simulated it (FAST 2008): goodput against servers, for four switch buffers.

1 Gb/s, RTT 100 us, NewReno, RTOmin 200 ms, SRU 256 KB, barrier-synchronised. Stacks of 2008 had neither
SACK-based RACK nor tail loss probes: the comparison switches them off, and the modern default is shown beside
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

STACKS: Mapping[str, Mapping[str, Any]] = {
    "newreno": {"cc": "reno", "sack": "off", "tlp": "off", "rack": "off"},
    "modern": {"cc": "cubic", "sack": "on", "tlp": "on", "rack": "on"},
}
# Two links and a switch each way make the paper's round trip of 100 us.
_NETWORK = {"rate": "1Gbps", "delay": "20us", "switch_delay": "10us", "bytes": "256KB", "rounds": 20}
_QUICK = {"capture": "off", "telemetry": "off"}


def points(spec: Spec) -> tuple[Case, ...]:
    """Every stack, buffer and number of servers of the paper."""
    from analysis.papers.fast08_points import PUBLISHED_MBPS, SERVERS

    return tuple(
        Case(label(stack, buffer, servers), {"buffer": buffer, "senders": servers, **_QUICK, **changes})
        for stack, changes in STACKS.items()
        for buffer in PUBLISHED_MBPS
        for servers in SERVERS
    )


def label(stack: str, buffer: str, servers: int) -> str:
    """The case of one point."""
    return f"{stack}-{buffer.lower()}-n{servers}"


EXPERIMENT = Experiment(
    name="fast08",
    question="Does the fabric reproduce the incast curves of FAST 2008?",
    claim="slide 14: throughput collapses; published: Phanishayee et al., FAST 2008",
    expects="collapse at the published number of servers or the next; collapsed points within a factor of two",
    defaults={**_NETWORK, "buffer": "64KB", "senders": 16, **STACKS["newreno"]},
    cases=points,
)
