"""Pieces of HTML: escaped text, tables, lists of definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Union

from analysis.text import NOTHING, Quantity

_MANY = 11  # columns: on paper they need smaller letters


class Html(str):
    """Text that is markup already; every other text is escaped on its way into the page."""


Cell = Union[str, Html]


def escaped(value: Cell) -> str:
    """The text as markup, unless it is that already."""
    return value if isinstance(value, Html) else escape(value)


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    numbers: Iterable[int] = (),
    whole: Iterable[int] = (0,),
    stacked: bool = False,
) -> Html:
    """An HTML table; the columns `numbers` are set to the right, those of `whole` never wrap.

    A `stacked` one becomes a list of cards on narrow screens, each cell below its column's name. A cell that is a
    Quantity carries its value (`data-sort`), by which page.js sorts.
    """
    classes = {**dict.fromkeys(whole, ' class="whole"'), **dict.fromkeys(numbers, ' class="number"')}
    head = "".join(f"<th{classes.get(place, '')}>{escape(name)}</th>" for place, name in enumerate(heads))
    body = "\n".join(f"<tr>{_row(row, heads, classes)}</tr>" for row in rows)
    kinds = [*(["stacked"] if stacked else []), *(["many"] if len(heads) > _MANY else [])]
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    filled = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
    return Html(f'<div class="wide">{filled}</div>')


def _row(row: Sequence[Cell], heads: Sequence[str], classes: Mapping[int, str]) -> str:
    return "".join(
        f'<td data-head="{escape(name)}"{classes.get(place, "")}{_sort_value(value)}>{escaped(value)}</td>'
        for place, (name, value) in enumerate(zip(heads, row))
    )


def _sort_value(cell: Cell) -> str:
    """What a cell is sorted by, where that is not its text; empty for a quantity that is not known."""
    if not isinstance(cell, Quantity):
        return ""
    return f' data-sort="{"" if cell.value is None else format(cell.value, ".15g")}"'


def definitions(mapping: Mapping[str, Any]) -> Html:
    """Keys and values as a list of definitions, values as YAML would show them."""
    entries = "".join(
        f"<div><dt>{escape(key)}</dt><dd>{escape(_words(value))}</dd></div>" for key, value in mapping.items()
    )
    return Html(f"<dl>{entries}</dl>")


def _words(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
