"""The figures of a training breakdown: the share of communication over the number of ranks, and the parts of a step."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from analysis import text
from analysis.figures.style import (
    IDEAL,
    INK,
    SMALL,
    Skipped,
    label,
    legend_below,
    legend_rows,
    look,
    name_rows,
    new_figure,
)
from analysis.kinds.breakdown_model import ANCHOR, CLAIMED, RING, SERVER, Assumption, claimed_share
from analysis.kinds.breakdown_points import FIXED_BATCH, assumed, gradient_bytes, line_of, nearest, point, points
from analysis.run import Run

_CLAIM = "claimed"
_SCHEMES = (RING, SERVER, FIXED_BATCH)
_MEASURED = {RING: "ring", SERVER: "parameter server", FIXED_BATCH: "ring, fixed batch"}
_STYLES = {0.0: "-", 0.5: "-.", 1.0: ":"}  # by the exponent
_BEST = "#009E73"
_LOG_FROM = 10
_SHARE_CAPTION = (
    "Markers: measured packet by packet; all ranks compute as long as the run's, but with a fixed batch, which they "
    "share. Curves: by the lines fitted to the measured times of communication, beginning with the claimed 30 % at 10 "
    "ranks; computing falls as N^-p: each rank keeps its batch (0), all share one (1), or half-way (1/2). Bold: "
    "nearest to the claim. Nothing of communication is hidden behind computing."
)
_PARTS_CAPTION = "The median step of each run, the first one left out: what the slowest rank computes, and the rest."


def share_ranks(run: Run) -> tuple[Figure, str, str]:
    """Measured and modelled share of communication over the number of ranks, beside the claim."""
    found, modelled = points(run), [each for each, _ in assumed(run)]
    if not found:
        raise Skipped("no finished step")
    best = nearest(run)
    own = [each for each in modelled if each.gradient_bytes == gradient_bytes(run) or (best and each == best[0])]
    shown = [scheme for scheme in _SCHEMES if any(each.scheme == scheme for each in found)]
    names = [_CLAIM, *(_MEASURED[scheme] for scheme in shown), *(each.short for each in own)]
    title = _share_title(run)
    figure, (axes,) = new_figure(title, height_in=3.6, legend_rows=legend_rows(names))
    axes.plot(
        list(CLAIMED), [100 * share for share in CLAIMED.values()], "--*", color=IDEAL, markersize=12, label=_CLAIM
    )
    for scheme in shown:
        some = [each for each in found if each.scheme == scheme]
        shares = [100 * each.share for each in some]
        drawn_as = look(scheme)
        axes.plot(
            [each.ranks for each in some],
            shares,
            drawn_as.marker,
            color=drawn_as.colour,
            markersize=8,
            label=_MEASURED[scheme],
        )
    for each in own:
        _draw_model(axes, run, each, is_best=best is not None and each == best[0])
    axes.set_xscale("log")
    axes.set_xticks([4, *CLAIMED], [text.count(ranks) for ranks in (4, *CLAIMED)])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0, 102)
    label(axes, "ranks", "share of a step communicating (%)")
    legend_below([axes])
    return figure, title, _SHARE_CAPTION


def _draw_model(axes: Axes, run: Run, assumption: Assumption, is_best: bool) -> None:
    """The share by a fitted line; that of the nearest assumption bold."""
    line = line_of(run, assumption.algorithm)
    assert line is not None
    ranks = np.unique(np.geomspace(ANCHOR, max(CLAIMED), 60).astype(int))
    axes.plot(
        ranks,
        [100 * assumption.share(line, int(count)) for count in ranks],
        _STYLES[assumption.exponent],
        color=_BEST if is_best else look(assumption.algorithm).colour,
        linewidth=2.6 if is_best else 1.4,
        label=assumption.short,
    )


def _share_title(run: Run) -> str:
    rings = [each for each in points(run) if each.scheme == RING] or points(run)
    least, most = rings[0], rings[-1]
    if least is most:
        return f"{least.share:.0%} of a step of {text.counted(least.ranks, 'rank')} is communication"
    return (
        f"By a ring {least.ranks} ranks communicate for {least.share:.0%} of a step, {most.ranks} for {most.share:.0%};"
        f" claimed {claimed_share(least.ranks):.0%} and {claimed_share(most.ranks):.0%}"
    )


def parts(run: Run) -> tuple[Figure, str, str]:
    """Computing and communication of the step of every run."""
    found = points(run)
    own = point(run)
    if own is None:
        raise Skipped("no finished step")
    longest = max(found, key=lambda each: each.communication_s)
    title = (
        f"{own.ranks} ranks by {own.algorithm.replace('_', ' ')}: {text.seconds(own.compute_s)} computing, "
        f"{text.seconds(own.communication_s)} communicating; {longest.label}: {text.seconds(longest.communication_s)}"
    )
    found.sort(key=lambda each: (_SCHEMES.index(each.scheme) if each.scheme in _SCHEMES else 9, each.ranks))
    figure, (axes,) = new_figure(title, height_in=0.6 + 0.27 * len(found), legend_rows=1)
    rows = np.arange(len(found))
    computing = np.array([each.compute_s for each in found]) * 1e3
    communicating = np.array([each.communication_s for each in found]) * 1e3
    axes.barh(rows, computing, color="#BBBBBB", label="computing")
    colours = [look(each.scheme).colour for each in found]
    axes.barh(rows, communicating, left=computing, color=colours)
    axes.barh([], [], color=look(RING).colour, label="communicating")
    for row, each in enumerate(found):
        end = (each.compute_s + each.communication_s) * 1e3
        axes.annotate(f" {each.share:.0%}", (end, row), fontsize=SMALL, va="center", color=INK, annotation_clip=False)
    name_rows(axes, [each.label for each in found], len(found))
    axes.invert_yaxis()
    _span(axes, computing + communicating)
    legend_below([axes])
    return figure, title, _PARTS_CAPTION


def _span(axes: Axes, ends_ms: np.ndarray) -> None:
    """From zero to the longest step; on a scale that shrinks from 1 ms on where some are many times shorter."""
    many = ends_ms.max() > _LOG_FROM * ends_ms.min()
    if many:
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_xticks(ticks := [0, 1, 10, 100], [str(tick) for tick in ticks])
    axes.set_xlim(0, float(ends_ms.max()) * (2.0 if many else 1.1))
    label(axes, f"time of a step (ms{', logarithmic from 1 on' if many else ''})", "")
