"""Collectives in packets: results over TCP and RoCE, bytes on the wire, speed, a lossy cable, flows that die."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments.runner import guest_environment
from lab.kernel import Kernel
from tests.conftest import run_in_lab
from tests.emulation.conftest import Inside

pytestmark = pytest.mark.lab

STAR: dict[str, Any] = {
    "rate": "100Gbps",
    "mtu": "9000B",
    "buffer": "4MB",
    "queue": "dctcp",
    "iterations": 1,
    "warmup": 1,
}
ROCE: dict[str, Any] = {**STAR, "queue": "droptail", "transport": "roce", "pfc": "on"}
ODD = "1000003B"  # no multiple of any number of ranks, nor of any type's size


@pytest.fixture
def play(kernel: Kernel, tmp_path: Path) -> Inside:
    return partial(call, kernel, tmp_path)


def call(kernel: Kernel, results: Path, name: str, **arguments: Any) -> Any:
    """Call a function of tests/emulation/collectives_inside.py in the lab."""
    words = (sys.executable, "-m", "tests.emulation.collectives_inside", name, json.dumps(arguments))
    return run_in_lab(kernel, words, results=results, env=guest_environment(), memory_bytes=2 << 30).json


def run(play: Inside, **keys: Any) -> Any:
    return play("runs", cases=[keys])[0]


SAMPLE: list[dict[str, Any]] = [
    {"collective": "all_reduce", "algorithm": "ring", "ranks": 5, "dtype": "float32"},
    {"collective": "all_reduce", "algorithm": "tree", "ranks": 7, "dtype": "float16"},
    {"collective": "all_reduce", "algorithm": "halving_doubling", "ranks": 6, "dtype": "int8"},
    {"collective": "all_reduce", "algorithm": "hierarchical", "ranks": 6, "group": 3, "dtype": "float32"},
    {"collective": "all_reduce", "algorithm": "parameter_server", "shards": 2, "ranks": 3, "dtype": "float16"},
    {"collective": "broadcast", "algorithm": "tree", "ranks": 5, "dtype": "int8"},
    {"collective": "scatter", "algorithm": "tree", "ranks": 3, "dtype": "float32"},
    {"collective": "gather", "algorithm": "direct", "ranks": 5, "dtype": "float16"},
    {"collective": "reduce", "algorithm": "ring", "ranks": 3, "dtype": "int8"},
    {"collective": "all_gather", "algorithm": "ring", "ranks": 7, "dtype": "float32"},
    {"collective": "reduce_scatter", "algorithm": "halving_doubling", "ranks": 5, "dtype": "float16"},
    {"collective": "all_to_all", "algorithm": "direct", "ranks": 4, "dtype": "int8"},
]
ITEMSIZES = {"float32": 4, "float16": 2, "int8": 1}


@pytest.mark.parametrize("transport", [STAR, ROCE], ids=["tcp", "roce"])
@pytest.mark.parametrize("part", [0, 1])
def test_results_are_numpys(play: Inside, transport: dict[str, Any], part: int) -> None:
    asked = SAMPLE[part::2]
    for keys, facts in zip(asked, play("runs", cases=[{**transport, "sizes": f"64B,{ODD}", **keys} for keys in asked])):
        sizes = [64, 1_000_003]
        calls = facts["calls"]
        assert [(each["size_bytes"], each["warmup"], each["wrong"]) for each in calls] == [
            (size, warmup, 0) for size in sizes for warmup in (True, False)
        ], keys
        assert {each["count"] for each in calls[2:]} == {1_000_003 // ITEMSIZES[keys["dtype"]]}
        for each in calls:
            assert len(each["rank_end_ns"]) == keys["ranks"]
            assert each["start_ns"] <= min(each["rank_end_ns"])
            assert max(each["rank_end_ns"]) <= each["end_ns"]
        assert facts["told"] == [each["bytes"] for each in facts["rounds"]] == sizes
        assert facts["collective"]["flows"] == facts["flows"]


def busbw_bps(facts: Any, size_bytes: int) -> float:
    """Of the slowest timed all-reduce."""
    ranks = len(facts["collective"]["ranks"])
    timed = [each for each in facts["calls"] if each["size_bytes"] == size_bytes and not each["warmup"]]
    slowest_ns = max(each["end_ns"] - each["start_ns"] for each in timed)
    return size_bytes * 8 * 1e9 / slowest_ns * 2 * (ranks - 1) / ranks


def test_a_ring_fills_its_links(play: Inside) -> None:
    facts = run(play, **STAR, ranks=8, sizes="16MiB", algorithm="ring")
    assert 95e9 < busbw_bps(facts, 16 << 20) < 100e9
    assert facts["retransmitted"] == 0


def per_link(facts: Any, host: str = "h1") -> tuple[float, float]:
    """Bytes that a host sent and got in a call, by the bytes of the buffer."""
    (size,) = facts["sizes"]
    counted = size["nic_bytes"][host]
    return tuple(counted[way] / size["calls"] / size["size_bytes"] for way in ("sent", "received"))


def test_in_the_network_a_link_carries_the_data_once(play: Inside) -> None:
    """A ring's link carries it 2(n-1)/n times, here 1.75; both with their headers, the ring's acknowledgements."""
    keys = {**STAR, "ranks": 8, "sizes": "4MiB", "iterations": 2}
    ring, aggregated = play("runs", cases=[{**keys, "algorithm": each} for each in ("ring", "in_network")])
    assert {each["wrong"] for each in aggregated["calls"]} == {0}
    assert aggregated["aggregator"]["resent"] == aggregated["aggregator"]["duplicates"] == 0
    for host in ("h1", "h5"):
        for once, twice in zip(per_link(aggregated, host), per_link(ring, host)):
            assert 1.0 < once < 1.01
            assert 1.75 < twice < 1.78
    assert busbw_bps(aggregated, 4 << 20) > 1.7 * busbw_bps(ring, 4 << 20)
    sent, received = per_link(aggregated, "h9")
    assert 8.0 < sent < 8.1
    assert 8.0 < received < 8.1


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_sums_in_the_network_are_exact_though_a_cable_loses_packets(play: Inside, dtype: str) -> None:
    keys = {**STAR, "mtu": "1500B", "ranks": 5, "sizes": ODD, "dtype": dtype, "iterations": 3}
    facts = run(play, **keys, algorithm="in_network", lossy_link="h3:0.01")
    assert [each["wrong"] for each in facts["calls"]] == [0] * 4
    told = facts["aggregator"]
    assert told["resent"] > 0
    assert 0 < told["duplicates"] < told["resent"]  # where the sum was lost; the others' part was


def test_what_messages_cost_hosts_is_told_and_felt(play: Inside) -> None:
    free, charged = play(
        "runs", cases=[{**STAR, "ranks": 4, "sizes": "1MiB", "host_cost": each} for each in ("none", "tcp")]
    )
    assert "cpu" not in free
    assert set(charged["cpu"]) == {"h1", "h2", "h3", "h4"}
    for use in charged["cpu"].values():
        assert use["bytes"] == 2 * (2 * 3 * (1 << 20) // 4)  # sent and received, of the one timed call
        assert use["busy_ns"] > 0
    assert busbw_bps(charged, 1 << 20) < 0.9 * busbw_bps(free, 1 << 20)


@pytest.mark.parametrize(
    ("transport", "algorithm", "host"),
    [
        ({**STAR, "rto_min": "10ms"}, "ring", "h2"),
        (ROCE, "ring", "h2"),
        (STAR, "in_network", "h2"),
        (STAR, "in_network", "h4"),
    ],
    ids=["tcp", "roce", "worker", "aggregator"],
)
def test_a_flow_that_dies_ends_the_run_with_its_name(
    play: Inside, transport: dict[str, Any], algorithm: str, host: str
) -> None:
    keys = {**transport, "ranks": 3, "sizes": "64KiB,64MiB", "algorithm": algorithm}
    facts = play("cut", keys=keys, host=host, after_calls_s=0.005)
    assert host in facts["died"]
    assert [each["size_bytes"] for each in facts["calls"]] == [64 << 10] * 2  # what was done is kept
    assert facts["told"] == [64 << 10]
