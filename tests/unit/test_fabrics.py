"""From spec to Topo: the right fabric, with the right profile on every link and switch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from experiments import fabrics, limits
from experiments.shape import lay_out
from experiments.spec import TOPOLOGIES, Spec, parse
from topologies.describe import FabricDescription, describe

SMALL: dict[str, dict[str, Any]] = {
    "star": {"hosts": 5},
    "dumbbell": {"hosts": 5},
    "leaf_spine": {"leaves": 3, "hosts_per_leaf": 2, "hosts": 5, "spines": 2},
    "fat_tree": {"k": 4, "hosts": 5},
    "gpu_pod": {"servers": 2},
    "ring": {"switches": 3, "hosts": 6},
}


def resolved(topology: str, **keys: Any) -> Spec:
    return limits.resolve(parse({"topology": topology, **SMALL[topology], **keys}))


def described(topology: str, **keys: Any) -> FabricDescription:
    return describe(fabrics.topology(resolved(topology, **keys)))


@pytest.mark.parametrize(
    ("topology", "hosts", "switches", "links"),
    [
        ("star", 5, 1, 5),
        ("dumbbell", 5, 2, 6),
        ("leaf_spine", 5, 5, 5 + 6),
        ("fat_tree", 5, 20, 5 + 32),
        ("gpu_pod", 16, 8 + 2 + 2, 16 + 16 + 16),
        ("ring", 6, 3, 6 + 3),
    ],
)
def test_every_topology_is_laid_out_as_asked(topology: str, hosts: int, switches: int, links: int) -> None:
    fabric = described(topology)
    assert (len(fabric.hosts), len(fabric.switches), len(fabric.wires)) == (hosts, switches, links)


def rates(fabric: FabricDescription) -> Counter[tuple[str, int]]:
    """Kind of link and rate in Gb/s -> how many."""
    inner = {switch.name for switch in fabric.switches if switch.inside_server}
    hosts = {host.name for host in fabric.hosts}
    kinds = (
        ("nvlink" if wire.b in inner else "link" if wire.a in hosts else "uplink", wire.rate_bps // 10**9)
        for wire in fabric.wires
    )
    return Counter(kinds)


@pytest.mark.parametrize(
    ("topology", "keys", "expected"),
    [
        ("star", {}, {("link", 100): 5}),
        ("dumbbell", {"uplink_rate": "40Gbps"}, {("link", 100): 5, ("uplink", 40): 1}),
        ("ring", {"uplink_rate": "40Gbps"}, {("link", 100): 6, ("uplink", 40): 3}),
        ("leaf_spine", {"oversubscription": "2:1"}, {("link", 100): 5, ("uplink", 50): 6}),
        ("fat_tree", {"oversubscription": "4:1"}, {("link", 100): 5, ("uplink", 25): 32}),
        ("gpu_pod", {"uplink_rate": "200Gbps"}, {("link", 100): 16, ("uplink", 200): 8, ("nvlink", 3600): 16}),
        (
            "gpu_pod",
            {"rails": "off", "leaves": 1, "spines": 2, "nvlink_rate": "800Gbps"},
            {("link", 100): 16, ("uplink", 800): 2, ("nvlink", 800): 16},
        ),
    ],
)
def test_every_link_has_its_rate(topology: str, keys: dict[str, Any], expected: dict[tuple[str, int], int]) -> None:
    assert rates(described(topology, rate="100Gbps", **keys)) == expected


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_link_and_switch_has_its_profile(topology: str) -> None:
    spec = resolved(topology, delay="3us", mtu="9000B", switch_delay="250ns", queue="dctcp")
    topo = fabrics.topology(spec)
    for _, _, info in topo.links(withInfo=True):
        assert (info["profile"].delay_ns, info["profile"].mtu_bytes) == (3000, 9000)
    assert {topo.nodeInfo(name)["profile"] for name in topo.switches()} == {limits.switch_profile(spec)}
    assert limits.switch_profile(spec).delay_ns == 250


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_names_are_the_same_without_profiles(topology: str) -> None:
    spec = resolved(topology)
    assert lay_out(spec).links() == fabrics.topology(spec).links()
    assert describe(lay_out(spec)).switches == describe(fabrics.topology(spec)).switches


def test_only_a_star_needs_no_controller() -> None:
    assert [topology for topology in TOPOLOGIES if not fabrics.is_routed(resolved(topology))] == ["star"]
    assert limits.uplink_profile(resolved("star")) is None
    assert limits.nvlink_profile(resolved("fat_tree")) is None


def test_the_document_is_the_description_with_its_name() -> None:
    told = fabrics.document(resolved("fat_tree"))
    assert (told["format"], told["topology"]) == (1, "fat_tree")
    assert FabricDescription.from_json({key: told[key] for key in ("switches", "hosts", "wires")}) == described(
        "fat_tree"
    )


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_no_path_is_longer_than_the_round_trip_says(topology: str) -> None:
    """The most links between two hosts, without the shortcut inside a server."""
    keys = {**SMALL[topology], "topology": topology, "delay": "1us", "switch_delay": "0ns"}
    sizes = {name: size for name, size in keys.items() if name != "hosts"}
    spec = limits.resolve(parse(sizes))
    fabric = describe(lay_out(spec))
    inner = {switch.name for switch in fabric.switches if switch.inside_server}
    beside: dict[str, set[str]] = {}
    for wire in fabric.wires:
        if wire.b not in inner:
            beside.setdefault(wire.a, set()).add(wire.b)
            beside.setdefault(wire.b, set()).add(wire.a)
    assert spec.rtt_ns == 2 * 1000 * max(_farthest(host.name, beside) for host in fabric.hosts)


def _farthest(start: str, beside: dict[str, set[str]]) -> int:
    """Links to what is farthest from `start`, breadth first; hosts are the farthest of all."""
    seen, edge, links = {start}, {start}, 0
    while edge:
        edge = {name for node in edge for name in beside[node]} - seen
        seen |= edge
        links += bool(edge)
    return links
