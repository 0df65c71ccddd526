"""The victim flow: its own way has room, but its switch is paused for the sake of another receiver.

    h1, the receiver         leaf1 ---+
    h6..h9 to it, h10        leaf2 ---+--- spine1
    h11, the victim's        leaf3 ---+
    further senders h16, h21 leaf4, leaf5

DCQCN's authors spread their flows over two uplinks, where a second sender under T3 may take the other one. Here there
is one spine, so that no hash decides; a second sender behind the same port would change nothing, and each has a leaf of
its own. The uplinks are as fast as both of theirs.
"""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.pfc_unfairness import LOSSLESS, crowd
from experiments.spec import Spec

_VICTIM = "h10>h11@0us"
_NEIGHBOURS = ("h6", "h7", "h8", "h9")
_ELSEWHERE = ("h16", "h21")


def congested(elsewhere: int) -> str:
    """The traffic with so many senders under further leaves."""
    return f"{crowd([*_NEIGHBOURS, *_ELSEWHERE[:elsewhere]])},{_VICTIM}"


def senders(spec: Spec) -> tuple[Case, ...]:
    """One and two senders elsewhere; all three with DCQCN; and without PFC, where packets are lost instead."""
    dcqcn = {"queue": "dcqcn", "duration": "160ms"}  # 40 Mb/s every 55 us: what DCQCN cut off comes back slowly
    return (
        Case("elsewhere-1", {"traffic": congested(1)}),
        Case("elsewhere-2", {"traffic": congested(2)}),
        Case("dcqcn", dcqcn),
        Case("dcqcn-elsewhere-1", {"traffic": congested(1), **dcqcn}),
        Case("dcqcn-elsewhere-2", {"traffic": congested(2), **dcqcn}),
        Case("no_pfc", {"pfc": "off", "duration": "150ms"}),  # several of a queue pair's timeouts, of 67 ms
    )


EXPERIMENT = Experiment(
    name="victim",
    question="What does congestion at one receiver do to a flow to another one, whose own way is idle?",
    claim="slide 14: incast is cured by PFC and DCQCN; published: PFC alone makes victims (Zhu et al.)",
    expects="with PFC alone the victim gets no more than the flows beside it, less with each sender elsewhere;"
    " with DCQCN all that its way leaves",
    defaults={
        **LOSSLESS,
        "topology": "leaf_spine",
        "leaves": 5,
        "hosts_per_leaf": 5,
        "spines": 1,
        "uplink_rate": "80Gbps",
        "traffic": congested(0),
        "duration": "20ms",
    },
    cases=senders,
)
