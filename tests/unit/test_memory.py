"""How much memory a run is given: it grows with what needs it, and more than there is is refused."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import drive_collective, drive_training, limits, memory
from experiments.cluster import CHOICES
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


# --- ranks and clients

RANKS = {"topology": "leaf_spine", "workload": "collective", "ranks": 64, "sizes": "16MiB"}
TRAINING = {"workload": "training", "ranks": 8}
FEDERATED = {"workload": "federated", "clients": 20}
LAUNCH = {"workload": "launch", "command": "true", "ranks": 4}
IPERF3 = {"workload": "iperf3", "senders": 8, "rate": "100Mbps"}


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({"ranks": 5}, 5),
        ({"ranks": 5, "algorithm": "tree"}, 4 * 5),
        ({"ranks": 8, "algorithm": "halving_doubling"}, 8 * (3 + 2)),
        ({"ranks": 8, "algorithm": "hierarchical", "group": 4}, 6 * 8),
        ({"ranks": 8, "algorithm": "parameter_server", "shards": 3}, 2 * 8 * 3),
        ({"ranks": 8, "algorithm": "direct"}, 8 * 7),
        ({"ranks": 8, "collective": "gather"}, 8),
        ({"ranks": 8, "collective": "all_to_all"}, 8 * 7),
    ],
)
def test_connections_of_collectives(keys: dict[str, Any], count: int) -> None:
    assert memory.pairs(resolve(**{**RANKS, **keys})) == count


def test_connections_of_others() -> None:
    assert memory.pairs(resolve(**TRAINING)) == 8
    assert memory.pairs(resolve(**TRAINING, parallelism="pipeline")) == 2 * 7
    assert memory.pairs(resolve(**FEDERATED)) == 2 * 20
    assert memory.pairs(resolve(**FEDERATED, aggregation="hierarchical", edges=4)) == 2 * (20 + 4)
    assert memory.pairs(resolve(**LAUNCH)) == 4 * 3
    assert memory.pairs(resolve(**IPERF3, iperf3_streams=3)) == 8 * 3


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({**RANKS, "ranks": 8}, {"ranks": 16}),
        (RANKS, {"sizes": "32MiB"}),
        ({**RANKS, "ranks": 16}, {"algorithm": "tree"}),
        ({**RANKS, "ranks": 16, "capture": "all"}, {"iterations": 9}),
        (TRAINING, {"gradient": "64MiB"}),
        ({**TRAINING, "capture": "all"}, {"steps": 40}),
        ({**TRAINING, "parallelism": "pipeline"}, {"activation": "4MiB"}),
        ({**TRAINING, "parallelism": "tensor", "capture": "all"}, {"layers": 80}),
        (TRAINING, {"compression": "int8"}),
        (FEDERATED, {"scale": 10}),
        ({**FEDERATED, "capture": "all"}, {"rounds": 40}),
        (FEDERATED, {"clients": 40}),
        (LAUNCH, {"ranks": 8}),
        (IPERF3, {"senders": 9}),
        (IPERF3, {"iperf3_streams": 4}),
        ({**IPERF3, "capture": "all"}, {"duration": "20s"}),
    ],
)
def test_memory_grows_with_ranks_clients_and_their_numbers(less: dict[str, Any], more: dict[str, Any]) -> None:
    base = {"capture": "off", **less}
    assert memory_bytes(resolve(**{**base, **more})) > memory_bytes(resolve(**base))


@pytest.mark.parametrize("transport", ["tcp", "roce"])
@pytest.mark.parametrize("algorithm", ["ring", "tree", "halving_doubling", "hierarchical", "parameter_server"])
def test_sixty_four_ranks_fit(monkeypatch: pytest.MonkeyPatch, transport: str, algorithm: str) -> None:
    """On a machine of 16 GiB, with room for the numbers themselves: what a rank has and what it receives."""
    monkeypatch.setattr(memory, "_available_bytes", lambda: 16 << 30)
    needed_bytes = memory_bytes(resolve(**RANKS, capture="off", algorithm=algorithm, transport=transport))
    assert needed_bytes > 2 * 64 * (16 << 20)


@pytest.mark.parametrize("transport", ["tcp", "roce"])
@pytest.mark.parametrize("aggregation", ["flat", "hierarchical"])
def test_two_hundred_clients_fit(monkeypatch: pytest.MonkeyPatch, transport: str, aggregation: str) -> None:
    monkeypatch.setattr(memory, "_available_bytes", lambda: 16 << 30)
    memory_bytes(resolve(**{**FEDERATED, "clients": 200}, capture="off", aggregation=aggregation, transport=transport))


def test_rings_are_smaller_where_they_are_many() -> None:
    few, many = (
        resolve(**{**RANKS, "ranks": 8}, transport="roce"),
        resolve(**RANKS, transport="roce", algorithm="direct"),
    )
    assert memory.ring_bytes(few) == 4 << 20
    assert memory.ring_bytes(many) == 256 << 10


def test_more_queue_pairs_than_a_process_has_room_for_are_refused() -> None:
    with pytest.raises(BadRequest) as error:
        memory_bytes(resolve(**RANKS, transport="roce", collective="all_to_all"))
    assert str(error.value) == (
        "ranks: 64 with workload=collective, up to 16MiB of numbers each, capture=all have 4,032 flows over queue"
        " pairs; allowed: up to 3,000, or transport=tcp"
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (TRAINING, "ranks: 8 with workload=training, up to 16MiB of numbers each, capture=off need "),
        (FEDERATED, "clients: 20 with workload=federated, up to 1024KB of numbers each, capture=off need "),
        (LAUNCH, "ranks: 4 with workload=launch, capture=off need "),
        (IPERF3, "senders: 8 with workload=iperf3, duration=2s, capture=off need "),
    ],
)
def test_too_many_ranks_are_told_in_their_words(
    monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], words: str
) -> None:
    monkeypatch.setattr(memory, "_available_bytes", lambda: 1 << 20)
    with pytest.raises(BadRequest) as error:
        memory_bytes(resolve(**keys, capture="off"))
    assert str(error.value).startswith(words)


# --- what there is


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


GROUPED = {"hierarchical": {"group": 2}, "parameter_server": {"shards": 3}}


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [(collective, algorithm) for collective, algorithms in CHOICES.items() for algorithm in algorithms],
)
@pytest.mark.parametrize("ranks", [2, 6, 16])
def test_no_collective_opens_more_than_is_reckoned_with(collective: str, algorithm: str, ranks: int) -> None:
    keys = {"collective": collective, "algorithm": algorithm, **GROUPED.get(algorithm, {})}
    spec = resolve(workload="collective", ranks=ranks, **keys)
    assert len(drive_collective.used_channels(spec)) <= memory.pairs(spec)


@pytest.mark.parametrize(
    "keys",
    [
        *({"algorithm": algorithm, **GROUPED.get(algorithm, {})} for algorithm in CHOICES["all_reduce"]),
        *({"algorithm": algorithm, "compression": "sign"} for algorithm in ("ring", "halving_doubling", "direct")),
        {"algorithm": "parameter_server", "shards": 3, "backup_workers": 1},
        {"parallelism": "tensor"},
        {"parallelism": "tensor", "algorithm": "hierarchical", "group": 2},
        {"parallelism": "pipeline", "layers": 16},
    ],
)
@pytest.mark.parametrize("ranks", [2, 6, 16])
def test_no_training_opens_more_than_is_reckoned_with(keys: dict[str, Any], ranks: int) -> None:
    spec = resolve(**{**TRAINING, **keys, "ranks": ranks})
    assert len(drive_training.used_channels(drive_training.job_of(spec))) <= memory.pairs(spec)
