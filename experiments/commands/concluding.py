"""The commands that read what a run, or anybody, has left: `report`, `export`, `analyze`; and the end of every run."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import analyze as analyzing
from experiments import screen
from experiments.rundir import FULL
from lab.cache import own_cache
from topologies.units import BadRequest, named_error

if TYPE_CHECKING:
    from analysis.run import Run


def conclude(folder: Path, as_json: bool, title: str) -> None:
    """Summary, figures and report of a finished run directory; the results to stdout."""
    keep_matplotlib_at_home()
    from analysis.kinds import kind_of, table_of
    from analysis.original_time import line
    from analysis.pages.cases import columns
    from analysis.run import Run

    run = Run(folder)
    report = reported(run)
    summary = json.loads((folder / "summary.json").read_text())
    if as_json:
        print(json.dumps(summary, indent=1))
    else:
        sizes = table_of(run)
        if sizes is not None:
            screen.comparison(sizes.columns, sizes.rows, sizes.title)
        screen.comparison(columns(kind_of(run), summary["comparison"]), summary["comparison"], title)
        if summary["original_time"]:
            print(line(run))
        print(f"report: {report}")
        if (folder / "ranks").is_dir():
            print(f"output: {folder / 'ranks'} (of rank 0: 0.out, 0.err)")
    _tell_fidelity({"main": run, **run.cases})


def reported(run: Run) -> Path:
    """The report of a run, written behind its summary and those of its cases."""
    from analysis.pages.run_page import write_report
    from analysis.summary import write_summary

    for case in (*run.cases.values(), run):
        write_summary(case)
    return write_report(run)


def _tell_fidelity(runs: Mapping[str, Any]) -> None:
    """Which of the runs by label cannot be trusted, as they were on the real clock, and why."""
    from analysis.fidelity import FAITHFUL, judge

    for label, run in runs.items():
        judged = judge(run)
        if judged is not None and judged.verdict != FAITHFUL:
            screen.say(f"run_experiment: {label}: {judged.words}: {judged.advice}")


def analyze(arguments: argparse.Namespace) -> None:
    """Explain captures."""
    if arguments.export and arguments.out is None:
        raise BadRequest("--export: given without --out; allowed: with --out DIR, the folder that tables go to")
    keep_matplotlib_at_home()
    analyzing.analyze(arguments.paths, arguments.json, arguments.out, arguments.export)


def report(arguments: argparse.Namespace) -> None:
    """The report of a run directory anew; of several, the page that compares them."""
    for folder in arguments.folders:
        if not (folder / "spec.yaml").is_file():
            raise BadRequest(
                f"DIR: {folder} is no run directory (it has no spec.yaml); allowed: a folder that `run` wrote"
            )
    if len(arguments.folders) > 1:
        return _compare(arguments)
    if arguments.out is not None:
        raise BadRequest("--out: given with one DIR; allowed: with several (the page of one is its report.html)")
    (folder,) = arguments.folders
    with whole(folder):
        conclude(folder, arguments.json, str(folder))


def _compare(arguments: argparse.Namespace) -> None:
    """The page that compares several runs."""
    keep_matplotlib_at_home()
    from analysis.pages.comparison_page import FILE_NAME, write_comparison
    from analysis.run import Run
    from analysis.summary import summarize

    folders: list[Path] = arguments.folders
    runs, summaries = [Run(folder) for folder in folders], []
    for folder, run in zip(folders, runs):
        with whole(folder):
            summaries.append(summarize(run))
    with whole(*folders):
        page = write_comparison(runs, arguments.out or folders[0].resolve().parent / FILE_NAME)
    print(json.dumps(summaries, indent=1) if arguments.json else f"report: {page}")


# What values of the wrong kind in a run directory's files lead to, where no check of their own names them.
DAMAGE = (
    *(TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, AssertionError),
    *(RecursionError, MemoryError, StopIteration),
)


@contextmanager
def whole(*folders: Path) -> Iterator[None]:
    """Run directories are taken to be sound; what shows that one is not is told in one line, as is a full disk, whose
    error does not say where it is."""
    try:
        yield
    except BadRequest:
        raise
    except OSError as error:
        if error.errno not in FULL:
            raise
        named = shlex.join(map(str, folders))
        raise RuntimeError(
            f"{named}: no room for the report ({error}); what was measured is kept: make room, then `./run_experiment"
            f" report {named}`"
        ) from error
    except DAMAGE as error:
        named = ", ".join(map(str, folders))
        raise BadRequest(f"DIR: {named} is damaged ({named_error(error)})") from error


def export(arguments: argparse.Namespace) -> None:
    """The tables of a run directory, and those of its cases in folders of their own."""
    keep_matplotlib_at_home()
    from analysis.api import Run
    from analysis.tables.export import export as write_tables

    run, out = Run(arguments.folder), arguments.out or arguments.folder / "tables"
    folders = {out: run, **{out / "cases" / label: case for label, case in run.cases.items()}}
    paths = [path for folder, each in folders.items() for path in write_tables(each.tables, folder, arguments.format)]
    print(f"tables: {len(paths)} files in {out}")


def keep_matplotlib_at_home() -> None:
    """Matplotlib's own files go to our cache, else it writes to the user's home."""
    os.environ.setdefault("MPLCONFIGDIR", str(own_cache() / "matplotlib"))
