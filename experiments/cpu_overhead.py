"""What the hosts' processors pay for TCP, and what an RDMA NIC spares them: in virtual time by a stated model
(workloads/host_cost.py), and what copies really cost on this machine."""

from __future__ import annotations

from typing import Any

from experiments.catalog import Case, Experiment
from experiments.spec import Spec


def paths(spec: Spec) -> tuple[Case, ...]:
    """RDMA's path, TCP with a processor that costs nothing, and the all-reduce by either path."""
    rdma = {"transport": "roce", "pfc": "on", "host_cost": "rdma"}
    reduce = {"collective": "all_reduce", "algorithm": "ring", "ranks": 8, "hosts": "auto", "sizes": "1MiB-64MiB"}
    return (
        Case("rdma", rdma),
        Case("tcp-free", {"host_cost": "none"}),
        Case("all_reduce-tcp", reduce),
        Case("all_reduce-rdma", {**reduce, **rdma}),
    )


def copies() -> dict[str, Any]:
    """The copies of Linux TCP on this machine."""
    from workloads.host_copies import measure

    return measure()


EXPERIMENT = Experiment(
    name="cpu_overhead",
    question="What do copies, system calls and interrupts of TCP cost a host, and what does RDMA spare it?",
    claim="slides 4, 16, 18: copies and interrupts cost latency, bandwidth and processor: 4 KB in 150 against 1.5 us,"
    " 12 against 48 GB/s, 92 % against 3 % of the processor, 1 GB all-reduce in 8.3 against 0.9 s",
    expects="one core carries no more than the model's 42 Gb/s by TCP, and is full; RDMA fills the link and leaves the"
    " processor idle",
    defaults={
        "workload": "collective",
        "collective": "broadcast",
        "algorithm": "tree",  # of two: a message in pieces of `chunk`
        "ranks": 2,
        "sizes": "4KiB-16MiB",
        "mtu": "9000B",
        "host_cost": "tcp",
        "capture": "off",
        "telemetry": "off",
    },
    cases=paths,
    on_host=copies,
)
