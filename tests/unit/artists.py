"""What a figure drew, as numbers: for tests that compare it with what was to be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection


def points(line: Any) -> list[list[float]]:
    """The points of a line: x, y."""
    return np.asarray(line.get_xydata(), float).tolist()


def across(line: Any) -> list[float]:
    """The x values of a line."""
    return [x for x, _ in points(line)]


def heights(line: Any) -> list[float]:
    """The y values of a line."""
    return [y for _, y in points(line)]


def corners(path: Any) -> np.ndarray:
    """The corners (n, 2) of a path."""
    return np.asarray(path.vertices, float)


def bars(axes: Any, name: str) -> list[tuple[float, float, int]]:
    """Begin, end and row of each bar of a legend's name."""
    found = next(each for each in axes.collections if each.get_label() == name)
    assert isinstance(found, PolyCollection)
    each_corners = [corners(path) for path in found.get_paths()]
    return [(each[:, 0].min(), each[:, 0].max(), round(float(np.median(each[:4, 1])))) for each in each_corners]


def widths(axes: Any) -> list[float]:
    """How long the bars of a panel are."""
    return [bar.get_width() for bar in axes.patches]


def told(legend: Any) -> list[str]:
    """The names of a legend."""
    return [text.get_text() for text in legend.get_texts()]
