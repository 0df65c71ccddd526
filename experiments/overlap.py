"""Gradients travel behind backward computing, bucket by bucket, or after it.

Backward is two thirds of a step's computing. Where gradients travel for as long as backward computes, overlap can save
most: with perfect overlap 2/3 of 1 + 2/3, which is 40 %. The run itself is about there; beside it buckets of other
sizes, more and less computing for the same gradients, and gradients that are compressed too.
"""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

OFF = {"overlap": "off"}
LIGHT, HEAVY = {"compute": "1800us"}, {"compute": "14400us"}  # half and four times the run's
COMPRESSED = {"compression": "topk", "kept": 0.01}


def ways(spec: Spec) -> tuple[Case, ...]:
    """Without overlap; buckets of four sizes; less and more computing, each with overlap and without; compression."""
    return (
        Case("off", OFF),
        Case("bucket-256kib", {"bucket": "256KiB"}),
        Case("bucket-4mib", {"bucket": "4MiB"}),
        Case("bucket-all", {"bucket": "off"}),
        Case("light", LIGHT),
        Case("light-off", {**LIGHT, **OFF}),
        Case("heavy", HEAVY),
        Case("heavy-off", {**HEAVY, **OFF}),
        Case("compressed", COMPRESSED),
        Case("light-compressed", {**LIGHT, **COMPRESSED}),
    )


EXPERIMENT = Experiment(
    name="overlap",
    question="What part of communication does computing hide, and how much shorter do steps get?",
    claim="slide 20: overlap of communication and computing, compression; training time down by 40 % or more",
    expects="all but the last bucket is hidden where gradients travel no longer than backward computes; overlap alone"
    " saves 40 % at the very most, compression and overlap together more where communication takes longer",
    defaults={
        "topology": "star",
        "workload": "training",
        "ranks": 8,
        "rate": "100Gbps",
        "gradient": "16MiB",
        "bucket": "1MiB",
        "compute": "3600us",
        "steps": 5,
        "mtu": "9000B",
        "capture": "off",
        "telemetry": "off",
    },
    cases=ways,
)
