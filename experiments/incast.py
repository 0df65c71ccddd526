"""Incast and its cures side by side: what happens when 64 hosts answer one at the same time, over TCP and over RoCE."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec
from topologies.units import format_bytes


def cures(spec: Spec) -> tuple[Case, ...]:
    """The same incast with a timeout of one tick instead of 200 ms, and with marks or pauses instead of drops; then all
    of that over RoCE."""
    # All ports share what the hot port has without PFC: a buffer for each of them would hold the whole burst.
    memory = {"alpha": 1, "pool": format_bytes(spec.buffer_bytes)}
    lossless, roce = {"pfc": "on", "traffic_class": "lossless", **memory}, {"transport": "roce"}
    dctcp, dcqcn = {"queue": "dctcp"}, {"queue": "dcqcn"}
    return (
        Case("rto_1ms", {"rto_min": "1ms"}),
        Case("dctcp", dctcp),
        Case("tcp_dcqcn_marks", dcqcn),
        Case("tcp_pfc", lossless),
        Case("tcp_pfc_dctcp", {**lossless, **dctcp}),
        Case("roce", roce),
        Case("roce_pfc", {**roce, **lossless}),
        Case("roce_dcqcn", {**roce, **dcqcn}),
        Case("roce_pfc_dcqcn", {**roce, **lossless, **dcqcn}),
    )


EXPERIMENT = Experiment(
    name="incast",
    question="What does a synchronised burst of N senders do to one receiver behind a shallow buffer?",
    claim="slide 14: the buffer fills in about 12 us, TCP waits 200 to 500 ms, throughput collapses; cured by PFC,"
    " DCQCN, RDMA",
    expects="rounds of a fraction of a millisecond take 200 ms; a 1 ms timeout leaves a few ms; marks cure TCP, pauses"
    " both (all ports then share one buffer, and headroom comes on top); RoCE that loses packets collapses worse",
    cases=cures,
)
