"""Every fabric: how many of everything, who has which address, which port leads where; and as plain `mn` loads it."""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mininet.topo import Topo
from mininet.util import buildTopo

import topologies
from tests.unit.walk import links, links_of, planned
from topologies.addresses import GATEWAY, PREFIX_LENGTH, SUBNET, flat_host
from topologies.describe import FabricDescription, Wire, describe
from topologies.dumbbell import Dumbbell
from topologies.fat_tree import FatTree
from topologies.gpu_pod import GpuPod
from topologies.leaf_spine import LeafSpine
from topologies.profiles import LinkProfile
from topologies.routed import spread
from topologies.star import Star

FOLDER = Path(topologies.__file__).parent
NETWORK, ROUTER = ipaddress.ip_network(f"{SUBNET}/{PREFIX_LENGTH}"), ipaddress.ip_address(GATEWAY)


def leaf_spine(hosts: int, leaves: int, per_leaf: int, spines: int = 2) -> LeafSpine:
    return LeafSpine(leaves=leaves, spines=spines, hosts_per_leaf=per_leaf, hosts=hosts)


# Hosts -> fabrics that hold as many. A dumbbell's two racks end at 508; servers have eight GPUs each.
HOLDING: list[tuple[int, Callable[[], Topo]]] = [
    (11, lambda: Star(hosts=11)),
    (11, lambda: Dumbbell(hosts=11)),
    (11, lambda: leaf_spine(11, 4, 3)),
    (11, lambda: FatTree(k=4, hosts=11)),
    (16, lambda: Star(hosts=16)),
    (16, lambda: Dumbbell(hosts=16)),
    (16, lambda: leaf_spine(16, 4, 4)),
    (16, lambda: FatTree(k=4)),
    (16, lambda: GpuPod(servers=2)),
    (16, lambda: GpuPod(servers=2, leaves=2, rails=False)),
    (54, lambda: Star(hosts=54)),
    (54, lambda: Dumbbell(hosts=54)),
    (54, lambda: leaf_spine(54, 9, 6)),
    (54, lambda: FatTree(k=6)),
    (128, lambda: Star(hosts=128)),
    (128, lambda: Dumbbell(hosts=128)),
    (128, lambda: leaf_spine(128, 8, 16, 16)),
    (128, lambda: FatTree(k=8)),
    (128, lambda: GpuPod(servers=16, spines=4)),
    (128, lambda: GpuPod(servers=16, leaves=5, rails=False)),
    (255, lambda: Star(hosts=255)),
    (255, lambda: Dumbbell(hosts=255)),
    (255, lambda: leaf_spine(255, 16, 16)),
    (255, lambda: leaf_spine(255, 2, 254)),
    (255, lambda: leaf_spine(255, 254, 2)),
    (255, lambda: FatTree(k=12, hosts=255)),
    (1024, lambda: Star(hosts=1024)),
    (1024, lambda: leaf_spine(1024, 32, 32, 32)),
    (1024, lambda: leaf_spine(1024, 5, 254)),
    (1024, lambda: FatTree(k=16)),
    (1024, lambda: GpuPod(servers=128, spines=16)),
    (1024, lambda: GpuPod(servers=128, leaves=8, rails=False)),
]


def ports(fabric: FabricDescription) -> list[tuple[str, int]]:
    return [end for wire in fabric.wires for end in ((wire.a, wire.a_port), (wire.b, wire.b_port))]


@pytest.mark.parametrize(("hosts", "build"), HOLDING)
def test_addresses(hosts: int, build: Callable[[], Topo]) -> None:
    fabric = describe(build())
    addresses = [ipaddress.ip_address(host.ip) for host in fabric.hosts]
    assert len(set(addresses)) == len(fabric.hosts) == hosts
    assert len({host.mac for host in fabric.hosts}) == hosts
    assert [host.name for host in fabric.hosts] == [f"h{number}" for number in range(1, hosts + 1)]
    assert all(address in NETWORK and address != ROUTER for address in addresses)
    assert not {NETWORK.network_address, NETWORK.broadcast_address} & set(addresses)


@pytest.mark.parametrize(("hosts", "build"), [each for each in HOLDING if not isinstance(each[1](), Star)])
def test_a_rack_holds_its_hosts_addresses(hosts: int, build: Callable[[], Topo]) -> None:
    fabric = describe(build())
    subnets = {switch.name: switch.subnet for switch in fabric.switches if switch.subnet}
    assert len(set(subnets.values())) == len(subnets)
    addresses = {host.name: ipaddress.ip_address(host.ip) for host in fabric.hosts}
    homes = {wire.a: wire.b for wire in fabric.wires if wire.a in addresses and wire.a_port == 0}
    assert homes.keys() == addresses.keys()
    for host, rack in homes.items():
        assert addresses[host] in ipaddress.ip_network(str(subnets[rack]))
        assert addresses[host].packed[3] not in (0, 255)
    assert not any(ROUTER in ipaddress.ip_network(str(subnet)) for subnet in subnets.values())


@pytest.mark.parametrize(("hosts", "build"), HOLDING)
def test_every_port_is_used_once_and_numbers_can_be_used(hosts: int, build: Callable[[], Topo]) -> None:
    fabric = describe(build())
    assert max(Counter(ports(fabric)).values()) == 1
    switches = {switch.name for switch in fabric.switches}
    assert all(1 <= number < 0xFF00 for node, number in ports(fabric) if node in switches)  # OpenFlow's OFPP_MAX
    assert all(len(f"{node}-eth{number}") <= 15 for node, number in ports(fabric))  # Linux's IFNAMSIZ
    dpids = [switch.dpid for switch in fabric.switches]
    assert len(set(dpids)) == len(dpids) and min(dpids) >= 1
    assert FabricDescription.from_json(json.loads(json.dumps(fabric.as_json()))) == fabric


@pytest.mark.parametrize("k", [4, 6, 8, 12, 16])
def test_fat_tree_counts(k: int) -> None:
    """Al-Fares, Loukissas and Vahdat, SIGCOMM 2008, section 2.2."""
    fabric = describe(FatTree(k=k))
    assert len(fabric.hosts) == k**3 // 4
    assert len(fabric.switches) == 5 * k**2 // 4
    assert len(fabric.wires) == 3 * k**3 // 4
    assert Counter(switch.tier for switch in fabric.switches) == {1: k * k // 2, 2: k * k // 2, 3: k * k // 4}
    used = Counter(node for node, _ in ports(fabric))
    assert {used[switch.name] for switch in fabric.switches} == {k}


@pytest.mark.parametrize("k", [4, 6])
def test_a_core_reaches_every_pod_once_and_pods_share_no_other_link(k: int) -> None:
    fabric = describe(FatTree(k=k))
    pod = {
        f"{kind}{number}": (number - 1) // (k // 2) for kind in ("edge", "agg") for number in range(1, k * k // 2 + 1)
    }
    for wire in fabric.wires:
        if wire.a in pod and wire.b in pod:
            assert pod[wire.a] == pod[wire.b]
    for core in range(1, k * k // 4 + 1):
        reached = sorted((wire.b_port, pod[wire.a] + 1) for wire in fabric.wires if wire.b == f"core{core}")
        assert reached == [(number, number) for number in range(1, k + 1)]


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 6))
def test_leaf_spine_counts(leaves: int, spines: int, per_leaf: int) -> None:
    fabric = describe(LeafSpine(leaves=leaves, spines=spines, hosts_per_leaf=per_leaf))
    assert len(fabric.hosts) == leaves * per_leaf
    assert len(fabric.switches) == leaves + spines
    assert len(fabric.wires) == leaves * (per_leaf + spines)
    network = planned(LeafSpine(leaves=leaves, spines=spines, hosts_per_leaf=per_leaf)).network
    assert len(links(network)) == leaves * spines
    assert {len(links_of(network, f"spine{number}")) for number in range(1, spines + 1)} == {2 * leaves}


@pytest.mark.parametrize("hosts", [2, 3, 4, 9])
def test_a_dumbbell_has_one_link_in_the_middle(hosts: int) -> None:
    fabric = describe(Dumbbell(hosts=hosts))
    (middle,) = (wire for wire in fabric.wires if wire.a == "left1")
    assert (middle.b, len(fabric.wires)) == ("right1", hosts + 1)
    sides = Counter(wire.b for wire in fabric.wires if wire is not middle)
    assert sides == {"left1": (hosts + 1) // 2, "right1": hosts // 2}


@pytest.mark.parametrize("servers", [1, 2, 5])
def test_a_rail_holds_the_same_gpu_of_every_server(servers: int) -> None:
    fabric = describe(GpuPod(servers=servers, spines=3))
    assert len(fabric.hosts) == 8 * servers
    assert Counter(switch.inside_server for switch in fabric.switches) == {True: servers, False: 8 + 3}
    for index in range(8 * servers):
        server, gpu = divmod(index, 8)
        first, second = (wire for wire in fabric.wires if wire.a == f"h{index + 1}")
        assert (first.a_port, first.b, first.b_port) == (0, f"leaf{gpu + 1}", server + 1)
        assert (second.a_port, second.b, second.b_port) == (1, f"nvs{server + 1}", gpu + 1)


@pytest.mark.parametrize(("servers", "leaves"), [(2, 2), (3, 2), (16, 5), (8, 8)])
def test_without_rails_a_server_has_one_leaf(servers: int, leaves: int) -> None:
    fabric = describe(GpuPod(servers=servers, leaves=leaves, rails=False))
    homes = {wire.a: wire.b for wire in fabric.wires if wire.a_port == 0 and wire.a.startswith("h")}
    of_server = [{homes[f"h{8 * server + gpu}"] for gpu in range(1, 9)} for server in range(servers)]
    assert all(len(racks) == 1 for racks in of_server)
    assert max(Counter(homes.values()).values()) <= -(-servers // leaves) * 8


@given(st.integers(0, 300), st.integers(1, 20), st.integers(1, 20))
def test_racks_fill_one_after_the_other(hosts: int, racks: int, most: int) -> None:
    counts = spread(hosts, racks, most)
    assert sum(counts) == min(hosts, racks * most)
    assert all(count == most for count in counts[: hosts // most])
    assert all(count == 0 for count in counts[hosts // most + 1 :])


def test_flat_addresses() -> None:
    assert [flat_host(number) for number in (1, 255, 256, 1023)] == ["10.0.0.1", "10.0.0.255", "10.0.1.0", "10.0.3.255"]


def test_links_tell_their_profile() -> None:
    link, uplink = LinkProfile(100 * 10**9, 500, 1500), LinkProfile(40 * 10**9, 1_500, 1500)
    wires = describe(LeafSpine(leaves=1, spines=1, hosts_per_leaf=1, link=link, uplink=uplink)).wires
    assert wires == (
        Wire("h1", 0, "leaf1", 1, 100 * 10**9, 500),
        Wire("leaf1", 2, "spine1", 1, 40 * 10**9, 1_500),
    )


# --- plain Mininet


@pytest.mark.parametrize(
    ("name", "asked", "hosts", "switches"),
    [
        ("star", "star,4", 4, 1),
        ("dumbbell", "dumbbell,6", 6, 2),
        ("leaf_spine", "leaf_spine,leaves=4,spines=2", 8, 6),
        ("fat_tree", "fat_tree,4", 16, 20),
        ("fat_tree", "fat_tree,k=4,hosts=5", 5, 20),
        ("gpu_pod", "gpu_pod,servers=2", 16, 12),
        ("leaf_spine", "leaf_spine", 4, 4),
    ],
)
def test_mn_loads_the_file_and_builds_what_is_asked(name: str, asked: str, hosts: int, switches: int) -> None:
    """As `mn --custom FILE --topo ASKED` does (MininetRunner.custom, mininet.util.buildTopo), without profiles."""
    file = FOLDER / f"{name}.py"
    customs: dict[str, dict[str, type[Topo]]] = {}
    exec(compile(file.read_text(), str(file), "exec"), customs, customs)
    topo = buildTopo(customs["topos"], asked)
    assert (len(topo.hosts()), len(topo.switches())) == (hosts, switches)
    assert all("port1" in info for _, _, info in topo.links(withInfo=True))
