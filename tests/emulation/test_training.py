"""Training steps on a real fabric: their numbers, their times, their traffic."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable

import pytest

from experiments.runner import guest_environment
from lab.kernel import Kernel
from tests.conftest import run_in_lab

pytestmark = pytest.mark.lab

MS = 1_000_000
STAR: dict[str, Any] = {"topology": "star", "ranks": 4, "rate": "100Gbps", "mtu": "9000B", "capture": "off", "steps": 3}
GRADIENT_BYTES = 4 << 20

Trained = Callable[..., dict[str, Any]]


@pytest.fixture
def trained(kernel: Kernel, tmp_path: Path) -> Trained:
    return partial(train, kernel, tmp_path)


def train(kernel: Kernel, results: Path, **keys: Any) -> dict[str, Any]:
    """What a training run of these spec keys measured."""
    asked = {**STAR, "gradient": f"{GRADIENT_BYTES}B", "bucket": "1MiB", **keys}
    words = (sys.executable, "-m", "tests.emulation.training_inside", json.dumps(asked))
    return run_in_lab(kernel, words, results=results, env=guest_environment(), memory_bytes=1 << 30).json


def steps_ms(facts: dict[str, Any]) -> list[float]:
    return [(step["end_ns"] - step["start_ns"]) / MS for step in facts["steps"]]


def wrong(facts: dict[str, Any]) -> list[int]:
    return [step["wrong"] for step in facts["steps"]]


def test_a_ring_hides_all_but_its_last_bucket(trained: Trained) -> None:
    """A bucket of 1 MiB takes 6 steps of 256 KiB each: 126 us of payload at 100 Gb/s."""
    facts = trained(compute="3ms")
    assert wrong(facts) == [0, 0, 0]
    assert all(3.126 < each < 3.145 for each in steps_ms(facts))
    assert all(turn["compute_ns"] == 3 * MS for step in facts["steps"] for turn in step["ranks"])
    assert facts["training"]["bytes_per_step"] == [2 * 3 * GRADIENT_BYTES // 4] * 4
    assert set(facts["traffic"]) == {"h1>h2", "h2>h3", "h3>h4", "h4>h1"}
    sent = facts["nic_bytes"]["h1"]["sent"]
    assert facts["traffic"]["h1>h2"] < sent < 1.02 * facts["traffic"]["h1>h2"]


def test_without_overlap_all_buckets_come_after_computing(trained: Trained) -> None:
    facts = trained(compute="3ms", overlap="off")
    assert wrong(facts) == [0, 0, 0]
    assert all(3 + 4 * 0.126 < each < 3 + 4 * 0.145 for each in steps_ms(facts))


def test_a_slow_host_slows_all_down(trained: Trained) -> None:
    facts = trained(compute="3ms", slow_host="h3:2")
    assert all(6.126 < each < 6.145 for each in steps_ms(facts))
    waits = [turn["end_ns"] - turn["compute_end_ns"] for turn in facts["steps"][-1]["ranks"]]
    assert min(waits[0], waits[1], waits[3]) > 3 * MS > waits[2]


def test_a_backup_worker_leaves_the_slow_host_behind(trained: Trained) -> None:
    served = {"algorithm": "parameter_server", "shards": 2, "traffic_class": "lossless", "pfc": "on"}
    facts = trained(compute="3ms", slow_host="h3:2.5", steps=6, backup_workers=1, **served)
    assert wrong(facts) == [0] * 6
    assert all(step["ranks"][2]["late"] for step in facts["steps"])
    assert not any(step["ranks"][rank]["late"] for step in facts["steps"] for rank in (0, 1, 3))
    assert max(steps_ms(facts)) < 1.5 * 3


def test_each_gradient_crosses_a_link_once_to_the_aggregator(trained: Trained) -> None:
    facts = trained(algorithm="in_network")
    assert wrong(facts) == [0, 0, 0]
    assert facts["training"]["bytes_per_step"] == [GRADIENT_BYTES] * 4
    assert facts["nic_bytes"]["h1"]["sent"] < 1.05 * 3 * GRADIENT_BYTES


@pytest.mark.parametrize("parallelism", ["tensor", "pipeline"])
def test_what_ranks_share_besides_the_data_is_right(trained: Trained, parallelism: str) -> None:
    facts = trained(parallelism=parallelism, layers=4, micro_batches=4, activation="256KiB", compute="4ms")
    assert wrong(facts) == [0, 0, 0]
    assert all(turn["compute_ns"] == pytest.approx(MS, rel=1e-4) for turn in facts["steps"][1]["ranks"])


def test_compressed_gradients_travel_over_roce(trained: Trained) -> None:
    facts = trained(compression="int8", transport="roce")
    assert wrong(facts) == [0, 0, 0]
    assert facts["compression"]["ratio"] == pytest.approx(0.25, rel=0.01)


def test_equal_runs_are_equal(trained: Trained) -> None:
    first, second = (trained(slow_host="h2:1.5")["steps"] for _ in range(2))
    begins = [facts[0]["start_ns"] for facts in (first, second)]
    since = [
        [[turn["end_ns"] - begin for turn in step["ranks"]] for step in facts]
        for facts, begin in zip((first, second), begins)
    ]
    assert since[0] == since[1]
