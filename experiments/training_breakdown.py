"""Computing and communication of a training step as the cluster grows: a ring, a parameter server, and a fixed global
batch, packet by packet up to 100 ranks.

Gradients travel when backward has ended, so that what is not computing is communication. A rank computes so long that
ten of them spend three tenths of a step communicating: the claim's first point settles the one number that it leaves
open, and its growth is what is tried.
"""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

MAIN_RANKS = 10
COMPUTE_US = 1450  # forward and backward with a batch of its own on each rank
RING_RANKS = (4, 32, 64, 100)
SERVED_RANKS = (4, 10, 32, 64)
STRONG_RANKS = (32, 100)
SHORT_RANKS, SHORT_BYTES = 64, 4194  # what a message of a ring of 1,000 ranks has


def sizes(spec: Spec) -> tuple[Case, ...]:
    """More and fewer ranks by a ring, by a parameter server, with one global batch that they share, and a ring with
    messages as short as those of 1,000 ranks."""
    served = {"algorithm": "parameter_server"}
    return (
        *(Case(f"ring-{ranks}", {"ranks": ranks}) for ranks in RING_RANKS),
        *(Case(f"server-{ranks}", {"ranks": ranks, **served}) for ranks in SERVED_RANKS),
        *(
            Case(f"fixed-batch-{ranks}", {"ranks": ranks, "compute": f"{COMPUTE_US * MAIN_RANKS // ranks}us"})
            for ranks in STRONG_RANKS
        ),
        Case(f"short-{SHORT_RANKS}", {"ranks": SHORT_RANKS, "gradient": f"{SHORT_RANKS * SHORT_BYTES}B"}),
    )


EXPERIMENT = Experiment(
    name="training_breakdown",
    question="What share of a training step is communication, as the cluster grows?",
    claim="slides 2, 3: 30 % with 10 GPUs, 55 % with 100, 80 % with 1000",
    expects="a ring's share grows slowly while each rank keeps its batch; with a fixed global batch, or with a"
    " parameter server, it grows faster than claimed",
    defaults={
        "topology": "star",
        "workload": "training",
        "ranks": MAIN_RANKS,
        "rate": "100Gbps",
        "gradient": "4MiB",
        "compute": f"{COMPUTE_US}us",
        "bucket": "off",
        "overlap": "off",
        "steps": 2,
        # With 1,000 ranks a ring's messages are 4,194 bytes: packets are no larger, so that the line through what is
        # measured up to 100 ranks, whose messages are longer, holds there too.
        "mtu": "4200B",
        # The incast at a parameter server is not the question: its port holds what is under way until marks are heeded.
        "queue": "dctcp",
        "buffer": "8MB",
        "capture": "off",
        "telemetry": "off",
    },
    cases=sizes,
)
