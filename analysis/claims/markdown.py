"""The claims as Markdown: the page without its figures, for the documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from analysis import made_by
from analysis.claims import words

_WIDTH = 136  # letters in a line, as the other pages of docs/ have
_TITLE = "# The lecture's claims"
_TERM = ("korean", "english", "meaning")
_RULE = (
    "Every claim of the lecture, as it was claimed, as arithmetic models it, and as the emulated fabric measured it, "
    "packet by packet. What is too large to send is read off a line through smaller sizes, and marked ({by}). Verdicts "
    "follow from the numbers alone. The same with figures is `claims.html`, which the command writes:"
)


def markdown(told: Mapping[str, Any]) -> str:
    """The whole text of a document (analysis/claims/document.py)."""
    parts = [
        _TITLE,
        _paragraph(_RULE.format(by=words.EXTRAPOLATED)),
        f"    {told['command']}",
        _paragraph(f"Made by {made_by.words(told['made_by'])} {words.counted(told['verdicts'])}."),
        "## Summary",
        _table(("slide", "claim", "claimed", "measured", "verdict"), _summary(told)),
        *(part for claim in told["claims"] for part in _card(claim)),
        "## The lecture's terms in Korean",
        _table(("Korean", "English", "what it is here"), ([term[name] for name in _TERM] for term in told["glossary"])),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(told: Mapping[str, Any]) -> Iterator[list[str]]:
    for claim in told["claims"]:
        says = f"[{claim['key']}](#{anchor(claim)}): {claim['says']}"
        yield [claim["slides"], says, *words.first_figures(claim), words.verdict(claim)]


def heading(claim: Mapping[str, Any]) -> str:
    """The heading of a claim."""
    return f"Slide {claim['slides']}: {claim['key']}"


def anchor(claim: Mapping[str, Any]) -> str:
    """The heading's anchor: small letters, words joined by hyphens, other signs left out."""
    kept = "".join(letter for letter in heading(claim).lower() if letter.isalnum() or letter in " _-")
    return "-".join(kept.split())


def _card(claim: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {heading(claim)}"
    yield _paragraph(f"{claim['says']}{f' ({figures})' if (figures := claim['figures']) else ''}")
    yield _paragraph(f"**{words.verdict(claim)}** {claim['because']}")
    yield _table(words.HEADS, map(words.cells, claim["rows"]))
    assumed = f" Assumed: {'; '.join(claim['assumptions'])}." if claim["assumptions"] else ""
    left = f" Left to `--full`: {claim['left_to_full']}." if claim["left_to_full"] else ""
    yield _paragraph(f"Model: {claim['model']}. Agreement: {claim['tolerance']}.{assumed}{left} To repeat the run:")
    yield f"    {claim['repeat']}"


def _paragraph(line: str) -> str:
    return textwrap.fill(" ".join(line.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(value: str) -> str:
    """A text in a cell: in one line, its bars no borders."""
    return " ".join(value.split()).replace("|", "\\|")
