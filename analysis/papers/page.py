"""The page of published curves: a table of scores, then each set with its figure, its points, its sources and what
differs here."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from analysis import made_by, text
from analysis.figures.style import Drawn
from analysis.pages import shell
from analysis.pages.markup import Cell, Html, table
from analysis.pages.shell import Page, paragraph, section
from analysis.papers import words
from analysis.papers.scores import AGREES, DISAGREES, NOT_MEASURED, RULE

_GOOD = {AGREES: True, DISAGREES: False, NOT_MEASURED: None}
_SOURCES = ("curve", "paper", "where in it", "address", "what is known of it")
_POINTS = ("curve", "at", "published", "ours", "ours / published", "counts", "run")
_AGAIN = "The page again, from the project's folder; runs that --out DIR holds already are not run again:"


def page(told: Mapping[str, Any], figures: Mapping[str, Drawn]) -> str:
    """The whole page of a document (analysis/papers/document.py) with the figure of each set."""
    body = (
        paragraph(RULE, "soft"),
        paragraph(made_by.words(told["made_by"]), "soft"),
        shell.tiles((name, str(count)) for name, count in told["verdicts"].items()),
        section("Scores", _scores(told)),
        *(_set(each, figures[each["key"]]) for each in told["sets"]),
        section("How to repeat it", shell.commands((_AGAIN, told["command"]))),
    )
    headline = words.counted(told)
    return shell.render(Page(f"Published curves and ours: {headline}", "papers", headline, body))


def _scores(told: Mapping[str, Any]) -> Html:
    """Every curve with its score; the set's name leads to it."""
    filled: list[list[Cell]] = []
    for row in words.rows(told):
        link = Html(f'<a href="#{escape(row[0])}">{escape(row[0])}</a>')
        filled.append([link, *row[1:-1], shell.badge(row[-1], _GOOD[row[-1]])])
    return table(words.HEADS, filled, numbers=(2, 3, 4, 5), whole=(0,), stacked=True)


def _set(each: Mapping[str, Any], figure: Drawn) -> Html:
    curves = each["curves"]
    verdicts = "\n".join(
        f"<p>{shell.badge(curve['verdict'], _GOOD[curve['verdict']])} {escape(_because(curve))}</p>" for curve in curves
    )
    differs = "".join(f"<li>{escape(sentence)}</li>" for sentence in each["differs"])
    points = f"<details><summary>every point</summary>{_points(curves)}</details>"
    parts = (
        Html(verdicts),
        shell.figures([figure]),
        shell.skipped([figure]),
        Html(f'<p class="soft">What differs here:</p><ul class="soft">{differs}</ul>'),
        Html(points),
        _sources(curves),
    )
    inner = "\n".join(part for part in parts if part)
    return Html(f'<section id="{escape(each["key"])}">\n<h2>{escape(each["title"])}</h2>\n{inner}\n</section>')


def _because(curve: Mapping[str, Any]) -> str:
    return f"{curve['name']}: {curve['because']}" if curve["because"] else str(curve["name"])


def _points(curves: list[Mapping[str, Any]]) -> Html:
    rows = [
        [
            curve["name"],
            str(point["place"]),
            _value(point["published"], curve["unit"]),
            _value(point["ours"], curve["unit"]),
            text.NOTHING if point["ratio"] is None else text.digits(point["ratio"]),
            "yes" if point["counts"] and point["ratio"] is not None else "",
            point["run"],
        ]
        for curve in curves
        for point in curve["points"]
    ]
    return table(_POINTS, rows, numbers=(2, 3, 4), stacked=True)


def _value(value: float | None, unit: str) -> str:
    return text.NOTHING if value is None else f"{text.digits(value)} {unit}".rstrip()


def _sources(curves: list[Mapping[str, Any]]) -> Html:
    """Where the curves come from; those of one source together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for curve in curves:
        source = curve["source"]
        key = (source["paper"], source["where"], source["address"], source["precision"])
        found.setdefault(key, []).append(curve["name"])
    rows = [[", ".join(names), key[0], key[1], _link(key[2]), key[3]] for key, names in found.items()]
    return table(_SOURCES, rows, whole=(), stacked=True)


def _link(address: str) -> Html:
    """A link that shows where it leads, without the rest of its path."""
    return Html(f'<a href="{escape(address)}">{escape(address.split("/")[2])}</a>')
