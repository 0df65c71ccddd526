"""A run in slower time, as its page tells it in the time that was asked for; nothing of one whose time ran as asked."""

from __future__ import annotations

from analysis import text
from analysis.original_time import NAMES, figures, scale_of
from analysis.pages.markup import Html, table
from analysis.pages.shell import paragraph, section
from analysis.run import Run

_TOLD = (
    "Time ran slower in this run than in what was asked for: rates were divided and durations multiplied. On the right,"
    " what the same would have been in the original time. The kernel's own timers were not slowed down"
    " (docs/real-clock.md)."
)


def original_time_section(run: Run) -> Html:
    """One row for each of the main figures."""
    times = scale_of(run)
    if times is None:
        return Html("")
    rows = [[NAMES[each.key], each.words(each.measured), each.words(each.original)] for each in figures(run)]
    heads = ("", "as it ran", f"{text.digits(times)} times faster, as asked")
    return section("Slower time", paragraph(_TOLD, "soft"), table(heads, rows, numbers=(1, 2)))
