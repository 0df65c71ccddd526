"""How far a sweep is, and how long it may still take: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import fmean
from typing import Any, Callable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from experiments import screen

_LINE_S = 10.0


def left_words(walls_s: list[float], left: int, at_once: int) -> str:
    """How long so many runs may still take, by the wall seconds of those that have ended; empty before one has."""
    if not walls_s or not left:
        return ""
    return screen.left(fmean(walls_s) * left / max(1, min(at_once, left)))


@contextmanager
def shown(runs: int, kept: int, at_once: Callable[[], int]) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Progress over `runs`, of which `kept` are there already, on standard error; yields what to call with the row of
    each that ends."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen.err, transient=True, disable=not screen.err.is_terminal) as bar:
        task = bar.add_task("sweep", total=runs, completed=kept)
        walls_s: list[float] = []
        counts = {"done": kept, "failed": 0}
        told_s = time.monotonic()

        def hear(row: Mapping[str, Any]) -> None:
            nonlocal told_s
            counts["done"] += 1
            counts["failed"] += row.get("failure") is not None
            if "wall_s" in row:  # nobody knows it of a run whose worker died
                walls_s.append(row["wall_s"])
            words = _words(runs, counts, left_words(walls_s, runs - counts["done"], at_once()))
            bar.update(task, completed=counts["done"], description=words)
            if not screen.err.is_terminal and time.monotonic() - told_s > _LINE_S:
                told_s = time.monotonic()
                screen.say(words)

        yield hear


def _words(runs: int, counts: Mapping[str, int], left: str) -> str:
    failed = [f"{counts['failed']} failed"] if counts["failed"] else []
    return ", ".join([f"{counts['done']} of {runs} runs", *failed, *filter(None, [left])])
