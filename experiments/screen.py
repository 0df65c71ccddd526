"""What a person sees: progress on stderr, results as a table on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable

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

        def note(label: str, event: Mapping[str, Any]) -> None:
            if event["event"] == "round":
                bar.update(task, description=f"{label}: a round of {event['seconds'] * 1e3:.3f} ms")
            if event["event"] == "exit":
                bar.advance(task)
                if not err.is_terminal:
                    err.print(f"{label}: ended with status {event['status']}")

        yield note


def comparison(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """One row per run: what was asked, what it gave, and what stood in the way."""
    table = Table(title=title, title_justify="left")
    for name in ("run", "senders", "queue", "RTOmin"):
        table.add_column(name)
    for name in ("goodput", "round (median)", "times ideal", "timeouts", "retransmits", "drops", "marks"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for row in rows:
        table.add_row(
            row["label"],
            str(row["senders"]),
            row["queue"],
            row["rto_min"],
            _rate(row["goodput_bps"]),
            _milliseconds(row["median_round_seconds"]),
            _ratio(row["median_round_seconds"], row["ideal_seconds"]),
            *(_count(row[name]) for name in _COUNTS),
            row["verdict"] or "-",
        )
    _out().print(table)


_COUNTS = ("timeouts", "retransmits", "drops", "ecn_marks")


def _rate(rate_bps: float | None) -> str:
    if rate_bps is None:
        return "-"
    unit = next((unit for unit in ("Gbps", "Mbps", "Kbps") if rate_bps >= _UNIT_BPS[unit]), "bps")
    return f"{rate_bps / _UNIT_BPS[unit]:.3g} {unit.replace('bps', 'b/s')}"


_UNIT_BPS = {"Gbps": 1e9, "Mbps": 1e6, "Kbps": 1e3, "bps": 1.0}


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3f} ms"


def _ratio(value: float | None, ideal: float | None) -> str:
    return "-" if value is None or not ideal else f"{value / ideal:.3g}"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


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
