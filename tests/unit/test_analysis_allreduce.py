"""The experiments on all-reduce, made by hand as their model says: verdicts, the lecture's figures, pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis import summarize
from analysis.kinds import allreduce_scaling, kind_of
from analysis.kinds.hierarchy_points import between_rate, inside_rate, links_inside, points
from analysis.kinds.slides_hierarchy import compared
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from experiments import limits
from experiments.allreduce_scaling import EXPERIMENT as SCALING
from experiments.catalog import Experiment, plan
from experiments.hierarchy import EXPERIMENT as HIERARCHY
from tests.unit.test_analysis_collective import make_of
from tests.unit.test_analysis_run import evidence

UNTOLD = {"heat", "gantt", "tail"}  # figures of what the hand-made runs do not tell: bytes of ports, ends of ranks


def make_all(
    path: Path, experiment: Experiment, factors: dict[str, float] | None = None, wrong: dict[str, int] | None = None
) -> Run:
    """The main run and all cases of an experiment; those of `factors` took so many times the model's time."""
    asked = plan(experiment, {})
    for label, spec in (("main", asked.main), *asked.cases):
        folder = path if label == "main" else path / "cases" / label
        factor = (factors or {}).get(label, 1.0)
        make_of(folder, limits.resolve(spec), factor, (wrong or {}).get(label, 0), experiment.name)
    return Run(path)


@pytest.fixture(scope="module")
def scaling(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_all(tmp_path_factory.mktemp("made") / "scaling", SCALING)


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_all(tmp_path_factory.mktemp("made") / "pod", HIERARCHY)


def test_slide_8_holds_where_the_model_does(scaling: Run) -> None:
    verdict = kind_of(scaling).verdict(scaling)
    assert (verdict.verdict, verdict.good) == (allreduce_scaling.AS_CLAIMED, True)
    summary = summarize(scaling)
    told = summary["scaling"]
    assert told["size_bytes"] == 4 << 20
    assert set(told["seconds"]["ring"]) == {"4", "8", "16", "32", "64"}
    measured, modelled = told["server_slope_s"]
    assert measured == pytest.approx(modelled, rel=1e-3)
    assert told["bert_large_s"]["ring"]["64"] == pytest.approx(2 * 63 / 64 * 1.36e9 * 8 / 100e9, rel=0.03)


def test_trees_overtake_rings_where_delays_decide(scaling: Run) -> None:
    told = summarize(scaling)["scaling"]["crossings_over_ranks"]
    (found,) = [each for each in told if {each["overtaken"], each["overtaking"]} == {"ring", "tree"}]
    assert (found["overtaken"], found["overtaking"]) == ("ring", "tree")
    assert 64 < found["place"] < 256


def test_a_page_of_scaling(scaling: Run) -> None:
    drawings = draw_all(scaling)
    assert {each.name for each in drawings if each.reason} == UNTOLD
    assert {"server_and_ring", "over_ranks", "over_size"} <= {each.name for each in drawings}
    html = page(scaling, drawings)
    for words in ("<h2>BERT-Large</h2>", "grows linearly with the workers", "<h2>Where one overtakes another</h2>"):
        assert words in html


def test_a_server_that_is_not_linear_is_said(tmp_path: Path) -> None:
    run = make_all(tmp_path / "run", SCALING, {"parameter_server-n64": 1.3})
    verdict = kind_of(run).verdict(run)
    assert verdict.good is False
    assert evidence(verdict)["server's time for each further rank"] is False


def test_a_wrong_number_in_any_case_is_said(tmp_path: Path) -> None:
    run = make_all(tmp_path / "run", SCALING, wrong={"tree-n8": 1})
    assert evidence(kind_of(run).verdict(run))["numbers that differ from NumPy's"] is False


def test_one_point_alone_is_judged_by_its_model(scaling: Run) -> None:
    case = scaling.cases["ring-n8"]
    assert kind_of(case) is allreduce_scaling
    assert kind_of(case).verdict(case).good is True


def test_the_pods_links_are_found_again(pod: Run) -> None:
    """450, 64 and 32 GB/s each way, and 8 NICs of 50 GB/s, less headers and acknowledgements (1.1 %)."""
    rates = [(inside_rate(point) or 0) / 1e9 for point in links_inside(points(pod))]
    assert rates == [pytest.approx(rate / 1.0111, rel=0.01) for rate in (450, 64, 32)]
    assert (between_rate(points(pod)) or 0) / 1e9 == pytest.approx(400 / 1.0111, rel=0.01)


def test_the_lectures_figures_and_what_they_need(pod: Run) -> None:
    told = {each.what: each.verdict for each in compared(points(pod))}
    assert told["gap between a server's links inside and between"].startswith("reproduced if both directions")
    assert told["20 GB, 8 GPUs: NVSwitch over PCIe 5"] == "reproduced"
    assert "claimed is the size over the 900 GB/s of both directions" in told["20 GB all-reduce, 8 GPUs, NVSwitch"]
    assert told["1 GB all-reduce, 8 GPUs"].startswith("not reproduced: 3.9")
    assert told["1 GB all-reduce, 64 GPUs"].startswith("reproduced if the stages follow each other")
    assert told["1 GB all-reduce, 512 GPUs"].startswith("reproduced if all GPUs are one flat ring")


def test_the_hierarchy_is_worth_what_the_model_says(pod: Run, tmp_path: Path) -> None:
    verdict = kind_of(pod).verdict(pod)
    assert verdict.good is True
    assert verdict.verdict.startswith("hierarchical ")
    slow = make_all(tmp_path / "run", HIERARCHY, {"8_servers-ring": 1.5})
    found = evidence(kind_of(slow).verdict(slow))
    assert (found["flat ring's bus bandwidth"], found["hierarchical over flat"]) == (False, False)


def test_a_page_of_the_pod(pod: Run) -> None:
    drawings = draw_all(pod)
    assert {each.name for each in drawings if each.reason} == UNTOLD
    assert {"gpus", "inside", "ways"} <= {each.name for each in drawings}
    html = page(pod, drawings)
    assert "<h2>Beside published figures</h2>" in html
    assert "<h2>Lines through the sizes</h2>" in html
    measured, modelled = summarize(pod)["hierarchy"]["gain"]
    assert measured == pytest.approx(modelled, rel=0.01)


@pytest.mark.parametrize("experiment", [SCALING, HIERARCHY])
def test_an_interrupted_experiment_proves_nothing(experiment: Experiment, tmp_path: Path) -> None:
    asked = plan(experiment, {})
    run = make_of(tmp_path / "run", limits.resolve(asked.main), 1.0, 0, experiment.name)
    make_of(run.path / "cases" / asked.cases[0][0], limits.resolve(asked.cases[0][1]), 1.0, 0, experiment.name)
    facts = {"format": 1, "complete": False, "workload": "collective", "rounds": []}
    (run.path / "measured.json").write_text(json.dumps(facts))
    assert summarize(Run(run.path))["verdict"] == NOT_PROVEN
    assert page(Run(run.path), draw_all(Run(run.path)))
