"""A sweep's results for the terminal and for programs: a row for each point, every mean with its interval."""

from __future__ import annotations

from typing import Any

from analysis import sweep, text
from analysis.columns import Column
from analysis.sweep import Sweep, runs_words, verdict_words, words
from experiments import screen

_MOST_POINTS = 60  # on a terminal
_MOST_FAILURES = 20


def show(found: Sweep) -> None:
    """The points on standard output, no more than is well read; the page has them all."""
    shown = found.points[:_MOST_POINTS]
    screen.comparison(columns(found), [_row(found, point) for point in shown], found.plan["question"])
    if len(found.points) > len(shown):
        print(f"and {text.counted(len(found.points) - len(shown), 'more point')} on the page")


def columns(found: Sweep) -> tuple[Column, ...]:
    """What differs between the points, the runs of each, the figures, the verdict; a narrow terminal keeps those that
    the kind of workload is known by."""
    swept = [Column(key, key, essential=True) for key in found.axes]
    figures = [Column(each.name, f"{each.key} mean", essential=each.essential) for each in found.figures]
    return (
        *swept,
        Column("runs", "runs", essential=True),
        *figures,
        Column("verdict", "verdict", is_number=False, essential=True),
    )


def _row(found: Sweep, point: sweep.Point) -> dict[str, Any]:
    means = {f"{each.key} mean": words(each, point.means.get(each.key)) for each in found.figures}
    told = {"runs": runs_words(point, found.plan["repeats"]), "verdict": verdict_words(point)}
    return {**point.changes, **means, **told}


def document(found: Sweep) -> dict[str, Any]:
    """The points and failures as JSON: means in base units, `interval` holding the true one 95 times in 100."""
    return {
        "experiment": found.plan["experiment"],
        "folder": str(found.folder),
        "repeats": found.plan["repeats"],
        "points": [
            {
                "point": point.number,
                **point.changes,
                "done": point.done,
                "failed": point.failed,
                "verdicts": dict(point.verdicts),
                "figures": {
                    key: {"mean": mean.value, "runs": mean.runs, "interval": mean.interval}
                    for key, mean in point.means.items()
                },
            }
            for point in found.points
        ],
        "left_out": found.plan["left_out"],
        "failures": [{"run": row["run"], **_named(found, row), "reason": row["failure"]} for row in found.failures],
    }


def _named(found: Sweep, row: Any) -> dict[str, Any]:
    return {**found.points[row["point"] - 1].changes, "seed": row["seed"]}


def tell_failures(found: Sweep) -> None:
    """Each run that failed, in a line on standard error."""
    for row in found.failures[:_MOST_FAILURES]:
        named = ", ".join(f"{key}={value}" for key, value in _named(found, row).items())
        screen.say(f"run_experiment: {named}: {row['failure']}")
    rest = len(found.failures) - _MOST_FAILURES
    if rest > 0:
        screen.say(
            f"run_experiment: and {text.counted(rest, 'more failure')}: column `failure` of {found.folder}/results"
        )
