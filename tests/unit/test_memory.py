"""How much memory a run is given: it grows with what needs it, and more than there is is refused."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import limits, memory
from experiments.memory import memory_bytes
from experiments.spec import Spec, parse
from topologies.units import BadRequest

LEAF_SPINE, FAT_TREE, GPU_POD = {"topology": "leaf_spine"}, {"topology": "fat_tree"}, {"topology": "gpu_pod"}
STREAMS = {**LEAF_SPINE, "workload": "streams"}
LONG_FLOWS = {"workload": "long_flows", "duration": "1ms"}
ROCE = {"transport": "roce"}


def resolve(**keys: Any) -> Spec:
    return limits.resolve(parse(keys))


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({**FAT_TREE, "k": 4}, {"k": 8}),
        (LEAF_SPINE, {"spines": 8}),
        (LEAF_SPINE, {"topology": "star", "senders": 63}),
        ({**GPU_POD}, {"servers": 4}),
        ({**LEAF_SPINE, "workload": "permutation"}, {"workload": "all_to_all"}),
        ({**LEAF_SPINE, "workload": "pings"}, {"hosts_per_leaf": 16}),
        ({**LEAF_SPINE, "workload": "datagrams"}, {"flows": 10_000}),
        (STREAMS, {"duration": "80ms"}),
        (STREAMS, {"interval": "5us"}),
        (STREAMS, {"capture": "all"}),
        ({"topology": "ring"}, {"switches": 40}),
        ({**ROCE, "bytes": "8MB"}, {"mtu": "4200B"}),
        (ROCE, {"pfc": "on"}),
        (ROCE, {"queue": "dcqcn"}),
        ({**ROCE, "bytes": "1KB"}, {"bytes": "100KB"}),
        (LONG_FLOWS, {"hosts": 40}),
        (LONG_FLOWS, {"traffic": ",".join(["h2>h1@0s"] * 30)}),
        ({**LONG_FLOWS, "capture": "all"}, {"duration": "10ms"}),
        ({**LONG_FLOWS, "capture": "all", "traffic": "h2>h1@0s-100us"}, {"traffic": "h2>h1@0s-900us"}),
    ],
)
def test_memory_grows_with_fabric_and_workload(less: dict[str, Any], more: dict[str, Any]) -> None:
    base = {"capture": "off", **less}
    assert memory_bytes(resolve(**{**base, **more})) > memory_bytes(resolve(**base))


@pytest.mark.parametrize(
    ("keys", "least_mib"),
    [
        # touched by the fabric itself and its controller, as measured
        ({"k": 16}, 1600 + 300),
        ({"k": 8}, 350),
    ],
)
def test_big_fabrics_get_what_they_touch(keys: dict[str, Any], least_mib: int) -> None:
    spec = resolve(**FAT_TREE, **keys, workload="permutation", capture="off")
    assert memory._GUEST_BASE_BYTES + memory._fabric_bytes(spec) > least_mib << 20


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"workload": "all_to_all"}, "hosts: 16 with workload=all_to_all, bytes=256KiB, rounds=4, capture=off need "),
        ({"workload": "pings"}, "hosts: 16 with workload=pings, capture=off need "),
        ({"workload": "datagrams"}, "hosts: 16 with flows=1000, capture=off need "),
        ({"workload": "streams"}, "hosts: 16 with interval=10us, duration=40ms, capture=off need "),
        (
            {"workload": "long_flows"},
            "hosts: 16 with workload=long_flows, 15 flows of traffic, duration=40ms, capture=off need ",
        ),
    ],
)
def test_too_much_memory_is_told_in_the_workloads_words(
    monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], words: str
) -> None:
    monkeypatch.setattr(memory, "_available_bytes", lambda: 1 << 20)
    with pytest.raises(BadRequest) as error:
        memory_bytes(resolve(**LEAF_SPINE, capture="off", **keys))
    assert str(error.value).startswith(words)


@pytest.mark.parametrize("more", [{"senders": 1000}, {"bytes": "4MiB"}, {"rounds": 400}, {"capture": "all"}])
def test_memory_grows_with_what_needs_it(more: dict[str, Any]) -> None:
    base = {"senders": 8, "capture": "hot"}
    assert memory_bytes(resolve(**{**base, **more})) > memory_bytes(resolve(**base))


def test_more_memory_than_is_free_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = resolve(senders=200, capture="off")
    needed_bytes = memory_bytes(spec)
    monkeypatch.setattr(memory, "_available_bytes", lambda: needed_bytes)
    assert memory_bytes(spec) == needed_bytes
    monkeypatch.setattr(memory, "_available_bytes", lambda: needed_bytes - 1)
    with pytest.raises(BadRequest) as error:
        memory_bytes(spec)
    assert str(error.value) == (
        f"senders: 200 with bytes=256KiB, rounds=4, capture=off need {needed_bytes >> 20} MiB of memory;"
        f" allowed: what this machine has free, {needed_bytes - 1 >> 20} MiB"
    )


def test_free_memory_is_what_the_kernel_says() -> None:
    assert 0 < memory._available_bytes() < 1 << 50


def test_a_queue_pair_has_no_more_on_its_way_than_soft_roce_lets_it() -> None:
    base = {**ROCE, "senders": 10, "capture": "off"}
    assert memory_bytes(resolve(**base, bytes="1MiB")) == memory_bytes(resolve(**base, bytes="1GiB"))
    assert memory_bytes(resolve(**base, bytes="1GiB")) < memory_bytes(resolve(senders=10, capture="off", bytes="1GiB"))


def test_flows_to_one_receiver_share_its_link_in_captures() -> None:
    keys = {**LONG_FLOWS, "capture": "all", "hosts": 10}
    one, many = (resolve(**keys, traffic=traffic) for traffic in ("h2>h1@0s", "h2>h1@0s,h3>h1@0s"))
    apart = resolve(**keys, traffic="h2>h1@0s,h3>h4@0s")
    assert memory._captured_bytes(one) == memory._captured_bytes(many) < memory._captured_bytes(apart)
