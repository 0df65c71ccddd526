"""How much of their bandwidth all hosts get at once, by topology, routing and oversubscription."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

# 80 MB at 400 Gb/s take 1.6 ms, of which slow start, some 30 us, is under 2 %. Marking instead of dropping: the
# question is what the links carry, not how TCP mends losses; for the same reason the buffer holds the first windows of
# 15 senders (10 packets of 9 KB each) at one port.
BULK = {
    "rate": "400Gbps",
    "mtu": "9000B",
    "queue": "dctcp",
    "buffer": "2MB",
    "bytes": "80MB",
    "rounds": 1,
    "jitter": "10us",
    "capture": "off",
    "telemetry": "off",
}


def fabrics(spec: Spec) -> tuple[Case, ...]:
    """The same hosts with other routing, traffic, uplinks and topology; all-to-all sends a fifteenth to each."""
    fat_tree = {"topology": "fat_tree", "k": 4}
    return (
        Case("ecmp", {"routing": "ecmp"}),
        Case("all_to_all", {"workload": "all_to_all", "bytes": "5333KB"}),
        Case("oversubscribed-2to1", {"oversubscription": "2:1"}),
        Case("oversubscribed-4to1", {"oversubscription": "4:1"}),
        Case("fat_tree", fat_tree),
        Case("fat_tree-ecmp", {**fat_tree, "routing": "ecmp"}),
    )


EXPERIMENT = Experiment(
    name="bisection",
    question="How much of their bandwidth do all hosts get when they all send across the fabric?",
    claim="slides 10, 12: bisection 1:1 is good, over 4:1 poor; a fat-tree has full bisection bandwidth",
    expects="a permutation at 1:1 with D-mod-k gives every host nearly the line rate; ECMP puts two or three flows on"
    " some links and none on others; 2:1 and 4:1 leave a half and a quarter",
    defaults={
        "topology": "leaf_spine",
        "leaves": 4,
        "hosts_per_leaf": 4,
        "workload": "permutation",
        "routing": "d_mod_k",
        **BULK,
    },
    cases=fabrics,
)
