"""A figure for each set of curves: ours drawn over the published points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from analysis.figures.style import Drawn, Look, Skipped, drawn, label, legend_below, legend_rows, looks, new_figure
from analysis.papers.model import LOG, NAMES

_SPAN = 20  # values that span more than this factor need a logarithmic axis
_CAPTION = (
    "Published: hollow, dashed; a vertical line where the paper names the onset alone. Ours: filled, drawn over them. "
    "Where nothing is published, ours stand alone."
)


def draw_all(told: Mapping[str, Any], folder: Path) -> dict[str, Drawn]:
    """Key of a set -> its figure in the folder, of a document (analysis/papers/document.py)."""
    return {each["key"]: drawn(each["key"], folder, partial(_draw, each)) for each in told["sets"]}


def _draw(each: Mapping[str, Any]) -> tuple[Figure, str, str]:
    curves = each["curves"]
    values = [point[name] for curve in curves for point in curve["points"] for name in ("published", "ours")]
    known = [value for value in values if value is not None]
    if not any(point["ours"] is not None for curve in curves for point in curve["points"]):
        raise Skipped("no run of it told anything")
    names = [f"{curve['name']}, {which}" for curve in curves for which in ("published", "ours")]
    figure, (axes,) = new_figure(each["title"], legend_rows=legend_rows(names))
    places = _places(axes, each)
    for curve, look in zip(curves, looks([curve["name"] for curve in curves]).values()):
        _curve(axes, curve, look, places)
    _scale(axes, each, known)
    label(axes, each["x"], each["y"])
    legend_below([axes])
    return figure, each["title"], _CAPTION


def _places(axes: Axes, each: Mapping[str, Any]) -> dict[Any, float]:
    """Where each place of the axis stands on it."""
    found = list(dict.fromkeys(point["place"] for curve in each["curves"] for point in curve["points"]))
    if each["axis"] == NAMES:
        axes.set_xticks(range(len(found)), [str(place) for place in found])
        axes.set_xlim(-0.5, len(found) - 0.5)
        return {place: float(number) for number, place in enumerate(found)}
    if each["axis"] == LOG:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(found, [str(place) for place in found])
    return {place: float(place) for place in found}


def _curve(axes: Axes, curve: Mapping[str, Any], look: Look, places: Mapping[Any, float]) -> None:
    """Published points first, ours over them."""
    looks_of: tuple[tuple[str, dict[str, Any]], ...] = (
        ("published", {"linestyle": "--", "markerfacecolor": "none", "markersize": 9, "alpha": 0.6}),
        ("ours", {"linestyle": "-", "markersize": 5}),
    )
    for which, style in looks_of:
        points = [(places[point["place"]], point[which]) for point in curve["points"] if point[which] is not None]
        name = f"{curve['name']}, {which}"
        if points:
            axes.plot(*zip(*points), color=look.colour, marker=look.marker, linewidth=1.2, label=name, **style)
        elif which == "published" and curve["onset_published"] is not None:
            axes.axvline(places[curve["onset_published"]], color=look.colour, linestyle="--", alpha=0.6, label=name)


def _scale(axes: Axes, each: Mapping[str, Any], known: list[float]) -> None:
    """A logarithmic axis of values where these span more than a factor of _SPAN and none is zero."""
    if min(known) > 0 and max(known) > _SPAN * min(known):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(min(0, min(known)), max(known) * 1.12 or 1)
