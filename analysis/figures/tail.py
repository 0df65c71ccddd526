"""The figure of tails: what share of the blocks (calls, steps, updates) took at least so long, on logarithmic axes, so
that the slowest one in a hundred and in a thousand can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from analysis import text
from analysis.figures.completions import Completions, completions
from analysis.figures.decimate import envelope
from analysis.figures.style import (
    GRID,
    INK,
    SMALL,
    Look,
    Skipped,
    label,
    legend_below,
    legend_rows,
    look,
    looks,
    new_figure,
)
from analysis.measures import peers
from analysis.run import Run
from analysis.spec import INCAST

LEVELS = (Fraction("50"), Fraction("99"), Fraction("99.9"))  # percent
_LOG_FROM = 8  # times that span more than this factor need a logarithmic axis
_MOST_LINES = 12
_SHORTEST_S = 1e-9  # what is shorter is not told apart
_RIGHT = 0.92  # of the figure's width, where the panel ends: beside it the percentiles are named
_CAPTION = (
    "The share of {nouns} (vertical, logarithmic) that took at least so long: {meaning}. The lines end at the slowest "
    "one. Rings: the median, p99 and p99.9, by nearest rank, where there are enough to tell them (100 for p99, 1,000 "
    "for p99.9)."
)


def tail(run: Run) -> tuple[Figure, str, str]:
    """The tail of the run's completion times, beside those of its cases that complete the same."""
    own = completions(run)
    if not own.seconds:
        raise Skipped("nothing was completed, or measured.json does not tell when")
    others = {name: completions(each) for name, each in _beside(run).items() if each is not run}
    own_name = next(name for name, each in _beside(run).items() if each is run)
    several = {own_name: own, **{name: each for name, each in others.items() if each.noun == own.noun}}
    found = {name: each.seconds for name, each in several.items() if each.seconds}
    chosen = dict(list(found.items())[:_MOST_LINES])
    title = _title(own_name, own, chosen)
    styles = {name: look(name) for name in chosen} if run.workload == INCAST else looks(list(chosen))
    return draw_tails(chosen, styles, own_name, title), title, caption(own)


def caption(what: Completions) -> str:
    """How to read a tail of these completions."""
    return _CAPTION.format(nouns=_plural(what.noun), meaning=what.meaning)


def _plural(noun: str) -> str:
    return noun.replace("rank's part of", "ranks' parts in calls of") if " of " in noun else f"{noun}s"


def _beside(run: Run) -> dict[str, Run]:
    """The run and what it is compared with, by name: of an incast those with as many senders, by scheme."""
    if run.workload == INCAST:
        return dict(peers(run))
    cases = {name: case for name, case in run.cases.items() if case.workload == run.workload}
    return {run.parameters.label: run, **{name: case for name, case in cases.items() if name != run.parameters.label}}


def percentile(ascending: Sequence[float] | np.ndarray, level: Fraction) -> float | None:
    """The least of the values that so many percent of them do not exceed (nearest rank); None where there are too few
    of them to leave one out above it."""
    count = len(ascending)
    if count * (100 - level) < 100:
        return None
    return float(ascending[-(-(count * level.numerator) // (100 * level.denominator)) - 1])


def level_name(level: Fraction) -> str:
    """p50, p99, p99.9."""
    return f"p{float(level):g}"


def told(seconds: Sequence[float]) -> str:
    """The percentiles that there are enough values for, and the slowest, in words."""
    ascending = np.sort(np.asarray(seconds))
    found = [(level_name(level), percentile(ascending, level)) for level in LEVELS]
    words = [f"{name} {text.seconds(value)}" for name, value in found if value is not None]
    return ", ".join([*words, f"slowest {text.seconds(float(ascending[-1]))}"])


def _title(own_name: str, own: Completions, found: Mapping[str, Sequence[float]]) -> str:
    """The run's percentiles; beside others the least and the greatest of the highest percentile that all can tell."""
    if len(found) == 1:
        return f"{len(own.seconds):,} {_plural(own.noun)}: {told(own.seconds)}"
    level = max((each for each in LEVELS if all(_at(times, each) for times in found.values())), default=None)
    tails = {name: _at(times, level) if level else max(times) for name, times in found.items()}
    best, worst = min(tails, key=lambda name: tails[name] or 0), max(tails, key=lambda name: tails[name] or 0)
    article = "an" if own.noun[0] in "aeiou" else "a"
    what = f"{level_name(level)} of {article} {own.noun}" if level else f"The slowest {own.noun}"
    return f"{what}: {text.seconds(tails[best])} with {best}, {text.seconds(tails[worst])} with {worst}" + (
        "" if own_name in (best, worst) else f"; {own_name}: {text.seconds(tails[own_name])}"
    )


def _at(seconds: Sequence[float], level: Fraction) -> float | None:
    return percentile(np.sort(np.asarray(seconds)), level)


def draw_tails(
    found: Mapping[str, Sequence[float]], styles: Mapping[str, Look], bold: str | None, title: str
) -> Figure:
    """A line for each name; `bold` the one that it is about."""
    figure, (axes,) = new_figure(title, height_in=3.5, legend_rows=legend_rows(list(found)), right=_RIGHT)
    for name, seconds in found.items():
        _draw_tail(axes, np.sort(np.asarray(seconds)), name, styles[name].colour, 2.2 if name == bold else 1.3)
    most = max(map(len, found.values()))
    axes.set_yscale("log")
    axes.set_ylim(0.7 / max(most, 2), 1.3)
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.10g} %")
    axes.yaxis.set_minor_formatter(NullFormatter())
    _name_levels(axes, most)
    times_axis(axes, min(map(min, found.values())), max(map(max, found.values())))
    label(axes, "completion time", "took at least so long")
    legend_below([axes])
    return figure


def _draw_tail(axes: Axes, ascending: np.ndarray, name: str, colour: str, width: float) -> None:
    """At each value the share of the values that are no less; a ring at each percentile."""
    count = len(ascending)
    shares = (count - np.arange(count)) / count
    some = envelope(np.log(np.maximum(ascending, _SHORTEST_S)), shares)
    axes.step(ascending[some], shares[some], where="pre", color=colour, linewidth=width, label=name)
    axes.plot(ascending[-1:], shares[-1:], marker="|", markersize=7, color=colour)
    rings = [value for level in LEVELS for value in [percentile(ascending, level)] if value is not None]
    places = np.searchsorted(ascending, rings, side="right") - 1
    axes.plot(rings, shares[places], marker="o", markersize=5, markerfacecolor="white", linestyle="", color=colour)


def _name_levels(axes: Axes, count: int) -> None:
    """The percentiles as lines across, named at the right."""
    for level in LEVELS:
        if count * (100 - level) >= 100:
            share = float(100 - level) / 100
            axes.axhline(share, color=GRID, linewidth=1.2, zorder=0.5)
            place = axes.get_yaxis_transform()
            axes.text(1.01, share, level_name(level), transform=place, va="center", fontsize=SMALL, color=INK)


def times_axis(axes: Axes, least_s: float, most_s: float) -> None:
    """A horizontal axis of times, named with their units; logarithmic where they span much."""
    if least_s > 0 and most_s > _LOG_FROM * least_s:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=7))
        axes.xaxis.set_minor_formatter(NullFormatter())
        if most_s < 100 * least_s:
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=9))
    else:
        axes.set_xlim(0, most_s * 1.05 or 1)
        axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(lambda seconds, _: text.seconds(seconds) if seconds else "0")
