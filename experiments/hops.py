"""Switches between any two hosts, and what they cost: the path lengths of a fat-tree and of a leaf-spine fabric."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec


def topologies(spec: Spec) -> tuple[Case, ...]:
    """As many hosts under two tiers instead of three."""
    return (Case("leaf_spine", {"topology": "leaf_spine", "leaves": 4, "hosts_per_leaf": 4}),)


EXPERIMENT = Experiment(
    name="hops",
    question="How many switches lie between two hosts, and how long does a datagram take?",
    claim="slides 10, 11, 12: leaf-spine: two switch-to-switch hops between any two leaves, 400 to 600 ns each,"
    " everywhere the same; a fat-tree has three tiers",
    expects="leaf-spine: 1 or 3 switches, one delay for all pairs of leaves; fat-tree: 1, 3 or 5 switches",
    # 100 ns are 20 m of fibre: with the 400 ns of a good switch (slide 10) a hop takes half a microsecond.
    defaults={
        "topology": "fat_tree",
        "k": 4,
        "workload": "pings",
        "delay": "100ns",
        "switch_delay": "400ns",
        "capture": "off",
        "telemetry": "off",
    },
    cases=topologies,
)
