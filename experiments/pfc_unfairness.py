"""A parking lot: flows that share a port, against one alone behind its own, to one receiver; PFC alone, and DCQCN."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

# RoCE at the rate of DCQCN's testbed, in packets of 4 KB. A queue pair of soft-RoCE has up to 513 of them under way,
# 2.1 MB: XOFF lies well below, else a flow alone would never be paused.
LOSSLESS = {
    "transport": "roce",
    "rate": "40Gbps",
    "mtu": "4300B",
    "pfc": "on",
    "buffer": "300KB",
    "workload": "long_flows",
    "capture": "off",
}
_STEP_US = 37  # hosts do not begin in the same nanosecond
_LONE, _RECEIVER, _FIRST_SHARING = "h2", "h1", 5


def crowd(senders: Iterable[str], receiver: str = _RECEIVER) -> str:
    """Traffic of these hosts to one receiver, begun one after the other, to the end."""
    return ",".join(f"{sender}>{receiver}@{place * _STEP_US}us" for place, sender in enumerate(senders))


def parking_lot(sharing: int) -> str:
    """The traffic of the flow alone, under the receiver's leaf, and of `sharing` flows from the other leaf."""
    return crowd([_LONE, *(f"h{number}" for number in range(_FIRST_SHARING, _FIRST_SHARING + sharing))])


def lots(spec: Spec) -> tuple[Case, ...]:
    """Two and four flows that share a port instead of three, and the same lots with DCQCN."""
    dcqcn = {"queue": "dcqcn", "duration": "80ms"}  # alpha falls by half in 10 ms
    return (
        Case("sharing-2", {"traffic": parking_lot(2)}),
        Case("sharing-4", {"traffic": parking_lot(4)}),
        Case("dcqcn", dcqcn),
        Case("dcqcn-sharing-2", {"traffic": parking_lot(2), **dcqcn}),
        Case("dcqcn-sharing-4", {"traffic": parking_lot(4), **dcqcn}),
    )


EXPERIMENT = Experiment(
    name="pfc_unfairness",
    question="Does a lossless link share its rate among flows, or among the ports that they come in by?",
    claim="slide 14: incast is cured by PFC and DCQCN; published: unfair with PFC alone, fair with DCQCN (Zhu et al.)",
    expects="PFC alone gives the flow alone behind its port half of the link, and the others share the other half;"
    " DCQCN gives all the same",
    # One spine, so that all from the other leaf come in by one port.
    defaults={
        **LOSSLESS,
        "topology": "leaf_spine",
        "leaves": 2,
        "hosts_per_leaf": 4,
        "spines": 1,
        "uplink_rate": "40Gbps",
        "traffic": parking_lot(3),
        "duration": "20ms",
    },
    cases=lots,
)
