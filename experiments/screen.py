"""What a person sees: progress on stderr, results as a table on stdout."""

from __future__ import annotations

import io
import os
import re
import statistics
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # loading it takes NumPy, which most commands do not need
    from analysis.columns import Column
    from analysis.columns import Table as Words

_PIPED_COLUMNS = 160  # of what is no terminal and does not say
_READABLE_COLUMNS = 100  # of running text
_MINUTES_FROM_S = 120.0  # of time that is left
_VERDICT_COLUMNS = 20  # what a verdict has at least before columns are left out; longer ones wrap
err = Console(stderr=True, highlight=False)


def _out() -> Console:
    console = Console(highlight=False)
    piped = not console.is_terminal and "COLUMNS" not in os.environ
    return Console(highlight=False, width=_PIPED_COLUMNS) if piped else console


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
    number = f"{len(rounds_s)} round{'' if len(rounds_s) == 1 else 's'}"
    median = f", {'median ' if len(rounds_s) > 1 else ''}{statistics.median(rounds_s) * 1e3:.3f} ms" if rounds_s else ""
    return f"{label}: {'done' if status == 0 else f'ended with status {status}'}, {number}{median}"


def comparison(
    columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], title: str, most_columns: int | None = None
) -> None:
    """One row per run: what was asked, what it gave, and what stood in the way; of a narrow terminal's width as much as
    fits, the essential in any case. The last column, the verdict, wraps; no other one is cut. (Of a collective also one
    row per size.) most_columns: no wider than so many, however wide the terminal is."""
    console = _out()
    if most_columns is not None:
        console.width = min(console.width, most_columns)
    shown = list(columns)
    while _width(shown, rows, gap=2) > console.width and not all(column.essential for column in shown):
        shown.remove([column for column in shown if not column.essential][-1])
    wide = len(shown) == len(columns) and _width(shown, rows, gap=3) + 4 <= console.width
    table = Table(title=title, title_justify="left", box=box.HEAVY_HEAD)
    if not wide:
        table.box, table.show_edge, table.pad_edge, table.padding = box.SIMPLE_HEAD, False, False, (0, 1, 0, 0)
    for column in shown:
        is_last = column is shown[-1]
        table.add_column(column.name, justify="right" if column.is_number else "left", no_wrap=not is_last)
    for row in rows:
        table.add_row(*(Text(column.cell(row)) for column in shown))  # no markup: "[fd00::1]" is an address
    console.print(table)


def _width(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], gap: int) -> int:
    """How wide a comparison of these columns is, with `gap` between two and its verdicts wrapped."""
    widths = [max(cell_len(words) for words in (each.name, *map(each.cell, rows))) for each in columns]
    return sum(widths[:-1]) + min(widths[-1], _VERDICT_COLUMNS) + gap * (len(columns) - 1)


def width() -> int:
    """How many columns a table on stdout may have."""
    return _out().width


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table on stdout."""
    found = Table(title=title, title_justify="left")
    for column in columns:
        found.add_column(column, overflow="fold")
    for row in rows:
        found.add_row(*map(Text, row))
    _out().print(found)


def show(parts: Sequence[str | Words]) -> None:
    """Paragraphs and tables on stdout, no wider than is well read, an empty line before each table; a long line goes on
    under the beginning of its text."""
    readable = min(width(), _READABLE_COLUMNS)
    for part in parts:
        if isinstance(part, str):
            for line in part.splitlines() or [""]:
                print(textwrap.fill(line, readable, subsequent_indent=" " * _text_at(line), break_on_hyphens=False))
        else:
            print()
            comparison(part.columns, part.rows, part.title, _READABLE_COLUMNS)


def _text_at(line: str) -> int:
    """Where the text of a line begins, behind its number or dash."""
    begin = re.match(r" *(?:\d+\. |- )?", line)
    return begin.end() if begin else 0


def left(seconds: float) -> str:
    """How long something may still take, in words."""
    return f"about {seconds / 60:.0f} min left" if seconds >= _MINUTES_FROM_S else f"about {seconds:.0f} s left"


def mend_streams() -> None:
    """Whoever closed a stream reads or hears nothing there; what a terminal's alphabet lacks is shown by escapes."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 (for good)
        elif isinstance(stream, io.TextIOWrapper) and name != "stdin":
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """One line to stderr, in which names from outside are harmless."""
    if not text.isprintable():
        from analysis.printable import printable  # takes NumPy, which most commands do not need

        text = printable(text)
    print(text, file=sys.stderr)
