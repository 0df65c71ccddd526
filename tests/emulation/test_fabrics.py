"""Fabrics of several switches, routed by the controller: everybody reaches everybody, once, by a shortest way, and
nobody hears what is not meant for him."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulation.captures import Frame, read
from tests.emulation.conftest import Inside
from topologies.addresses import GATEWAY, ROUTER_MAC
from topologies.describe import FabricDescription
from workloads.datagrams import SENT_TTL

pytestmark = pytest.mark.lab

GIB = 1 << 30
ARP = b"\x08\x06"
ARP_REPLY = 2
ONE_DATAGRAM_BYTES = 14 + 64

FABRICS: dict[str, dict[str, Any]] = {
    "dumbbell": {"topology": "dumbbell", "hosts": 5},
    "leaf_spine": {"topology": "leaf_spine", "leaves": 3, "hosts_per_leaf": 3, "spines": 2, "hosts": 8},
    "leaf_spine-d_mod_k": {"topology": "leaf_spine", "leaves": 3, "hosts": 6, "spines": 2, "routing": "d_mod_k"},
    "leaf_spine-openflow_1.3": {"topology": "leaf_spine", "leaves": 3, "hosts": 6, "spines": 2, "openflow": "1.3"},
    "fat_tree": {"topology": "fat_tree", "k": 4},
    "gpu_pod-rails": {"topology": "gpu_pod", "servers": 2},
    "gpu_pod-no_rails": {"topology": "gpu_pod", "servers": 2, "rails": "off"},
}


def switches_between(fabric: FabricDescription) -> dict[tuple[str, str], int]:
    """(sender, receiver) -> switches on the shortest way between them, over any of their interfaces; breadth-first over
    the links alone."""
    peers: dict[str, list[str]] = {}
    for wire in fabric.wires:
        peers.setdefault(wire.a, []).append(wire.b)
        peers.setdefault(wire.b, []).append(wire.a)
    hosts = [host.name for host in fabric.hosts]
    found = {}
    for sender in hosts:
        distance, queue = {sender: 0}, deque([sender])
        while queue:
            here = queue.popleft()
            for peer in peers[here] if here == sender or here not in hosts else []:
                if peer not in distance:
                    distance[peer] = distance[here] + 1
                    queue.append(peer)
        found.update({(sender, receiver): distance[receiver] - 1 for receiver in hosts if receiver != sender})
    return found


def check_probes(told: Any) -> FabricDescription:
    """Every datagram has arrived by a shortest way."""
    fabric = FabricDescription.from_json(told["fabric"])
    expected = switches_between(fabric)
    wrong = [
        f"{sender} > {receiver}: {switches} switches, expected {expected[sender, receiver]}"
        for sender, receiver, switches in told["probes"]
        if switches != expected[sender, receiver]
    ]
    assert wrong == []
    return fabric


def received(folder: Path, fabric: FabricDescription) -> Iterator[tuple[str, Frame]]:
    """Host and frame of everything that came to a host from the fabric."""
    for host in fabric.hosts:
        own = bytes.fromhex(host.mac.replace(":", ""))
        for capture in sorted(folder.glob(f"{host.name}-eth?.pcap")):
            yield from ((host.name, frame) for frame in read(capture) if frame.kept[6:12] != own)


# --- every ordered pair


@pytest.mark.parametrize("name", FABRICS)
def test_everybody_reaches_everybody_and_nobody_else_hears_it(fabric_inside: Inside, tmp_path: Path, name: str) -> None:
    keys = {**FABRICS[name], "workload": "pings"}
    told = fabric_inside("pairs", memory_bytes=2 * GIB, keys=keys, folder=str(tmp_path))
    fabric = check_probes(told)
    assert len(told["probes"]) == len(fabric.hosts) * (len(fabric.hosts) - 1)
    assert set(told["losses"].values()) == {0}
    assert {host: len(lines) for host, lines in told["neighbours"].items()} == {
        host.name: sum(wire.a == host.name for wire in fabric.wires) for host in fabric.hosts
    }
    assert all(f"{GATEWAY} " in line and ROUTER_MAC in line for lines in told["neighbours"].values() for line in lines)
    ready, discovered = told["controller"][:2]
    switches = {switch.name for switch in fabric.switches}
    assert (ready["event"], ready["switches"]) == ("ready", len(switches))
    both_ways = 2 * sum(wire.a in switches for wire in fabric.wires)
    assert discovered["discovered_links"] == discovered["expected_links"] == both_ways
    assert discovered["wrong_links"] == []
    check_frames(told, fabric, list(received(tmp_path, fabric)))


def check_frames(told: Any, fabric: FabricDescription, frames: list[tuple[str, Frame]]) -> None:
    """What came to the hosts is addressed to them, is all that the switches' ports have sent, and is what was asked."""
    hosts, expected = {host.name: host for host in fabric.hosts}, switches_between(fabric)
    names = {host.ip: host.name for host in fabric.hosts}
    hops, datagrams = 0, Counter[tuple[str, str]]()
    for host, frame in frames:
        assert frame.kept[:6] == bytes.fromhex(hosts[host].mac.replace(":", ""))
        assert frame.kept[6:12] == bytes.fromhex(ROUTER_MAC.replace(":", ""))
        assert frame.time_ns <= told["probed_ns"], "something came of what nobody may get"
        if frame.kept[12:14] == ARP:
            assert frame.kept[21] == ARP_REPLY
            hops += 1
            continue
        assert frame.destination == hosts[host].ip
        passed, sender = SENT_TTL - frame.kept[22], names[frame.source]
        assert passed == expected[sender, host]
        hops += passed
        if frame.wire_bytes == ONE_DATAGRAM_BYTES:
            datagrams[sender, host] += 1
    assert datagrams == {(sender, receiver): 2 for sender, receiver, _ in told["probes"]}
    # A duplicate, a loop or a flooded copy anywhere in the fabric would be one more packet that a port has sent.
    assert told["transmitted"][0] == hops
    assert told["strays"] == 4 * len(hosts)
    assert told["transmitted"][1] == 0


def test_a_star_learns_and_sends_nothing_twice(fabric_inside: Inside, tmp_path: Path) -> None:
    """A learning switch floods what it does not know; what it knows goes to one."""
    keys = {"topology": "star", "hosts": 5, "workload": "pings"}
    told = fabric_inside("pairs", keys=keys, folder=str(tmp_path))
    fabric = FabricDescription.from_json(told["fabric"])
    assert [switches for _, _, switches in told["probes"]] == 20 * [0]  # it is no router
    names = {host.ip: host.name for host in fabric.hosts}
    datagrams = Counter(
        (names[frame.source], host)
        for host, frame in received(tmp_path, fabric)
        if frame.is_ip and frame.wire_bytes == ONE_DATAGRAM_BYTES and frame.time_ns <= told["probed_ns"]
    )
    assert datagrams == {(sender, receiver): 2 for sender, receiver, _ in told["probes"]}


# --- host counts at which addressing has broken elsewhere


@pytest.mark.parametrize(
    "keys",
    [
        {"topology": "star", "hosts": 11},
        {"topology": "dumbbell", "hosts": 16},
        {"topology": "leaf_spine", "hosts": 11},
        {"topology": "leaf_spine", "leaves": 6, "hosts": 54, "spines": 3},
        {"topology": "fat_tree", "hosts": 11},
        {"topology": "fat_tree", "k": 8, "hosts": 128},
    ],
    ids=lambda keys: f"{keys['topology']}-{keys['hosts']}",
)
def test_any_number_of_hosts(fabric_inside: Inside, keys: dict[str, Any]) -> None:
    told = fabric_inside("sample", memory_bytes=2 * GIB, keys={**keys, "workload": "pings"})
    assert len(told["fabric"]["hosts"]) == keys["hosts"]
    assert len(told["probes"]) == 2 * keys["hosts"]
    if keys["topology"] == "star":
        assert {switches for _, _, switches in told["probes"]} == {0}
    else:
        check_probes(told)


# --- ARP, and hosts that move


def test_the_gateway_is_answered_for_and_any_other_address_too(fabric_inside: Inside) -> None:
    """Every address is behind the router, whoever asks; who only says who it is is not answered."""
    asked = [GATEWAY, "10.0.1.2", "10.0.3.1", "10.9.9.9"]
    keys = {"topology": "leaf_spine", "leaves": 3, "hosts": 6, "spines": 2, "workload": "pings"}
    told = fabric_inside("arp", keys=keys, asked=asked)
    assert told["answers"] == {address: [[ROUTER_MAC, address, "00:00:00:00:00:01", "10.0.1.1"]] for address in asked}
    assert told["gratuitous"] == []


def test_a_host_that_is_plugged_in_elsewhere_is_found(fabric_inside: Inside) -> None:
    """h1 moves from the first leaf to the third and back; once it has spoken all is as if it had always been there."""
    keys = {"topology": "leaf_spine", "leaves": 3, "hosts": 6, "spines": 2, "workload": "pings"}
    places = [("leaf3", 40), ("leaf1", 1)]
    neighbours = {"leaf3": {"h5", "h6"}, "leaf1": {"h2"}}
    for (leaf, port), told in zip(places, fabric_inside("move", keys=keys, host="h1", places=places)):
        moved, repaired = told["events"]
        assert (moved["event"], moved["host"], moved["switch"], moved["port"]) == ("host_moved", "h1", leaf, port)
        assert repaired["event"] == "repaired"
        assert len(told["probes"]) == 2 * 5
        for sender, receiver, switches in told["probes"]:
            assert switches == (1 if {sender, receiver} & neighbours[leaf] else 3), (sender, receiver)
        assert told["later_events"] == []
