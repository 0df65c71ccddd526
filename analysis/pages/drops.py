"""What each port of a run dropped, as its page tells it."""

from __future__ import annotations

from analysis import text
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import all_drops, watchdog_discards


def drops(run: Run) -> Html:
    """A row for each port that dropped a packet."""
    dropped, discards = all_drops(run), watchdog_discards(run) or {}
    if dropped is None:
        return Html("<p>Not known: measured.json has no ports.</p>")
    rows = [
        [port, text.count(count), text.count(discards.get(port, 0)), _towards(run, port)]
        for port, count in dropped.items()
    ]
    heads = ("port", "packets dropped", "of them by a watchdog", "")
    return table(heads, rows, numbers=(1, 2)) if rows else Html("<p>No queue overflowed: no port dropped a packet.</p>")


def _towards(run: Run, port: str) -> str:
    return "towards the receiver" if port == run.hot_port else ""
