"""The figures of compressed training: a real model's accuracy over steps and over time, and bytes against time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

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
from analysis.kinds.compression_runs import TARGET, accuracy, factor, name_of, others, target_s
from analysis.kinds.training_steps import compute_s, sent_per_step, step_s, training_steps, waiting_s
from analysis.run import Run

_ACCURACY_CAPTION = (
    "Of the images that nobody learned from, the part that the model tells right: left by steps, right by the time "
    "that these took. Left, curves differ by what compression loses; right, by what it saves as well."
)
_TRADE_CAPTION = (
    "Left: payload bytes that a rank sends in a step (logarithmic). Right: the median step, what is computed and what "
    "is waited for; behind it the model's accuracy in the end."
)


def _all(run: Run) -> dict[str, Run]:
    return {name_of(run): run, **others(run)}


def accuracy_curves(run: Run) -> tuple[Figure, str, str]:
    """Accuracy over steps and over virtual time, of the run and its cases."""
    shown = {name: each for name, each in _all(run).items() if accuracy(each) is not None}
    if not shown:
        raise Skipped("no accuracy of a model in the steps")
    target = f"{TARGET:.0%}"
    title = _accuracy_title(shown)
    figure, panels = new_figure(title, columns=[1, 1], height_in=3.0, legend_rows=legend_rows([*shown, target]))
    for name, each in shown.items():
        steps, drawn_as = training_steps(each), looks(list(shown))[name]
        right = [100 * (step.accuracy or 0) for step in steps]
        ends_ms = [(step.end_ns - steps[0].start_ns) / 1e6 for step in steps]
        for axes, across in zip(panels, (range(1, len(steps) + 1), ends_ms)):
            axes.plot(across, right, color=drawn_as.colour, linewidth=1.6, label=name)
    for axes in panels:
        axes.axhline(100 * TARGET, color=IDEAL, linestyle="--", linewidth=1, label=target)
        axes.set_ylim(0, 100)
        axes.set_xlim(left=0)
    panels[1].tick_params(labelleft=False)
    label(panels[0], "steps", "told right (%)")
    label(panels[1], "time (ms)", "")
    legend_below(panels)
    return figure, title, _ACCURACY_CAPTION


def _accuracy_title(shown: Mapping[str, Run]) -> str:
    """Who is good enough first, and when the run that sends all is."""
    times = {name: seconds for name, each in shown.items() for seconds, _ in [target_s(each)] if seconds is not None}
    if not times:
        return f"Nobody tells {TARGET:.0%} of the images right within the steps"
    first, own = min(times, key=lambda name: times[name]), next(iter(shown))
    told = f"{TARGET:.0%} right: {first} after {text.seconds(times[first])}"
    if first == own:
        return f"{told}, before any that compresses"
    return f"{told}, {own} {f'after {text.seconds(times[own])}' if own in times else 'not within its steps'}"


def trade(run: Run) -> tuple[Figure, str, str]:
    """Bytes sent and time of a step by scheme."""
    shown = {name: each for name, each in _all(run).items() if step_s(each) and sent_per_step(each)}
    if not shown:
        raise Skipped("no finished step")
    title = _trade_title(shown)
    figure, panels = new_figure(title, columns=[1, 1.15], height_in=0.6 + 0.36 * len(shown), legend_rows=1)
    rows, drawn_as = np.arange(len(shown)), looks(list(shown))
    sent = [sent_per_step(each) or 0.0 for each in shown.values()]
    panels[0].barh(rows, sent, color=[drawn_as[name].colour for name in shown])
    panels[0].set_xscale("log")
    panels[0].set_xlim(min(sent) / 3, max(sent) * 30)
    decades = [10**power for power in range(2, 12) if min(sent) / 3 <= 10**power <= max(sent)]
    panels[0].set_xticks(decades, [text.size(decade) for decade in decades])
    panels[0].xaxis.set_minor_locator(NullLocator())
    for row, value in enumerate(sent):
        panels[0].annotate(f" {text.size(value)}", (value, row), fontsize=SMALL, va="center", color=INK)
    computing = [1e3 * (compute_s(each) or 0) for each in shown.values()]
    waiting = [1e3 * (waiting_s(each) or 0) for each in shown.values()]
    panels[1].barh(rows, computing, color="#BBBBBB", label="computing")
    panels[1].barh(rows, waiting, left=computing, color=INK, alpha=0.75, label="communicating")
    longest = max(a + b for a, b in zip(computing, waiting))
    for row, (each, end) in enumerate(zip(shown.values(), np.add(computing, waiting))):
        reached = accuracy(each)
        told = "" if reached is None else f" {reached:.1%}"
        panels[1].annotate(told, (end, row), fontsize=SMALL, va="center", color=INK)
    panels[1].set_xlim(0, longest * 1.25)
    name_rows(panels[0], list(shown), len(shown))
    panels[1].set_yticks(rows, [""] * len(shown))
    for axes in panels:
        axes.set_ylim(len(shown) - 0.5, -0.5)
    label(panels[0], "sent per rank and step", "")
    label(panels[1], "a step (ms), and accuracy", "")
    legend_below(panels)
    return figure, title, _TRADE_CAPTION


def _trade_title(shown: Mapping[str, Run]) -> str:
    own = next(iter(shown))
    told = [
        f"{name} {text.times((step_s(shown[own]) or 0) / (step_s(each) or 1))}"
        for name, each in shown.items()
        if name != own and factor(each) is not None
    ]
    return f"The speed of a step beside {own}'s: {', '.join(told)}" if told else f"A step that sends {own}"
