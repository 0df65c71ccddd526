"""What a run directory, or an explanation of captures, holds, as pandas tables with the unit in each column's name.

Every run has the tables of `FLOWS` and `PORTS`, with all their columns but perhaps without a row (`missing` then tells
what the run lacks), and those of its workload. Times are whole nanoseconds since the epoch (`start_ns`), each followed
by the same in seconds since the first round (`start_s`); `seconds` is a length. What is not known is missing (NA),
never 0. docs/run-directory.md lists them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from analysis.run import Run
from analysis.tables.explained import tables_of
from analysis.tables.flows import FLOWS
from analysis.tables.packets import packets_frame
from analysis.tables.ports import PORTS
from analysis.tables.workloads import workload_tables
from topologies.units import BadRequest

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Tables", "packets_frame", "tables", "tables_of"]

# What values of the wrong kind in a run directory's files lead to, where no check of their own names them.
_DAMAGE = (TypeError, ValueError, KeyError, IndexError, AttributeError)


class Tables(Mapping[str, "DataFrame"]):
    """The tables of a run by name, each made when it is first asked for, and only once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._makers = {**FLOWS, **PORTS, **workload_tables(run)}
        self._made: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._makers:
            raise KeyError(f"{name}: no table of this run; allowed: {', '.join(self._makers)}")
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> DataFrame:
        try:
            return self._makers[name](self._run)
        except BadRequest:
            raise
        except _DAMAGE as error:
            trouble = f"{type(error).__name__}: {error}"
            raise BadRequest(f"{self._run.path}: table {name}: the run's files are damaged ({trouble})") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __repr__(self) -> str:
        return f"Tables({', '.join(self._makers)})"


def tables(run: Run) -> dict[str, DataFrame]:
    """All tables of a run by name. Raises BadRequest for a run whose files are missing or damaged."""
    return dict(Tables(run))
