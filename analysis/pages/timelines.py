"""Timelines that a page can zoom: what is drawn, kept small, as the JSON that page.js draws.

Everything here is plain values. Text from a run directory or a capture stays text: page.js escapes it on its way into
the drawing, and `as_json` on its way into the page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MOST_POINTS = 12_000  # of all lines of a chart together: a few hundred KB of text
MOST_BARS = 4_000
# Finer than the axis of a figure (style.time_unit): who zooms in keeps the unit, and its numbers stay below 20,000.
_TIMES = ((1e9, "s", 20), (1e6, "ms", 2e-3), (1e3, "µs", 0))  # ns in the unit, its name, for spans of so many seconds
STEPS, TICKS, DOTS = FORMS = ("steps", "ticks", "dots")  # each value holds until the next, or stands alone
_DIGITS = 7  # of values; times keep their nanoseconds


@dataclass(frozen=True)
class Clock:
    """How a page's charts tell time: since origin_ns, in a unit of unit_ns."""

    origin_ns: int
    unit_ns: float
    unit: str

    @classmethod
    def over(cls, origin_ns: int, span_ns: int) -> Clock:
        """The unit that suits a span: µs up to 2 ms, ms up to 20 s, else seconds."""
        unit_ns, unit, _ = next(each for each in _TIMES if span_ns > each[2] * 1e9 or each is _TIMES[-1])
        return cls(origin_ns, unit_ns, unit)

    def from_(self, origin_ns: int) -> Clock:
        """The same unit, counted from another moment: of another run, laid over this one."""
        return Clock(origin_ns, self.unit_ns, self.unit)

    def at(self, times_ns: Any) -> np.ndarray:
        """Times in ns as those of the charts."""
        return np.asarray(np.asarray(times_ns, np.int64) - self.origin_ns, float) / self.unit_ns

    def long(self, lengths_ns: Any) -> np.ndarray:
        """Lengths of time in ns in the unit."""
        return np.asarray(lengths_ns, float) / self.unit_ns


@dataclass(frozen=True, eq=False)
class Line:
    """Values y over times x (n,), NaN where there is none, in one of the FORMS; notes (n,) are what hovering tells
    beside the values. Lines of one group (by itself: its name) share an entry of the
    legend, a click on which shows or hides them; a hidden one waits for that."""

    name: str
    colour: str
    x: np.ndarray
    y: np.ndarray
    panel: int = 0
    form: str = STEPS
    width: float = 1.5
    is_hidden: bool = False
    group: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Bars:
    """Spans on the rows of a chart: rows, begins and lengths (n,); notes (n,) as those of a line."""

    name: str
    colour: str
    rows: Sequence[int]
    begins: np.ndarray
    lengths: np.ndarray
    notes: Sequence[str] = ()
    is_thin: bool = False


@dataclass(frozen=True)
class Level:
    """A value to compare with, across the whole panel."""

    name: str
    value: float
    dash: str = "dash"
    panel: int = 0
    colour: str = ""


@dataclass(frozen=True)
class View:
    """A part of the time worth a look, offered as a button."""

    name: str
    begin: float
    end: float


@dataclass(frozen=True, eq=False)
class Chart:
    """One timeline: its title states the finding, its caption says how to read it.

    panels: the title of each one's vertical axis, from above; rows: names of a Gantt chart's rows, from above; still:
    the figure that shows the same on paper. time: the title of the time axis.
    """

    name: str
    title: str
    caption: str
    time: str
    unit: str
    panels: tuple[str, ...] = ("",)
    lines: tuple[Line, ...] = ()
    bars: tuple[Bars, ...] = ()
    levels: tuple[Level, ...] = ()
    views: tuple[View, ...] = ()
    rows: tuple[str, ...] = ()
    moments: tuple[float, ...] = field(default=())
    still: str = ""


def thinned(y: np.ndarray, most: int, keep: np.ndarray | None = None) -> np.ndarray:
    """Which of the values (n,) to draw so that about `most` remain: of each run of as many, the least and the largest,
    besides the first, the last, and those that `keep` (n,) names. The outline is the same; nothing is averaged."""
    count = len(y)
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, max(most // 2, 1) + 1).astype(np.int64)
    filled = np.where(np.isnan(y), -np.inf, y)
    runs = [slice(*ends) for ends in zip(edges[:-1].tolist(), edges[1:].tolist())]
    extremes = [run.start + int(pick(filled[run])) for run in runs for pick in (np.argmin, np.argmax)]
    kept = np.flatnonzero(keep).tolist() if keep is not None else []
    return np.unique(np.array([0, *extremes, *kept, count - 1], np.int64))


def joined_spans(spans: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int, int, int]]:
    """Spans in order of time as at most `most`: begin, end, how many each stands for and how long these last together.
    Neighbours are joined across the shortest gaps first."""
    if not spans:
        return []
    begins, ends = (np.array(each, np.int64) for each in zip(*spans))
    gaps = begins[1:] - ends[:-1]
    cuts = np.sort(np.argsort(-gaps, kind="stable")[: max(most - 1, 0)]) + 1
    firsts = np.concatenate([[0], cuts]).astype(np.int64)
    lasts = np.concatenate([cuts, [len(spans)]]).astype(np.int64) - 1
    total = np.concatenate([[0], np.cumsum(ends - begins)])
    return [
        (int(begins[first]), int(ends[last]), last - first + 1, int(total[last + 1] - total[first]))
        for first, last in zip(firsts.tolist(), lasts.tolist())
    ]


def as_json(charts: Sequence[Chart]) -> str:
    """The charts as JSON that is safe inside a script element: nothing in it can end the element or begin a comment,
    and no line separator is left as it is."""
    text = json.dumps([_document(chart) for chart in charts], separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _document(chart: Chart) -> dict[str, Any]:
    return {
        "name": chart.name,
        "time": chart.time,
        "unit": chart.unit,
        "panels": chart.panels,
        "rows": chart.rows,
        "moments": _times(chart.moments),
        "lines": [_line(line) for line in chart.lines],
        "bars": [_bars(bars) for bars in chart.bars],
        "levels": [vars(level) for level in chart.levels],
        "views": [[view.name, *_times([view.begin, view.end])] for view in chart.views],
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "colour": line.colour,
        "panel": line.panel,
        "form": line.form,
        "width": line.width,
        "hidden": line.is_hidden,
        "group": line.group or line.name,
        "x": _times(line.x),
        "y": [_short(value) for value in np.asarray(line.y, float).tolist()],
        "notes": list(line.notes),
    }


def _bars(bars: Bars) -> dict[str, Any]:
    return {
        "name": bars.name,
        "colour": bars.colour,
        "thin": bars.is_thin,
        "rows": [int(row) for row in bars.rows],
        "begins": _times(bars.begins),
        "lengths": _times(bars.lengths),
        "notes": list(bars.notes),
    }


def _times(values: Any) -> list[float | None]:
    return [_whole(round(value, 9)) for value in np.asarray(values, float).tolist()]


def _short(value: float) -> float | None:
    return None if not np.isfinite(value) else _whole(float(f"{value:.{_DIGITS}g}"))


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value
