"""What a sweep keeps survives a kill at any moment, and is not mixed up with another sweep's."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet
import pytest

from experiments.sweeping import store
from experiments.sweeping.store import Store, check_same, held, write_plan
from topologies.units import BadRequest

COLUMNS = {"run": "int64", "goodput_bps": "double", "verdict": "string", "complete": "bool", "failure": "string"}


def row(run: int, failure: str | None = None) -> dict[str, Any]:
    told = {"goodput_bps": 1.5, "verdict": "no collapse", "complete": True}
    return {"run": run, **({"failure": failure} if failure else told)}


def runs(folder: Path) -> list[int]:
    """As a reader of the dataset finds them, in one call."""
    return sorted(pandas.read_parquet(folder / "results")["run"])


def filled(folder: Path, *numbers: int) -> Store:
    kept = Store(folder, COLUMNS)
    for number in numbers:
        kept.put(row(number))
    return kept


def test_every_run_is_there_as_soon_as_it_has_ended_and_the_dataset_is_one_file_at_the_end(tmp_path: Path) -> None:
    kept = filled(tmp_path, 3, 1)
    assert runs(tmp_path) == [1, 3]
    kept.put(row(2, "no memory"))
    kept.merge()
    assert runs(tmp_path) == [1, 2, 3]
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["runs.parquet"]
    assert [(each["run"], each["failure"]) for each in kept.rows()] == [(1, None), (2, "no memory"), (3, None)]
    assert kept.rows()[1]["goodput_bps"] is None


def test_columns_have_their_types_also_where_no_run_told_anything(tmp_path: Path) -> None:
    kept = Store(tmp_path, COLUMNS)
    kept.put(row(1, "no memory"))
    kept.merge()
    schema = pyarrow.parquet.read_schema(tmp_path / "results" / "runs.parquet")
    assert {name: str(schema.field(name).type) for name in COLUMNS} == COLUMNS


def test_the_same_rows_are_the_same_bytes_in_whatever_order_they_came(tmp_path: Path) -> None:
    for name, order in (("a", (1, 2, 3)), ("b", (3, 1, 2))):
        filled(tmp_path / name, *order).merge()
    one, other = ((tmp_path / name / "results" / "runs.parquet").read_bytes() for name in "ab")
    assert one == other


Kill = Callable[[Path, Path], None]


@pytest.mark.parametrize("step", range(4))
def test_a_merge_that_was_killed_at_any_step_is_set_right(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the whole file is complete, before the single ones are hidden, before the whole one takes their
    place, before they are removed."""
    kept = filled(tmp_path, 1, 2)
    kept.merge()
    kept.put(row(3))

    class Killed(BaseException):
        pass

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    places = [(store, "_write"), (Path, "rename"), (Path, "replace"), (shutil, "rmtree")]
    owner, name = places[step]
    if name == "replace":  # the first one puts the whole file under its hidden name
        original = Path.replace
        monkeypatch.setattr(Path, "replace", lambda path, to: original(path, to) if path.suffix == ".part" else die())
    else:
        monkeypatch.setattr(owner, name, die)
    with pytest.raises(Killed):
        kept.merge()
    monkeypatch.undo()
    again = Store(tmp_path, COLUMNS)
    assert [each["run"] for each in again.rows()] == [1, 2, 3]
    again.merge()
    assert runs(tmp_path) == [1, 2, 3]
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["runs.parquet"]


def test_what_a_kill_left_half_written_is_no_run(tmp_path: Path) -> None:
    kept = filled(tmp_path, 1)
    (tmp_path / "results" / "running" / ".000002.parquet.part").write_bytes(b"PAR1 half")
    assert runs(tmp_path) == [1]
    assert [each["run"] for each in kept.rows()] == [1]


def test_failures_that_are_to_be_tried_again_are_dropped(tmp_path: Path) -> None:
    kept = filled(tmp_path, 1)
    kept.put(row(2, "no memory"))
    kept.drop([2])
    assert runs(tmp_path) == [1]
    kept.put(row(2))
    kept.merge()
    assert [each["failure"] for each in kept.rows()] == [None, None]


def test_a_full_disk_is_told_and_what_is_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = filled(tmp_path, 1)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pyarrow.parquet, "write_table", full)
    with pytest.raises(RuntimeError, match=r"cannot hold the results .*make room, and the same command goes on"):
        kept.put(row(2))
    assert runs(tmp_path) == [1]


def test_damaged_results_are_told_and_done_again_without_the_damaged_file(tmp_path: Path) -> None:
    kept = filled(tmp_path, 1, 2)
    damaged = tmp_path / "results" / "running" / "000001.parquet"
    damaged.write_bytes(b"nonsense")
    with pytest.raises(BadRequest, match=r"out: .*running/000001\.parquet is damaged .*; without that file the same"):
        kept.rows()
    damaged.unlink()
    assert runs(tmp_path) == [2]


def test_a_dataset_of_something_else_is_told(tmp_path: Path) -> None:
    kept = filled(tmp_path, 1)
    table = pyarrow.table({"mine": [1]})
    pyarrow.parquet.write_table(table, tmp_path / "results" / "running" / "000000.parquet")
    with pytest.raises(BadRequest, match="results has other columns than this sweep"):
        kept.rows()


def document(**changes: Any) -> dict[str, Any]:
    made_by = {"fabriclab": "0.1", "code": "abc", "kernel": "7.3 x"}
    return {
        "format": 1,
        "experiment": "incast",
        "points": [{"senders": "2"}],
        "made_by": made_by,
        "command": [],
        **changes,
    }


def test_the_same_sweep_goes_on_whatever_its_command_was(tmp_path: Path) -> None:
    write_plan(tmp_path, document())
    check_same(tmp_path, document(command=["another", "way", "to", "say", "it"], git_commit="of docs alone"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "results of another version (format 1, this is 2)"),
        (
            {"made_by": {"fabriclab": "0.2", "code": "abc", "kernel": "7.3 x"}},
            "results of another version (fabriclab 0.1, this is 0.2)",
        ),
        (
            {"made_by": {"fabriclab": "0.1", "code": "def", "kernel": "7.3 x"}},
            "results of another version (code abc, this is def)",
        ),
        ({"points": [{"senders": "4"}]}, 'another sweep (points [{"senders": "2"}], here [{"senders": "4"}])'),
        ({"experiment": "victim"}, 'another sweep (experiment "incast", here "victim")'),
    ],
)
def test_another_version_and_another_sweep_are_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    write_plan(tmp_path, document())
    with pytest.raises(BadRequest) as refused:
        check_same(tmp_path, document(**changes))
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"made_by": 1})])
def test_a_damaged_plan_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(BadRequest, match=r"sweep\.json is damaged"):
        check_same(tmp_path, document())


def test_a_folder_is_one_sweeps_at_a_time(tmp_path: Path) -> None:
    with held(tmp_path), pytest.raises(BadRequest, match="is being written by another sweep"), held(tmp_path):
        pass
    with held(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_is_a_bad_request(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(BadRequest, match=r"out: .* cannot be written \(Is a directory\); allowed: "), held(tmp_path):
        pass
