"""One style for every figure: panels, labels, and one colour and marker per scheme everywhere.

Colours are Okabe and Ito's palette, which colour-blind readers tell apart.
"""

from __future__ import annotations

import textwrap
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

WIDTH_IN, HEIGHT_IN, DPI = 6.2, 3.3, 160
INK, GRID, IDEAL = "#222222", "#DDDDDD", "#000000"
TITLE, LABEL, SMALL = 12.0, 11.0, 9.8  # points: legible on a phone, where a figure is 9 cm wide


matplotlib.rcParams["text.parse_math"] = False  # a label from a run directory is text, never a formula


class Look(NamedTuple):
    """How one scheme is drawn."""

    colour: str
    marker: str


_LOOKS = {
    "droptail": Look("#D55E00", "o"),
    "droptail, RTOmin 1ms": Look("#0072B2", "s"),
    "dctcp": Look("#009E73", "^"),
    "red": Look("#CC79A7", "D"),
    "PFC": Look("#882255", "p"),
    "dcqcn": Look("#DDCC77", "H"),
    "PFC + dctcp": Look("#661100", "8"),
    "PFC + dcqcn": Look("#6699CC", "1"),
    "RoCE droptail": Look("#332288", "<"),
    "RoCE PFC": Look("#AA4499", ">"),
    "RoCE dctcp": Look("#117733", "2"),
    "RoCE dcqcn": Look("#999933", "d"),
    "RoCE PFC + dctcp": Look("#CC6677", "3"),
    "RoCE PFC + dcqcn": Look("#44AADD", "*"),
    # Algorithms of collectives, which stand beside each other and not beside cures of congestion.
    "ring": Look("#0072B2", "o"),
    "tree": Look("#009E73", "^"),
    "halving_doubling": Look("#CC79A7", "D"),
    "hierarchical": Look("#E69F00", "s"),
    "parameter_server": Look("#D55E00", "v"),
    "in_network": Look("#332288", "P"),
    "direct": Look("#7F7F7F", "X"),
}
_OTHER_LOOKS = (Look("#E69F00", "v"), Look("#56B4E9", "P"), Look("#7F7F7F", "X"), Look("#8C564B", "h"))


def look(scheme: str) -> Look:
    """The colour and marker of a scheme: fixed for the known ones, by the name's checksum for any other."""
    return _LOOKS.get(scheme, _OTHER_LOOKS[zlib.crc32(scheme.encode()) % len(_OTHER_LOOKS)])


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each of a few names that stand beside each other: no two alike, however they are called."""
    choices = (*_OTHER_LOOKS, *_LOOKS.values())
    return {name: choices[number % len(choices)] for number, name in enumerate(names)}


class Skipped(Exception):
    """Raised by a drawing whose inputs are missing; its text is the reason."""


@dataclass(frozen=True)
class Drawn:
    """A figure as drawn: its title states the finding, its caption says how to read it; path is None when it
    was skipped, for `reason`."""

    name: str
    path: Path | None
    title: str = ""
    caption: str = ""
    reason: str = ""


def new_figure(
    title: str,
    columns: Sequence[float] = (1,),
    height_in: float = HEIGHT_IN,
    legend_rows: int = 1,
    right: float = 0.975,
) -> tuple[Figure, list[Axes]]:
    """A figure of one row of panels with the given width ratios, up to `right` of its width: title above, room for a
    legend of `legend_rows` rows below."""
    lines = textwrap.wrap(title, 58)
    below_in = 0.63 + 0.19 * legend_rows
    height_in += below_in
    figure = Figure(figsize=(WIDTH_IN, height_in))
    FigureCanvasAgg(figure)
    places = {"left": 0.12, "right": right, "bottom": below_in / height_in, "wspace": 0.06}
    places["top"] = 1 - (0.16 + 0.21 * len(lines)) / height_in
    grid = figure.add_gridspec(1, len(columns), width_ratios=list(columns), **places)
    panels = [figure.add_subplot(grid[0, place]) for place in range(len(columns))]
    figure.text(0.012, 1 - 0.08 / height_in, "\n".join(lines), fontsize=TITLE, fontweight="bold", va="top", color=INK)
    for axes in panels:
        dress(axes)
    return figure, panels


def dress(axes: Axes) -> None:
    """The house style of a panel: light grid behind, no box."""
    axes.grid(True, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL, colors=INK)


def label(axes: Axes, x: str, y: str) -> None:
    """Name the axes, units included."""
    axes.set_xlabel(x, fontsize=LABEL, color=INK)
    axes.set_ylabel(y, fontsize=LABEL, color=INK)


def _legend_columns(names: Sequence[str]) -> int:
    """Three columns, or two where long names would push the legend over the edge."""
    longest = sorted(map(len, names))[-3:]
    return 3 if longest[-1] <= 24 and sum(longest) <= 62 else 2


def legend_rows(names: Sequence[str]) -> int:
    """How many rows a legend of these names needs."""
    return -(-len(names) // _legend_columns(names))


def legend_below(panels: Sequence[Axes]) -> None:
    """One legend for all panels of a figure, below them."""
    found = {name: handle for axes in panels for handle, name in zip(*axes.get_legend_handles_labels())}
    panels[0].figure.legend(
        list(found.values()),
        list(found),
        fontsize=SMALL,
        loc="lower center",
        ncols=_legend_columns(list(found)),
        frameon=False,
        columnspacing=1.4,
    )


def save(figure: Figure, path: Path) -> Path:
    """Write the figure as PNG, without the date and version that would make equal runs differ."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    return path


def drawn(name: str, folder: Path, draw: Callable[[], tuple[Figure, str, str]]) -> Drawn:
    """The figure that `draw` makes (with its title and caption), saved in `folder`; skipped when it says that
    inputs are missing."""
    try:
        figure, title, caption = draw()
    except Skipped as reason:
        return Drawn(name, None, reason=str(reason))
    return Drawn(name, save(figure, folder / f"{name}.png"), title, caption)
