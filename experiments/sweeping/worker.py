"""One run of a sweep, in whichever process it is carried out: the lab, its summary, and the row that is kept.

What this module needs stays loaded in a worker, so that a run costs little more than its lab.
"""

from __future__ import annotations

import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.columns import Column
from analysis.kinds import kind_of
from analysis.run import Run
from analysis.summary import summarize
from analysis.sweep import figure_columns
from experiments import catalog, rundir, source
from experiments.commands.setting import built_kernel
from experiments.launch import STALL_S
from experiments.runner import VIRTUAL, RunFailed, Setting, Task, run_task
from experiments.spec import as_typed
from experiments.sweeping.plan import TOLD_COLUMNS, Order
from lab.session import Stop
from topologies.units import BadRequest, in_one_line

_MOST_WORDS = 400  # of a reason for a failure: what a kernel says last may be long


@dataclass(frozen=True)
class Terms:
    """What all runs of a sweep share: who made the plan (see `made_by`), the command line that asked, a run's limit of
    wall time, and the folder that run directories are kept in (None: they are not kept)."""

    made_by: Mapping[str, str]
    command: tuple[str, ...]
    watchdog_s: float
    keep: Path | None = None


@dataclass(frozen=True)
class Ended:
    """How a run ended: its row (None: it was stopped, and is not kept), and why no further run can go well (empty:
    nothing says so)."""

    row: Mapping[str, Any] | None
    hopeless: str = ""


class Unlike(RuntimeError):
    """The worker is of another version than the sweep."""


_running: set[Stop] = set()  # of this process


def made_by() -> dict[str, str]:
    """What results are made by here, as far as it can change them: version, code, lab kernel."""
    kernel = built_kernel()
    return {"fabriclab": rundir.version(), "code": source.code(), "kernel": f"{kernel.version} {kernel.config_hash}"}


def stop_all() -> None:
    """Have every run of this process end now."""
    for stop in list(_running):
        stop.request()


def carry_out(order: Order, terms: Terms) -> Ended:
    """Run the lab, summarise what it measured, and return the row; what goes wrong is a row with its reason."""
    began_s = time.monotonic()
    try:
        _check_alike(terms)
        with _folder(order, terms) as folder, _stoppable() as stop:
            found = _measured(order, terms, folder, stop)
            if stop.requested:
                return Ended(None)
    except Unlike as error:
        return Ended(None, str(error))
    except Exception as error:  # whatever it is, the other runs go on
        if _is_full(error):
            return Ended(None, f"{_reason(error)}: make room")
        found = {"failure": _reason(error)}
    return Ended({**order.values, **found, "wall_s": round(time.monotonic() - began_s, 3)})


def _check_alike(terms: Terms) -> None:
    here = made_by()
    for name, theirs in terms.made_by.items():
        if here[name] != theirs:
            host = socket.gethostname()
            raise Unlike(f"{host} has another {name} now: {here[name]}, and the sweep is made by {theirs}: restore it")


def _measured(order: Order, terms: Terms, folder: Path, stop: Stop) -> dict[str, Any]:
    """The run's summary as columns; nothing after a stop."""
    asked = catalog.find(order.experiment).asks
    setting = Setting(built_kernel(), VIRTUAL, terms.command, terms.watchdog_s, STALL_S)
    task = Task("main", order.spec, folder, order.experiment, asked)
    try:
        run_task(task, setting, stop)
    except RunFailed:
        if stop.requested:
            return {}
        raise
    run = Run(folder)
    return told(run, figure_columns(order.experiment, [run.workload]))


@contextmanager
def _folder(order: Order, terms: Terms) -> Iterator[Path]:
    """The run directory: kept, or gone afterwards."""
    if terms.keep is not None:
        folder = terms.keep / f"{order.run:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    # Swept by a later session (lab.session.control_folder) when this process is killed.
    with tempfile.TemporaryDirectory(prefix=f"fabriclab-lab-{os.getpid()}-") as name:
        yield Path(name)


@contextmanager
def _stoppable() -> Iterator[Stop]:
    with Stop() as stop:
        _running.add(stop)
        try:
            yield stop
        finally:
            _running.discard(stop)


def told(run: Run, figures: tuple[Column, ...]) -> dict[str, Any]:
    """What a run's summary and its row of the comparison tell, by column of the results."""
    summary, row = summarize(run), kind_of(run).row(run)
    lengths_s = [each["seconds"] for each in summary["rounds"]]
    whole = {name: summary.get(name) for name in TOLD_COLUMNS}
    return {
        **{column.key: figure(column, row.get(column.key)) for column in figures},
        **{name: value for name, value in whole.items() if value is not None},
        "complete": summary["complete"],
        "rounds": len(lengths_s),
        "round_least_s": min(lengths_s, default=None),
        "round_median_s": statistics.median(lengths_s) if lengths_s else None,
        "round_most_s": max(lengths_s, default=None),
        "stalls": len(summary["stalls"]),
        "rounds_wall_s": summary["wall_s"],
    }


def figure(column: Column, value: Any) -> float | str | None:
    """A figure as its column holds it; raises TypeError for one of another kind."""
    if value is None:
        return None
    if not column.is_number:
        return as_typed(value)
    if not isinstance(value, (int, float)):
        raise TypeError(f"figure {column.key}: {value!r} is no number")
    return float(value)


def _reason(error: Exception) -> str:
    """Why a run failed, in one line."""
    said = in_one_line(error) or "without a word"
    known = isinstance(error, (RuntimeError, OSError, BadRequest))
    line = said if known else f"{type(error).__name__}: {said}"
    return line if len(line) <= _MOST_WORDS else f"{line[:_MOST_WORDS]}..."


def _is_full(error: BaseException | None) -> bool:
    """Whether there is no room left for run directories."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in rundir.FULL:
            return True
        error = error.__cause__
    return False
