"""A pause storm: one stuck receiver, and what its pauses stop, with and without a watchdog at the switches."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.pfc_unfairness import LOSSLESS
from experiments.spec import Spec

# No two flows share more than the wide uplink, so that all is full and nothing congested until h1 gets stuck. Innocent:
# across the spine beside the flow to h1, and under either leaf.
_TRAFFIC = "h5>h1@0us,h6>h3@37us,h2>h4@74us,h7>h8@111us"


def remedies(spec: Spec) -> tuple[Case, ...]:
    """Switches with a watchdog, quick and slow; DCQCN, which slows down for marks and knows no pause."""
    return (
        Case("watchdog-500us", {"pfc_watchdog": "500us"}),
        Case("watchdog-2ms", {"pfc_watchdog": "2ms"}),
        Case("dcqcn", {"queue": "dcqcn"}),
    )


EXPERIMENT = Experiment(
    name="pause_storm",
    question="How far does one receiver that sends pauses for ever stop a lossless fabric?",
    claim="slide 14: incast is cured by PFC; published: a NIC's pause storm stops a fabric (Guo et al., SIGCOMM 2016)",
    expects="flows to other hosts stop as long as the receiver is stuck, where they share its way; a watchdog frees"
    " them after its time, the sooner the more they keep over the whole storm, and loses what was for the stuck host",
    defaults={
        **LOSSLESS,
        "topology": "leaf_spine",
        "leaves": 2,
        "hosts_per_leaf": 4,
        "spines": 1,
        "uplink_rate": "80Gbps",
        "traffic": _TRAFFIC,
        "stuck": "h1@2ms-8ms",
        "duration": "10ms",
    },
    cases=remedies,
)
