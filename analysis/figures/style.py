"""One style for every figure: panels, labels, and one colour and marker per scheme everywhere.

Colours are Okabe and Ito's palette, which colour-blind readers tell apart.
"""

from __future__ import annotations

import textwrap
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.text import Text
from matplotlib.ticker import NullFormatter

WIDTH_IN, HEIGHT_IN, DPI = 6.2, 3.3, 160
INK, GRID, IDEAL = "#222222", "#DDDDDD", "#000000"
TITLE, LABEL, SMALL = 12.0, 11.0, 9.8  # points: legible on a phone, where a figure is 9 cm wide
NAME_LETTERS, LEGEND_LETTERS, TITLE_LETTERS = 28, 46, 232  # longer texts are cut
_EDGE_IN, _RIGHT = 0.05, 0.975  # what stays free at the left; where panels end at the right
_MOST_ROW_NAMES = 16
_LOG_FROM = 8  # values that span more than this factor need a logarithmic axis
LOSSLESS_NAME = "without loss"  # what a round, or goodput, is compared with
_UNKNOWN_LETTER = "\N{REPLACEMENT CHARACTER}"


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
# Why a flow stood still, or what it did: timeouts warm, what is awaited blue and green.
_CAUSE_COLOURS = {
    "rto_tail_loss": "#E69F00",
    "rto_full_window_loss": "#D55E00",
    "rto_lost_retransmission": "#CC79A7",
    "rto_few_duplicates": "#0072B2",
    "rto_after_recovery": "#56B4E9",
    "loss_probe": "#009E73",
    "rack_timer": "#7F7F7F",
    "delayed_ack": "#F0E442",
    "application_idle": "#B9A79B",
    "unexplained": "#000000",
    "qp_timeout_not_told": "#882255",
    "qp_timeout_nak_ignored": "#AA4499",
    "paused": "#999933",
    "zero_window": "#332288",
    "receiver_not_ready": "#6699CC",
    "syn_retransmission": "#661100",
    "rto_spurious": "#CC6677",
    "rto_unknown": "#DDCC77",
    "never_went_on": "#44AADD",
    "waited_for_straggler": "#D5D5D5",
}
_OTHER_LOOKS = (Look("#E69F00", "v"), Look("#56B4E9", "P"), Look("#7F7F7F", "X"), Look("#8C564B", "h"))


def look(scheme: str) -> Look:
    """The colour and marker of a scheme: fixed for the known ones, by the name's checksum for any other."""
    return _LOOKS.get(scheme, _OTHER_LOOKS[zlib.crc32(scheme.encode()) % len(_OTHER_LOOKS)])


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each of a few names that stand beside each other: no two alike, however they are called."""
    choices = (*_OTHER_LOOKS, *_LOOKS.values())
    return {name: choices[number % len(choices)] for number, name in enumerate(names)}


def cause_colour(cause: str) -> str:
    """The colour of a stall's cause: fixed for the known ones, by the name's checksum for any other."""
    return _CAUSE_COLOURS.get(cause) or look(cause).colour


@cache
def letter_shown(letter: str) -> str:
    """A letter as it can be drawn: no control character, and none that the font lacks."""
    if letter.isspace():
        return " "
    if unicodedata.category(letter)[0] == "C" or not get_font(findfont("DejaVu Sans")).get_char_index(ord(letter)):
        return _UNKNOWN_LETTER
    return letter


def shown(words: str, most: int = NAME_LETTERS) -> str:
    """A text from a file as a figure can show it: in one line, of at most so many letters (what is too long is cut in
    its middle), without control characters and letters that the font lacks."""
    if len(words) > most:
        head = (most - 1) * 2 // 3
        words = f"{words[:head]}…{words[len(words) - (most - 1 - head) :]}"
    return "".join(map(letter_shown, words))


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


class PlainFigure(Figure):
    """A figure whose texts are text, never formulas, whatever names from a run directory hold: those that it has, and
    labels of ticks that are made while it is drawn. Other figures of the same program are left as they are."""

    def draw(self, renderer: Any) -> None:
        """As matplotlib asks for it."""
        with self.plain():
            super().draw(renderer)

    @contextmanager
    def plain(self) -> Iterator[None]:
        """While its texts are measured or drawn."""
        with matplotlib.rc_context({"text.parse_math": False}):
            for words in self.findobj(Text):
                words.set_parse_math(False)
            yield


def new_figure(
    title: str,
    columns: Sequence[float] = (1,),
    height_in: float = HEIGHT_IN,
    legend_rows: int = 1,
    right: float = _RIGHT,
) -> tuple[Figure, list[Axes]]:
    """A figure of one row of panels with the given width ratios, up to `right` of its width: title above, room for a
    legend of `legend_rows` rows below."""
    lines = textwrap.wrap(shown(title, TITLE_LETTERS), 58)
    below_in = 0.63 + 0.19 * legend_rows
    height_in += below_in
    figure = PlainFigure(figsize=(WIDTH_IN, height_in))
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


def time_unit(span_ns: float) -> tuple[float, str]:
    """The unit of an axis of so long a time: nanoseconds in one, and its name."""
    return next(
        (scale, unit)
        for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
        if span_ns >= scale or scale == 1
    )


def name_rows(axes: Axes, names: Sequence[str], most: int = _MOST_ROW_NAMES) -> None:
    """Name every row of a panel, 0 the first, or, of more than `most`, every second or so."""
    step = -(-len(names) // most) if names else 1
    axes.set_yticks(range(0, len(names), step), [shown(name) for name in names[::step]])


def vertical_scale(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis when the values span more than a factor of _LOG_FROM, else one that begins at
    zero."""
    if max(values) > _LOG_FROM * min(values):
        axes.set_yscale("log")
        axes.set_ylim(min(values) / 1.8, max(values) * 1.8)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, max(values) * 1.12)


def _legend_columns(names: Sequence[str]) -> int:
    """Three columns, or two where long names would push the legend over the edge, or one."""
    longest = sorted(min(len(name), LEGEND_LETTERS) for name in names)[-3:]
    if longest[-1] <= 24 and sum(longest) <= 62:
        return 3
    return 2 if sum(longest[-2:]) <= 68 else 1


def legend_rows(names: Sequence[str]) -> int:
    """How many rows a legend of these names needs."""
    return -(-len(names) // _legend_columns(names))


def legend_below(panels: Sequence[Axes]) -> None:
    """One legend for all panels of a figure, below them; names that begin with "_" are not told."""
    found = {name: handle for axes in panels for handle, name in zip(*axes.get_legend_handles_labels())}
    panels[0].figure.legend(
        list(found.values()),
        [shown(name, LEGEND_LETTERS) for name in found],
        fontsize=SMALL,
        loc="lower center",
        ncols=_legend_columns(list(found)),
        frameon=False,
        columnspacing=1.4,
    )


def widen_left(figure: Figure) -> None:
    """Give the panels so wide a left margin that nothing of the left one's axis is cut."""
    old = min((axes.get_position().x0 for axes in figure.axes), default=0.0)
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    first = [axes for axes in figure.axes if axes.axison and axes.get_position().x0 == old]
    boxes = [box for axes in first for box in [axes.yaxis.get_tightbbox(renderer)] if box is not None]
    short_in = _EDGE_IN - min((box.x0 for box in boxes), default=figure.dpi) / figure.dpi
    if short_in <= 0:
        return
    left = old + short_in / figure.get_figwidth()
    for axes in figure.axes:
        place = axes.get_position()
        x0, x1 = (_RIGHT - (_RIGHT - x) * (_RIGHT - left) / (_RIGHT - old) for x in (place.x0, place.x1))
        axes.set_position((x0, place.y0, x1 - x0, place.height))


def save(figure: Figure, path: Path) -> Path:
    """Write the figure as PNG, without the date and version that would make equal runs differ."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with figure.plain() if isinstance(figure, PlainFigure) else nullcontext():
        widen_left(figure)
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
