"""The figure of headroom: what is lost with how much of it, and how much of it is used."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import text
from analysis.figures.style import IDEAL, Skipped, label, legend_below, legend_rows, look, new_figure
from analysis.kinds.room import rooms
from analysis.run import Run

_LEGEND = ("packets lost", "most headroom in use", "the formula", "all that was given")
_AXIS_ON_RIGHT = 0.885
_CAPTION = (
    "Each mark is a run. Left: packets that the lossless class lost, against the headroom that each port had. Right: "
    "the most of it that any port had in use. The dashed line is the formula: rate x 2 x one-way delay, a frame at "
    "either end, and the reaction."
)


def losses(run: Run) -> tuple[Figure, str, str]:
    """Losses and use against headroom, of the run and its cases."""
    found = [each for each in rooms(run) if each.given_bytes is not None and each.lost is not None]
    if len(found) < 2:
        raise Skipped("fewer than two runs with PFC and counters")
    given = [(each.given_bytes or 0) / 1e3 for each in found]
    needed = found[0].needed_bytes / 1e3
    style = look(run.parameters.scheme)
    title = _title(run)
    figure, panels = new_figure(title, columns=[1, 1], legend_rows=legend_rows(_LEGEND), right=_AXIS_ON_RIGHT)
    left, right = panels
    lost, used, formula, line = _LEGEND
    left.plot(given, [each.lost or 0 for each in found], color=style.colour, marker=style.marker, label=lost)
    left.yaxis.set_major_locator(MaxNLocator(integer=True))
    left.set_ylim(bottom=0)
    right.plot(given, [(each.used_bytes or 0) / 1e3 for each in found], color="#0072B2", marker="s", label=used)
    right.plot([0, max(given)], [0, max(given)], color="#7F7F7F", linewidth=1, linestyle=":", label=line)
    right.set_ylim(bottom=0)
    right.yaxis.tick_right()
    right.yaxis.set_label_position("right")
    for axes in panels:
        axes.axvline(needed, color=IDEAL, linestyle="--", linewidth=1, label=formula)
        axes.set_xlim(0, max(*given, needed) * 1.06)
    label(left, "headroom of each port (KB)", "packets lost")
    label(right, "headroom of each port (KB)", "headroom in use (KB)")
    legend_below(panels)
    return figure, title, _CAPTION


def _title(run: Run) -> str:
    """From which headroom on nothing is lost, beside the formula."""
    found = rooms(run)
    most_lossy = max((each.given_bytes or 0 for each in found if each.lost), default=0)
    clean = [each.given_bytes or 0 for each in found if each.lost == 0 and (each.given_bytes or 0) > most_lossy]
    formula = f"the formula asks for {text.size(found[0].needed_bytes)}"
    if not most_lossy:
        return f"Nothing is lost even with {text.size(min(clean, default=None))} of headroom; {formula}"
    none = f", none from {text.size(min(clean))} on" if clean else ""
    return f"Packets are lost up to {text.size(most_lossy)} of headroom{none}; {formula}"
