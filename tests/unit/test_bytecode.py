"""Modules are compiled before a lab reads them, and belong to the clone's owner."""

from __future__ import annotations

import os
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from lab.bytecode import compile_modules

OWNER = 1234


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "topologies" / "deeper").mkdir(parents=True)
    (tmp_path / "topologies" / "one.py").write_text("ONE = 1\n")
    (tmp_path / "topologies" / "deeper" / "two.py").write_text("TWO = 2\n")
    return tmp_path


def compiled(clone: Path) -> list[Path]:
    return [Path(cache_from_source(str(clone / "topologies" / name))) for name in ("one.py", "deeper/two.py")]


def test_what_is_missing_is_compiled_once_and_what_is_stale_again(clone: Path) -> None:
    compile_modules.__wrapped__(clone)
    one, two = compiled(clone)
    before = one.read_bytes(), two.stat().st_mtime_ns
    (clone / "topologies" / "one.py").write_text("ONE = 1111\n")
    os.utime(clone / "topologies" / "one.py", (1, 1))
    compile_modules.__wrapped__(clone)
    assert one.read_bytes() != before[0]
    assert two.stat().st_mtime_ns == before[1]


def test_a_module_that_is_no_python_is_for_its_import_to_tell(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (clone / "topologies" / "one.py").write_text("ONE = (\n")
    compile_modules.__wrapped__(clone)
    assert compiled(clone)[1].is_file()
    assert capfd.readouterr() == ("", "")


def test_nothing_is_left_in_a_clone_of_somebody_else(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: OWNER)
    compile_modules.__wrapped__(clone)
    assert not any(clone.rglob("__pycache__"))


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_root_gives_it_to_the_clones_owner(clone: Path) -> None:
    os.chown(clone, OWNER, -1)
    compile_modules.__wrapped__(clone)
    assert {path.stat().st_uid for file in compiled(clone) for path in (file, file.parent)} == {OWNER}
