"""How a run that failed is explained: by what it said last, and by how it was ended where it said nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import limits, runner
from experiments.runner import RunFailed, Setting, Task, _explain, last_word, run_task
from experiments.spec import parse
from lab.session import Outcome, Stop

HARMLESS = "*** Error setting resource limits. Mininet's performance may be affected."


def explained(folder: Path, place: str, status: int, *log: str, ended_as: str = "failed") -> str:
    task = Task("main", limits.resolve(parse({"senders": 4})), folder, "incast")
    setting = Setting(None, "real", (), real_on=place)
    return _explain(task, setting, Outcome(status, ended_as, 1.0, log), "")


@pytest.mark.parametrize(
    ("lines", "word"),
    [((), ""), ((HARMLESS,), ""), (("a", "b"), "b"), (("a", HARMLESS, " "), "a"), ((HARMLESS + "\n",), "")],
)
def test_a_harmless_line_is_no_reason(lines: tuple[str, ...], word: str) -> None:
    assert last_word(lines) == word


def test_a_run_that_only_said_harmless_things_ends_with_its_status(tmp_path: Path) -> None:
    assert explained(tmp_path, "machine", 3, HARMLESS) == "main: exit status 3"
    assert explained(tmp_path, "machine", 1, "it broke", HARMLESS) == "main: it broke"
    died = explained(tmp_path, "machine", 1, HARMLESS, ended_as="died")
    assert died == "main: the run's first process died: without a word"
    assert HARMLESS in (tmp_path / "errors.log").read_text()


@pytest.mark.parametrize("log", [(), (HARMLESS,), ("a warning", HARMLESS)])
def test_a_killed_run_on_this_machine_was_killed(tmp_path: Path, log: tuple[str, ...]) -> None:
    assert explained(tmp_path, "machine", 137, *log) == "main: the run was killed (exit status 137)"


def test_in_the_lab_only_its_kernel_kills(tmp_path: Path) -> None:
    told = explained(tmp_path, "lab", 137, HARMLESS)
    assert told.startswith("main: the lab's ")
    assert told.endswith("of memory were not enough, and its kernel ended the run (exit status 137)")


def test_a_run_that_ends_well_and_measured_nothing_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run_job", lambda *given, **streams: Outcome(0, "done", 1.0, ()))
    task = Task("main", limits.resolve(parse({"senders": 4})), tmp_path, "incast")
    with Stop() as stop, pytest.raises(RunFailed, match=r"^main: it ended before anything was measured"):
        run_task(task, Setting(None, "virtual", ()), stop)
    assert json.loads((tmp_path / "provenance.json").read_text())["ended_as"] == "failed"
    (tmp_path / "measured.json").write_text("{}")
    with Stop() as stop:
        assert run_task(task, Setting(None, "virtual", ()), stop).ended_as == "done"
