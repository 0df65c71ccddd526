"""Federated learning over a real fabric: it learns what it learns in memory, in the time that its links need; who is
late is left behind; hosts that cost take longer."""

from __future__ import annotations

import itertools
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any, Callable

import pytest

from experiments import limits
from experiments.drive_federated import plan_of
from experiments.runner import guest_environment
from experiments.spec import parse
from lab.kernel import Kernel
from tests.conftest import run_in_lab
from workloads.collectives.rehearsal import rehearse
from workloads.federated import Federation
from workloads.federated_updates import LEAST_BYTES
from workloads.host_cost import COSTS

pytestmark = pytest.mark.lab

KEYS: dict[str, Any] = {
    "workload": "federated",
    "topology": "star",
    "clients": 6,
    "rounds": 3,
    "rate": "25Gbps",
    "mtu": "9000B",
    "update": "25.6MB",
    "compute": "5ms",
    "buffer": "16MB",
}
TREE: dict[str, Any] = {"topology": "leaf_spine", "leaves": 2, "spines": 1, "aggregation": "hierarchical", "edges": 2}
ROCE: dict[str, Any] = {"transport": "roce", "pfc": "on", "buffer": "600KB"}
UPDATE_BYTES, FRAME_BYTES, PAYLOAD_BYTES = 256_000, 9014, 8948
MS = 1e6

Learned = Callable[..., dict[str, Any]]


@pytest.fixture
def learned(kernel: Kernel, tmp_path: Path) -> Learned:
    """The facts of a run of KEYS with some changed."""

    def call(**changes: Any) -> dict[str, Any]:
        words = (sys.executable, "-m", "tests.emulation.federated_inside", json.dumps({**KEYS, **changes}))
        job = {"memory_bytes": 1 << 30, "env": guest_environment()}
        return run_in_lab(kernel, words, results=tmp_path, **job).json

    return call


@cache
def in_memory(**changes: Any) -> list[float]:
    """Accuracies of the same plan, carried out without a network."""
    clock = itertools.count()
    plan = plan_of(limits.resolve(parse({**KEYS, **changes})))
    federation = Federation(plan, lambda: next(clock), lambda entry: None)
    rehearse(federation.programs())
    return [entry["accuracy"] for entry in federation.diary.rounds]


@pytest.mark.parametrize("changes", [{}, TREE, ROCE], ids=["flat", "hierarchical", "roce"])
def test_it_learns_what_it_learns_in_memory(learned: Learned, changes: dict[str, Any]) -> None:
    told = learned(**changes)["fl_rounds"]
    assert [each["accuracy"] for each in told] == in_memory(**changes)
    assert all(each["dropped"] == [] for each in told)


def test_a_round_takes_what_the_roots_link_and_computing_need(learned: Learned) -> None:
    transfer_ns = 6 * UPDATE_BYTES / PAYLOAD_BYTES * FRAME_BYTES * 8 / 25
    for each in learned()["fl_rounds"]:
        lasted_ns = each["end_ns"] - each["start_ns"]
        assert lasted_ns == pytest.approx(5 * MS + 2 * transfer_ns, rel=0.05)
        for client in (f"h{number}" for number in range(2, 8)):
            assert each["trained_ns"][client] - each["broadcast_end_ns"][client] == pytest.approx(5 * MS, rel=1e-3)


def test_who_is_late_is_dropped_and_its_bytes_are_taken_all_the_same(learned: Learned) -> None:
    told = learned(quorum=0.8, slow_host="h4:4", rounds=5)["fl_rounds"]
    assert [each["dropped"] for each in told] == [["h4"]] * 5
    assert max(each["end_ns"] - each["start_ns"] for each in told) < 10 * MS
    answered = [each["round"] for each in told if "h4" in each["arrived_ns"]]
    assert answered[0] == 0 and answered[-1] == 4 and len(answered) < 5
    assert all(told[number]["arrived_ns"]["h4"] > told[number]["end_ns"] for number in answered)


def test_processors_cost_time(learned: Learned) -> None:
    """Each client's processor sees three models come and three updates go, each as a head and pieces of 64 KiB; the
    root's six times as much."""
    padding_bytes = UPDATE_BYTES - LEAST_BYTES
    messages = [LEAST_BYTES, *[64 << 10] * (padding_bytes >> 16), padding_bytes % (64 << 10)]
    busy_ns = 3 * 2 * sum(COSTS["tcp"].busy_ns(size_bytes, PAYLOAD_BYTES) for size_bytes in messages)
    free, costly = (learned(host_cost=cost) for cost in ("none", "tcp"))
    assert "cpu" not in free
    assert {host: told["busy_ns"] for host, told in costly["cpu"].items()} == {
        "h1": 6 * busy_ns,
        **dict.fromkeys((f"h{number}" for number in range(2, 8)), busy_ns),
    }
    spans_ns = [[each["end_ns"] - each["start_ns"] for each in facts["fl_rounds"]] for facts in (free, costly)]
    assert all(span_ns > cheap_ns + COSTS["tcp"].wake_ns for cheap_ns, span_ns in zip(*spans_ns))


def test_smaller_updates_are_smaller_on_the_wire(learned: Learned) -> None:
    facts = learned(compression="topk", kept=0.02)
    assert facts["federated"]["update_bytes"] == UPDATE_BYTES
    sent = {flow["flow"]: flow["tcp_info"]["bytes_sent"] for flow in facts["flows"]}
    assert sum(count == 3 * UPDATE_BYTES for count in sent.values()) == 6
    assert sum(count == 3 * facts["federated"]["sent_bytes"] for count in sent.values()) == 6
    assert UPDATE_BYTES / facts["federated"]["sent_bytes"] == pytest.approx(25, rel=0.02)


def test_equal_seeds_learn_the_same_at_the_same_times(learned: Learned) -> None:
    asked: dict[str, Any] = {"spread": 0.5, "compression": "int8", "rounds": 2}
    first, second = learned(**asked)["fl_rounds"], learned(**asked)["fl_rounds"]
    assert first == second
