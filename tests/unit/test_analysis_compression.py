"""Compressed training made by hand: how small an update is, when the model is good enough, and what is claimed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import compression
from analysis.kinds.compression import FAILS, LEARNS, NOT_REPRODUCED, REPRODUCED, WRONG
from analysis.kinds.compression_runs import factor, name_of, target_s, update_bytes
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from experiments.compression import EXPERIMENT, GRADIENT_BYTES
from tests.unit.test_analysis_kinds import fabric_json, fabric_run
from tests.unit.test_analysis_run import evidence
from tests.unit.test_analysis_training import step
from workloads import digits

RANKS = 4
FABRIC = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=4)
GRADIENT = 1_000_000
SPEC: dict[str, Any] = {
    "experiment": "compression", "workload": "training", "algorithm": "ring", "ranks": RANKS,
    "gradient": f"{GRADIENT}B", "compute": "1ms", "model": "digits", "compression": "none", "capture": "off",
}  # fmt: skip
RISING = (0.3, 0.6, 0.89, 0.92, 0.95)


def run_of(
    path: Path, accuracies: Sequence[float | None], sent: int, step_ms: float = 2.5, wrong: int = 0, **spec: Any
) -> Run:
    """Steps of 1 ms of computing each."""
    told = [step(number, number * step_ms, [(1, step_ms, False)] * RANKS, wrong) for number in range(len(accuracies))]
    for each, accuracy in zip(told, accuracies):
        each.update(accuracy=accuracy, loss=None if accuracy is None else 1 - accuracy)
    facts = {
        "workload": "training",
        "training": {"ranks": ["h1", "h2", "h3", "h4"], "helpers": [], "buckets": 1, "bytes_per_step": [sent] * RANKS},
        "steps": told,
        "rounds": [{"start_ns": each["start_ns"], "end_ns": each["end_ns"], "bytes": 96} for each in told],
    }
    return fabric_run(path, FABRIC, facts, {**SPEC, **spec})


def plain(path: Path, accuracies: Sequence[float | None] = RISING) -> Run:
    return run_of(path, accuracies, sent=1_500_000)


def case(run: Run, name: str, smaller: float, accuracies: Sequence[float | None], **changes: Any) -> Run:
    sent = round((RANKS - 1) * GRADIENT / smaller)
    run_of(run.path / "cases" / name, accuracies, sent, label=name, compression=name, **changes)
    return Run(run.path)


def test_the_experiments_gradient_is_the_networks_and_nothing_else() -> None:
    """Numbers that are not its own would be larger than its own: topk would send them alone."""
    assert 4 * digits.numbers(digits.widest(GRADIENT_BYTES // 4)) == GRADIENT_BYTES
    assert EXPERIMENT.defaults["bucket"] == "off"


def test_an_update_is_what_goes_to_every_other_rank(tmp_path: Path) -> None:
    run = plain(tmp_path / "run")
    assert (update_bytes(run), factor(run), name_of(run)) == (GRADIENT, 1, "float32")
    run = case(run, "topk", 50, RISING, kept=0.01)
    topk = run.cases["topk"]
    assert (update_bytes(topk), factor(topk), name_of(topk)) == (20_000, 50, "topk 1 %")
    assert compression.row(topk)["sent_bytes"] == 60_000


def test_the_time_to_a_good_model_is_that_of_the_first_step_that_is_good(tmp_path: Path) -> None:
    run = plain(tmp_path / "run")
    assert target_s(run) == (pytest.approx(0.01), 4)
    assert target_s(plain(tmp_path / "bad", (0.3, 0.5))) == (None, None)
    assert compression.against(compression.row(run), {**compression.row(run), "target_s": 0.005}) == "2x faster to 90%"


@pytest.mark.parametrize(
    ("accuracies", "answer"), [(RISING, LEARNS), ((0.3, 0.85), FAILS), ((None, None), NOT_PROVEN), ((), NOT_PROVEN)]
)
def test_a_run_alone_learns_or_does_not(tmp_path: Path, accuracies: Sequence[float | None], answer: str) -> None:
    assert compression.verdict(plain(tmp_path / "run", accuracies)).verdict == answer


@pytest.mark.parametrize(
    ("smaller", "last", "answer"),
    [
        (50.3, 0.94, REPRODUCED),  # indices make it a little longer than a fiftieth, or shorter
        (10, 0.94, REPRODUCED),
        (4, 0.95, NOT_REPRODUCED),
        (500, 0.95, NOT_REPRODUCED),
        (32, 0.92, NOT_REPRODUCED),  # three points less
    ],
)
def test_an_update_must_be_as_small_as_claimed_and_the_model_as_good(
    tmp_path: Path, smaller: float, last: float, answer: str
) -> None:
    run = case(plain(tmp_path / "run"), "sign", smaller, (*RISING[:-1], last))
    assert compression.verdict(run).verdict == answer


def test_bytes_that_were_damaged_come_first(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", RISING, 100_000, wrong=1, compression="int8")
    assert compression.verdict(run).verdict == WRONG
    told = compression.verdict(plain(tmp_path / "plain"))
    right = next(piece for piece in told.evidence if piece.name == "bytes that are not as they were sent")
    assert (right.applies, right.measured) == (False, None)


def test_both_claims_stand_beside_every_scheme(tmp_path: Path) -> None:
    run = case(plain(tmp_path / "run"), "int8", 4, RISING, step_ms=2.5)
    run = case(run, "sign", 32, RISING, step_ms=1.2)
    rows = {(line.label, line.source): line for line in compression.compared(run)}
    assert rows["int8", "slide 21"].verdict == "not reproduced: 4x, +0.0 points of accuracy"
    assert rows["int8", "slide 20"].verdict == "not reproduced: 0 % of a step is saved"
    assert rows["sign", "slide 21"].verdict == rows["sign", "slide 20"].verdict == "reproduced"
    assert rows["sign", "slide 20"].measured == "52 %"
    assert rows["sign", "slide 20"].modelled.startswith("60% at the most")
    assert evidence(compression.verdict(run))["accuracy with sign"] is True


def test_the_page_draws_accuracy_over_steps_and_time(tmp_path: Path) -> None:
    run = case(plain(tmp_path / "run"), "sign", 32, RISING, step_ms=1.2)
    drawn = {figure.name: figure for figure in draw_all(run)}
    assert all(figure.path and figure.path.stat().st_size > 10_000 for figure in drawn.values())
    assert drawn["accuracy"].title == "90% right: sign after 4.8 ms, float32 after 10 ms"
    assert drawn["trade"].title == "The speed of a step beside float32's: sign 2.08x"
    html = page(run, list(drawn.values()))
    assert "more than 2 times smaller before any byte is saved" in html
    assert json.loads(json.dumps(summarize(run)))["compression"]["accuracies"] == list(RISING)
    assert "sign: 32x smaller, 1.2 ms a step" in compression.headline(run)


def test_an_interrupted_run_is_not_drawn(tmp_path: Path) -> None:
    stopped = {"workload": "training", "complete": False, "rounds": []}
    run = fabric_run(tmp_path / "run", FABRIC, stopped, SPEC)
    assert compression.verdict(run).verdict == NOT_PROVEN
    assert compression.headline(run) == "no step was finished"
    assert all(figure.path is None for figure in compression.figures(run))
    assert compression.sections(run) == ""
