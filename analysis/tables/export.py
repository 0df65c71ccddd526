"""Tables as files for other tools: Parquet or CSV, one file a table, and `columns.csv` that tells every column's type.

Whole numbers stay whole in both, those of 64 bits too: where one may be missing, the CSV's cell is empty and the type
in columns.csv, "Int64", keeps pandas from making floats of the rest. A cell that holds several values goes into a table
of its own, named after both, with `row` (of the table it is from, from 0) and `place`. Text in a CSV that a spreadsheet
would take for a formula (it begins with = + - @, a tab or a carriage return, and is no number) gets an apostrophe in
front (OWASP, "CSV Injection"); Parquet has it as it is. Tables without a row are written with their columns.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.files import put_whole
from topologies.units import BadRequest

if TYPE_CHECKING:
    from pandas import DataFrame, Series

PARQUET, CSV = "parquet", "csv"
FORMS = (PARQUET, CSV)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_SEVERAL = (list, tuple, np.ndarray)


def export(tables: Mapping[str, DataFrame], folder: Path, form: str) -> list[Path]:
    """Write every table into `folder`, which is made where it is not there, and columns.csv; returns the paths. Raises
    BadRequest for another form, and where files cannot be written."""
    if form not in FORMS:
        raise BadRequest(f"--format: {form!r} is given; allowed: {', '.join(FORMS)}")
    flat = flattened(tables)
    write = _write_parquet if form == PARQUET else _write_csv
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [put_whole(folder / f"{name}.{form}", partial(write, table)) for name, table in flat.items()]
        return [*paths, put_whole(folder / "columns.csv", partial(_write_csv, columns_of(flat)))]
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise RuntimeError(f"--out: {folder} cannot be written ({error.strerror})") from error
        raise BadRequest(f"--out: {folder} cannot be written ({error.strerror}); allowed: a folder") from error


def flattened(tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The tables with one value a cell, followed by those of cells that held several."""
    found: dict[str, DataFrame] = {}
    for name, table in tables.items():
        deep = [column for column in table.columns if _is_deep(table[column])]
        found[name] = table.drop(columns=deep)
        found.update({f"{name}_{column}": _long(table[column]) for column in deep})
    return found


def _is_deep(column: Series) -> bool:
    """Whether some of its cells hold several values."""
    return str(column.dtype) == "object" and bool(column.map(_is_several).any())


def _is_several(value: object) -> bool:
    return isinstance(value, _SEVERAL)


def _long(cells: Series) -> DataFrame:
    from pandas import DataFrame

    rows = [
        (row, place, value)
        for row, several in enumerate(cells)
        if _is_several(several)
        for place, value in enumerate(several)
    ]
    return DataFrame(rows, columns=["row", "place", cells.name]).infer_objects()


def columns_of(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row for each column of the tables: table, column, and its type as pandas calls it."""
    from pandas import DataFrame

    rows = [(name, column, _type(table[column])) for name, table in tables.items() for column in table.columns]
    return DataFrame(rows, columns=["table", "column", "type"], dtype="string")


def _type(column: Series) -> str:
    """How to ask pandas' read_csv for it; "string" for any text."""
    name = str(column.dtype)
    return "string" if name in ("object", "str", "category") else name


def _write_parquet(table: DataFrame, path: Path) -> None:
    table.to_parquet(path, engine="pyarrow", index=False)


def _write_csv(table: DataFrame, path: Path) -> None:
    harmless = {name: table[name].map(_harmless) for name in table.columns if _type(table[name]) == "string"}
    table.assign(**harmless).to_csv(path, index=False, lineterminator="\n")


def _harmless(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula."""
    is_formula = isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value)
    return f"'{value}" if is_formula else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
