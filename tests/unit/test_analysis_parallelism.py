"""What ways of sharing send by hand, the shape of who sends to whom, and the verdict on runs made by hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import summarize
from analysis.kinds import parallelism
from analysis.kinds.parallel_model import ALL, CHAIN, RING, SOME, Work, shape
from analysis.kinds.parallelism import CONSTANT, NOT_REPRODUCED, OTHERWISE, REPRODUCED, SELDOM, WRONG, work
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_kinds import fabric_json, fabric_run
from tests.unit.test_analysis_run import evidence
from tests.unit.test_analysis_training import step
from workloads.collectives.rehearsal import rehearse
from workloads.training.job import Job
from workloads.training.log import Log
from workloads.training.programs import programs

RANKS = 4
HOSTS = [f"h{number}" for number in range(1, RANKS + 1)]
FABRIC = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=4)
STEPS = 3
SPEC: dict[str, Any] = {
    "experiment": "parallelism", "workload": "training", "algorithm": "ring", "ranks": RANKS,
    "parallelism": "data", "gradient": "4MB", "activation": "100KB", "layers": 2,
    "micro_batches": 6, "compute": "4ms", "capture": "off",
}  # fmt: skip
RIGHT_NEIGHBOURS = [(rank, (rank + 1) % RANKS) for rank in range(RANKS)]
NEXT_STAGES = [(rank, rank + 1) for rank in range(RANKS - 1)]
BOTH_WAYS = [*NEXT_STAGES, *((b, a) for a, b in NEXT_STAGES)]
# Payload of a pair and step: 2 (N-1)/N of 4 MB; of 4 x 2 all-reduces of 100 KB; 6 micro-batches of 100 KB.
SENT = {"data": 6_000_000, "tensor": 1_200_000, "pipeline": 600_000}
PAIRS = {"data": RIGHT_NEIGHBOURS, "tensor": RIGHT_NEIGHBOURS, "pipeline": BOTH_WAYS}
# Of a step in ms: computing, and whole.
TIMES = {"data": (4.0, 5.0), "tensor": (1.0, 2.0), "pipeline": (1.0, 2.0)}


def run_of(path: Path, way: str = "data", sent: float = 1.0, wrong: int = 0, **spec: Any) -> Run:
    compute_ms, whole_ms = spec.pop("times", TIMES[way])
    told = [step(number, number * whole_ms, [(compute_ms, whole_ms, False)] * RANKS, wrong) for number in range(STEPS)]
    traffic = {f"{HOSTS[a]}>{HOSTS[b]}": round(STEPS * sent * SENT[way]) for a, b in PAIRS[way]}
    facts = {
        "workload": "training",
        "training": {"ranks": HOSTS, "helpers": [], "buckets": 1, "bytes_per_step": [SENT[way]] * RANKS},
        "traffic": traffic,
        "steps": told,
        "rounds": [{"start_ns": each["start_ns"], "end_ns": each["end_ns"], "bytes": 96} for each in told],
    }
    return fabric_run(path, FABRIC, facts, {**SPEC, "parallelism": way, **spec})


def all_ways(path: Path, **of_pipeline: Any) -> Run:
    run_of(path)
    run_of(path / "cases" / "tensor", "tensor", label="tensor")
    run_of(path / "cases" / "pipeline", "pipeline", label="pipeline", **of_pipeline)
    return Run(path)


def test_shapes_are_told_from_pairs() -> None:
    def of(pairs: list[tuple[int, int]]) -> str:
        return shape(HOSTS, [(HOSTS[a], HOSTS[b]) for a, b in pairs])

    everyone = [(a, b) for a in range(RANKS) for b in range(RANKS) if a != b]
    shapes = [of(pairs) for pairs in (RIGHT_NEIGHBOURS, BOTH_WAYS, everyone, NEXT_STAGES, [(0, 2)])]
    assert shapes == [RING, CHAIN, ALL, SOME, SOME]


@pytest.mark.parametrize(("way", "messages"), [("data", 6), ("tensor", 6 * 8), ("pipeline", 12)])
def test_bytes_and_messages_by_hand(tmp_path: Path, way: str, messages: int) -> None:
    told = parallelism.row(run_of(tmp_path / "run", way))
    assert told["sent_bytes"] == told["modelled_bytes"]
    assert told["messages"] == messages


@given(st.sampled_from(["data", "tensor", "pipeline"]), st.integers(2, 6), st.integers(1, 5), st.integers(1, 40))
def test_the_model_counts_what_the_workloads_programs_send(way: str, ranks: int, few: int, items: int) -> None:
    """Numbers that divide by the ranks; a rehearsal needs no network: what is sent is counted as programs yield it."""
    sent: Counter[tuple[int, int]] = Counter()
    size = items * ranks
    job = Job(
        ranks, 1, 300, gradient_items=size, parallelism=way, layers=few, micro_batches=few, activation_items=size,
        overlap=False,
    )  # fmt: skip
    told = rehearse(programs(job, Log(ranks, lambda: 0), sent))
    model = Work(way, "ring", ranks, 4 * size, 4 * size, few, few)
    by_rank, messages = Counter[int](), Counter[int]()
    for (sender, _), sent_bytes in sent.items():
        by_rank[sender] += sent_bytes
    for (sender, *_), count in told.messages.items():
        messages[sender] += count
    assert max(by_rank.values()) == model.sent_bytes
    assert max(messages.values()) == model.messages


def test_what_is_bubble_is_not_communication(tmp_path: Path) -> None:
    """Three of six micro-batches' computing: 0.5 ms; the rest of the waiting, 0.5 ms of 2, is communication."""
    told = parallelism.row(run_of(tmp_path / "run", "pipeline"))
    assert (told["bubble_s"], told["communication_s"], told["share"]) == pytest.approx((0.0005, 0.0005, 0.25))
    assert parallelism.row(run_of(tmp_path / "data"))["bubble_s"] == 0


def test_time_per_batch_is_a_ranks_own_in_data_parallelism(tmp_path: Path) -> None:
    assert parallelism.row(run_of(tmp_path / "data"))["batch_s"] == pytest.approx(0.005 / RANKS)
    assert parallelism.row(run_of(tmp_path / "tensor", "tensor"))["batch_s"] == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, CONSTANT),
        ({"times": (4.9, 5.0)}, SELDOM),
        ({"sent": 1.05}, OTHERWISE),
        ({"wrong": 4}, WRONG),
    ],
)
def test_a_way_alone_is_judged_by_bytes_and_time(tmp_path: Path, changes: dict[str, Any], answer: str) -> None:
    assert parallelism.verdict(run_of(tmp_path / "run", **changes)).verdict == answer


def test_bytes_of_another_algorithm_are_not_modelled(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", algorithm="tree")
    told = parallelism.verdict(run)
    assert (told.verdict, told.evidence[0].applies, work(run).messages) == (CONSTANT, False, None)


@pytest.mark.parametrize(
    ("changes", "answer"),
    [({}, REPRODUCED), ({"times": (1.0, 1.51)}, NOT_REPRODUCED), ({"sent": 0}, NOT_PROVEN)],
)
def test_the_claim_needs_all_three_ways(tmp_path: Path, changes: dict[str, Any], answer: str) -> None:
    told = parallelism.verdict(all_ways(tmp_path / "run", **changes))
    assert told.verdict == answer
    assert evidence(told)["tensor"] is True


def test_two_ways_alone_do_not_prove_the_claim(tmp_path: Path) -> None:
    run_of(tmp_path / "run")
    run_of(tmp_path / "run" / "cases" / "tensor", "tensor", label="tensor")
    assert parallelism.verdict(Run(tmp_path / "run")).verdict == CONSTANT


def test_the_page_shows_who_sends_to_whom(tmp_path: Path) -> None:
    run = all_ways(tmp_path / "run")
    drawn = {figure.name: figure for figure in draw_all(run)}
    assert all(figure.path and figure.path.stat().st_size > 10_000 for figure in drawn.values())
    moved = "24 MB (data), 4.8 MB (tensor), 3.6 MB (pipeline)"
    assert drawn["traffic"].title == f"A step moves {moved}"
    html = page(run, list(drawn.values()))
    assert "to its right neighbour of a ring alone" in html
    assert "6 MB" in html
    told = json.loads(json.dumps(summarize(run)))["parallelism"]
    assert told["traffic_per_step"]["h4>h1"] == SENT["data"]
    assert parallelism.against(parallelism.row(run), parallelism.row(run.cases["tensor"])) == "0.2x the bytes"


def test_an_interrupted_run_proves_nothing(tmp_path: Path) -> None:
    stopped = {"workload": "training", "complete": False, "rounds": []}
    run = fabric_run(tmp_path / "run", FABRIC, stopped, SPEC)
    assert parallelism.verdict(run).verdict == NOT_PROVEN
    assert parallelism.headline(run) == "no step was finished"
    assert all(figure.path is None for figure in parallelism.figures(run))
    assert parallelism.sections(run) == ""
