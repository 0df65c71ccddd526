"""The figures of what the network tells senders: who was paused when, and the rates that DCQCN gave its queue pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from analysis import text
from analysis.dcqcn import RateSeries
from analysis.figures.style import IDEAL, INK, Skipped, label, legend_below, legend_rows, look, name_rows, new_figure
from analysis.measures import paused_s, peers
from analysis.pause_log import clipped, total_s
from analysis.run import Run
from analysis.transport.spans import Span
from analysis.transport.stalls import Round

_MOST_ROWS = 40
_AXIS_ON_RIGHT = 0.885  # where a panel ends whose ticks and label are on its right
_FAIR = "equal shares of the link"
_PAUSES_CAPTION = (
    "One row per port, switch ports and NICs (of many those held the longest), one bar for each time that a pause of "
    "its neighbour held its lossless class, in the first round."
)
_RATES_CAPTION = (
    "Each thin line is a queue pair, the thick one their median, in the first round. Left: the rate at which the NIC "
    "lets it send. Right: alpha, half of which the next congestion notification takes off the rate."
)


def pauses(run: Run) -> tuple[Figure, str, str]:
    """Which ports were held when, in the first round of the run, or of that peer which was paused the longest."""
    shown = _first(run, lambda each: each.pauses is not None and bool(each.rounds), lambda each: paused_s(each) or 0.0)
    if shown is None or shown.pauses is None:
        raise Skipped("no run with telemetry/pauses.parquet and a finished round")
    during = shown.rounds[0]
    held = clipped(shown.pauses.held, (during.start_ns, during.end_ns))
    if not held:
        raise Skipped("nobody was paused in the first round")
    longest = sorted(held, key=lambda port: -total_s(held[port]))[:_MOST_ROWS]
    rows = sorted(longest, key=text.natural)
    title = _pauses_title(shown, held)
    figure, (axes,) = new_figure(title, height_in=min(1.6 + 0.09 * len(rows), 5.8), legend_rows=1)
    bars = [
        [((start - during.start_ns) / 1e3, row), ((end - during.start_ns) / 1e3, row)]
        for row, port in enumerate(rows)
        for start, end in held[port]
    ]
    colour = look(shown.parameters.scheme).colour
    axes.add_collection(LineCollection(bars, colors=colour, linewidths=4, label=f"{shown.parameters.scheme}: held"))
    axes.set_xlim(0, during.seconds * 1e6)
    axes.set_ylim(-1, len(rows))
    name_rows(axes, rows)
    label(axes, "time since the round began (µs)", "")
    legend_below([axes])
    return figure, title, _PAUSES_CAPTION


def _first(run: Run, has: Callable[[Run], bool], weight: Callable[[Run], float]) -> Run | None:
    """The run if it has what is to be drawn, else that of its peers which has the most of it."""
    able = [each for _, each in peers(run) if has(each)]
    return run if run in able else max(able, key=weight, default=None)


def _pauses_title(run: Run, held: Mapping[str, Sequence[Span]]) -> str:
    port = max(held, key=lambda name: total_s(held[name]))
    share = total_s(held[port]) / run.rounds[0].seconds
    times = f"{text.counted(sum(map(len, held.values())), 'pause')} of {text.counted(len(held), 'port')}"
    return f"{run.parameters.scheme}: {times}; {port} is held for {share:.0%} of the round"


def rates(run: Run) -> tuple[Figure, str, str]:
    """Rate and alpha of every queue pair in the first round of the run, or of that peer whose rounds are the
    shortest."""
    shown = _first(run, lambda each: each.dcqcn is not None and bool(each.rounds), lambda each: -_round_s(each))
    if shown is None or shown.dcqcn is None:
        raise Skipped("no run with telemetry/dcqcn.parquet and a finished round")
    during, series = shown.rounds[0], list(shown.dcqcn.rates().values())
    inside = [each for each in series if _is_within(each, during)]
    if not inside:
        raise Skipped("no rate was changed in the first round")
    title = _rates_title(shown, [_lowest_bps(each, during) for each in inside])
    scheme = shown.parameters.scheme
    figure, panels = new_figure(title, columns=[1, 1], legend_rows=legend_rows([scheme, _FAIR]), right=_AXIS_ON_RIGHT)
    line_bps = shown.parameters.path.rate_bps
    _draw_steps(panels[0], [(each.time_ns, each.rate_bps / 1e9) for each in inside], line_bps / 1e9, during, scheme)
    _draw_steps(panels[1], [(each.time_ns, each.alpha) for each in inside], 1.0, during, scheme)
    fair = line_bps / max(shown.parameters.senders, 1) / 1e9
    panels[0].axhline(fair, color=IDEAL, linestyle="--", linewidth=1, label=_FAIR)
    panels[0].set_ylim(0, None)
    panels[1].set_ylim(0, 1.05)
    panels[1].yaxis.tick_right()
    panels[1].yaxis.set_label_position("right")
    label(panels[0], "time since the round began (µs)", "rate of a queue pair (Gb/s)")
    label(panels[1], "µs since the round began", "alpha")
    legend_below(panels)
    return figure, title, _RATES_CAPTION


def _round_s(run: Run) -> float:
    return median(each.seconds for each in run.rounds)


def _is_within(series: RateSeries, during: Round) -> bool:
    return bool(((series.time_ns >= during.start_ns) & (series.time_ns < during.end_ns)).any())


def _draw_steps(
    axes: Axes, series: Sequence[tuple[np.ndarray, np.ndarray]], first: float, during: Round, scheme: str
) -> None:
    """Values that hold until the next one, each series thin and their median thick; `first` holds before any."""
    edges = np.linspace(during.start_ns, during.end_ns, 400)
    colour, sampled = look(scheme).colour, []
    for times_ns, values in series:
        held = np.concatenate([[first], values])[np.searchsorted(times_ns, edges, side="right")]
        sampled.append(held)
        axes.step((edges - during.start_ns) / 1e3, held, where="post", color=colour, linewidth=0.6, alpha=0.4)
    middle = np.median(np.array(sampled), axis=0)
    axes.step((edges - during.start_ns) / 1e3, middle, where="post", color=INK, linewidth=1.8, label="median")
    axes.plot([], [], color=colour, linewidth=1.2, label=scheme)
    axes.set_xlim(0, during.seconds * 1e6)


def _lowest_bps(series: RateSeries, during: Round) -> float:
    """The lowest rate that a queue pair was set to in a round."""
    first, last = np.searchsorted(series.time_ns, [during.start_ns, during.end_ns])
    return float(series.rate_bps[first:last].min())


def _rates_title(run: Run, lowest_bps: Sequence[float]) -> str:
    """How far the queue pairs were cut."""
    line, lowest = text.rate(run.parameters.path.rate_bps), text.rate(median(lowest_bps))
    pairs = text.counted(len(lowest_bps), "queue pair")
    return f"{run.parameters.scheme}: {pairs} cut from {line}, at the lowest to {lowest} (median)"
