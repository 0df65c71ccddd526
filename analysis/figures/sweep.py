"""The figures of a sweep: one figure of merit over the key that was swept, each mean with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from analysis import text
from analysis.columns import Column
from analysis.figures.style import (
    HEIGHT_IN,
    Drawn,
    Skipped,
    drawn,
    label,
    legend_below,
    legend_rows,
    looks,
    name_rows,
    new_figure,
)
from analysis.sweep import Point, Sweep

_MOST_LINES = 8
_MOST_ROWS = 40
_MOST_TICKS = 9
_LOG_FROM = 8  # values that span more than this factor need a logarithmic axis
_ROW_IN = 0.2
_CAPTION = (
    "Each mark is the mean of a point's runs, its bar the interval that holds the true mean 95 times in 100 (Student's"
    " t over the seeds); a point of a single run has none.{rest}"
)


def draw_all(found: Sweep, folder: Path) -> list[Drawn]:
    """A figure for each figure of merit that the kind of workload is known by and that is not the same everywhere."""
    shown = [column for column in found.figures if column.essential and _differs(found.points, column)]
    return [drawn(f"sweep-{column.key}", folder, partial(over_key, found, column)) for column in shown]


def _differs(points: Sequence[Point], column: Column) -> bool:
    return len({point.means[column.key].value for point in points if column.key in point.means}) > 1


def over_key(found: Sweep, column: Column) -> tuple[Figure, str, str]:
    """A figure of merit over the numeric key with the most values, a line for each combination of the others; over the
    points by name where no key is a number."""
    points = [point for point in found.points if column.key in point.means]
    if len(points) < 2:
        raise Skipped("fewer than two points told it")
    key = _axis(found, points)
    return _by_name(points, column) if key is None else _by_key(found, points, column, key)


def _axis(found: Sweep, points: Sequence[Point]) -> str | None:
    """The numeric key with the most values, the first of equals."""
    numbers = {
        key: len({point.values[key] for point in points})
        for key in found.axes
        if all(_is_number(point.values.get(key)) for point in points)
    }
    several = {key: count for key, count in numbers.items() if count > 1}
    return max(several, key=lambda key: several[key]) if several else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _by_key(found: Sweep, points: Sequence[Point], column: Column, key: str) -> tuple[Figure, str, str]:
    lines = _lines(points, key)
    shown = dict(list(lines.items())[:_MOST_LINES])
    title = f"{column.name} over {key}: {_extremes(points, column)}"
    names = [name for name in shown if name]
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(names) if names else 0)
    for name, look in looks(list(shown)).items():
        line = sorted(shown[name], key=lambda point: point.values[key])
        xs, ys, halves = ([*each] for each in zip(*_marks(line, column, key)))
        axes.errorbar(
            xs, ys, halves, color=look.colour, marker=look.marker, capsize=3, linewidth=1.2, label=name or "_"
        )
    _scale_x(axes, points, key)
    _scale(axes, points, column)
    label(axes, key, column.name)
    if names:
        legend_below([axes])
    more = len(lines) - len(shown)
    return figure, title, _CAPTION.format(rest=f" {text.counted(more, 'more line')}: see the table." if more else "")


def _lines(points: Sequence[Point], key: str) -> Mapping[str, list[Point]]:
    """The points by what they change beside the key."""
    found: dict[str, list[Point]] = {}
    for point in points:
        name = ", ".join(f"{other}={value}" for other, value in point.changes.items() if other != key)
        found.setdefault(name, []).append(point)
    return found


def _marks(line: Sequence[Point], column: Column, key: str) -> Iterator[tuple[float, float, float]]:
    for point in line:
        mean = point.means[column.key]
        yield point.values[key], mean.value, mean.half


def _by_name(points: Sequence[Point], column: Column) -> tuple[Figure, str, str]:
    shown = points[:_MOST_ROWS]
    title = f"{column.name}: {_extremes(points, column)}"
    figure, (axes,) = new_figure(title, height_in=max(HEIGHT_IN, _ROW_IN * len(shown)), legend_rows=0)
    means = [point.means[column.key] for point in shown]
    (look,) = looks([column.name]).values()
    values, halves = [mean.value for mean in means], [mean.half for mean in means]
    axes.errorbar(values, range(len(shown)), xerr=halves, color=look.colour, marker="o", capsize=3, linestyle="")
    name_rows(axes, [point.label for point in shown], _MOST_ROWS)
    axes.invert_yaxis()
    axes.set_xlim(0, None)
    axes.xaxis.set_major_formatter(lambda value, _: column.form(value))
    axes.locator_params(axis="x", nbins=5)
    label(axes, column.name, "")
    more = len(points) - len(shown)
    return figure, title, _CAPTION.format(rest=f" {text.counted(more, 'more point')}: see the table." if more else "")


def _extremes(points: Sequence[Point], column: Column) -> str:
    """The least and the greatest mean, with their points."""
    ordered = sorted(points, key=lambda point: point.means[column.key].value)
    least, most = ordered[0], ordered[-1]
    told = (f"{column.form(point.means[column.key].value)} ({point.label})" for point in (least, most))
    return " to ".join(told)


def _scale_x(axes: Axes, points: Sequence[Point], key: str) -> None:
    """The key's values as the user wrote them, not more than are legible."""
    names = {point.values[key]: point.changes[key] for point in points}
    values = sorted(names)
    if values[0] > 0 and values[-1] > _LOG_FROM * values[0]:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    shown = values[:: -(-len(values) // _MOST_TICKS)]
    axes.set_xticks(shown, [names[value] for value in shown])


def _scale(axes: Axes, points: Sequence[Point], column: Column) -> None:
    """From zero, or logarithmic where values span much; ticks in the column's own words."""
    values = [point.means[column.key].value for point in points]
    if min(values) > 0 and max(values) > _LOG_FROM * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(min(0, *values), None)
    axes.yaxis.set_major_formatter(lambda value, _: column.form(value))
