"""The figures of collectives: bandwidth and time over the size beside the model, and algorithms beside each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from analysis import text
from analysis.figures.style import IDEAL, INK, Look, Skipped, label, legend_below, legend_rows, look, looks, new_figure
from analysis.kinds.collective_calls import SizeRow, algorithm, busbw_model, collective, model_setting, ranks, size_rows
from analysis.kinds.collective_model import fit, seconds
from analysis.run import Run

_MODEL, _LINE, _FITTED = "alpha-beta model", "line rate of a host's link", "least squares"
_STEPS = (  # up to so many decades, the names in each
    (1.5, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)),
    (3.6, (1.0, 2.0, 5.0)),
    (math.inf, (1.0,)),
)
_BETWEEN = 8  # points of the model between two sizes
_NO_CALL = "no finished call"
_BUSBW_CAPTION = (
    "Bus bandwidth (nccl-tests) of every size: the size over the median time of its calls, times the collective's "
    "factor, so that it can be set beside a link's rate. Strokes span the fastest and the slowest call. The black line "
    "is the alpha-beta model, from the configuration alone; dashed, the line rate, which headers keep from being "
    "reached."
)
_TIME_CAPTION = (
    "Median time of every size on logarithmic axes, beside the alpha-beta model (black) and the line of least squares "
    "through the measured times (dotted), which needs four sizes. Where the curves are flat the delays decide, where "
    "they rise with the size the links' rate does."
)
_ALGORITHMS_CAPTION = (
    "Bus bandwidth of the run and of its cases over the size, each beside its own model (thin lines). Cases of "
    "another collective or with other ranks have their label beside the algorithm's name."
)


def busbw_size(run: Run) -> tuple[Figure, str, str]:
    """Bus bandwidth over the size, beside the model and the line rate."""
    rows = _rows(run)
    best, name = max(rows, key=lambda row: row.busbw), algorithm(run)
    line_bps = run.parameters.path.rate_bps
    title = (
        f"{collective(run)}, {name}, {ranks(run)} ranks: busbw up to {text.rate(8 * best.busbw)}, "
        f"{8 * best.busbw / line_bps:.0%} of a host's link"
    )
    figure, (axes,) = new_figure(title, legend_rows=legend_rows([name, _MODEL, _LINE]))
    draw_busbw(axes, run, name, look(name).colour, look(name).marker)
    _draw_model(axes, run)
    axes.axhline(line_bps / 1e9, color=IDEAL, linestyle="--", linewidth=1, label=_LINE)
    axes.set_ylim(0, 1.08 * max(line_bps / 1e9, 8e-9 * best.busbw))
    size_axis(axes, [row.size_bytes for row in rows])
    label(axes, "size of the buffer", "bus bandwidth (Gb/s)")
    legend_below([axes])
    return figure, title, _BUSBW_CAPTION


def _rows(run: Run) -> list[SizeRow]:
    rows = size_rows(run)
    if not rows:
        raise Skipped(_NO_CALL)
    return rows


def draw_busbw(axes: Axes, run: Run, name: str, colour: str, marker: str) -> None:
    """A run's bus bandwidth over the size, with the span of its calls."""
    rows = size_rows(run)
    sizes = [row.size_bytes for row in rows]
    axes.plot(
        sizes, [8e-9 * row.busbw for row in rows], color=colour, marker=marker, linewidth=1.4, label=name, zorder=3
    )
    slow, fast = ([8e-9 * row.size_bytes * row.factor / each(row) for row in rows] for each in (_slowest, _fastest))
    axes.vlines(sizes, slow, fast, color=colour, linewidth=2.4, alpha=0.5, zorder=2)


def _slowest(row: SizeRow) -> float:
    return row.slowest_s


def _fastest(row: SizeRow) -> float:
    return row.fastest_s


def _draw_model(axes: Axes, run: Run, colour: str = INK, width: float = 1.2, name: str = _MODEL) -> None:
    sizes, asked = between([row.size_bytes for row in size_rows(run)]), model_setting(run)
    if asked is not None:
        curve = [8e-9 * busbw_model(asked, size_bytes) for size_bytes in sizes]
        axes.plot(sizes, curve, color=colour, linewidth=width, label=name)


def between(sizes: Sequence[float]) -> list[float]:
    """The sizes, and some more between each two, evenly on a logarithmic axis."""
    steps = [
        low * (high / low) ** (number / _BETWEEN) for low, high in zip(sizes, sizes[1:]) for number in range(_BETWEEN)
    ]
    return [*steps, sizes[-1]]


def size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """A logarithmic axis of sizes, named in words."""
    axes.set_xscale("log", base=2)
    shown = list(sizes)[:: -(-len(sizes) // 9)]
    axes.set_xticks(shown, [binary(size_bytes) for size_bytes in shown])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def time_axis(axes: Axes, steps: Sequence[float] | None = None) -> None:
    """A logarithmic axis of times with names at `steps` of each power of ten: as many as the decades leave room for."""
    axes.set_yscale("log")
    if steps is None:
        low, high = axes.get_ylim()
        decades = math.log10(high / low)
        steps = next(each for most, each in _STEPS if decades <= most)
    axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=12))
    axes.yaxis.set_major_formatter(lambda value, _: text.digits(value))
    axes.yaxis.set_minor_locator(NullLocator())


def mark_times(axes: Axes, times_s: Mapping[int, float], style: Look, name: str) -> None:
    """Measured times, in ms, over what their keys say, as marks before the lines of models."""
    times_ms = [value * 1e3 for value in times_s.values()]
    axes.plot(list(times_s), times_ms, color=style.colour, marker=style.marker, linestyle="none", label=name, zorder=3)


def binary(size_bytes: int) -> str:
    """A size in binary units, as collectives are measured: "64K", "1M", "1.5M"."""
    for unit, name in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size_bytes >= unit:
            return f"{text.digits(size_bytes / unit)}{name}"
    return str(size_bytes)


def time_size(run: Run) -> tuple[Figure, str, str]:
    """Time over the size on logarithmic axes, beside the model and the line of least squares."""
    rows = _rows(run)
    name = algorithm(run)
    sizes = [row.size_bytes for row in rows]
    line, asked = fit(sizes, [row.seconds for row in rows]), model_setting(run)
    title = f"{text.size(sizes[0])} take {text.seconds(rows[0].seconds)}, {text.size(sizes[-1])} " + text.seconds(
        rows[-1].seconds
    )
    title += "" if line is None else f": {text.seconds(line.alpha_s)} and {text.rate(8 / line.beta_s)}"
    fitted = f"{_FITTED}: {text.seconds(line.alpha_s)} + size / {text.rate(8 / line.beta_s)}" if line else _FITTED
    figure, (axes,) = new_figure(title, legend_rows=legend_rows([name, _MODEL, *([fitted] if line else [])]))
    style = look(name)
    axes.plot(
        sizes,
        [row.seconds * 1e6 for row in rows],
        color=style.colour,
        marker=style.marker,
        linestyle="none",
        label=name,
        zorder=3,
    )
    if asked is not None:
        curve = [seconds(asked, size_bytes) * 1e6 for size_bytes in between(sizes)]
        axes.plot(between(sizes), curve, color=INK, linewidth=1.2, label=_MODEL)
    if line is not None:
        curve = [line.seconds(size_bytes) * 1e6 for size_bytes in between(sizes)]
        axes.plot(between(sizes), curve, color=style.colour, linestyle=":", linewidth=1.6, label=fitted)
    time_axis(axes)
    size_axis(axes, sizes)
    label(axes, "size of the buffer", "time of a call (µs)")
    legend_below([axes])
    return figure, title, _TIME_CAPTION


def algorithms(run: Run) -> tuple[Figure, str, str]:
    """Bus bandwidth of the run and its cases over the size."""
    shown = _named(run)
    if len(shown) < 2:
        raise Skipped("no case of a collective beside the run")
    largest = {name: size_rows(each)[-1] for name, each in shown.items()}
    fastest = max(largest, key=lambda name: largest[name].busbw)
    title = f"{fastest} has the most busbw at its largest size: {text.rate(8 * largest[fastest].busbw)}"
    figure, (axes,) = new_figure(title, height_in=4, legend_rows=legend_rows(list(shown)))
    styles = looks(list(shown)) if len({algorithm(each) for each in shown.values()}) < len(shown) else {}
    for name, each in shown.items():
        style = styles.get(name) or look(algorithm(each))
        draw_busbw(axes, each, name, style.colour, style.marker)
        _draw_model(axes, each, style.colour, 0.7, "_")
    axes.set_ylim(0, None)
    size_axis(axes, sorted({row.size_bytes for each in shown.values() for row in size_rows(each)}))
    label(axes, "size of the buffer", "bus bandwidth (Gb/s)")
    legend_below([axes])
    return figure, title, _ALGORITHMS_CAPTION


def _named(run: Run) -> dict[str, Run]:
    """The run and its cases that have calls, by algorithm, and by label too where they do another thing than the
    run."""
    found = [each for each in (run, *run.cases.values()) if each.workload == run.workload and size_rows(each)]
    names = [_name(run, each) for each in found]
    return {
        name if names.count(name) == 1 else f"{name} ({each.parameters.label})": each
        for name, each in zip(names, found)
    }


def _name(run: Run, each: Run) -> str:
    """The algorithm, behind the collective where that is not the run's."""
    own = algorithm(each)
    return own if collective(each) == collective(run) else f"{collective(each)}: {own}"
