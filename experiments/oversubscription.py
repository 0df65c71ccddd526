"""Goodput per host against the oversubscription of the leaves: fewer spines, the same links."""

from __future__ import annotations

from experiments.bisection import BULK
from experiments.catalog import Case, Experiment
from experiments.spec import Spec

RATIOS = ("2:1", "4:1", "8:1")


def ratios(spec: Spec) -> tuple[Case, ...]:
    """The same traffic with a half, a quarter and an eighth of the uplinks."""
    return tuple(Case(f"ratio-{ratio.replace(':', 'to')}", {"oversubscription": ratio}) for ratio in RATIOS)


EXPERIMENT = Experiment(
    name="oversubscription",
    question="What does each host lose when its leaf has fewer uplinks than host ports?",
    claim="slide 10: bisection 1:1 is good, over 4:1 poor",
    expects="goodput across the spines falls as the ratio rises: all, a half, a quarter, an eighth of the line rate",
    # 8 hosts a leaf, so that 8:1 leaves one whole uplink; D-mod-k shares the uplinks evenly: the ratio alone acts.
    defaults={
        "topology": "leaf_spine",
        "leaves": 2,
        "hosts_per_leaf": 8,
        "workload": "permutation",
        "routing": "d_mod_k",
        "oversubscription": "1:1",
        **BULK,
    },
    cases=ratios,
)
