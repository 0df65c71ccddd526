"""Where a run is captured and sampled: what its traffic goes through, by workload and class."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from experiments import fabrics, guest, limits
from experiments.spec import Spec, parse
from experiments.stage import Stage
from topologies import qdisc
from topologies.describe import describe

LEAF_SPINE = {"topology": "leaf_spine", "leaves": 2, "hosts_per_leaf": 4, "spines": 2, "workload": "long_flows"}


def stage(**keys: Any) -> Stage:
    """A stage without a kernel below it: its queues are those that would be asked for."""
    spec: Spec = limits.resolve(parse(keys))
    description = describe(fabrics.topology(spec))
    link, switch = limits.link_profile(spec), limits.switch_profile(spec)
    hosts = [SimpleNamespace(name=host.name, enter_command=lambda: ["enter"]) for host in description.hosts]
    found = Stage(spec, description, None, None)  # type: ignore[arg-type]
    stacks = {name: list(qdisc.switch_port(link, switch)) for name in found.switch_ports}
    object.__setattr__(found, "fabric", SimpleNamespace(hosts=hosts, port_qdiscs=lambda: stacks))
    return found


def captured(**keys: Any) -> list[str]:
    return [point.name for point in guest.capture_points(stage(**keys))]


# --- captures


def test_an_incast_is_captured_at_the_hot_port_and_its_senders() -> None:
    assert captured(senders=2) == ["leaf1-eth1", "h2-eth0", "h3-eth0"]
    assert captured(senders=2, capture="hot") == ["leaf1-eth1"]
    assert captured(senders=2, capture="off") == []


def test_other_transfers_are_captured_at_every_host() -> None:
    assert captured(hosts=3, workload="permutation") == ["h1-eth0", "h2-eth0", "h3-eth0"]
    assert captured(hosts=3, workload="permutation", capture="hot") == []


def test_long_flows_are_captured_towards_their_receivers_and_at_who_sends() -> None:
    traffic = "h5>h1@0ms,h2>h1@0ms,h1>h6@0ms,h2>h6@1ms"
    assert captured(**LEAF_SPINE, traffic=traffic, capture="hot") == ["leaf1-eth1", "leaf2-eth2"]
    everything = captured(**LEAF_SPINE, traffic=traffic)
    assert everything == ["leaf1-eth1", "leaf2-eth2", "h1-eth0", "h2-eth0", "h5-eth0"]


def test_rings_together_are_no_larger_than_one() -> None:
    traffic = ",".join(f"h{number}>h{number + 4}@0ms" for number in range(1, 5))
    points = guest.capture_points(stage(**LEAF_SPINE, traffic=traffic, capture="hot"))
    assert sum(point.ring_kib for point in points) == 32 << 10


# --- the hot port


@pytest.mark.parametrize(
    ("keys", "port"),
    [
        ({"senders": 2}, "leaf1-eth1"),
        ({"hosts": 3, "workload": "permutation"}, None),
        ({**LEAF_SPINE, "traffic": "h1>h6@0ms,h2>h6@0ms"}, "leaf2-eth2"),
        ({**LEAF_SPINE, "traffic": "h1>h6@0ms,h2>h5@0ms"}, None),
    ],
)
def test_a_port_is_hot_where_all_goes_to_one_receiver(keys: dict[str, Any], port: str | None) -> None:
    assert guest.hot_port(stage(**keys)) == port


# --- samples


def test_an_incast_is_sampled_at_the_hot_port_alone() -> None:
    assert guest.sampled_ports(stage(topology="leaf_spine", leaves=2, hosts_per_leaf=2)) == ["leaf1-eth1"]


def test_long_flows_are_sampled_towards_receivers_and_between_switches() -> None:
    found = guest.sampled_ports(stage(**LEAF_SPINE, traffic="h1>h6@0ms,h2>h5@0ms"))
    between = {f"{leaf}-eth{port}" for leaf in ("leaf1", "leaf2") for port in (5, 6)}
    between |= {f"{spine}-eth{port}" for spine in ("spine1", "spine2") for port in (1, 2)}
    assert found[:2] == ["leaf2-eth2", "leaf2-eth1"]
    assert set(found[2:]) == between
    assert len(found) == 10


def test_no_more_than_sixteen_ports_are_sampled_and_receivers_come_first() -> None:
    keys = {**LEAF_SPINE, "spines": 8, "traffic": ",".join(f"h{number}>h{number + 4}@0ms" for number in range(1, 5))}
    found = guest.sampled_ports(stage(**keys))
    assert found[:4] == [f"leaf2-eth{port}" for port in range(1, 5)]
    assert len(found) == 16


@pytest.mark.parametrize(
    ("keys", "handle"),
    [
        ({}, qdisc.LOSSY),
        ({"queue": "dctcp"}, qdisc.LOSSY_RED),
        ({"queue": "red"}, qdisc.LOSSY_RED),
        ({"transport": "roce"}, qdisc.LOSSLESS),
        ({"transport": "roce", "queue": "dcqcn"}, qdisc.LOSSLESS_RED),
        ({"transport": "roce", "traffic_class": "lossy"}, qdisc.LOSSY),
        ({"traffic_class": "lossless", "pfc": "on"}, qdisc.LOSSLESS),
    ],
)
def test_the_queue_of_the_traffics_class_is_sampled(keys: dict[str, Any], handle: int) -> None:
    assert guest._queue_handle(stage(senders=2, **keys), "leaf1-eth1") == handle


@pytest.mark.parametrize(("duration", "least_ns"), [("1ms", 50), ("40ms", 2_000), ("2s", 10_000)])
def test_long_flows_have_a_bounded_number_of_samples_as_far_as_busy_can_be_told(duration: str, least_ns: int) -> None:
    assert guest._least_period_ns(stage(**LEAF_SPINE, duration=duration).spec) == least_ns


def test_a_workload_without_a_duration_is_sampled_as_often_as_can_be() -> None:
    assert guest._least_period_ns(stage(senders=2).spec) == 0
