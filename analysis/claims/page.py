"""The page of the claims: a summary, a card for each claim with its figures inside, the glossary."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from analysis import made_by
from analysis.claims import words
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF
from analysis.figures.style import Drawn
from analysis.pages import shell
from analysis.pages.markup import Html, table
from analysis.pages.shell import Page, paragraph, section

_GOOD = {REPRODUCED: True, REPRODUCED_IF: None, NOT_REPRODUCED: False}
_RULE = (
    "Every claim of the lecture is tried: claimed is what its slide says, modelled what arithmetic gives, measured "
    "what the emulated fabric did, packet by packet. What is too large to send is read off a line through smaller "
    "sizes, and marked. Verdicts follow from the numbers alone."
)
_AGAIN = "The page again, from the project's folder; what DIR holds already is not run again:"
_REPEAT = "The run that it rests on:"


def page(told: Mapping[str, Any], folder: Path) -> str:
    """The whole page of a document (analysis/claims/document.py); `folder` is where its paths begin."""
    body = (
        paragraph(_RULE, "soft"),
        paragraph(made_by.words(told["made_by"]), "soft"),
        shell.tiles((name, str(count)) for name, count in told["verdicts"].items()),
        section("Summary", _summary(told)),
        *(_card(claim, folder) for claim in told["claims"]),
        section("The lecture's terms in Korean", _glossary(told)),
        section("How to repeat it", shell.commands((_AGAIN, told["command"]))),
    )
    headline = words.counted(told["verdicts"])
    return shell.render(Page(f"The lecture's claims: {headline}", f"claims --{told['mode']}", headline, body))


def _summary(told: Mapping[str, Any]) -> Html:
    rows = []
    for claim in told["claims"]:
        claimed, measured = words.first_figures(claim)
        link = Html(f'<a href="#{escape(claim["key"])}">{escape(claim["key"])}</a>')
        rows.append([claim["slides"], link, claim["says"], claimed, measured, _badge(claim)])
    return table(("slide", "claim", "what it says", "claimed", "measured", "verdict"), rows, stacked=True)


def _badge(claim: Mapping[str, Any]) -> Html:
    return shell.badge(words.verdict(claim), _GOOD[claim["verdict"]])


def _card(claim: Mapping[str, Any], folder: Path) -> Html:
    rows = table(words.HEADS, map(words.cells, claim["rows"]), numbers=words.NUMBERS, whole=(), stacked=True)
    heading = f"Slide {claim['slides']}: {claim['says']}"
    parts = (
        Html(f"<p>{_badge(claim)} {escape(claim['because'])}</p>"),
        rows,
        _facts(claim),
        shell.figures(_figures(claim, folder)),
        shell.commands((_REPEAT, claim["repeat"])),
        _report(claim),
    )
    inner = "\n".join(part for part in parts if part)
    return Html(f'<section id="{escape(claim["key"])}">\n<h2>{escape(heading)}</h2>\n{inner}\n</section>')


def _facts(claim: Mapping[str, Any]) -> Html:
    """The lecture's figures, the arithmetic, what counts as agreement and what is taken for granted."""
    lines = {
        "Claimed": claim["figures"],
        "Model": claim["model"],
        "Agreement": claim["tolerance"],
        "Assumed": "; ".join(claim["assumptions"]),
        "Left to --full": claim["left_to_full"],
    }
    return Html("\n".join(paragraph(f"{name}: {line}.", "soft") for name, line in lines.items() if line))


def _figures(claim: Mapping[str, Any], folder: Path) -> list[Drawn]:
    found = [folder / path for path in claim["drawn"]]
    return [
        Drawn(path.stem, path, path.stem, f"{claim['experiment']}: {path.stem.replace('_', ' ')}")
        for path in found
        if path.is_file()
    ]


def _report(claim: Mapping[str, Any]) -> Html:
    """Where all that the run told is to be read."""
    if claim["failure"]:
        return paragraph(f"Failed: {claim['failure']}", "bad")
    path = f"{claim['run']}/report.html"
    return Html(f'<p class="soft"><a href="{escape(path)}">Report of the run</a> ({escape(claim["experiment"])})</p>')


def _glossary(told: Mapping[str, Any]) -> Html:
    rows = [[term["korean"], term["english"], term["meaning"]] for term in told["glossary"]]
    return table(("Korean", "English", "what it is here"), rows, whole=(0, 1), stacked=True)
