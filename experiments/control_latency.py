"""What it costs to mark and to pause by a controller instead of in the switch: the same flows by its latency."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.pfc_unfairness import LOSSLESS, crowd
from experiments.spec import Spec

LATENCIES = ("0us", "10us", "100us", "1000us", "10000us")


def latencies(spec: Spec) -> tuple[Case, ...]:
    """Marking by the controller, and pausing by it, at every latency; and pausing alone by the switch, to compare."""
    marking = tuple(
        Case(f"marking-{latency}", {"marking": "controller", "control_latency": latency}) for latency in LATENCIES
    )
    alone = {"queue": "droptail"}
    pausing = tuple(
        Case(
            f"pause-{latency}",
            {**alone, "pause": "controller", "control_latency": latency, "allow_loss": "on"},
        )
        for latency in LATENCIES
    )
    return (*marking, Case("pause-switch", alone), *pausing)


EXPERIMENT = Experiment(
    name="control_latency",
    question="What does a slow control loop cost that marks or pauses?",
    claim="slide 14: PFC and DCQCN cure incast, both of which act in the switch",
    expects="pauses come in time for 10 us, with the headroom that this takes, and too late from 100 us on: packets are"
    " lost; marks that come late come in bursts, and leave part of the link idle",
    defaults={
        **LOSSLESS,
        "topology": "leaf_spine",
        "leaves": 2,
        "hosts_per_leaf": 4,
        "spines": 1,
        "uplink_rate": "160Gbps",
        "buffer": "600KB",  # room for the headroom of a loop of 10 us
        "queue": "dcqcn",
        "traffic": crowd(["h5", "h6", "h7", "h8"]),
        "duration": "40ms",
    },
    cases=latencies,
)
