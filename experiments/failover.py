"""Links and switches die under steady streams: what is lost until switches or the controller have gone round them."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

# Halfway between two datagrams.
LINK = "leaf1-spine1:down@10.005ms,leaf1-spine1:up@30.005ms"
SPINE = "spine1:down@10.005ms,spine1:up@30.005ms"
FLAPPING = ",".join(f"leaf1-spine1:{action}@{time}.005ms" for time, action in zip(range(5, 35, 5), ("down", "up") * 3))
EDGE = "edge1-agg1:down@10.005ms,edge1-agg1:up@30.005ms"


def failures(spec: Spec) -> tuple[Case, ...]:
    """A link, a spine and a flapping link, with and without the switches' own detours; a link of a fat-tree."""
    alone = {"fast_failover": "off"}
    return (
        Case("link-controller_alone", alone),
        Case("spine", {"failure": SPINE}),
        Case("spine-controller_alone", {"failure": SPINE, **alone}),
        Case("flapping", {"failure": FLAPPING}),
        Case("flapping-controller_alone", {"failure": FLAPPING, **alone}),
        Case("controller_dies", {"failure": f"controller:down@5ms,{LINK}"}),
        Case("fat_tree", {"topology": "fat_tree", "k": 4, "failure": EDGE}),
    )


EXPERIMENT = Experiment(
    name="failover",
    question="How long do packets get lost when a link or a spine dies?",
    claim="slides 10, 12: recovery in under 1 s is good, over 10 s poor; more paths tolerate more faults",
    expects="switches that go round a dead port lose what is in flight; the controller alone loses as long as it takes",
    # Computing takes no virtual time, so that the controller's is given: 5 ms from hearing of a failure to new rules.
    defaults={
        "topology": "leaf_spine",
        "leaves": 4,
        "hosts_per_leaf": 4,
        "spines": 2,
        "workload": "streams",
        "delay": "5us",  # a kilometre of fibre: something is in flight on the link that dies
        "interval": "10us",
        "duration": "40ms",
        "control_latency": "5ms",
        "failure": LINK,
        "capture": "off",
        "telemetry": "off",
    },
    cases=failures,
)
