"""How long work shows where it is: a bar on a terminal, a few lines in a log, both on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_LOGGED_PERCENT = 10


class Progress(Protocol):
    """Where long work reports to: one stage after the other, each with a total (None: unknown)."""

    def stage(self, title: str, total: int | None) -> None:
        """Begin the next stage."""

    def advance(self, done: int) -> None:
        """So much of the stage's total is done."""

    def say(self, line: str) -> None:
        """Show a line that stays."""


@contextmanager
def shown_progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """A Progress on `stream` (default: standard error): a bar on a terminal, else lines."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield _Lines(stream)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(file=stream)) as bar:
        yield _Bar(bar)


class _Bar:
    """One bar at a time: the stage that runs."""

    def __init__(self, bar: RichProgress) -> None:
        self._bar = bar
        self._task = bar.add_task("", visible=False)

    def stage(self, title: str, total: int | None) -> None:
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(title, total=total)

    def advance(self, done: int) -> None:
        self._bar.update(self._task, completed=done)

    def say(self, line: str) -> None:
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)


class _Lines:
    """For a log: no cursor movement, and not a line for each object."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._title, self._total, self._shown_percent = "", 0, 0

    def stage(self, title: str, total: int | None) -> None:
        self._title, self._total, self._shown_percent = title, total or 0, 0
        self.say(title)

    def advance(self, done: int) -> None:
        percent = 100 * done // self._total if self._total else 0
        if percent >= self._shown_percent + _LOGGED_PERCENT:
            self._shown_percent = percent - percent % _LOGGED_PERCENT
            self.say(f"{self._title}: {self._shown_percent} %")

    def say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)
