"""What a sweep keeps: its plan, and a Parquet dataset with a row for each run that has ended.

While a sweep runs, every run is a file of its own in results/running/, put there whole: whoever is killed loses what
was running, and no more. At the end these become one file, results/runs.parquet. Each step of that is one renaming, so
that no reader finds a run twice; what a kill leaves in between is set right when the folder is next opened.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.files import write_whole
from analysis.sweep import PLAN, RESULTS
from experiments import rundir
from topologies.units import BadRequest, in_one_line

if TYPE_CHECKING:
    from pyarrow import Schema, Table

LOCK = ".lock"
ASIDE = ("git_commit", "command")  # of a plan: they may differ where it is gone on with
_MADE_BY = ("fabriclab", "code", "kernel")
_ONE_FILE, _RUNNING = "runs.parquet", "running"


class Store:
    """The results of one sweep in its folder, held by one process at a time."""

    def __init__(self, folder: Path, columns: Mapping[str, str]) -> None:
        self.folder, self._columns = folder, dict(columns)
        self._results = folder / RESULTS
        self._running = self._results / _RUNNING
        self._finish_merging()

    def rows(self) -> list[dict[str, Any]]:
        """All rows that are kept, by number of their run."""
        table = _read_table(self._results)
        if table is not None and not table.schema.equals(self._schema):
            raise BadRequest(f"out: {self._results} has other columns than this sweep; allowed: the results of a sweep")
        return [] if table is None else sorted(table.to_pylist(), key=lambda row: int(row["run"]))

    def put(self, row: Mapping[str, Any]) -> None:
        """Keep the row of a run, whole or not at all; raises RuntimeError when the disk is full."""
        import pyarrow

        with self._writing():
            self._running.mkdir(parents=True, exist_ok=True)
            table = pyarrow.Table.from_pylist([dict(row)], schema=self._schema)
            _write(table, self._running / f"{row['run']:06d}.parquet")

    def merge(self) -> None:
        """Make one file of all runs."""
        import pyarrow

        if not self._running.is_dir():
            return
        with self._writing():
            _write(pyarrow.Table.from_pylist(self.rows(), schema=self._schema), self._hidden(_ONE_FILE))
            self._running.rename(self._hidden(_RUNNING))
            self._finish_merging()

    def drop(self, runs: Sequence[int]) -> None:
        """Forget these runs."""
        import pyarrow

        self.merge()
        kept = [row for row in self.rows() if row["run"] not in set(runs)]
        with self._writing():
            _write(pyarrow.Table.from_pylist(kept, schema=self._schema), self._results / _ONE_FILE)

    def _finish_merging(self) -> None:
        """What a merge was killed before: with the single files out of sight the whole one takes their place."""
        whole, single = self._hidden(_ONE_FILE), self._hidden(_RUNNING)
        if single.is_dir():
            if whole.is_file():
                whole.replace(self._results / _ONE_FILE)
            shutil.rmtree(single)
        whole.unlink(missing_ok=True)

    def _hidden(self, name: str) -> Path:
        """Readers of a dataset pass over what begins with a dot."""
        return self._results / f".{name}"

    @property
    def _schema(self) -> Schema:
        import pyarrow

        return pyarrow.schema([(name, getattr(pyarrow, _ARROW[kind])()) for name, kind in self._columns.items()])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in rundir.FULL:
                raise
            raise RuntimeError(
                f"{self.folder} cannot hold the results ({error.strerror}); what ended before is kept: make room, and"
                " the same command goes on"
            ) from error


_ARROW = {"int64": "int64", "double": "float64", "bool": "bool_", "string": "string"}


def _write(table: Table, path: Path) -> None:
    """A Parquet file, whole or not at all."""
    import pyarrow.parquet

    part = path.with_name(f".{path.name}.part")
    try:
        pyarrow.parquet.write_table(table, part, compression="zstd")
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _read_table(folder: Path) -> Table | None:
    """All that a dataset holds; None where nothing is kept yet."""
    import pyarrow.parquet

    kept = sorted(each for each in folder.rglob("*.parquet") if not each.name.startswith("."))
    if not kept:
        return None
    try:
        return pyarrow.parquet.read_table(folder)
    except (OSError, pyarrow.ArrowException) as error:
        damaged, why = next((found for found in map(_damage, kept) if found), (folder, in_one_line(error)))
        raise BadRequest(
            f"out: {damaged} is damaged ({why}); allowed: the results of a sweep; without that file the same command"
            " does its runs again"
        ) from None


def _damage(path: Path) -> tuple[Path, str] | None:
    """What is wrong with a Parquet file; None for a whole one."""
    import pyarrow.parquet

    try:
        pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        return path, in_one_line(error)
    return None


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """The folder is this process's alone; raises BadRequest while another one sweeps into it."""
    taken = f"out: {folder} is being written by another sweep; allowed: after its end, or another"
    descriptor = rundir.lock(folder / LOCK, taken)
    try:
        yield
    finally:
        os.close(descriptor)


def discard_if_unused(folder: Path) -> bool:
    """Remove the plan of a sweep of which no run is kept, and its folder unless something else is in it; says whether
    the folder is gone."""
    if any((folder / RESULTS).rglob("*.parquet")):
        return False
    for name in (PLAN, LOCK):
        (folder / name).unlink(missing_ok=True)
    for each in (folder / RESULTS / _RUNNING, folder / RESULTS, folder):
        with suppress(OSError):
            each.rmdir()
    return not folder.exists()


def is_sweep(folder: Path) -> bool:
    """Whether a sweep was begun in `folder`."""
    return (folder / PLAN).is_file()


def write_plan(folder: Path, document: Mapping[str, Any]) -> None:
    """Keep what the sweep is."""
    write_whole(folder / PLAN, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def check_same(folder: Path, document: Mapping[str, Any]) -> None:
    """That the sweep in `folder` is the one asked for, made by the same version; raises BadRequest telling the first
    thing that differs."""
    try:
        kept = json.loads((folder / PLAN).read_text())
        given, made_by = dict(document), dict(kept["made_by"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"out: {folder / PLAN} is damaged ({error}); allowed: the folder of a sweep") from None
    for name in ("format", *_MADE_BY):
        theirs, ours = (made_by if name in made_by else kept).get(name), {**given, **given["made_by"]}.get(name)
        if theirs != ours:
            raise BadRequest(
                f"out: {folder} holds results of another version ({name} {theirs}, this is {ours}); allowed: the same,"
                " or another folder"
            )
    for name in given:
        if name not in ("made_by", *ASIDE) and kept.get(name) != given[name]:
            raise BadRequest(
                f"out: {folder} holds another sweep ({name} {_short(kept.get(name))}, here {_short(given[name])});"
                " allowed: the same one, or another folder"
            )


def _short(value: Any) -> str:
    words = json.dumps(value, ensure_ascii=False)
    return words if len(words) <= 80 else f"{words[:77]}..."
