"""The fabric: which switches and hosts there are, their links and buffers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from experiments.keys.key import ROUTED, TOPOLOGIES, key, on
from experiments.kinds import (
    AUTO,
    COUNT,
    DURATION,
    LOSSY_LINKS,
    OWN,
    RATE,
    RATIO,
    SIZE,
    SLOW_LINKS,
    SWITCH,
    optional,
    own_or,
)
from topologies.plugins import Plug


@dataclass(frozen=True)
class FabricKeys:
    """The fabric: which switches and hosts there are, their links and buffers."""

    topology: str | Plug = key(  # noqa: RUF009 (a Plug is frozen)
        "topology",
        own_or(*TOPOLOGIES),
        "star",
        "fabric, or a class or function of your own (its parameters are called like keys)",
    )
    hosts: int | None = key(
        "hosts",
        optional(COUNT),
        AUTO,
        "hosts on the fabric, racks fill one after the other; auto: all places (star: senders + 1; dumbbell: 4)",
    )
    leaves: int | None = key(
        "leaves",
        optional(COUNT),
        AUTO,
        "leaf switches of leaf_spine (auto: 4), and of gpu_pod with rails=off (auto: one a server, up to 8)",
        on("leaf_spine", "gpu_pod", OWN),
    )
    spines: int | None = key(
        "spines",
        optional(COUNT),
        AUTO,
        "spine switches; auto: so many that uplinks run at uplink_rate (auto: rate, or less) with the oversubscription",
        on("leaf_spine", "gpu_pod", OWN),
    )
    hosts_per_leaf: int | None = key(
        "hosts_per_leaf",
        optional(COUNT),
        AUTO,
        "host ports of each leaf, or switch of a ring; auto: 4 (ring: 1), or with hosts as many as they need",
        on("leaf_spine", "ring", OWN),
    )
    switches: int | None = key(
        "switches", optional(COUNT), AUTO, "switches of a ring, 3 or more", on("ring", OWN), auto=4
    )
    k: int | None = key(
        "k", optional(COUNT), AUTO, "ports of each switch of a fat-tree, even, 4 to 16", on("fat_tree", OWN), auto=4
    )
    servers: int | None = key(
        "servers",
        optional(COUNT),
        AUTO,
        "servers of 8 GPUs; auto: 2, or with hosts as many as they need",
        on("gpu_pod", OWN),
    )
    rails: bool | None = key(
        "rails",
        optional(SWITCH),
        AUTO,
        "leaf i holds the NIC of GPU i of every server; off: all NICs of a server go to one leaf",
        on("gpu_pod"),
        auto="on",
    )
    oversubscription: Fraction | None = key(  # noqa: RUF009 (a Fraction cannot be changed)
        "oversubscription",
        optional(RATIO),
        AUTO,
        "bandwidth of a leaf's hosts over that of its uplinks; auto: 1:1, or as spines and uplink_rate make it",
        on("leaf_spine", "fat_tree", "gpu_pod"),
    )
    rate_bps: int = key("rate", RATE, "400Gbps", "rate of each host's link, both ways")
    uplink_rate_bps: int | None = key(
        "uplink_rate",
        optional(RATE),
        AUTO,
        "rate of each link between switches; auto: by the oversubscription (dumbbell, ring, your own: rate)",
        on(*ROUTED),
    )
    nvlink_rate_bps: int | None = key(
        "nvlink_rate",
        optional(RATE),
        AUTO,
        "rate of a GPU's link to its server's NVSwitch, each way",
        on("gpu_pod"),
        auto="3.6Tbps",
    )
    delay_ns: int = key("delay", DURATION, "500ns", "one-way propagation delay of each link")
    switch_delay_ns: int = key("switch_delay", DURATION, "400ns", "pipeline delay of a switch, per packet")
    buffer_bytes: int = key("buffer", SIZE, "600KB", "buffer of each switch port, for each class")
    mtu_bytes: int = key("mtu", SIZE, "1500B", "IP MTU of every link")
    slow_links: tuple[tuple[str, int], ...] = key(
        "slow_link", SLOW_LINKS, "none", "hosts whose link has another rate, both ways"
    )
    lossy_links: tuple[tuple[str, float], ...] = key(
        "lossy_link", LOSSY_LINKS, "none", "hosts whose cable loses packets at random, either way"
    )
