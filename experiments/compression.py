"""A real network is trained over a link that is slow for it, and sends less: the largest numbers of its gradient, eight
bits of each, or the sign.

The network is as wide as the gradient is long, so that every number that travels is one of its own.
"""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

GRADIENT_BYTES = 1_020_040  # the 255,010 float32 of a network of 3,400 hidden units (workloads/digits.py), about 1 MB


def schemes(spec: Spec) -> tuple[Case, ...]:
    """One percent, one in a thousand, a byte and a bit of each number."""
    return (
        Case("topk-1pct", {"compression": "topk", "kept": 0.01}),
        Case("topk-01pct", {"compression": "topk", "kept": 0.001}),
        Case("int8", {"compression": "int8"}),
        Case("sign", {"compression": "sign"}),
    )


EXPERIMENT = Experiment(
    name="compression",
    question="What do compressed gradients save in bytes and time, and what does a real model lose by them?",
    claim="slides 20, 21: gradient compression; updates 10 to 50 times smaller",
    expects="updates are 4 to 500 times smaller; steps are shorter where they are smaller by more than half the number"
    " of ranks; with error feedback the model learns as well",
    defaults={
        "topology": "star",
        "workload": "training",
        "ranks": 8,
        "rate": "10Gbps",
        "model": "digits",
        "compression": "none",
        "gradient": f"{GRADIENT_BYTES}B",
        "compute": "1ms",
        "bucket": "off",
        "overlap": "off",
        "steps": 60,
        "mtu": "9000B",
        # Each rank's payload goes to all others: where all send to one at once, its port would drop.
        "queue": "dctcp",
        "capture": "off",
        "telemetry": "off",
    },
    cases=schemes,
)
