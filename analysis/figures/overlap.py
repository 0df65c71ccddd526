"""The figures of overlap: steps with it beside steps without, and what buckets of each size leave exposed."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.style import IDEAL, INK, SMALL, Skipped, label, legend_below, legend_rows, name_rows, new_figure
from analysis.kinds.overlap_pairs import Pair, pair_of, pairs
from analysis.kinds.training_setting import bucket_bytes, modelled
from analysis.run import Run

_COMPUTING, _EXPOSED, _PERFECT = "computing", "exposed communication", "perfect overlap"
_MEASURED, _MODEL = "measured", "model"
_GREY, _BLUE, _PALE = "#BBBBBB", "#0072B2", "#9CC7E2"
_SAVED_CAPTION = (
    "Each case: above without overlap and compression (pale), below with overlap. Strokes: what perfect overlap alone "
    "would reach, with a last bucket that takes no time. The part that is saved stands behind each pair."
)
_BUCKETS_CAPTION = (
    "Communication that nothing hides, by the size of the buckets: the last one is always exposed, and many small ones "
    "pay a delay for each step of each ring. Line: the model."
)


def saved(run: Run) -> tuple[Figure, str, str]:
    """Steps with and without overlap."""
    found = pairs(run)
    if not found:
        raise Skipped("no case like the run without overlap")
    best = max(found, key=lambda pair: pair.saved)
    title = f"Steps get {min(pair.saved for pair in found):.0%} to {best.saved:.0%} shorter (claimed: 40 % or more)"
    names = [_COMPUTING, "communication without overlap", _EXPOSED, _PERFECT]
    figure, (axes,) = new_figure(title, height_in=0.6 + 0.42 * len(found), legend_rows=legend_rows(names))
    rows = np.arange(len(found))
    computing = np.array([pair.compute_s for pair in found]) * 1e3
    for shift, colour, name, ends in (
        (-0.19, _PALE, names[1], [pair.off_s for pair in found]),
        (0.19, _BLUE, _EXPOSED, [pair.on_s for pair in found]),
    ):
        rest = np.maximum(np.array(ends) * 1e3 - computing, 0)
        axes.barh(rows + shift, computing, 0.36, color=_GREY, label=_COMPUTING if shift < 0 else None)
        axes.barh(rows + shift, rest, 0.36, left=computing, color=colour, label=name)
    for row, pair in enumerate(found):
        _draw_perfect(axes, row, pair)
        place_ms = max(pair.off_s, pair.on_s) * 1e3
        axes.annotate(
            f" {pair.saved:.0%}", (place_ms, row), (4, 0), textcoords="offset points", fontsize=SMALL, va="center",
            color=INK, annotation_clip=False,
        )  # fmt: skip
    name_rows(axes, [pair.label for pair in found], len(found))
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(0, max(max(pair.off_s, pair.on_s) for pair in found) * 1.12e3)
    label(axes, "time of a step (ms)", "")
    legend_below([axes])
    return figure, title, _SAVED_CAPTION


def _draw_perfect(axes: Axes, row: int, pair: Pair) -> None:
    place_ms = pair.off_s * (1 - pair.most_saved) * 1e3
    axes.plot([place_ms] * 2, [row, row + 0.4], color=IDEAL, linewidth=1.8, label=_PERFECT if row == 0 else None)


def buckets(run: Run) -> tuple[Figure, str, str]:
    """Exposed communication over the size of buckets, with the run's computing."""
    own = pair_of(run)
    if own is None:
        raise Skipped("no case like the run without overlap")
    found = [pair for pair in pairs(run) if pair.off is own.off and not pair.is_compressed]
    found.sort(key=_bucket_bytes)
    if len(found) < 2:
        raise Skipped("no cases with buckets of other sizes")
    best = min(found, key=lambda pair: pair.exposed_s)
    title = (
        f"Buckets of {text.size(_bucket_bytes(best))} leave least exposed: {text.seconds(best.exposed_s)} of "
        f"{text.seconds(best.travel_s)}"
    )
    figure, (axes,) = new_figure(title, legend_rows=1)
    sizes = [_bucket_bytes(pair) / 1e6 for pair in found]
    axes.plot(sizes, [pair.exposed_s * 1e3 for pair in found], "o", color=_BLUE, markersize=8, label=_MEASURED)
    told = [(size, step.exposed_s * 1e3) for size, pair in zip(sizes, found) for step in [modelled(pair.on)] if step]
    axes.plot([size for size, _ in told], [exposed for _, exposed in told], color=IDEAL, linewidth=1.4, label=_MODEL)
    axes.axhline(own.travel_s * 1e3, color=_PALE, linestyle="--", linewidth=1.6, label="without overlap")
    axes.set_xscale("log")
    axes.set_xticks(sizes, [text.size(size * 1e6) for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    label(axes, "bucket", "exposed communication (ms)")
    legend_below([axes])
    return figure, title, _BUCKETS_CAPTION


def _bucket_bytes(pair: Pair) -> int:
    return bucket_bytes(pair.on)[0]
