"""Which code a run was made by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from experiments import source


def test_code_that_has_changed_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "ROOT", tmp_path)
    module = tmp_path / "lab" / "boot.py"
    module.parent.mkdir()
    module.write_text("x = 1")
    before = source.code()
    assert source.code() == before
    module.write_text("x = 2")
    os.utime(module, ns=(0, 0))
    assert source.code() != before
    (tmp_path / "lab" / "notes.txt").write_text("no code")
    module.write_text("x = 1")
    assert source.code() == before


def test_code_that_no_figure_comes_from_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "ROOT", tmp_path)
    before = source.code()
    page = tmp_path / "analysis" / "pages" / "page.py"
    page.parent.mkdir(parents=True)
    page.write_text("x = 1")
    assert source.code() == before
