"""All-reduce inside GPU servers and between them: what a flat ring and a hierarchical one make of links that differ.

A pod of servers with 8 GPUs (topologies/gpu_pod.py), each GPU with a 400 Gb/s NIC on its rail and one link inside:
NVLink 4.0, or a PCIe 5 or PCIe 4 slot. The figures that these are sold by count both directions: 900, 128 and 64 GB/s
are 450, 64 and 32 GB/s each way. The stages of the hierarchical algorithm overlap, piece after piece, or (`in_turn`)
follow each other with all the data. 64 servers are 512 GPUs: that many are not run, but told by the model calibrated
on the runs. One spine that has all leaves' bandwidth, so that no hash decides: a flat ring goes from the last rail of a
server to the first of the next, and over many spines its flows collide (see `polarisation`).
"""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

INSIDE = {"nvlink4": "3.6Tbps", "pcie5": "512Gbps", "pcie4": "256Gbps"}
SERVERS = (8, 2)
GPUS = 8
_MAIN_INSIDE = "nvlink4"
_CHUNKS = {8: "32KiB", 2: "128KiB"}  # a message for each rank is a piece: 2 MiB
_IN_TURN = "16MiB"  # of a message: the data is one piece
_FEW = "4MiB,5MiB,6MiB,8MiB"  # where nothing overlaps, time is a line from small sizes on
_MANY = "8MiB,12MiB,16MiB,24MiB"  # where segments are longer than delays, and pieces many


def pods(spec: Spec) -> tuple[Case, ...]:
    """One server alone with each link inside; two and eight servers, flat, hierarchical and in turn; eight with PCIe
    inside."""
    alone = tuple(
        Case(f"1_server-{inside}", {"algorithm": "ring", "ranks": GPUS, "nvlink_rate": rate})
        for inside, rate in INSIDE.items()
    )
    several = tuple(
        Case(f"{servers}_servers-{name}", {"ranks": servers * GPUS, "chunk": _CHUNKS[servers], **changes})
        for servers in SERVERS
        for name, changes in _WAYS.items()
        if (servers, name) != (SERVERS[0], "hierarchical")
    )
    slots = tuple(
        Case(f"{SERVERS[0]}_servers-{inside}", {"ranks": SERVERS[0] * GPUS, "nvlink_rate": rate})
        for inside, rate in INSIDE.items()
        if inside != _MAIN_INSIDE
    )
    return (*alone, *several, *slots)


_WAYS = {
    "hierarchical": {"sizes": _MANY},  # of two servers: the main run is that of eight
    "ring": {"algorithm": "ring", "sizes": _MANY},
    "in_turn": {"chunk": _IN_TURN, "sizes": _FEW},
}

EXPERIMENT = Experiment(
    name="hierarchy",
    question="What does the gap between the links inside a server and those between servers cost an all-reduce?",
    claim="slides 13, 15, 17, 19: 7.2 TB/s inside against 400 GB/s between; 20 GB in 22 ms with NVSwitch, 150 ms"
    " without; 1 GB on 8, 64, 512 GPUs in 1.2, 8.4, 42 ms",
    expects="a flat ring is as slow as one NIC; hierarchical, all NICs of a server carry an eighth of the data each",
    defaults={
        "topology": "gpu_pod",
        "spines": 1,
        "workload": "collective",
        "collective": "all_reduce",
        "algorithm": "hierarchical",
        "ranks": SERVERS[0] * GPUS,
        "nvlink_rate": INSIDE[_MAIN_INSIDE],
        "rate": "400Gbps",
        "mtu": "9000B",
        "buffer": "8MB",
        "chunk": _CHUNKS[SERVERS[0]],
        "sizes": "4MiB,8MiB,12MiB,16MiB",
        "iterations": 3,
        "capture": "off",
        "telemetry": "off",
    },
    cases=pods,
)
