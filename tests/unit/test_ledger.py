"""The ledger of what a session makes outside its namespaces: what is noted, and what is removed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.ledger import Busy, NameTaken, Process, Unusable, abandon, locked


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Where the ledger lies, and where names are."""
    return tmp_path / "ledger", tmp_path / "netns"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_the_lock_is_for_one_and_leaves_nothing(places: tuple[Path, Path]) -> None:
    folder, names = places
    with locked(folder, names), pytest.raises(Busy, match=rf"\(process {os.getpid()}\)"), locked(folder, names):
        pass
    assert not folder.exists()
    with locked(folder, names):
        assert folder.is_dir()
    assert not folder.exists()


def test_what_is_noted_survives_the_session(places: tuple[Path, Path]) -> None:
    folder, names = places
    names.mkdir()
    with locked(folder, names) as ledger:
        ledger.note(name="fl-h1", inode=7)
    assert folder.is_dir()
    (names / "fl-h1").touch()  # made, and killed before it was another network's name
    with locked(folder, names) as ledger:
        assert ledger.settle() == [str(names / "fl-h1")]
        assert ledger.settle() == []
    assert not folder.exists() and list(names.iterdir()) == []


def test_only_what_is_noted_is_removed(places: tuple[Path, Path]) -> None:
    folder, names = places
    names.mkdir()
    for name in ("fl-h1", "fl-h2", "other"):
        (names / name).touch()
    with locked(folder, names) as ledger:
        ledger.note(name="fl-h2", inode=7)
        ledger.note(name="fl-h9", inode=7)  # noted, and never made
        assert ledger.settle() == [str(names / "fl-h2")]
    assert sorted(path.name for path in names.iterdir()) == ["fl-h1", "other"]


def test_a_line_that_was_cut_short_tells_nothing(places: tuple[Path, Path]) -> None:
    folder, names = places
    with locked(folder, names) as ledger:
        ledger.note(name="fl-h1", inode=7)
        with (folder / "ledger").open("a") as file:
            file.write('{"name": "fl-h')
        assert ledger.settle() == []


def test_a_process_is_ended_only_while_it_is_the_noted_one(
    places: tuple[Path, Path], sleeper: subprocess.Popen[bytes]
) -> None:
    folder, names = places
    found = Process.of(sleeper.pid)
    assert found.is_alive and not Process(found.pid, found.started - 1).is_alive
    with locked(folder, names) as ledger:
        ledger.note(pid=found.pid, started=found.started - 1)
        assert ledger.settle() == []
        assert sleeper.poll() is None
        ledger.note_process(sleeper.pid)
        assert ledger.settle() == [f"process {sleeper.pid}"]
    assert sleeper.wait(5) == -9


def test_a_process_that_has_ended_is_not_noted(places: tuple[Path, Path]) -> None:
    folder, names = places
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with locked(folder, names) as ledger:
        ledger.note_process(process.pid)
        assert not (folder / "ledger").exists()


def test_a_taken_name_is_left_and_a_folder_of_ours_is_removed(places: tuple[Path, Path]) -> None:
    folder, names = places
    names.mkdir()
    (names / "fl-h1").write_text("somebody's")
    with locked(folder, names) as ledger:
        with pytest.raises(NameTaken, match="fl-h1 is taken"):
            ledger.give_name("h1", Path("/proc/self/ns/net"))
        assert ledger.settle() == []
    assert (names / "fl-h1").read_text() == "somebody's"
    with locked(folder, names) as ledger:
        ledger.note(folder=str(names))
        assert ledger.settle() == []
        assert names.is_dir()  # somebody uses it
        (names / "fl-h1").unlink()
        ledger.note(folder=str(names))
        ledger.settle()
        assert not names.exists()


def test_what_is_no_fact_of_ours_is_passed_over(places: tuple[Path, Path]) -> None:
    folder, names = places
    with locked(folder, names) as ledger:
        lines = (b'{"pid": 1}', b'{"pid": "1", "started": 2}', b"[1]", b"\xff\xfe", b'{"name": "fl-h1"}', b"7")
        (folder / "ledger").write_bytes(b"\n".join(lines))
        assert (ledger.noted_names(), ledger.settle()) == (set(), [])


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_folder_that_cannot_be_used_is_named(places: tuple[Path, Path], kind: str) -> None:
    folder, names = places
    folder.touch() if kind == "file" else folder.symlink_to(folder.parent / "nowhere")
    with pytest.raises(Unusable, match=rf"no ledger of runs can be kept in {folder} "), locked(folder, names):
        pass


def test_what_is_abandoned_is_undone_at_once(places: tuple[Path, Path], sleeper: subprocess.Popen[bytes]) -> None:
    folder, names = places
    names.mkdir()
    with locked(folder, names) as ledger:
        ledger.note_process(sleeper.pid)
        ledger.note(name="fl-h1", inode=7)
        (names / "fl-h1").touch()
        abandon()
        assert sleeper.wait(5) == -9
        assert list(names.iterdir()) == []


def test_the_folder_of_names_is_made_and_removed_where_there_was_none(places: tuple[Path, Path]) -> None:
    folder, names = places
    with locked(folder, names) as ledger:
        ledger.prepare()
        assert names.is_dir()
        ledger.settle()
        assert not names.exists()


def test_facts_are_lines_of_json(places: tuple[Path, Path]) -> None:
    with locked(*places) as ledger:
        ledger.note(name="fl-h1", inode=7)
        (line,) = (places[0] / "ledger").read_text().splitlines()
        assert json.loads(line) == {"name": "fl-h1", "inode": 7}
        ledger.settle()
