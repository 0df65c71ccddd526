"""What a person sees: progress on stderr, results as a table on stdout."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:  # loading it takes NumPy, which most commands do not need
    from analysis.columns import Column

_WIDE_COLUMNS = 145
err = Console(stderr=True, highlight=False)


def _out() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=160)


@contextmanager
def progress(labels: Sequence[str]) -> Iterator[Callable[[str, Mapping[str, Any]], None]]:
    """A bar over all runs; yields the function to call with (label, event)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(f"{len(labels)} run{'s' if len(labels) > 1 else ''}", total=len(labels))

        rounds: dict[str, list[float]] = {label: [] for label in labels}

        def note(label: str, event: Mapping[str, Any]) -> None:
            if event["event"] == "round":
                rounds[label].append(event["seconds"])
                bar.update(task, description=f"{label}: a round of {event['seconds'] * 1e3:.3f} ms")
            if event["event"] == "exit":
                bar.advance(task)
                if not err.is_terminal:
                    err.print(_ended(label, rounds[label], event["status"]))

        yield note


def _ended(label: str, rounds_s: Sequence[float], status: int) -> str:
    median = f", median {statistics.median(rounds_s) * 1e3:.3f} ms" if rounds_s else ""
    return f"{label}: {'done' if status == 0 else f'ended with status {status}'}, {len(rounds_s)} rounds{median}"


def comparison(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """One row per run: what was asked, what it gave, and what stood in the way; on a narrow terminal the essential."""
    console = _out()
    wide = console.width >= _WIDE_COLUMNS
    shown = [column for column in columns if wide or column.essential]
    table = Table(title=title, title_justify="left", box=box.HEAVY_HEAD if wide else box.SIMPLE_HEAD)
    for column in shown:
        table.add_column(column.name, justify="right" if column.is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(column.cell(row) for column in shown))
    console.print(table)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table on stdout."""
    found = Table(title=title, title_justify="left")
    for column in columns:
        found.add_column(column, overflow="fold")
    for row in rows:
        found.add_row(*row)
    _out().print(found)


def say(text: str) -> None:
    """One line to stderr."""
    print(text, file=sys.stderr)
