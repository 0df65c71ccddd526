"""Training runs made by hand: the parts of a step, the model beside it, stragglers and their cures, overlap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import overlap, straggler, training
from analysis.kinds.overlap_pairs import pairs
from analysis.kinds.training import AS_MODELLED, FASTER, RIGHT, SLOWER, WRONG
from analysis.kinds.training_setting import modelled, slowness, unmodelled
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_kinds import fabric_json, fabric_run
from tests.unit.test_analysis_run import evidence

MS = 1_000_000
RANKS = ("h1", "h2", "h3", "h4")
FABRIC = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=4)
SPEC: dict[str, Any] = {
    "workload": "training", "parallelism": "data", "algorithm": "ring", "ranks": 4, "gradient": "4B", "bucket": "off",
    "compute": "10ms", "overlap": True, "chunk": "256KiB", "compression": "none", "capture": "off", "layers": 8,
    "slow_host": "none", "slow_link": "none", "lossy_link": "none", "backup_workers": 0, "mtu": "9000B",
}  # fmt: skip

Turns = Sequence[tuple[float, float, bool]]  # of each rank: computing and whole time in ms, late


def step(number: int, begin_ms: float, turns: Turns, wrong: int | None = 0) -> dict[str, Any]:
    begin_ns = T0_NS + round(begin_ms * MS)
    ranks = [
        {
            "start_ns": begin_ns,
            "compute_ns": round(compute_ms * MS),
            "compute_end_ns": begin_ns + round(compute_ms * MS),
            "end_ns": begin_ns + round(whole_ms * MS),
            "late": late,
        }
        for compute_ms, whole_ms, late in turns
    ]
    end_ns = max(told["end_ns"] for told in ranks if not told["late"])
    told = {"loss": None, "accuracy": None, "wrong": wrong}
    return {"step": number, "start_ns": begin_ns, "end_ns": end_ns, "ranks": ranks, **told}


def run_of(path: Path, steps: Sequence[Turns], wrong: int | None = 0, **spec: Any) -> Run:
    """Steps one after the other, each as long as its slowest rank that is waited for."""
    told: list[dict[str, Any]] = []
    begin_ms = 0.0
    for number, turns in enumerate(steps):
        told.append(step(number, begin_ms, turns, wrong))
        begin_ms += max(whole for _, whole, late in turns if not late)
    training_facts = {"ranks": list(RANKS), "helpers": [], "buckets": 1, "bytes_per_step": [24] * len(RANKS)}
    facts = {
        "workload": "training",
        "training": training_facts,
        "steps": told,
        "rounds": [{"start_ns": each["start_ns"], "end_ns": each["end_ns"], "bytes": 96} for each in told],
        "traffic": {"h1>h2": 24},
        "compression": {"ratio": 1.0},
        "flows": [],
    }
    return fabric_run(path, FABRIC, facts, {**SPEC, "experiment": "training", **spec})


def even(compute_ms: float, whole_ms: float, count: int = 4) -> list[Turns]:
    return [[(compute_ms, whole_ms, False)] * len(RANKS)] * count


def test_a_step_is_the_slowest_ranks_computing_and_what_nothing_hides(tmp_path: Path) -> None:
    turns = [(10, 21, False), (10, 21, False), (20, 21, False), (10, 21, False)]
    run = run_of(tmp_path / "run", [turns] * 3, slow_host="h3:2")
    told = training.row(run)
    assert (told["step_s"], told["compute_s"]) == pytest.approx((0.021, 0.020))
    assert told["exposed_s"] == pytest.approx(0.001)
    assert training.summarize(run)["training"]["steps"][2]["seconds"] == pytest.approx(0.021)


@pytest.mark.parametrize(
    ("whole_ms", "wrong", "answer", "good"),
    [(10.1, 0, AS_MODELLED, True), (11.5, 0, SLOWER, False), (8.5, 0, FASTER, None), (10.1, 3, WRONG, False)],
)
def test_the_mean_step_is_judged_by_the_model(
    tmp_path: Path, whole_ms: float, wrong: int, answer: str, good: bool | None
) -> None:
    told = training.verdict(run_of(tmp_path / "run", even(8, whole_ms), wrong))
    assert (told.verdict, told.good) == (answer, good)


def test_a_lossy_cable_is_no_case_for_the_model(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", even(10, 50), lossy_link="h3:0.01")
    assert modelled(run) is None
    assert unmodelled(run) == "cables lose packets"
    assert training.verdict(run).verdict == RIGHT


def test_an_interrupted_run_proves_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [])
    assert training.verdict(run).verdict == NOT_PROVEN
    assert training.headline(run) == "no step was finished"
    assert all(figure.reason for figure in training.figures(run))
    assert training.row(run)["step_s"] is None


def test_the_model_waits_for_the_slowest_that_is_waited_for(tmp_path: Path) -> None:
    slow: dict[str, Any] = {"slow_host": "h3:2.5,h1:1.5"}
    run = run_of(tmp_path / "run", even(10, 10), **slow)
    assert slowness(run) == [1.5, 1, 2.5, 1]
    expected = modelled(run)
    assert expected is not None and expected.seconds == pytest.approx(0.025, rel=0.001)
    served: dict[str, Any] = {"algorithm": "parameter_server", "backup_workers": 1}
    left = modelled(run_of(tmp_path / "served", even(10, 10), **slow, **served))
    assert left is not None and left.seconds == pytest.approx(0.015, rel=0.001)


def test_a_report_tells_of_training(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", even(9, 10))
    slow = [[(9, 20, False), (9, 20, False), (18, 20, False), (9, 20, False)]] * 4
    run_of(tmp_path / "run" / "cases" / "slow", slow, slow_host="h3:2", label="slow")
    text = page(run, draw_all(run))
    assert "<h2>Steps</h2>" in text
    assert "slow: 20 ms a step" in text
    assert summarize(run)["training"]["exposed_s"] == pytest.approx(0.001)


# --- stragglers

SLOW_TURNS: Turns = [(10, 20, False), (10, 20, False), (20, 20, False), (10, 20, False)]
LATE_TURNS: Turns = [(10, 10, False), (10, 10, False), (20, 20, True), (10, 10, False)]


def straggling(tmp_path: Path, slow_link_ms: float = 10.0, spread: float = 1.0) -> Run:
    """Everything that the experiment compares, as it should be; the slow link carries next to nothing here."""
    spec: dict[str, Any] = {"experiment": "straggler"}
    run = run_of(tmp_path / "run", even(10, 10, 8), **spec)
    cases = tmp_path / "run" / "cases"
    stalled: Turns = [(10, 210, False), (10, 210 * spread, False), (10, 210, False), (10, 210, False)]
    served = {"algorithm": "parameter_server"}
    lossy = {"lossy_link": "h3:0.01", "sack": False, "rack": False}
    for label, steps, changes in (
        ("slow_host", [SLOW_TURNS] * 8, {"slow_host": "h3:2"}),
        ("slow_link", even(10, slow_link_ms, 8), {"slow_link": "h3:10Gbps"}),
        ("lossy", [*even(10, 10, 7), stalled], lossy),
        ("lossy-1ms", [*even(10, 10, 7), *even(10, 12, 1)], {**lossy, "rto_min": "1ms"}),
        ("lossy-rack", even(10, 10, 8), {**lossy, "sack": True, "rack": True, "tlp": False}),
        ("servers", even(10, 10, 8), served),
        ("servers-slow", [SLOW_TURNS] * 8, {**served, "slow_host": "h3:2"}),
        ("servers-backup", [LATE_TURNS] * 8, {**served, "slow_host": "h3:2", "backup_workers": 1}),
    ):
        run_of(cases / label, steps, **{**spec, **changes, "label": label})
    return run


def test_all_wait_for_the_slowest(tmp_path: Path) -> None:
    run = straggling(tmp_path)
    told = straggler.verdict(run)
    assert (told.verdict, told.good) == (straggler.REPRODUCED, True)
    slowdowns = straggler.summarize(run)["straggler"]["slowdowns"]
    assert slowdowns["slow_host"] == pytest.approx(2.0)
    assert slowdowns["lossy"] == pytest.approx((70 + 210) / 80)
    assert slowdowns["servers-backup"] == pytest.approx(1.0)


def test_cures_stand_beside_what_they_cure(tmp_path: Path) -> None:
    found = {each.cured.label: each for each in straggler.cures(straggling(tmp_path))}
    assert {label: each.ill.label for label, each in found.items()} == {
        "lossy-1ms": "lossy",
        "lossy-rack": "lossy",
        "servers-backup": "servers-slow",
    }
    assert found["lossy-1ms"].left == pytest.approx(0.01)
    assert found["servers-backup"].left == pytest.approx(0.0)
    assert all(piece.holds for piece in straggler.verdict(straggling(tmp_path / "b")).evidence if "cure" in piece.name)


def test_a_slow_link_that_costs_more_than_modelled_is_told(tmp_path: Path) -> None:
    told = straggler.verdict(straggling(tmp_path, slow_link_ms=12))
    assert (told.verdict, told.good) == (straggler.NOT_REPRODUCED, False)
    assert evidence(told)["mean step with a slow link"] is False


def test_a_rank_that_does_not_wait_is_seen(tmp_path: Path) -> None:
    told = straggler.verdict(straggling(tmp_path, spread=0.3))
    assert told.verdict == straggler.NOT_REPRODUCED
    assert evidence(told)["longest step over a lossy cable"] is False


def test_without_cases_the_run_alone_is_judged(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", even(10, 10), experiment="straggler")
    assert straggler.verdict(run).verdict == AS_MODELLED
    assert straggler.headline(run) == training.headline(run)


def test_a_missing_case_proves_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", even(10, 10), experiment="straggler")
    run_of(run.path / "cases" / "slow_host", [SLOW_TURNS] * 4, experiment="straggler", slow_host="h3:2")
    told = straggler.verdict(run)
    assert told.verdict == NOT_PROVEN
    assert "no finished case with a slow link" in told.missing


def test_a_straggler_report_is_drawn(tmp_path: Path) -> None:
    run = straggling(tmp_path)
    text = page(run, draw_all(run))
    assert "<h2>Stragglers</h2>" in text
    assert "a backup worker leaves 0%" in text


# --- overlap


def overlapping(tmp_path: Path, saved_ms: float, packed_ms: float) -> Run:
    spec: dict[str, Any] = {"experiment": "overlap", "compute": "9ms"}
    run = run_of(tmp_path / "run", even(9, 15 - saved_ms), **spec)
    off: dict[str, Any] = {**spec, "overlap": False, "label": "off"}
    run_of(run.path / "cases" / "off", even(9, 15), **off)
    packed: dict[str, Any] = {**spec, "compression": "topk", "label": "compressed"}
    run_of(run.path / "cases" / "compressed", even(9, 15 - packed_ms), **packed)
    return run


def test_a_pair_tells_what_is_hidden_and_saved(tmp_path: Path) -> None:
    own, packed = pairs(overlapping(tmp_path, 5.0, 5.9))
    assert (own.label, own.off.path.name, packed.label) == ("main", "off", "compressed")
    assert own.travel_s == pytest.approx(0.006)
    assert own.hidden == pytest.approx(5 / 6)
    assert own.saved == pytest.approx(1 / 3)
    assert own.most_saved == pytest.approx(0.4)
    assert packed.is_compressed and packed.saved == pytest.approx(5.9 / 15)


@pytest.mark.parametrize(
    ("alone", "together", "answer"),
    [
        (True, None, overlap.REPRODUCED),
        (False, True, overlap.WITH_COMPRESSION),
        (False, False, overlap.NOT_REPRODUCED),
        (False, None, NOT_PROVEN),
        (None, True, NOT_PROVEN),
    ],
)
def test_the_claim_may_need_compression(tmp_path: Path, alone: bool | None, together: bool | None, answer: str) -> None:
    holding = [training.right(run_of(tmp_path / f"{place}", even(9, 9), wrong)) for place, wrong in enumerate((0, 1))]
    nothing = training.right(run_of(tmp_path / "none", []))
    pieces = {True: holding[0], False: holding[1], None: nothing}
    assert overlap.answer_of(AS_MODELLED, holding[0], pieces[alone], pieces[together]) == answer
    assert overlap.answer_of(SLOWER, holding[0], pieces[alone], pieces[together]) == SLOWER


def test_a_case_without_overlap_is_needed(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", even(9, 9.1), experiment="overlap", compute="9ms")
    run_of(run.path / "cases" / "other", even(20, 21), experiment="overlap", compute="20ms", label="other")
    told = overlap.verdict(run)
    assert told.verdict == NOT_PROVEN
    assert "no case like the run without overlap" in told.missing


def test_an_overlap_report_is_drawn(tmp_path: Path) -> None:
    run = overlapping(tmp_path, 5.0, 5.9)
    text = page(run, draw_all(run))
    assert "<h2>Overlap</h2>" in text
    assert "claimed: 40 % or more" in text
