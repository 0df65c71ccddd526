"""The figures of parallelism: the traffic matrix of each way of sharing, and the parts of its step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.style import INK, SMALL, Skipped, label, legend_below, name_rows, new_figure
from analysis.kinds.parallel_model import WAYS
from analysis.kinds.shares import alike, share_words
from analysis.kinds.training_steps import compute_s, helper_hosts, rank_hosts, step_s, traffic_per_step
from analysis.run import Run

_Seconds = Callable[[Run], "float | None"]
_MATRIX_CAPTION = (
    "Payload that each rank (row) sends to each other (column) in a step; white: nothing. The same colours in all "
    "panels."
)
_PARTS_CAPTION = (
    "The median step, the first one left out: what a rank computes, what a pipeline's stage waits for because the "
    "others begin later or end sooner (bubble), and the rest, which is communication."
)
_PARTS = (("computing", "#BBBBBB"), ("bubble", "#E69F00"), ("communicating", "#0072B2"))


def _ways(run: Run) -> dict[str, Run]:
    """The run and its cases by what they share; those without traffic left out."""
    found = {str(each.spec.get("parallelism")): each for each in alike(run).values() if traffic_per_step(each)}
    return {way: found[way] for way in WAYS if way in found}


def matrices(run: Run) -> tuple[Figure, str, str]:
    """A heat map of bytes for each way of sharing."""
    shown = _ways(run)
    if not shown:
        raise Skipped("measured.json tells no traffic")
    title = _matrix_title(shown)
    figure, panels = new_figure(title, columns=[1] * len(shown), height_in=2.3, legend_rows=0, right=0.83)
    filled = {name: _matrix(each) for name, each in shown.items()}
    cells = np.concatenate([matrix[matrix > 0] for matrix in filled.values()])
    norm = LogNorm(vmin=float(cells.min()) / 1.5, vmax=float(cells.max()) * 1.5)
    for axes, (name, matrix) in zip(panels, filled.items()):
        image = axes.imshow(np.ma.masked_equal(matrix, 0), cmap="viridis", norm=norm, aspect="equal")
        axes.grid(False)
        axes.set_title(name, fontsize=SMALL, color=INK)
        places = range(0, len(matrix), max(len(matrix) // 4, 1))
        axes.set_xticks(places, [str(place) for place in places])
        axes.set_yticks(places, [str(place) for place in places] if axes is panels[0] else [""] * len(places))
        label(axes, "to rank", "from rank" if axes is panels[0] else "")
    beside = figure.add_axes((0.85, panels[0].get_position().y0, 0.02, panels[0].get_position().height))
    bar = figure.colorbar(image, cax=beside)
    ticks = sorted({float(cells.min()), float(cells.max())})
    bar.set_ticks(ticks, labels=[text.size(tick) for tick in ticks], fontsize=SMALL)
    bar.minorticks_off()
    return figure, title, _MATRIX_CAPTION


def _matrix(run: Run) -> np.ndarray:
    hosts = [*rank_hosts(run), *helper_hosts(run)]
    places = {host: place for place, host in enumerate(hosts)}
    matrix = np.zeros((len(hosts), len(hosts)))
    for (sender, receiver), sent_bytes in traffic_per_step(run).items():
        matrix[places[sender], places[receiver]] = sent_bytes
    return matrix


def _matrix_title(shown: Mapping[str, Run]) -> str:
    totals = {name: sum(traffic_per_step(each).values()) for name, each in shown.items()}
    return "A step moves " + ", ".join(f"{text.size(total)} ({name})" for name, total in totals.items())


def parts(run: Run, communication_s: _Seconds, bubble_s: _Seconds) -> tuple[Figure, str, str]:
    """Computing, bubble and communication of a step by what is shared."""
    shown = {name: each for name, each in _ways(run).items() if step_s(each)}
    if not shown:
        raise Skipped("no finished step")
    told = {name: [way(each) or 0.0 for way in (compute_s, bubble_s, communication_s)] for name, each in shown.items()}
    shares = {name: values[2] / (step_s(shown[name]) or 1) for name, values in told.items()}
    title = "Of a step is communication: " + ", ".join(f"{share_words(part)} ({name})" for name, part in shares.items())
    figure, (axes,) = new_figure(title, height_in=0.5 + 0.4 * len(shown), legend_rows=1)
    rows, left = np.arange(len(shown)), np.zeros(len(shown))
    for place, (name, colour) in enumerate(_PARTS):
        values = np.array([each[place] for each in told.values()]) * 1e3
        axes.barh(rows, values, left=left, color=colour, label=name)
        left = left + values
    name_rows(axes, list(shown), len(shown))
    axes.set_ylim(len(shown) - 0.5, -0.5)
    label(axes, "time of a step (ms)", "")
    legend_below([axes])
    return figure, title, _PARTS_CAPTION
