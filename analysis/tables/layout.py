"""How a table is laid out: its columns in order, what each holds, and how pandas (2 and 3 alike) keeps that.

A layout maps a column's name to a kind. Times are nanoseconds since the epoch and bring a second column along, the same
time in seconds since the run's first round: `start_ns` is followed by `start_s`. A table without a row has its columns
all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TEXT, FLOAT, FLAG = "string", "float64", "boolean"  # of these any may be missing
INT, WHOLE = "int64", "Int64"  # whole numbers of 64 bits: always there, or perhaps missing
TIME, TIME_OR_NONE = "time", "time or none"
_HELD_AS = {TIME: INT, TIME_OR_NONE: WHOLE}

Layout = Mapping[str, str]
Row = dict[str, Any]


def frame(layout: Layout, columns: Mapping[str, Any], origin_ns: int | None = None) -> DataFrame:
    """The columns (arrays or lists of n) as a table; seconds count from `origin_ns` (None: not told, they are NaN).
    Raises ValueError, naming the column, for a value of another kind, and for columns of unequal length."""
    from pandas import DataFrame

    lengths = {len(columns[name]) for name in layout}
    if len(lengths) > 1:
        raise ValueError(f"columns of unequal length: {sorted(lengths)}")
    made: dict[str, Series] = {}
    for name, kind in layout.items():
        made[name] = _series(name, columns[name], _HELD_AS.get(kind, kind))
        if kind in _HELD_AS:
            made[f"{name[: -len('_ns')]}_s"] = _since(made[name], origin_ns)
    return DataFrame(made)


def frame_of_rows(layout: Layout, rows: Iterable[Mapping[str, Any]], origin_ns: int | None = None) -> DataFrame:
    """The rows as a table; what a row lacks is missing there."""
    listed = list(rows)
    return frame(layout, {name: [row.get(name) for row in listed] for name in layout}, origin_ns)


def _series(name: str, values: Sequence[Any], kind: str) -> Series:
    from pandas import Series

    try:
        return Series(values, dtype=kind)
    except UnicodeEncodeError:  # a file's name may hold bytes that are no text
        return Series([_shown(value) for value in values], dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"column {name}: {error}") from error


def _shown(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _since(times_ns: Series, origin_ns: int | None) -> Series:
    """Seconds from the origin; whole nanoseconds are subtracted first, as a float of today's date is good to 256."""
    if origin_ns is None:
        return _series("seconds", [float("nan")] * len(times_ns), FLOAT)
    return ((times_ns - origin_ns) / 1e9).astype(FLOAT)
