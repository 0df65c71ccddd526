"""The figures of two clocks: every quantity on the real clock over that in virtual time, and every round."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from analysis import text
from analysis.figures.style import (
    IDEAL,
    LOSSLESS_NAME,
    Look,
    Skipped,
    label,
    legend_below,
    legend_rows,
    looks,
    name_rows,
    new_figure,
    vertical_scale,
)
from analysis.kinds.clock_pairs import Pair, Quantity
from analysis.verdicts import median_seconds

_BAND, _BAND_COLOUR = "within tolerance", "#C4C4C4"
_CLOCKS = {"virtual time": Look("#0072B2", "o"), "real clock": Look("#D55E00", "s")}
_LEAST, _MOST = 0.05, 20.0  # ratios beyond are drawn at the edge
_OFF_CENTRE = 0.16  # of a row: marks of two rates stand above each other
_CAPTION = (
    "For every quantity the value on the real clock over that in virtual time, of two runs of one spec; grey is what "
    "counts as equal. A mark at an edge lies beyond it (nothing on the real clock stands at the left edge); where a "
    "run tells nothing there is no mark."
)
_ROUNDS_CAPTION = (
    "How long each round took, on both clocks, a panel for each rate; dashed is the round without loss. Rounds of a "
    "collapse take a timeout or several."
)


def ratios(pairs: Sequence[Pair]) -> tuple[Figure, str, str]:
    """Every quantity's ratio, a mark for each rate."""
    if not any(each.ratio is not None for pair in pairs for each in pair.quantities):
        raise Skipped("no two runs of one spec on both clocks")
    names = [pair.name for pair in pairs]
    title = _title(pairs)
    figure, (axes,) = new_figure(title, legend_rows=legend_rows([*names, _BAND]))
    _bands(axes, pairs[0].quantities)
    for place, (pair, look) in enumerate(zip(pairs, looks(names).values())):
        shift = _OFF_CENTRE * (2 * place - len(pairs) + 1)
        known = [(row, each.ratio) for row, each in enumerate(pair.quantities) if each.ratio is not None]
        shown = [min(max(value, _LEAST), _MOST) for _, value in known]
        rows = [row + shift for row, _ in known]
        axes.plot(shown, rows, look.marker, color=look.colour, markersize=7, label=pair.name, clip_on=False)
    axes.axvline(1, color=IDEAL, linewidth=1)
    _scale(axes, [each.name for each in pairs[0].quantities])
    legend_below([axes])
    return figure, title, _CAPTION


def _bands(axes: Axes, quantities: Sequence[Quantity]) -> None:
    """What counts as equal in each row."""
    for row, each in enumerate(quantities):
        begin, width = 1 - each.tolerance, 2 * each.tolerance
        axes.barh(row, width, left=begin, height=0.8, color=_BAND_COLOUR, label=_BAND if row == 0 else None)


def _scale(axes: Axes, names: Sequence[str]) -> None:
    """A logarithmic axis with 1 in its middle, the first quantity at the top."""
    axes.set_xscale("log")
    axes.set_xlim(_LEAST, _MOST)
    axes.set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    name_rows(axes, names)
    axes.invert_yaxis()
    label(axes, "real clock / virtual time", "")


def _title(pairs: Sequence[Pair]) -> str:
    """What is within its tolerance at each rate."""
    told = []
    for pair in pairs:
        known = [each.agrees for each in pair.quantities if each.agrees is not None]
        told.append(f"{sum(known)} of {len(pair.quantities)} quantities at {pair.name}")
    return f"Real clock and virtual time agree in {', '.join(told)}"


def rounds(pairs: Sequence[Pair]) -> tuple[Figure, str, str]:
    """Every round on both clocks, a panel for each rate."""
    shown = [pair for pair in pairs if pair.virtual.rounds and pair.real.rounds]
    if not shown:
        raise Skipped("no two runs of one spec on both clocks have a finished round")
    title = f"Median rounds on both clocks: {'; '.join(_medians(pair) for pair in shown)}"
    names = [*_CLOCKS, LOSSLESS_NAME]
    figure, panels = new_figure(title, columns=[1] * len(shown), legend_rows=legend_rows(names))
    for axes, pair in zip(panels, shown):
        _rounds(axes, pair)
        vertical_scale(axes, _milliseconds(shown))
        axes.tick_params(labelleft=axes is panels[0])
        label(axes, f"round at {pair.name}", "took (ms)" if axes is panels[0] else "")
    legend_below(panels)
    return figure, title, _ROUNDS_CAPTION


def _medians(pair: Pair) -> str:
    virtual, real = (text.seconds(median_seconds(run.rounds)) for run in (pair.virtual, pair.real))
    return f"{virtual} and {real} at {pair.name}"


def _milliseconds(pairs: Sequence[Pair]) -> list[float]:
    """All that is drawn."""
    runs = [run for pair in pairs for run in (pair.virtual, pair.real)]
    taken = [each.seconds * 1e3 for run in runs for each in run.rounds]
    return taken + [pair.virtual.parameters.ideal_seconds * 1e3 for pair in pairs]


def _rounds(axes: Axes, pair: Pair) -> None:
    for (name, look), run in zip(_CLOCKS.items(), (pair.virtual, pair.real)):
        taken = [each.seconds * 1e3 for each in run.rounds]
        axes.plot(range(1, len(taken) + 1), taken, look.marker, color=look.colour, markersize=5, label=name)
    axes.axhline(
        pair.virtual.parameters.ideal_seconds * 1e3, color=IDEAL, linestyle="--", linewidth=1, label=LOSSLESS_NAME
    )
