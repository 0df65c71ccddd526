"""The page of a sweep: what was found over the keys that were swept, how sure it is, what failed, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from analysis import text
from analysis.figures.style import Drawn
from analysis.figures.sweep import draw_all
from analysis.files import write_whole
from analysis.pages import shell
from analysis.pages.markup import Cell, Html, definitions, table
from analysis.pages.shell import Page, paragraph, section
from analysis.sweep import RESULTS, Point, Sweep, runs_words, verdict_words, words

FILE_NAME = "sweep.html"
_MOST_ROWS = 2000
_MEANS = (
    "Means over the runs of a point, which differ in their seed alone, ± half the interval that holds the true mean 95"
    " times in 100 (Student's t); without it where there is one run, or all gave the same. Click a head to sort."
)
_READ = "import pandas; results = pandas.read_parquet({path!r})"


def write_page(found: Sweep) -> Path:
    """Write sweep.html into the sweep's folder, and its figures into figures/; returns the page's path."""
    return write_whole(found.folder / FILE_NAME, page(found))


def page(found: Sweep) -> str:
    """The whole page."""
    drawn = draw_all(found, found.folder / "figures")
    body = (
        shell.tiles(_tiles(found)),
        paragraph(_unfinished(found), "open"),
        section("Over what was swept", shell.figures(drawn), shell.skipped(drawn)),
        section("Points", paragraph(_MEANS, "soft"), _points(found)),
        section("Runs that failed", _failures(found)),
        section("Left out", *(paragraph(line, "soft") for line in found.plan["left_out"])),
        section("What all points share", _shared(found)),
        section("How to reproduce and to go on", _commands(found)),
    )
    name = found.plan["experiment"]
    kicker = f"sweep of {name}: {found.plan['question']}"
    return shell.render(Page(f"sweep of {name}", kicker, _headline(found, drawn), body))


def _headline(found: Sweep, drawn: Sequence[Drawn]) -> str:
    """What the first figure shows; of runs that agree, what was varied."""
    over = ", ".join(found.axes) or "seed"
    return next((figure.title for figure in drawn if figure.path), f"{found.plan['experiment']} over {over}")


def _tiles(found: Sweep) -> list[tuple[str, str]]:
    failed = len(found.failures)
    return [
        ("points", text.count(len(found.points))),
        ("runs of each", text.count(found.plan["repeats"])),
        ("runs done", text.count(len(found.rows) - failed)),
        ("runs failed", text.count(failed)),
    ]


def _unfinished(found: Sweep) -> str:
    left = len(found.points) * found.plan["repeats"] - len(found.rows)
    return f"Not complete: {text.counted(left, 'run')} still to do." if left else ""


def _points(found: Sweep) -> Html:
    figures = found.figures
    heads = [*found.axes, "verdict", "runs", *(column.name for column in figures)]
    numbers = range(len(found.axes) + 1, len(heads))
    shown = found.points[:_MOST_ROWS]
    made = table(heads, (_row(found, point) for point in shown), numbers=numbers, whole=range(len(found.axes)))
    more = len(found.points) - len(shown)
    rest = f"{text.counted(more, 'more point')} in {RESULTS}/." if more else ""
    return Html(f"{made}{paragraph(rest, 'soft')}")


def _row(found: Sweep, point: Point) -> list[Cell]:
    swept: list[Cell] = [_cell(point, key) for key in found.axes]
    means = [words(column, point.means.get(column.key)) for column in found.figures]
    return [*swept, verdict_words(point), runs_words(point, found.plan["repeats"]), *means]


def _cell(point: Point, key: str) -> Cell:
    """What the point has of a key, sorted by its number where it is one; a dash where it leaves the key alone."""
    value, told = point.values.get(key), point.changes.get(key, text.NOTHING)
    return text.Quantity(told, value) if isinstance(value, (int, float)) else told


def _failures(found: Sweep) -> Html:
    rows = [
        [str(row["run"]), found.points[row["point"] - 1].label, str(row["seed"]), row["failure"]]
        for row in found.failures[:_MOST_ROWS]
    ]
    return table(("run", "point", "seed", "reason"), rows, whole=(0, 1), stacked=True) if rows else Html("")


def _shared(found: Sweep) -> Html:
    commit = {"git_commit": found.plan["git_commit"]}
    return definitions(
        {"experiment": found.plan["experiment"], **found.plan["given"], **found.plan["made_by"], **commit}
    )


def _commands(found: Sweep) -> Html:
    again = shlex.join([*found.plan["command"], *_out(found)])
    return shell.commands(
        ("From the project's folder; the same command goes on where an earlier one was ended:", again),
        ("All runs as one table, in Python ($(python3 lab/cache.py) in the project's folder):", _read(found)),
    )


def _out(found: Sweep) -> list[str]:
    return [] if "--out" in found.plan["command"] else ["--out", str(found.folder)]


def _read(found: Sweep) -> str:
    return _READ.format(path=str(found.folder / RESULTS))
