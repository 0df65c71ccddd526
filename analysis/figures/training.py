"""The figures of training steps: each rank's time in the last steps, and the steps of all cases beside each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.style import IDEAL, INK, SMALL, Skipped, label, legend_below, legend_rows, name_rows, new_figure
from analysis.kinds.shares import alike
from analysis.kinds.training_setting import modelled
from analysis.kinds.training_steps import TrainingStep, Turn, compute_s, rank_hosts, training_steps
from analysis.run import Run

COMPUTING, WAITING, LATE = "computing", "not computing", "computing, but nobody waits for it"
_COLOURS = {COMPUTING: "#BBBBBB", WAITING: "#0072B2", LATE: "#E69F00"}
_SHOWN_STEPS, _SHOWN_RANKS = 3, 24
_MANY_TIMES = 5
_EXPOSED, _MODEL = "exposed communication", "model"
_TIMELINE_CAPTION = (
    "The last steps of each rank, one after the other: how long it computes, then how long it waits for others and for "
    "what they send. Where ranks compute and wait by turns in a step (tensor and pipeline parallelism), all computing "
    "is drawn first."
)
_CASES_CAPTION = (
    "The mean of all steps: what the slowest rank computes of those that are waited for, and the rest, which nothing "
    "hides. Strokes: the step by the model, where it has one. Arrows: the bar is longer than drawn."
)


def timeline(run: Run, name: str = "") -> tuple[Figure, str, str]:
    """A bar for each rank: computing and waiting in the last steps; `name`: of the case, in the title."""
    steps, hosts = training_steps(run), rank_hosts(run)
    if not steps or not hosts:
        raise Skipped("no finished step")
    shown = steps[-_SHOWN_STEPS:]
    rows = _shown_ranks(run)
    title = (f"{name}: " if name else "") + _timeline_title(run, shown)
    has_late = any(turn.late for step in shown for turn in step.turns)
    names = [COMPUTING, WAITING, *([LATE] if has_late else [])]
    figure, (axes,) = new_figure(title, height_in=0.5 + 0.2 * len(rows), legend_rows=legend_rows(names))
    for place, rank in enumerate(rows):
        _draw_rank(axes, place, _spans(steps, rank)[-len(shown) :], shown[0].start_ns)
    for step in shown:
        axes.axvline((step.end_ns - shown[0].start_ns) / 1e6, color=INK, linewidth=0.8, linestyle=":")
    for name in names:
        axes.barh(0, 0, color=_COLOURS[name], label=name)
    name_rows(axes, [hosts[rank] for rank in rows], len(rows))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    label(axes, f"time (ms); dotted: the end of steps {shown[0].number} to {shown[-1].number}", "")
    legend_below([axes])
    return figure, title, _TIMELINE_CAPTION


def _shown_ranks(run: Run) -> list[int]:
    """All ranks, or, of many, the first ones and who computes longest."""
    turns = training_steps(run)[-1].turns
    ranks = list(range(len(turns)))
    slowest = max(ranks, key=lambda rank: turns[rank].compute_ns)
    return sorted({*ranks[: _SHOWN_RANKS - 1], slowest}) if len(ranks) > _SHOWN_RANKS else ranks


def _spans(steps: Sequence[TrainingStep], rank: int) -> list[tuple[int, Turn]]:
    """A rank's begin of each step, which is its end of the one before, and what it did."""
    turns = [step.turns[rank] for step in steps]
    begins_ns = [steps[0].start_ns, *(turn.end_ns for turn in turns[:-1])]
    return list(zip(begins_ns, turns))


def _draw_rank(axes: Axes, place: int, spans: Sequence[tuple[int, Turn]], zero_ns: int) -> None:
    for begin_ns, turn in spans:
        computing = LATE if turn.late else COMPUTING
        begin_ms, compute_ms = (begin_ns - zero_ns) / 1e6, turn.compute_ns / 1e6
        wait_ms = max(turn.end_ns - begin_ns - turn.compute_ns, 0) / 1e6
        axes.barh(place, compute_ms, 0.8, left=begin_ms, color=_COLOURS[computing])
        axes.barh(place, wait_ms, 0.8, left=begin_ms + compute_ms, color=_COLOURS[WAITING])


def _timeline_title(run: Run, shown: Sequence[TrainingStep]) -> str:
    """The slowest rank, and what the others wait."""
    hosts = rank_hosts(run)
    turns = {host: [step.turns[rank] for step in shown] for rank, host in enumerate(hosts)}
    computing = {host: sum(turn.compute_ns for turn in its) for host, its in turns.items()}
    slowest, fastest = max(computing, key=lambda host: computing[host]), min(computing.values())
    span_ns = shown[-1].end_ns - shown[0].start_ns
    told, waits = f"A step takes {text.seconds(span_ns / len(shown) / 1e9)}", max(1 - fastest / span_ns, 0.0)
    if computing[slowest] <= 1.05 * fastest:
        return f"{told}; every rank waits for {waits:.0%} of it"
    if any(turn.late for turn in turns[slowest]):
        return f"{told}; {slowest} is late, and nobody waits for it"
    return f"{told}; the others wait for {slowest} and the network for {waits:.0%} of it"


def cases(run: Run) -> tuple[Figure, str, str]:
    """Computing and exposed communication of the run and its cases."""
    shown = {name: each for name, each in alike(run).items() if training_steps(each)}
    if len(shown) < 2:
        raise Skipped("no cases in cases/ to compare")
    title = _cases_title(shown)
    names = [COMPUTING, _EXPOSED, _MODEL]
    height_in, rows_of_legend = 0.6 + 0.3 * len(shown), legend_rows(names)
    figure, (axes,) = new_figure(title, height_in=height_in, legend_rows=rows_of_legend)
    steps_ms, rows = np.array([_mean_s(each) * 1e3 for each in shown.values()]), np.arange(len(shown))
    computing_ms = np.minimum(np.array([(compute_s(each) or 0) * 1e3 for each in shown.values()]), steps_ms)
    axes.barh(rows, computing_ms, 0.7, color=_COLOURS[COMPUTING], label=COMPUTING)
    shown_ms = _shown_ms(steps_ms)
    drawn_ms = np.minimum(steps_ms, shown_ms)
    axes.barh(rows, drawn_ms - computing_ms, 0.7, left=computing_ms, color=_COLOURS[WAITING], label=_EXPOSED)
    _draw_models(axes, list(shown.values()))
    for row, step_ms in enumerate(steps_ms):
        axes.annotate(
            f" {text.seconds(step_ms / 1e3)}" + (" →" if step_ms > shown_ms else ""),
            (drawn_ms[row], row), (5, 0), textcoords="offset points", fontsize=SMALL,
            va="center", color=INK, annotation_clip=False,
        )  # fmt: skip
    name_rows(axes, list(shown), len(shown))
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 1.28 * shown_ms)
    label(axes, "time of a step (ms)", "")
    legend_below([axes])
    return figure, title, _CASES_CAPTION


def _shown_ms(steps_ms: np.ndarray) -> float:
    """Where bars are cut: behind the longest step that is not many times the run's own."""
    usual = steps_ms[steps_ms <= _MANY_TIMES * steps_ms[0]]
    return float(usual.max()) * 1.1


def _draw_models(axes: Axes, runs: Sequence[Run]) -> None:
    named = False
    for row, each in enumerate(runs):
        expected = modelled(each)
        if expected is not None:
            place_ms = expected.seconds * 1e3
            axes.plot(
                [place_ms] * 2, [row - 0.42, row + 0.42], color=IDEAL, linewidth=1.8, label=None if named else _MODEL
            )
            named = True


def _mean_s(run: Run) -> float:
    steps = training_steps(run)
    return (steps[-1].end_ns - steps[0].start_ns) / 1e9 / len(steps)


def _cases_title(shown: dict[str, Run]) -> str:
    """The longest step beside the run's own."""
    own, *others = shown
    worst = max(others, key=lambda name: _mean_s(shown[name]))
    return (
        f"A step takes {text.seconds(_mean_s(shown[own]))} ({own}); the longest: {text.seconds(_mean_s(shown[worst]))}"
        f" ({worst})"
    )
