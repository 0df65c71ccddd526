"""What a person sees: progress on stderr, results as a table on stdout."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

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


def comparison(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """One row per run: what was asked, what it gave, and what stood in the way; on a narrow terminal the essential."""
    console = _out()
    wide = console.width >= _WIDE_COLUMNS
    columns = [column for column in _COLUMNS if wide or column.essential]
    table = Table(title=title, title_justify="left", box=box.HEAVY_HEAD if wide else box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column.name, justify="right" if column.is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(column.cell(row) for column in columns))
    console.print(table)


@dataclass(frozen=True)
class _Column:
    """A column of the comparison: its heading, a row's cell, and whether a narrow terminal keeps it."""

    name: str
    cell: Callable[[Mapping[str, Any]], str]
    is_number: bool = True
    essential: bool = False


def _counted(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: "-" if row[key] is None else f"{row[key]:,}"


_WIDE_COLUMNS = 145
_COLUMNS = (
    _Column("run", lambda row: str(row["label"]), is_number=False, essential=True),
    _Column("senders", lambda row: str(row["senders"]), is_number=False),
    _Column("queue", lambda row: str(row["queue"]), is_number=False),
    _Column("RTOmin", lambda row: str(row["rto_min"]), is_number=False),
    _Column("goodput", lambda row: _rate(row["goodput_bps"]), essential=True),
    _Column("round (median)", lambda row: _milliseconds(row["median_round_seconds"]), essential=True),
    _Column("x ideal", lambda row: _ratio(row["median_round_seconds"], row["ideal_seconds"]), essential=True),
    _Column("timeouts", _counted("timeouts"), essential=True),
    _Column("retransmits", _counted("retransmits")),
    _Column("drops", _counted("drops")),
    _Column("marks", _counted("ecn_marks")),
    _Column("verdict", lambda row: str(row["verdict"] or "-"), is_number=False, essential=True),
)


def _rate(rate_bps: float | None) -> str:
    if rate_bps is None:
        return "-"
    unit = next((unit for unit in ("Gbps", "Mbps", "Kbps") if rate_bps >= _UNIT_BPS[unit]), "bps")
    return f"{rate_bps / _UNIT_BPS[unit]:.3g} {unit.replace('bps', 'b/s')}"


_UNIT_BPS = {"Gbps": 1e9, "Mbps": 1e6, "Kbps": 1e3, "bps": 1.0}


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3f} ms"


def _ratio(value: float | None, ideal: float | None) -> str:
    return (
        "-"
        if value is None or not ideal
        else f"{value / ideal:,.2f}"
        if value < 10 * ideal
        else f"{value / ideal:,.0f}"
    )


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
