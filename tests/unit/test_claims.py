"""The lecture's claims as a whole: which runs they need, what is done already, what a failure leaves, the pages."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.claims import CLAIMS, document, fit, words
from analysis.claims.document import Attempt, Walk
from analysis.claims.markdown import anchor, markdown
from analysis.claims.model import MODES, NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, VERDICTS, Claim, Judged, Row, Trial
from analysis.claims.page import page
from analysis.run import Run
from experiments import claims, cli, rundir, runner, walking
from experiments.commands import claims as command
from lab.kernel import find_kernel
from lab.session import Outcome, Stop
from topologies.ground import LAB
from topologies.units import BadRequest


def row(measured: float | None = 2.0, **more: Any) -> Row:
    return Row("time of a <message>", 1.0, 1.5, measured, "s", "within 5 %", False, "calls | cases", **more)


def judged(run: Run) -> Judged:
    return Judged(NOT_REPRODUCED, "2 s measured", (row(),))


def claim(key: str, experiment: str = "hops", **more: Any) -> Claim:
    names = ("quick", "full", "cases", "quick_cases", "only")
    what: dict[str, Any] = {"quick": {}, "full": {}, **{name: more.pop(name) for name in names if name in more}}
    given: dict[str, Any] = {"judge": judged, **more}
    return Claim(key, "3", "It is so.", "1 s", Trial(experiment, **what), "a + b", "within 5 %", **given)


def attempt(folder: Path, result: Judged, failure: str | None = None, **more: Any) -> Attempt:
    return Attempt(claim(more.pop("key", "one"), **more), result, folder / "quick" / "hops-one", "./run", failure)


def walk(folder: Path, *attempts: Attempt) -> dict[str, Any]:
    facts = {"fabriclab": "0.1", "git_commit": "abc", "kernel": {"version": "7.1"}, "seed": 1, "clock": "virtual"}
    facts |= {"python": "3.11", "ended": "2026-01-02T03:04:05+00:00", "wall": {"total_s": 90.0}}
    return document.document(Walk("quick", folder, "./run_experiment claims", attempts, [facts, facts]))


# --- the claims themselves


def test_every_claim_has_a_key_of_its_own_and_all_its_words() -> None:
    keys = [each.key for each in CLAIMS]
    assert len(set(keys)) == len(keys)
    for each in CLAIMS:
        texts = (each.slides, each.says, each.model, each.tolerance)
        assert all(texts), each.key
        assert each.says.endswith("."), each.key


def test_the_claims_are_in_the_lectures_order() -> None:
    first = [int(each.slides.split(",")[0]) for each in CLAIMS]
    assert first == sorted(first)


@pytest.mark.parametrize("mode", MODES)
def test_every_claims_run_can_be_planned(mode: str) -> None:
    wanted = claims.planned(CLAIMS, mode, CLAIMS)
    assert len({each.name for each in wanted}) == len(wanted)
    assert sorted(each.key for one in wanted for each in one.claims) == sorted(each.key for each in CLAIMS)
    assert all(run.clock == "virtual" for each in wanted for run in each.runs)


# --- runs that are wanted


def test_claims_of_equal_experiment_and_keys_share_a_run() -> None:
    both = [claim("one"), claim("two"), claim("three", full={"k": "6"}), claim("four", only=True)]
    quick, full = (claims.planned(both, mode, both) for mode in MODES)
    assert [[each.key for each in one.claims] for one in quick] == [["one", "two", "three"], ["four"]]
    assert [[each.key for each in one.claims] for one in full] == [["one", "two"], ["three"], ["four"]]
    assert [run.label for run in quick[0].runs] == ["main", "leaf_spine"]
    assert [run.label for run in quick[1].runs] == ["main"]


def test_a_runs_folder_has_the_same_name_whichever_claims_are_asked_for() -> None:
    both = [claim("one"), claim("two")]
    (every,), (some,) = (claims.planned(both, "quick", asked) for asked in (both, both[1:]))
    assert every.name == some.name == "hops-one"
    assert [each.key for each in some.claims] == ["two"]


def test_cases_are_those_that_are_wanted_and_quick_makes_do_with_fewer() -> None:
    one = claim("one", "parallelism", cases=("tensor", "pipeline"), quick_cases=("tensor",))
    labels = [[run.label for run in claims.planned([one], mode, [one])[0].runs] for mode in MODES]
    assert labels == [["main", "tensor"], ["main", "tensor", "pipeline"]]


def test_a_case_that_an_experiment_does_not_have_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="claim one: case 'tree'; allowed: leaf_spine"):
        claims.planned([wrong := claim("one", cases=("tree",))], "quick", [wrong])


def test_the_command_that_repeats_a_run_names_its_keys() -> None:
    one = claim("one", quick={"k": "4", "delay": "1us"}, only=True)
    (wanted,) = claims.planned([one], "quick", [one])
    assert wanted.command == "./run_experiment hops --set k=4 --set delay=1us --only"


def test_a_key_that_no_claim_has_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="--only: 'nine' is unknown; allowed: one, two"):
        walking.chosen([claim("one"), claim("two")], ["nine"])
    assert [each.key for each in walking.chosen([claim("one"), claim("two")], ["two"])] == ["two"]


def test_an_unknown_key_on_the_command_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["claims", "--only", "nine"]) == 2
    assert capsys.readouterr().err.startswith("run_experiment: --only: 'nine' is unknown; allowed: step_shares")


def test_a_markdown_file_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (tmp_path, tmp_path / "no" / "claims.md"):
        assert cli.main(["claims", "--out", str(tmp_path / "out"), "--markdown", str(file)]) == 2
        assert capsys.readouterr().err.startswith(f"run_experiment: --markdown: {file} cannot be written; allowed: ")
    assert not (tmp_path / "out").exists()


# --- what is done already


def done(step: walking.Step, **facts: Any) -> None:
    step.folder.mkdir(parents=True)
    rundir.write_spec(step.folder, step.run.spec, experiment="hops", label=step.run.label, clock="virtual")
    kernel = runner.kernel_facts(find_kernel(), LAB)
    (step.folder / "measured.json").write_text("{}")
    rundir.write_provenance(step.folder, {"ended_as": "done", "exit_status": 0, "kernel": kernel, **facts})


def hops_steps(folder: Path) -> list[walking.Step]:
    one = claim("one")
    return walking.steps(claims.planned([one], "quick", [one]), folder)


@pytest.mark.parametrize(
    "facts",
    [
        *({"ended_as": "interrupted"}, {"exit_status": 1}, {"fabriclab": "0.0.1"}, {"code": "another"}),
        *({"kernel": {"config_hash": "another"}}, {"kernel": None}),
    ],
)
def test_only_a_whole_run_of_this_version_is_done(tmp_path: Path, facts: dict[str, Any]) -> None:
    first, second = hops_steps(tmp_path)
    done(first)
    done(second, **facts)
    assert walking.is_done(first, walking.this_version())
    assert not walking.is_done(second, walking.this_version())


def test_a_run_of_another_spec_is_not_done(tmp_path: Path) -> None:
    first, second = hops_steps(tmp_path)
    other = dataclasses.replace(first, folder=second.folder)
    done(second)
    assert walking.is_done(second, walking.this_version())
    assert not walking.is_done(other, walking.this_version())


@pytest.mark.parametrize("damage", ["", '{"rounds": [{"star', None])
def test_a_run_whose_measurements_are_damaged_is_not_done(tmp_path: Path, damage: str | None) -> None:
    first, _ = hops_steps(tmp_path)
    done(first)
    (first.folder / "measured.json").unlink()
    if damage is not None:
        (first.folder / "measured.json").write_text(damage)
    assert not walking.is_done(first, walking.this_version())


def test_what_runs_again_begins_anew_and_the_others_stay(tmp_path: Path) -> None:
    main, case = hops_steps(tmp_path)
    done(main)
    done(case)
    for path in (main.folder / "figures" / "old.png", main.folder / "cases" / "unwanted" / "spec.yaml"):
        path.parent.mkdir()
        path.touch()
    (main.folder / "host.json").touch()
    walking.clear([main.wanted], [main], tmp_path)
    assert sorted(path.name for path in main.folder.iterdir()) == ["cases", "host.json"]
    assert walking.is_done(case, walking.this_version())
    assert [path.name for path in (main.folder / "cases").iterdir()] == ["leaf_spine"]


def test_this_machine_is_measured_once_for_all_runs_of_an_experiment(tmp_path: Path) -> None:
    asked: list[str] = []

    def measure() -> dict[str, Any]:
        asked.append("measured")
        return {"copies": 1}

    both = [claim("one"), claim("two", only=True)]
    wanted = [
        dataclasses.replace(each, experiment=dataclasses.replace(each.experiment, on_host=measure))
        for each in claims.planned(both, "quick", both)
    ]
    for _ in range(2):
        walking.measure_host(wanted, tmp_path, asked.append)
    assert asked == ["hops: measuring on this machine, on the real clock", "measured"]
    assert all((tmp_path / each.name / "host.json").is_file() for each in wanted)


def test_a_folder_of_something_else_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(BadRequest, match="is not empty; allowed: a new or an empty folder, or one that `claims` wrote"):
        walking.opened(tmp_path, claims.COMMAND)
    assert walking.opened(tmp_path / "new", claims.COMMAND) == tmp_path / "new"


def test_two_walks_do_not_share_a_folder(tmp_path: Path) -> None:
    held = walking.lock(tmp_path, claims.COMMAND)
    with pytest.raises(BadRequest, match="runs in"):
        walking.lock(tmp_path, claims.COMMAND)
    os.close(held)
    os.close(walking.lock(tmp_path, claims.COMMAND))
    assert walking.opened(tmp_path, claims.COMMAND) == tmp_path


# --- running


RunTask = Callable[[runner.Task, runner.Setting, Stop], Outcome]


def ran(
    monkeypatch: pytest.MonkeyPatch, folder: Path, run_task: RunTask, stop: Stop
) -> tuple[dict[str, str], list[str]]:
    """Failures and messages of three runs, each ended as `run_task` says."""
    monkeypatch.setattr(runner, "run_task", run_task)
    monkeypatch.setattr(walking.os, "sched_getaffinity", lambda process: {0})
    both = [claim("one"), claim("two", "parallelism", only=True)]
    told: list[str] = []
    setting = runner.Setting(None, "virtual", ())
    waiting = walking.steps(claims.planned(both, "quick", both), folder)
    return walking.run_steps(waiting, setting, stop, told.append), told


def ended(wall_s: float) -> Outcome:
    return Outcome(0, "done", wall_s, ())


def test_the_longest_looking_run_is_first_and_the_rest_is_estimated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[str] = []

    def run_task(task: runner.Task, setting: runner.Setting, stop: Stop) -> Outcome:
        begun.append(f"{task.experiment}/{task.label}")
        return ended(16.0)

    failures, told = ran(monkeypatch, tmp_path, run_task, Stop())
    assert begun == ["hops/main", "hops/leaf_spine", "parallelism/main"]  # 16, 16 and 8 hosts
    assert failures == {}
    assert told == [
        "[1/3] hops-one: done in 16.0 s, about 24 s left",
        "[2/3] hops-one/leaf_spine: done in 16.0 s, about 8 s left",
        "[3/3] parallelism-two: done in 16.0 s",
    ]


def test_a_run_that_fails_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run_task(task: runner.Task, setting: runner.Setting, stop: Stop) -> Outcome:
        if task.label == "leaf_spine":
            raise runner.RunFailed("leaf_spine: no end\nafter 5 s")
        return ended(1.0)

    failures, told = ran(monkeypatch, tmp_path, run_task, Stop())
    assert failures == {"hops-one/leaf_spine": "leaf_spine: no end after 5 s"}
    assert "FAILED" in told[1] and len(told) == 3


def test_after_a_stop_nothing_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stop, begun = Stop(), []

    def run_task(task: runner.Task, setting: runner.Setting, asked: Stop) -> Outcome:
        begun.append(task.label)
        stop.request()
        return ended(1.0)

    failures, _ = ran(monkeypatch, tmp_path, run_task, stop)
    assert (begun, failures) == (["main"], {})


def test_a_run_that_fails_leaves_its_claims_not_reproduced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [claim("one"), claim("two")]
    wanted = claims.planned(both, "quick", both)
    arguments = argparse.Namespace(mode="quick", json=True, markdown=tmp_path / "claims.md")
    status = command.conclude(arguments, both, wanted, tmp_path, {"hops-one/leaf_spine": "no end after 5 s"})
    told = json.loads(capsys.readouterr().out)
    assert status == 1
    assert [each["verdict"] for each in told["claims"]] == [NOT_REPRODUCED, NOT_REPRODUCED]
    assert told["claims"][0]["because"] == "could not be run: no end after 5 s"
    assert "could not be run: no end after 5 s" in (tmp_path / "claims.html").read_text()
    assert "could not be run: no end after 5 s" in (tmp_path / "claims.md").read_text()
    assert json.loads((tmp_path / "claims.json").read_text()) == told


def test_a_run_without_its_files_leaves_its_claims_not_reproduced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [claim("one"), claim("two", "parallelism", only=True)]
    wanted = claims.planned(both, "quick", both)
    for each in wanted:
        (tmp_path / "quick" / each.name).mkdir(parents=True)
    arguments = argparse.Namespace(mode="quick", json=True, markdown=None)
    assert command.conclude(arguments, both, wanted, tmp_path, {}) == 1
    told = json.loads(capsys.readouterr().out)["claims"]
    assert [each["verdict"] for each in told] == [NOT_REPRODUCED, NOT_REPRODUCED]
    assert all(each["because"].startswith("no report: FileNotFoundError") for each in told)


def test_a_judging_process_does_not_outlive_its_parent() -> None:
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        try:
            us = os.getpid()
            if os.fork() == 0:
                command._settle(us)
                os.write(writer, b"+")
            time.sleep(30)
        finally:
            os._exit(0)
    os.close(writer)
    assert os.read(reader, 1) == b"+"
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert select.select([reader], [], [], 10)[0], "the judging process lives on"
    assert os.read(reader, 1) == b""
    os.close(reader)


# --- what counts as a judgement


def test_no_verdict_without_a_number(tmp_path: Path) -> None:
    document.check([attempt(tmp_path, Judged(REPRODUCED, "so", (row(),)))])
    document.check([attempt(tmp_path, Judged(NOT_REPRODUCED, "no run", (row(None),)), failure="no run")])
    with pytest.raises(BadRequest, match="claim one: verdict 'reproduced' without a measured number"):
        document.check([attempt(tmp_path, Judged(REPRODUCED, "so", (row(None),)))])
    with pytest.raises(BadRequest, match="claim one: no row"):
        document.check([attempt(tmp_path, Judged(REPRODUCED, "so", ()))])
    with pytest.raises(BadRequest, match="claim one: verdict 'maybe'"):
        document.check([attempt(tmp_path, Judged("maybe", "so", (row(),)))])


def test_a_line_needs_four_sizes_and_goes_through_them() -> None:
    points = [(float(size), 1e-3 + 2e-9 * size) for size in (1e6, 2e6, 4e6, 8e6)]
    line = fit.fit(points)
    assert line is not None
    assert line.seconds(1e9) == pytest.approx(2.001)
    assert line.error < 1e-9
    assert fit.fit([*points[:3], points[0]]) is None


# --- page and Markdown


def test_the_page_has_a_card_for_each_claim_and_is_whole(tmp_path: Path) -> None:
    figure = tmp_path / "quick" / "hops-one" / "figures" / "delays.png"
    figure.parent.mkdir(parents=True)
    figure.write_bytes(b"picture")
    shown = attempt(tmp_path, Judged(REPRODUCED_IF, "cables are short: 2 s", (row(extrapolated=True),), (figure,)))
    other = attempt(tmp_path, Judged(NOT_REPRODUCED, "3 s", (row(3.0),)), key="two")
    told = walk(tmp_path, shown, other)
    html = page(told, tmp_path)
    assert "2 claims: 0 reproduced, 1 reproduced if, 1 not reproduced" in html
    assert '<section id="one">' in html and '<a href="#two">two</a>' in html
    assert "time of a &lt;message&gt;" in html and "2 s (by the line)" in html
    assert "data:image/png;base64,cGljdHVyZQ==" in html
    assert 'href="quick/hops-one/report.html"' in html
    assert "집합 통신" in html and "collective communication" in html
    assert "seed 1" in html and "lab kernel 7.1" in html


def test_the_markdown_tells_the_same_in_tables(tmp_path: Path) -> None:
    told = walk(tmp_path, attempt(tmp_path, Judged(REPRODUCED, "2 s", (row(),)), quick={"k": "4"}, full={"k": "8"}))
    lines = markdown(told).splitlines()
    assert "| time of a <message> | 1 s | 1.5 s | 2 s | within 5 % | no | calls \\| cases |" in lines
    assert "| 3 | [one](#slide-3-one): It is so. | 1 s | 2 s | reproduced |" in lines
    assert "## Slide 3: one" in lines
    assert any("Left to `--full`: k=4 (full: 8)." in line for line in lines)
    assert any("2026-01-02: 2 runs, 3 minutes of one core." in line for line in lines)
    assert all(len(line) <= 136 for line in lines if not line.startswith(("|", "    ")))


def test_an_anchor_is_what_a_heading_becomes() -> None:
    assert anchor({"slides": "2, 3", "key": "step_shares"}) == "slide-2-3-step_shares"


@pytest.mark.parametrize(
    "value, unit, told",
    [(1.5e-6, "s", "1.5 µs"), (400.0, "ns", "400 ns"), (4e11, "bits/s", "400 Gb/s"), (7.2e12, "bytes/s", "7,200 GB/s"),
     (7.0, "x", "7x"), (30.0, "%", "30 %"), (None, "s", "—")],
)  # fmt: skip
def test_a_figure_is_told_with_its_unit(value: float | None, unit: str, told: str) -> None:
    assert words.figure(value, unit) == told


def test_the_summary_counts_each_verdict(tmp_path: Path) -> None:
    told = walk(tmp_path, attempt(tmp_path, judged(None)))  # type: ignore[arg-type]
    assert told["verdicts"] == {REPRODUCED: 0, REPRODUCED_IF: 0, NOT_REPRODUCED: 1}
    assert tuple(told["verdicts"]) == VERDICTS
