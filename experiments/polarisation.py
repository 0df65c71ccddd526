"""Equal-cost multipath in two tiers: what becomes of the second choice when both tiers hash alike."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec


def seeds(spec: Spec) -> tuple[Case, ...]:
    """The same flows with one hash seed for all switches, and with OpenFlow 1.3, whose groups have no seed."""
    return (
        Case("same_seed", {"ecmp_seed": "same"}),
        Case("openflow_1.3", {"openflow": "1.3", "ecmp_seed": "same"}),
    )


EXPERIMENT = Experiment(
    name="polarisation",
    question="Do 1,000 flows spread over all core links, or does every tier make the same choice again?",
    claim="slide 12: a fat-tree is non-blocking, which needs all of its paths",
    expects="with a seed for each switch the flows spread evenly; with one seed for all most core links stay idle",
    defaults={
        "topology": "fat_tree",
        "k": 8,
        "workload": "datagrams",
        "flows": 1000,
        "ecmp_seed": "per_switch",
        "capture": "off",
        "telemetry": "off",
    },
    cases=seeds,
)
