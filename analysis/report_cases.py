"""The cases of a run beside it, as the report tells them: a table, and the points of a sweep folded away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.kinds import Kind, kind_of
from analysis.markup import Cell, Html, table
from analysis.run import Run, is_sweep_point
from analysis.summary import comparison

# The columns of every kind: the terminal has them too.
LABEL = Column("run", "label", is_number=False, essential=True)
VERDICT = Column("verdict", "verdict", is_number=False, essential=True)
_AGAINST = "against main"


def columns(kind: Kind) -> tuple[Column, ...]:
    """The comparison's columns for a kind of workload: label first, verdict last."""
    return (LABEL, *kind.COLUMNS, VERDICT)


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


def _table(kind: Kind, main: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Html:
    # The verdict beside the label: a table may be wider than the page, and this is what is looked for.
    shown = [LABEL, VERDICT, *(column for column in kind.COLUMNS if column.on_page)]
    numbers = [place for place, column in enumerate(shown) if column.is_number]
    heads = [*(column.name for column in shown), _AGAINST]
    filled = (_row(kind, shown, main, row) for row in rows)
    return table(heads, filled, numbers=numbers, whole=(0, 1, len(shown)), stacked=True)


def _row(kind: Kind, shown: Sequence[Column], main: Mapping[str, Any], row: Mapping[str, Any]) -> list[Cell]:
    compares = row is not main and set(row) == set(main)  # else another kind's
    return [*(column.cell(row) for column in shown), kind.against(main, row) if compares else ""]
