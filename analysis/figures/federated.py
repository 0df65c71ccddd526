"""The figures of federated learning: accuracy over time, what rounds are made of, when updates arrive."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from analysis import text
from analysis.figures.style import (
    IDEAL,
    INK,
    SMALL,
    Skipped,
    label,
    legend_below,
    legend_rows,
    looks,
    name_rows,
    new_figure,
)
from analysis.kinds.federated_rounds import (
    PHASES,
    arrivals_s,
    finished,
    ideal_s,
    rounds_to_target,
    split,
    tail_upload_s,
    target,
    time_to_target_s,
)
from analysis.run import Run

_SCALE_KEYS = ("clients", "update", "scale", "rate")  # runs of another size do not stand beside this one
_MOST_LINES = 10
_PHASE_COLOURS = dict(zip(PHASES, ("#56B4E9", "#009E73", "#E69F00", "#D55E00")))
_IDEAL = "links and computing alone"
_ACCURACY_CAPTION = (
    "Accuracy on the images held out, after each round, at the round's end; of the run and those cases that train as "
    "many clients with updates as long over links as fast and reach the target. Dotted: the target."
)
_ROUNDS_CAPTION = (
    "The mean round along the way of the client whose update ended it: until it had the model; as long as half of the "
    "clients computed; how much longer it did; and all the rest until the root had averaged, edges between included. "
    "Strokes: what links and computing alone need."
)
_ARRIVALS_CAPTION = (
    "Share of all clients' updates, late ones too, that were at their aggregator so long after their round began, over "
    "all rounds; of runs that send updates whole and whose hosts cost nothing."
)


def peers(run: Run) -> dict[str, Run]:
    """The run and its cases of the same size, by label."""
    cases = {
        name: case
        for name, case in run.cases.items()
        if case.workload == run.workload and all(case.spec.get(key) == run.spec.get(key) for key in _SCALE_KEYS)
    }
    own = {run.parameters.label: run, **cases}
    return {name: each for name, each in own.items() if finished(each)}


def accuracy(run: Run) -> tuple[Figure, str, str]:
    """Accuracy over virtual time."""
    shown = {name: each for name, each in peers(run).items() if rounds_to_target(each)}
    if not shown:
        raise Skipped("no run of this size reaches the target")
    title = _accuracy_title(shown, target(run))
    figure, (axes,) = new_figure(title, height_in=3.6, legend_rows=legend_rows(list(shown)))
    for (name, each), look in zip(shown.items(), looks(list(shown)).values()):
        done = finished(each)
        times_s = [(one["end_ns"] - done[0]["start_ns"]) / 1e9 for one in done]
        values = [100 * one["accuracy"] for one in done]
        width = 2.2 if each is run else 1.2
        axes.plot(times_s, values, color=look.colour, marker=look.marker, markersize=3.5, linewidth=width, label=name)
    axes.axhline(100 * target(run), color=IDEAL, linestyle=":", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0, 100)
    label(axes, "time since the first round began (s)", "accuracy (%)")
    legend_below([axes])
    return figure, title, _ACCURACY_CAPTION


def _accuracy_title(shown: dict[str, Run], wanted: float) -> str:
    times = sorted((time_to_target_s(each) or 0.0, name) for name, each in shown.items())
    (first_s, first), (last_s, last) = times[0], times[-1]
    if first == last:
        return f"{wanted:.0%} after {text.seconds(first_s)}"
    return f"{wanted:.0%} after {text.seconds(first_s)} ({first}) to {text.seconds(last_s)} ({last})"


def rounds(run: Run) -> tuple[Figure, str, str]:
    """The mean round of each run, split."""
    shown = {name: parts for name, each in peers(run).items() for parts in [split(each)] if parts}
    if not shown:
        raise Skipped("no finished round")
    title = _rounds_title(run.parameters.label, shown)
    names = [*PHASES, _IDEAL]
    figure, (axes,) = new_figure(title, height_in=0.5 + 0.27 * len(shown), legend_rows=legend_rows(names))
    for place, (name, parts) in enumerate(shown.items()):
        _draw_split(axes, place, parts, ideal_s(peers(run)[name]), first=place == 0)
    name_rows(axes, list(shown), len(shown))
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 1.16 * max(sum(parts.values()) for parts in shown.values()) * 1e3)
    label(axes, "mean round (ms)", "")
    legend_below([axes])
    return figure, title, _ROUNDS_CAPTION


def _draw_split(axes: Axes, place: int, parts: dict[str, float], least_s: float | None, first: bool) -> None:
    begin = 0.0
    for phase, colour in _PHASE_COLOURS.items():
        width = parts[phase] * 1e3
        axes.barh(place, width, left=begin, height=0.66, color=colour, label=phase if first else None, zorder=2)
        begin += width
    if least_s is not None:
        spot = [least_s * 1e3] * 2
        axes.plot(
            spot, [place - 0.4, place + 0.4], color=IDEAL, linewidth=1.6, label=_IDEAL if first else None, zorder=3
        )
    words = text.seconds(begin / 1e3)
    axes.annotate(words, (begin, place), (4, 0), textcoords="offset points", va="center", fontsize=SMALL, color=INK)


def _rounds_title(own: str, shown: dict[str, dict[str, float]]) -> str:
    """The largest part of the run's own round, and of the shortest one."""
    told = []
    shortest = min(shown, key=lambda name: sum(shown[name].values()))
    for name in dict.fromkeys([own, shortest]):
        if name in shown:
            phase = max(shown[name], key=shown[name].__getitem__)
            total_s = sum(shown[name].values())
            told.append(f"{name}: {phase} is {shown[name][phase] / total_s:.0%} of {text.seconds(total_s)}")
    return "; ".join(told)


def arrivals(run: Run) -> tuple[Figure, str, str]:
    """When updates were at their aggregators."""
    plain = {"compression": "none", "host_cost": "none"}
    found = {
        name: arrivals_s(each)
        for name, each in peers(run).items()
        if each is run or all(each.spec.get(key) == value for key, value in plain.items())
    }
    shown = dict([(name, times_s) for name, times_s in found.items() if times_s][:_MOST_LINES])
    if not shown:
        raise Skipped("no update has arrived")
    title = _arrivals_title(run)
    figure, (axes,) = new_figure(title, height_in=3.4, legend_rows=legend_rows(list(shown)))
    for (name, times_s), look in zip(shown.items(), looks(list(shown)).values()):
        shares = 100 * np.arange(1, len(times_s) + 1) / len(times_s)
        width = 2.2 if name == run.parameters.label else 1.2
        axes.step(np.array(times_s) * 1e3, shares, where="post", color=look.colour, linewidth=width, label=name)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if str(value)[0] in "25" else "")
    axes.tick_params(which="minor", labelsize=SMALL, colors=INK)
    axes.set_ylim(0, 101)
    label(axes, "time since the round began (ms)", "updates arrived (%)")
    legend_below([axes])
    return figure, title, _ARRIVALS_CAPTION


def _arrivals_title(run: Run) -> str:
    times_s = arrivals_s(run)
    middle_s, last_s = (float(np.percentile(times_s, share)) for share in (50, 99)) if times_s else (0.0, 0.0)
    return (
        f"Half of the updates are there after {text.seconds(middle_s)}, 99 % after {text.seconds(last_s)}; an upload's"
        f" p99 is {text.seconds(tail_upload_s(run))}"
    )
