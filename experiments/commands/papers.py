"""The command `papers`: published curves and ours over the same axes, each with a score."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import rundir, screen
from experiments.commands.concluding import DAMAGE, keep_matplotlib_at_home
from experiments.commands.interrupting import INTERRUPTED, stopping
from experiments.commands.setting import setting_of
from experiments.launch import STALL_S
from topologies.units import BadRequest

if TYPE_CHECKING:
    from analysis.papers.model import CurveSet
    from analysis.run import Run
    from experiments.claims import Step

_WATCHDOG_S = 1800.0


def papers(arguments: argparse.Namespace) -> int:
    """Run what the curves need, score them, write the page; exit status 1 when a run failed."""
    keep_matplotlib_at_home()
    from analysis import text
    from analysis.papers.sets import SETS
    from experiments import claims as walking
    from experiments import papers as comparing

    asked = comparing.chosen(SETS, arguments.only)
    wanted = comparing.planned(asked)
    setting = setting_of([run for each in wanted for run in each.runs], "virtual", None, _WATCHDOG_S, STALL_S)
    out = walking.opened(arguments.out, comparing.NAME)
    held = walking.lock(out, comparing.NAME)
    try:
        steps = walking.steps(wanted, out / comparing.RUNS)
        waiting = [step for step in steps if not walking.is_done(step)]
        screen.say(f"{text.counted(len(steps), 'run')}, {len(steps) - len(waiting)} of them done already")
        walking.clear(wanted, waiting, out / comparing.RUNS)
        with stopping() as stop:
            failures = walking.run_steps(waiting, setting, stop, screen.say)
        for name, why in failures.items():
            screen.say(f"run_experiment: {name}: {why}")
        if stop.requested:
            screen.say(f"stopped: what is done is kept in {out}; the same command with --out {out} goes on")
            return INTERRUPTED
        _conclude(arguments, asked, steps, out, failures)
        return 1 if failures else 0
    finally:
        os.close(held)
        rundir.hand_over(out)


def _conclude(
    arguments: argparse.Namespace,
    asked: Sequence[CurveSet],
    steps: Sequence[Step],
    out: Path,
    failures: Mapping[str, str],
) -> None:
    """Score the curves, write figures, page and document, and print them."""
    from analysis.files import write_whole
    from analysis.papers.document import document
    from analysis.papers.figures import draw_all
    from analysis.papers.page import page
    from analysis.run import Run
    from experiments.papers import DOCUMENT, FIGURES, PAGE

    runs = {step.wanted.name: Run(step.folder) for step in steps if step.name not in failures}
    facts = [json.loads((run.path / "provenance.json").read_text()) for run in runs.values()]
    told = document(asked, _scored(asked, runs), facts, shlex.join(["./run_experiment", *sys.argv[1:]]))
    write_whole(out / DOCUMENT, json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    write_whole(out / PAGE, page(told, draw_all(told, out / FIGURES)))
    if arguments.json:
        print(json.dumps(told, indent=1, ensure_ascii=False))
        return
    _show(told, out / PAGE)


def _scored(asked: Sequence[CurveSet], runs: Mapping[str, Run]) -> dict[str, list[Any]]:
    """Set -> the score of each of its curves."""
    from analysis.papers.scores import score

    return {
        each.key: [
            score(curve, [_value(curve.measure, runs.get(point.run), point.place) for point in curve.points])
            for curve in each.curves
        ]
        for each in asked
    }


def _value(measure: Any, run: Run | None, place: Any) -> float | None:
    """Ours at a place; None for a run that failed, or does not tell."""
    if run is None:
        return None
    try:
        value: float | None = measure(run, place)
        return value
    except (BadRequest, *DAMAGE) as error:
        screen.say(f"run_experiment: {run.path.name}: {type(error).__name__}: {' '.join(str(error).split())}")
        return None


def _show(told: Mapping[str, Any], page: Path) -> None:
    from analysis.papers.words import HEADS, counted, rows

    screen.table("Published curves and ours", HEADS, [[str(cell) for cell in row] for row in rows(told)])
    print(counted(told))
    print(f"page: {page}")
