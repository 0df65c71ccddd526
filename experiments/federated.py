"""Federated learning: how soon a model that is really trained gets good, and what its rounds are made of.

    h1, the root                             leaf1 ---+--- spine1
    clients (and, in hierarchical cases,     leaf2 ---+--- spine2
    one edge aggregator under each leaf)     ...

Links of 25 Gb/s: the slowest for which NICs with RoCE are made; packets of 9,000 bytes, which both transports can use.
Uplinks together are as fast as the hosts of their rack, so that the aggregators' links are the narrow ones.
ResNet-50's update of 102.4 MB is divided by 100, and so is the computing between: 20 ms stand for 2 s. Timeouts are not
divided. What that does to TCP shows in the cases that divide by 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

_Changes = Mapping[str, Any]
_ROCE: _Changes = {"transport": "roce", "pfc": "on"}
_LOSSLESS: _Changes = {"traffic_class": "lossless", "pfc": "on"}
_TREE: _Changes = {"aggregation": "hierarchical", "edges": 5}
_LARGER: _Changes = {"scale": 10, "compute": "200ms", "rounds": 2}
_FAST: _Changes = {"rate": "100Gbps", "rounds": 4}  # a processor with TCP's costs needs longer for a packet than a link
_MANY: _Changes = {"clients": 200, "leaves": 8, "rounds": 2}
_SHORT: _Changes = {"rounds": 6}  # enough for times: what is learned is what the main run learns


def variants(spec: Spec) -> tuple[Case, ...]:
    """Edge aggregators, RoCE, smaller updates, stragglers, hosts that cost (with faster links too), larger updates, and
    200 clients."""
    return (
        Case("hierarchical", _TREE),
        Case("hierarchical-twice", {**_TREE, "edge_rounds": 2, "rounds": 20}),
        Case("roce", _ROCE),
        Case("hierarchical-roce", {**_TREE, **_ROCE}),
        Case("int8", {"compression": "int8"}),
        Case("topk", {"compression": "topk", "kept": 0.02}),
        Case("sign", {"compression": "sign"}),
        Case("roce-stragglers", {**_ROCE, "spread": 0.5}),
        Case("roce-stragglers-quorum", {**_ROCE, "spread": 0.5, "quorum": 0.8}),
        Case("cost_tcp", {"host_cost": "tcp", **_SHORT}),
        Case("lossless", {**_LOSSLESS, **_SHORT}),
        Case("lossless-cost_tcp", {**_LOSSLESS, "host_cost": "tcp", **_SHORT}),
        Case("lossless-cost_rdma", {**_LOSSLESS, "host_cost": "rdma", **_SHORT}),
        Case("roce-cost_rdma", {**_ROCE, "host_cost": "rdma", **_SHORT}),
        Case("fast-cost_tcp", {**_LOSSLESS, "host_cost": "tcp", **_FAST}),
        Case("fast-cost_rdma", {**_LOSSLESS, "host_cost": "rdma", **_FAST}),
        Case("fast-roce-cost_rdma", {**_ROCE, "host_cost": "rdma", **_FAST}),
        Case("dctcp-mtu_1500", {"queue": "dctcp", "mtu": "1500B", "rounds": 3}),
        Case("scale_10", _LARGER),
        Case("scale_10-roce", {**_LARGER, **_ROCE}),
        Case("clients_200", _MANY),
        Case("clients_200-hierarchical", {**_MANY, "aggregation": "hierarchical", "edges": 8}),
        Case("clients_200-roce", {**_MANY, **_ROCE}),
    )


EXPERIMENT = Experiment(
    name="federated",
    question="How soon is a federated model good, flat or hierarchical, over TCP or RoCE, with smaller updates, with"
    " stragglers?",
    claim="slide 21: 200 clients, ResNet-50: RoCE 3.6 times faster than TCP, 38 against 42 rounds, updates 10 to 50"
    " times smaller, offload cuts tail latency by 60 %",
    expects="over TCP all clients' updates at once overflow the port towards the root, and rounds wait for timeouts;"
    " RoCE, lossless TCP and smaller updates do not; edges save rounds only where they average more often",
    defaults={
        "topology": "leaf_spine",
        "workload": "federated",
        "clients": 50,
        "leaves": 5,
        "spines": 2,
        "rate": "25Gbps",
        "mtu": "9000B",
        "compute": "20ms",
        "rounds": 35,
        "capture": "off",
        "telemetry": "off",
    },
    cases=variants,
)
