"""The command `papers`: published curves and ours over the same axes, each with a score."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import screen, walking
from experiments.commands.concluding import DAMAGE, keep_matplotlib_at_home
from experiments.commands.interrupting import INTERRUPTED
from experiments.commands.setting import asked_by
from experiments.commands.walking import held, provenances, run_missing, setting
from topologies.units import BadRequest, named_error

if TYPE_CHECKING:
    from analysis.papers.model import CurveSet
    from analysis.run import Run
    from experiments.walking import Wanted


def papers(arguments: argparse.Namespace) -> int:
    """Run what the curves need, score them, write the page; exit status 1 when a run failed."""
    keep_matplotlib_at_home()
    from analysis.papers.sets import SETS
    from experiments import papers as comparing

    asked = walking.chosen(SETS, arguments.only)
    wanted = comparing.planned(asked)
    shared = setting(wanted)
    with held(arguments.out, comparing.NAME) as out:
        failures = run_missing(wanted, out / comparing.RUNS, out, shared)
        if failures is None:
            return INTERRUPTED
        _conclude(arguments, asked, wanted, out, failures)
        return 1 if failures else 0


def _conclude(
    arguments: argparse.Namespace,
    asked: Sequence[CurveSet],
    wanted: Sequence[Wanted],
    out: Path,
    failures: Mapping[str, str],
) -> None:
    """Score the curves, write figures, page and document, and print them."""
    from analysis.files import write_whole
    from analysis.papers.document import document
    from analysis.papers.figures import draw_all
    from analysis.papers.page import page
    from analysis.run import Run
    from experiments.papers import DOCUMENT, FIGURES, PAGE, RUNS

    sound = [each for each in wanted if each.name not in failures]
    runs = {each.name: Run(out / RUNS / each.name) for each in sound}
    facts = provenances(sound, out / RUNS)
    told = document(asked, _scored(asked, runs), facts, shlex.join(asked_by()))
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
    except (OSError, BadRequest, *DAMAGE) as error:
        screen.say(f"run_experiment: {run.path.name}: {named_error(error)}")
        return None


def _show(told: Mapping[str, Any], page: Path) -> None:
    from analysis.papers.words import HEADS, counted, rows

    screen.table("Published curves and ours", HEADS, [[str(cell) for cell in row] for row in rows(told)])
    print(counted(told))
    print(f"page: {page}")
