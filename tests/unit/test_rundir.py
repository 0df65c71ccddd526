"""Run directories: where they are made, what is refused, what is written down."""

from __future__ import annotations

import configparser
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from experiments import limits, rundir
from experiments.spec import parse
from topologies.units import BadRequest

ROOT = Path(__file__).resolve().parents[2]


def test_a_folder_is_made_with_all_above_it(tmp_path: Path) -> None:
    folder = rundir.create(tmp_path / "new" / "deep", "incast")
    assert folder == tmp_path / "new" / "deep"
    assert list(folder.iterdir()) == []


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert rundir.create(tmp_path, "incast") == tmp_path


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(BadRequest, match=rf"^out: {tmp_path} is not empty; allowed: a new or an empty folder$"):
        rundir.create(tmp_path, "incast")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/run", "/dev/null/run", "/sys/run"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        BadRequest, match=rf"^out: .*{place} cannot be written \(.+\); allowed: a folder that you may write$"
    ):
        rundir.create(tmp_path / place, "incast")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        for place in (tmp_path, tmp_path / "new"):
            with pytest.raises(BadRequest, match=r"^out: .+ cannot be written \(Permission denied\)"):
                rundir.create(place, "incast")
    finally:
        tmp_path.chmod(0o700)


def test_without_a_place_it_is_results_name_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rundir.time, "strftime", lambda form: "20260101-120000")
    folders = [rundir.create(None, "incast") for _ in range(3)]
    assert [folder.relative_to(tmp_path) for folder in folders] == [
        Path("results/incast-20260101-120000"),
        Path("results/incast-20260101-120000-2"),
        Path("results/incast-20260101-120000-3"),
    ]


def test_two_processes_of_one_second_do_not_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rundir.time, "strftime", lambda form: "20260101-120000")
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: rundir.create(None, "incast"), range(40)))
    assert len(set(folders)) == 40


def test_a_file_called_results_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").touch()
    with pytest.raises(
        BadRequest, match=r"^out: results cannot be written \(.+\); allowed: a folder that you may write"
    ):
        rundir.create(None, "incast")


def test_cases_lie_below_the_main_run(tmp_path: Path) -> None:
    assert rundir.case_folder(tmp_path, "main") == tmp_path
    assert rundir.case_folder(tmp_path, "rto_1ms") == tmp_path / "cases" / "rto_1ms"
    assert (tmp_path / "cases" / "rto_1ms").is_dir()


@pytest.mark.parametrize("queue", ["droptail", "red", "dctcp"])
def test_a_spec_is_read_back(tmp_path: Path, queue: str) -> None:
    spec = limits.resolve(parse({"queue": queue, "capture": "off", "sack": "off", "rack": "off", "seed": 10**12}))
    rundir.write_spec(tmp_path, spec, experiment="incast", label="main", clock="virtual")
    assert rundir.read_spec(tmp_path) == spec
    written = yaml.safe_load((tmp_path / "spec.yaml").read_text())
    assert (written["experiment"], written["label"], written["clock"], written["hosts"]) == (
        "incast",
        "main",
        "virtual",
        65,
    )
    assert (written["rate"], written["capture"], written["queue"]) == ("400Gbps", "off", queue)


def test_provenance_holds_versions_and_what_it_is_given(tmp_path: Path) -> None:
    rundir.write_provenance(tmp_path, {"seed": 5, "ended_as": "done"})
    written = json.loads((tmp_path / "provenance.json").read_text())
    assert (written["seed"], written["ended_as"], written["format"]) == (5, "done", rundir.FORMAT)
    assert set(written["packages"]) >= {"numpy", "pyarrow"}
    assert all(written[name] for name in ("fabriclab", "git_commit", "python", "machine"))


def test_the_version_is_the_metadatas() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    assert rundir.version() == metadata["metadata"]["version"]


def test_outside_a_repository_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rundir, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert rundir.git_commit() == "unknown"
    monkeypatch.setenv("PATH", "")
    assert rundir.git_commit() == "unknown"


# --- under sudo


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> dict[Path, tuple[int, int]]:
    """Who was given what, as root."""
    given: dict[Path, tuple[int, int]] = {}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, uid, gid, follow_symlinks: given.update({path: (uid, gid)}))
    return given


def test_the_user_who_called_sudo_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: dict[Path, tuple[int, int]]
) -> None:
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "4321")
    folder = tmp_path / "results" / "run"
    (folder / "pcap").mkdir(parents=True)
    (folder / "pcap" / "h2.pcap").touch()
    rundir.hand_over(folder)
    assert owners == dict.fromkeys(
        [folder, folder / "pcap", folder / "pcap" / "h2.pcap", tmp_path / "results"], (1234, 4321)
    )


def test_a_folder_of_the_users_own_choice_keeps_its_parents_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: dict[Path, tuple[int, int]]
) -> None:
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "4321")
    rundir.hand_over(tmp_path)
    assert list(owners) == [tmp_path]


def test_without_sudo_nothing_changes_hands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: dict[Path, tuple[int, int]]
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    rundir.hand_over(tmp_path)
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    rundir.hand_over(tmp_path)
    assert owners == {}
