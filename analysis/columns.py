"""A column of the comparison, in which every case of a run is a row: one description for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from analysis.text import NOTHING


def words(value: Any) -> str:
    """A value as it is; a dash for None."""
    return NOTHING if value is None else str(value)


@dataclass(frozen=True)
class Column:
    """The heading, the row's key, and its value in words (of None too: a case of another workload may lack the key).

    essential: a narrow terminal keeps it; on_page: the report shows it, not only the terminal.
    """

    name: str
    key: str
    form: Callable[[Any], str] = words
    is_number: bool = True
    essential: bool = False
    on_page: bool = True

    def cell(self, row: Mapping[str, Any]) -> str:
        """The row's value in words."""
        return self.form(row.get(self.key))


@dataclass(frozen=True)
class Table:
    """Rows of one run under columns, with a title."""

    title: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
