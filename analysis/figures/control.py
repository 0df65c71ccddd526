"""The figures of a control loop: goodput, the longest queue and losses against its latency."""

from __future__ import annotations

from typing import Callable

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import text
from analysis.figures.style import Look, Skipped, label, legend_below, legend_rows, new_figure
from analysis.kinds.control_points import MARKS, PAUSES, Point, points
from analysis.run import Run

_LOOKS = {MARKS: Look("#009E73", "^"), PAUSES: Look("#AA4499", ">")}
_CAPTION = (
    "Each mark is a run in which the controller acts after so long; dashed: the same traffic with switches that do so "
    "themselves."
)


def goodput(run: Run) -> tuple[Figure, str, str]:
    """Goodput through the bottleneck."""
    return _against_latency(run, "goodput", lambda each: each.goodput_bps, 1e9, "goodput (Gb/s)", text.rate)


def longest_queue(run: Run) -> tuple[Figure, str, str]:
    """The longest queue of all sampled ports."""
    return _against_latency(run, "longest queue", _queue_bytes, 1e3, "longest queue (KB)", text.size)


def losses(run: Run) -> tuple[Figure, str, str]:
    """Packets that the lossless class lost."""
    return _against_latency(run, "packets lost", lambda each: each.lost, 1, "packets lost", text.count)


def _queue_bytes(point: Point) -> float | None:
    return point.queue_bytes


def _against_latency(
    run: Run,
    name: str,
    value: Callable[[Point], float | None],
    unit: float,
    axis: str,
    words: Callable[[float | None], str],
) -> tuple[Figure, str, str]:
    known = [each for each in points(run) if value(each) is not None]
    latencies = sorted({each.latency_ns for each in known if each.latency_ns is not None})
    if len(latencies) < 2:
        raise Skipped("fewer than two latencies of a controller that marks or pauses")
    series = {does: [each for each in known if each.does == does and each.latency_ns is not None] for does in _LOOKS}
    title = "; ".join(_told(does, found, name, value, words) for does, found in series.items() if found)
    names = [f"controller {does}" for does in _LOOKS] + [f"switch {does}" for does in _LOOKS]
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(names))
    for does, style in _LOOKS.items():
        places = [latencies.index(each.latency_ns or 0) for each in series[does]]
        heights = [(value(each) or 0) / unit for each in series[does]]
        if places:
            axes.plot(places, heights, color=style.colour, marker=style.marker, label=f"controller {does}")
        for each in known:
            if each.does == does and each.latency_ns is None:
                height = (value(each) or 0) / unit
                axes.axhline(height, color=style.colour, linestyle="--", linewidth=1.2, label=f"switch {does}")
    axes.set_xticks(range(len(latencies)), [text.seconds(each / 1e9) if each else "0" for each in latencies])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=unit == 1))
    label(axes, "latency of the control loop", axis)
    legend_below([axes])
    return figure, title, _CAPTION


def _told(
    does: str,
    found: list[Point],
    name: str,
    value: Callable[[Point], float | None],
    words: Callable[[float | None], str],
) -> str:
    """From the shortest latency to the longest, in words."""
    first, last = found[0], found[-1]
    return f"Controller {does}: {name} {words(value(first))} {_after(first)}, {words(value(last))} {_after(last)}"


def _after(point: Point) -> str:
    return f"after {text.seconds(point.latency_ns / 1e9)}" if point.latency_ns else "at once"
