"""Who sends what to whom when ranks share the data, each layer, or the layers of a model."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec


def ways(spec: Spec) -> tuple[Case, ...]:
    """The same model and the same computing, each layer or the layers shared."""
    return tuple(Case(way, {"parallelism": way}) for way in ("tensor", "pipeline"))


EXPERIMENT = Experiment(
    name="parallelism",
    question="What traffic do data, tensor and pipeline parallelism make?",
    claim="slide 7: data and model parallelism both need constant communication",
    expects="data: all gradients once a step around a ring; tensor: activations around it in every layer; pipeline:"
    " activations between neighbours only, and stages that wait",
    defaults={
        "topology": "star",
        "workload": "training",
        "ranks": 8,
        "rate": "100Gbps",
        "parallelism": "data",
        "gradient": "16MiB",
        "compute": "5ms",
        "layers": 8,
        "micro_batches": 4,
        "activation": "1MiB",
        "bucket": "off",
        "overlap": "off",
        "steps": 3,
        "mtu": "9000B",
        "capture": "off",
        "telemetry": "off",
    },
    cases=ways,
)
