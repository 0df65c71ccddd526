"""Fewer points that look the same: what a figure cannot show apart is drawn once, and no extreme is lost."""

from __future__ import annotations

import numpy as np

COLUMNS, ROWS = 1000, 400  # cells of a figure: as fine as the pixels inside it


def envelope(places: np.ndarray, values: np.ndarray, columns: int = COLUMNS) -> np.ndarray:
    """Which points (k,) of a line to draw, its `places` (n,) ascending: of every column the first, the least, the
    greatest and the last, in their order; all of them when they are few."""
    if len(places) <= 4 * columns:
        return np.arange(len(places))
    column = _cells(places, columns)
    by_value = np.lexsort((values, column))
    least = np.flatnonzero(np.diff(column[by_value], prepend=-1))
    greatest = np.append(least[1:], len(places)) - 1
    first = np.flatnonzero(np.diff(column, prepend=-1))
    last = np.append(first[1:], len(places)) - 1
    return np.unique(np.concatenate([by_value[least], by_value[greatest], first, last]))


def distinct(places: np.ndarray, values: np.ndarray, columns: int = COLUMNS, rows: int = ROWS) -> np.ndarray:
    """Which points (k,) of a cloud to draw, in their order: the first one of each cell of columns x rows."""
    if len(places) <= columns:
        return np.arange(len(places))
    cells = _cells(places, columns) * rows + _cells(values, rows)
    return np.sort(np.unique(cells, return_index=True)[1])


def _cells(numbers: np.ndarray, count: int) -> np.ndarray:
    """The cell (n,) of each number, of `count` equal ones between the least and the greatest."""
    low, high = numbers.min(), numbers.max()
    width = (high - low) / count or 1
    return np.minimum(((numbers - low) / width).astype(np.int64), count - 1)
