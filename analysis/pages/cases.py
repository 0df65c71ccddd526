"""The cases of a run beside it, as the report tells them: a table, and the points of a sweep folded away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.kinds import Kind, kind_of
from analysis.pages.markup import Cell, Html, table
from analysis.run import Run, is_sweep_point
from analysis.summary import comparison
from analysis.text import NOTHING

# The columns of every kind: the terminal has them too.
LABEL = Column("run", "label", is_number=False, essential=True)
VERDICT = Column("verdict", "verdict", is_number=False, essential=True)
_FIDELITY = Column("real clock", "fidelity", is_number=False, essential=True)
_AGAINST = "against main"


def columns(kind: Kind, rows: Sequence[Mapping[str, Any]] = ()) -> tuple[Column, ...]:
    """The comparison's columns for a kind of workload: label first, verdict last; before it whether runs can be
    trusted, where one of the rows is of the real clock."""
    return (LABEL, *kind.COLUMNS, *_trust(rows), VERDICT)


def _trust(rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    return (_FIDELITY,) if any(row.get(_FIDELITY.key) is not None for row in rows) else ()


def cases(run: Run) -> Html:
    """The run beside its cases, and the points of a sweep folded away; nothing when it has no cases."""
    main, *others = comparison(run)
    beside = [row for row in others if not is_sweep_point(row["label"])]
    points = [row for row in others if is_sweep_point(row["label"])]
    kind = kind_of(run)
    shown = _table(kind, main, [main, *beside]) if beside else ""
    over = "ranks" if "ranks" in main else "senders"
    swept = f"<summary>Sweep over {over}: {text.counted(len(points), 'run')}</summary>\n{_table(kind, main, points)}"
    folded = f"<details>{swept}</details>" if points else ""
    soft = f'<p class="soft">main is this run{_off_page(kind, main)}.</p>'
    return Html(f"<h2>Comparison</h2>\n{soft}\n{shown}\n{folded}" if others else "")


def _off_page(kind: Kind, main: Mapping[str, Any]) -> str:
    """The main run's values in the columns that the page leaves to the terminal."""
    told = [f"{column.name} {column.cell(main)}" for column in kind.COLUMNS if not column.on_page]
    return escape(f": {', '.join(told)}") if told else ""


def page_columns(kind: Kind, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """The columns of a page's table, what is looked for first: label, verdict, the essential ones, the others. A table
    may be wider than the page, so that a column in which no row has anything is left out."""
    kept = [column for column in kind.COLUMNS if column.on_page and any(column.cell(row) != NOTHING for row in rows)]
    return [LABEL, VERDICT, *_trust(rows), *sorted(kept, key=lambda column: not column.essential)]


def _table(kind: Kind, main: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Html:
    shown = page_columns(kind, rows)
    place = 2 + sum(column.essential for column in shown[2:])  # against main: behind what is essential
    heads = [column.name for column in shown]
    heads.insert(place, _AGAINST)
    numbers = [heads.index(column.name) for column in shown if column.is_number]
    filled = (_row(kind, shown, place, main, row) for row in rows)
    return table(heads, filled, numbers=numbers, whole=(0, 1), stacked=True)


def _row(
    kind: Kind, shown: Sequence[Column], place: int, main: Mapping[str, Any], row: Mapping[str, Any]
) -> list[Cell]:
    compares = row is not main and set(row) == set(main)  # else another kind's
    cells: list[Cell] = [column.cell(row) for column in shown]
    cells.insert(place, kind.against(main, row) if compares else "")
    return cells
