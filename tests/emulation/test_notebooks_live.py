"""Notebooks that run their experiments anew, in the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks import FIGURES, NOTEBOOKS, executed, figures

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_live(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "runs"
    monkeypatch.setenv("FABRICLAB_LIVE", "1")
    monkeypatch.setenv("FABRICLAB_NOTEBOOK_RUNS", str(made))
    document = executed(name, monkeypatch, timeout_s=600)
    assert figures(document) == FIGURES[name]
    assert [run.name for run in made.iterdir() if not (run / "report.html").is_file()] == []
    assert len(list(made.iterdir())) >= 1
