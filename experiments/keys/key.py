"""What a key of a spec is: a dataclass field whose metadata says how the command line and YAML call it, what it means,
and which values of other keys it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from experiments.kinds import OWN, Kind

SWITCHED = (
    "dumbbell",
    "leaf_spine",
    "fat_tree",
    "gpu_pod",
    "ring",
)  # topologies of several switches, which a controller routes
TOPOLOGIES = ("star", *SWITCHED)
ROUTED = (*SWITCHED, OWN)  # and those of the user's own
TRANSFERS = ("incast", "permutation", "all_to_all")  # workloads of flows of `bytes` each
CLUSTER = ("collective", "training", "federated")  # workloads that move numbers between ranks
STREAMED = (*TRANSFERS, "long_flows", *CLUSTER, OWN)  # workloads over connections, which every transport has
LAUNCH = "launch"  # the hosts run a program of the user's, over whatever it opens
IPERF3 = "iperf3"  # the senders run iperf3's client, the receiver a server for each
TO_ONE = ("incast", IPERF3)  # workloads of `senders` that send to one receiver
WORKLOADS = (*TRANSFERS, "long_flows", *CLUSTER, "pings", "datagrams", "streams", LAUNCH, IPERF3)
MARKING_QUEUES = ("dctcp", "dcqcn")

Needs = Mapping[str, tuple[str, ...]]  # key -> the values of it with which another key applies


def key(
    name: str,
    kind: Kind,
    default: Any,
    help: str,
    needs: Needs | None = None,
    auto: Any = None,
    values: Mapping[str, Needs] | None = None,
) -> Any:
    """A key of the spec; `auto` is what an "auto" always means, where that depends on nothing else; `values` is what
    some of its values need besides."""
    told = help if auto is None else f"{help}; auto: {auto}"
    metadata = {
        "name": name,
        "kind": kind,
        "help": told,
        "needs": needs or {},
        "values": values or {},
        "auto": None if auto is None else kind.parse(auto, name),
    }
    return field(default=kind.parse(default, name), metadata=metadata)


def on(*topologies: str) -> Needs:
    """What only some topologies have."""
    return {"topology": topologies}


def doing(*workloads: str) -> Needs:
    """What only some workloads know."""
    return {"workload": workloads}


def each(words: Iterable[str], needs: Needs) -> Mapping[str, Needs]:
    """Several values of a key that need the same."""
    return dict.fromkeys(words, needs)
