"""The page that compares several runs: what differs in their specs, what each found, their timelines over each other
and their figures side by side."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from analysis import text
from analysis.figures.style import Drawn
from analysis.files import write_whole
from analysis.kinds import Kind, kind_of
from analysis.pages import shell
from analysis.pages.cases import page_columns
from analysis.pages.fidelity import badges
from analysis.pages.markup import Cell, Html, table
from analysis.pages.run_page import draw_all, from_here, rebuild
from analysis.pages.run_timelines import overlaid_charts
from analysis.pages.shell import Page, paragraph, section
from analysis.run import Run
from analysis.summary import compared
from topologies.units import BadRequest

FILE_NAME = "comparison.html"
_UNCOMPARED = ("label", "seed")  # keys whose difference is no difference of what was asked
_PLACE = "place"  # no key of a spec: "lab" or "machine"
_OVERLAID = "Each run is counted from the begin of its own traffic."
_REBUILD = "From the project's folder; the page is made of the run directories alone:"
_NO_DIFFERENCE = "The specifications are equal in every key{rest}."

Named = tuple[str, Run]


def write_comparison(runs: Sequence[Run], path: Path) -> Path:
    """Write the page that compares two or more runs to `path` and return that; their figures are drawn into their own
    folders. Raises BadRequest when the page cannot be written."""
    content = comparison_page(runs, path)
    try:
        return write_whole(path, content)
    except OSError as error:
        raise BadRequest(f"--out: {path} cannot be written ({error.strerror}); allowed: a file you may write") from None


def comparison_page(runs: Sequence[Run], path: Path) -> str:
    """The whole page; `path` is where it goes, for the command that makes it again."""
    named = list(zip(names(runs), runs))
    groups = _by_kind(named)
    charts = overlaid_charts(named)
    body = (
        paragraph(_kinds_words(groups), "open"),
        section("Verdicts", _verdicts(named)),
        *(_rows(kind, members, alone=len(groups) == 1) for kind, members in groups),
        section("What differs in the specifications and places", _differences(named)),
        section("Over time", paragraph(_OVERLAID, "soft") if charts else "", shell.timelines(charts)),
        _figures(named),
        section("The runs", _places(named)),
        section("How to reproduce", shell.commands((_REBUILD, _command(runs, path)))),
    )
    title = f"{len(runs)} runs compared"
    return shell.render(Page(f"{title}: {', '.join(name for name, _ in named)}", "comparison", title, body, charts))


def names(runs: Sequence[Run]) -> list[str]:
    """A name for each run: its folder's, or as much of the path as tells it from the others."""
    parts = [run.path.resolve().parts for run in runs]
    for length in range(1, max(map(len, parts)) + 1):
        found = ["/".join(each[-length:]) for each in parts]
        if len(set(found)) == len(found):
            return found
    raise BadRequest("DIR: the same run directory is given twice; allowed: each once")


def _by_kind(named: Sequence[Named]) -> list[tuple[Kind, list[Named]]]:
    """Runs that answer the same question, together."""
    groups: dict[int, tuple[Kind, list[Named]]] = {}
    for name, run in named:
        kind = kind_of(run)
        groups.setdefault(id(kind), (kind, []))[1].append((name, run))
    return list(groups.values())


def _kinds_words(groups: Sequence[tuple[Kind, list[Named]]]) -> str:
    """That runs of several kinds do not compare."""
    if len(groups) == 1:
        return ""
    told = "; ".join(f"{_question(members)}: {', '.join(name for name, _ in members)}" for _, members in groups)
    return (
        f"These runs are of {len(groups)} kinds, which ask different things, so that each kind has a table of its own "
        f"and verdicts of one say nothing against another's ({told})."
    )


def _question(members: Sequence[Named]) -> str:
    asked = ((str(run.spec.get("experiment")), run.workload) for _, run in members)
    return ", ".join(dict.fromkeys(name if name == work else f"{name} ({work})" for name, work in asked))


def _verdicts(named: Sequence[Named]) -> Html:
    rows: list[list[Cell]] = []
    for name, run in named:
        kind = kind_of(run)
        verdict = kind.verdict(run)
        missing = "" if run.measured.get("complete") else "; the run was not completed"
        rows.append([name, badges(run, verdict), f"{kind.headline(run)}{missing}"])
    return table(("run", "verdict", "what was found"), rows, whole=(0, 1), stacked=True)


def _differences(named: Sequence[Named]) -> Html:
    """One row for each key of the specs whose values are not all the same, and for the place where the runs were, a
    column for each run; the keys that only some of them use are folded away."""
    keys = list(dict.fromkeys(key for _, run in named for key in (*run.spec, _PLACE)))
    differing = [key for key in keys if len({_value(run, key) for _, run in named}) > 1]
    asked = [key for key in differing if key not in _UNCOMPARED]
    aside = [key for key in differing if key in _UNCOMPARED]
    if not asked:
        return paragraph(_NO_DIFFERENCE.format(rest=f" but {' and '.join(aside)}" if aside else ""))
    rows = [[key, *(_value(run, key) for _, run in named)] for key in (*asked, *aside)]
    used = [row for row in rows if text.NOTHING not in row]
    others = [row for row in rows if text.NOTHING in row]
    heads = ("key", *(name for name, _ in named))
    shown = table(heads, used, stacked=True) if used else Html("")
    if not others:
        return shown
    summary = f"<summary>{text.counted(len(others), 'key')} that not all of them use</summary>"
    return Html(f"{shown}<details>{summary}{table(heads, others, stacked=True)}</details>")


def _value(run: Run, key: str) -> str:
    value = run.provenance.get(_PLACE) if key == _PLACE else run.spec.get(key)
    if isinstance(value, bool):
        return str(value).lower()
    return text.NOTHING if value in (None, "auto") else str(value)


def _rows(kind: Kind, members: Sequence[Named], alone: bool) -> Html:
    """The comparison's columns of a kind, a row for each of its runs."""
    rows = [{**compared(run), "label": name} for name, run in members]
    shown = page_columns(kind, rows)
    numbers = [place for place, column in enumerate(shown) if column.is_number]
    cells = [[column.cell(row) for column in shown] for row in rows]
    heading = "Side by side" if alone else f"Side by side: {_question(members)}"
    beside = _against(kind, members[0][0], rows)
    heads = [column.name for column in shown]
    return section(heading, paragraph(beside, "soft"), table(heads, cells, numbers=numbers, whole=(0, 1), stacked=True))


def _against(kind: Kind, first: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """How each further run differs from the first of its kind, where the kind tells."""
    told = [(row["label"], kind.against(rows[0], row)) for row in rows[1:] if set(row) == set(rows[0])]
    words = "; ".join(f"{label}: {how}" for label, how in told if how)
    return f"Against {first}: {words}." if words else ""


def _figures(named: Sequence[Named]) -> Html:
    """The figures of all runs, those of one name beside each other."""
    drawn: dict[str, list[tuple[str, Drawn]]] = {}
    for name, run in named:
        for figure in draw_all(run):
            if figure.path is not None:
                drawn.setdefault(figure.name, []).append((name, figure))
    shared = [_beside(figures) for figures in drawn.values() if len(figures) > 1]
    single = [_beside(figures) for figures in drawn.values() if len(figures) == 1]
    both = section("Figures side by side", *shared)
    return Html(f"{both}\n{section('Figures that one run has', *single)}" if single else both)


def _beside(figures: Sequence[tuple[str, Drawn]]) -> Html:
    shown = "\n".join(shell.figure_of(figure, name) for name, figure in figures)
    return Html(f'<div class="beside">\n{shown}\n</div>')


def _places(named: Sequence[Named]) -> Html:
    """Where each run is, and how it came about."""
    rows = [
        [
            *(name, str(from_here(run.path)), str(run.spec.get("experiment")), _told(run, "seed")),
            *(_told(run, "git_commit")[:12], " ".join(map(str, run.provenance.get("command") or []))),
        ]
        for name, run in named
    ]
    again = "\n".join(f"<code>{escape(rebuild(run))}</code>" for _, run in named)
    heads = ("run", "folder", "experiment", "seed", "commit", "command")
    return Html(f"{table(heads, rows, stacked=True)}\n{paragraph('The page of each run alone:', 'soft')}\n{again}")


def _told(run: Run, key: str) -> str:
    value = run.provenance.get(key)
    return text.NOTHING if value is None else str(value)


def _command(runs: Sequence[Run], path: Path) -> str:
    folders = " ".join(shlex.quote(str(from_here(run.path))) for run in runs)
    return f"./run_experiment report {folders} --out {shlex.quote(str(from_here(path)))}"
