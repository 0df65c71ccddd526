"""The figure of goodput against the number of senders, one band for each scheme."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.confidence import mean_interval
from analysis.figures.style import (
    IDEAL,
    LOSSLESS_NAME,
    Skipped,
    label,
    legend_below,
    legend_rows,
    look,
    new_figure,
    vertical_scale,
)
from analysis.run import Run

_CAPTION = (
    "Goodput over all rounds of each run. Bands: 95 % intervals by Student's t of the mean time of a round, over the "
    "rounds of a run (taken as independent), or over runs where some were repeated with other seeds; none for a single "
    "round. Dashed: the same blocks without loss, every bit once through the receiver's link, start jitter included."
)


class SweepPoint(NamedTuple):
    """Goodput at a number of senders, the interval that holds it 95 times in 100 (None: a single round), and goodput
    without loss, in bits/s."""

    bps: float
    interval_bps: tuple[float, float] | None
    best_bps: float


Curve = dict[int, SweepPoint]


def goodput_senders(run: Run) -> tuple[Figure, str, str]:
    """Goodput against the number of senders for each scheme that was run with at least two."""
    curves = _curves(run)
    if not curves:
        raise Skipped("no sweep over senders in cases/")
    title = _sweep_title(curves)
    figure, (axes,) = new_figure(title, legend_rows=legend_rows([*curves, LOSSLESS_NAME]))
    ideal = {senders: point.best_bps / 1e9 for points in curves.values() for senders, point in points.items()}
    vertical_scale(axes, [each.bps / 1e9 for points in curves.values() for each in points.values()] + [*ideal.values()])
    for scheme, points in curves.items():
        _draw_curve(axes, scheme, points)
    numbers = sorted(ideal)
    best = [ideal[senders] for senders in numbers]
    axes.plot(numbers, best, color=IDEAL, linestyle="--", linewidth=1, label=LOSSLESS_NAME)
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(senders) for senders in numbers])
    axes.minorticks_off()
    label(axes, "senders", "goodput (Gb/s)")
    legend_below([axes])
    return figure, title, _CAPTION


def _draw_curve(axes: Axes, scheme: str, points: Curve) -> None:
    """A scheme's line, and the band of its intervals."""
    style = look(scheme)
    values = [each.bps / 1e9 for each in points.values()]
    axes.plot(list(points), values, color=style.colour, marker=style.marker, linewidth=1.4, label=scheme)
    known = {senders: each.interval_bps for senders, each in points.items() if each.interval_bps}
    lows, highs = ([pair[side] / 1e9 for pair in known.values()] for side in (0, 1))
    axes.fill_between(list(known), lows, highs, color=style.colour, alpha=0.22, linewidth=0, zorder=1)


def _curves(run: Run) -> dict[str, Curve]:
    """scheme -> senders -> the point, for the schemes with at least two numbers of senders; runs that repeat others are
    one point with them."""
    found: dict[str, dict[int, list[Run]]] = {}
    for each in (run, *run.cases.values()):
        if each.rounds:
            found.setdefault(each.parameters.scheme, {}).setdefault(each.parameters.senders, []).append(each)
    return {
        scheme: {senders: _point(runs) for senders, runs in sorted(points.items())}
        for scheme, points in found.items()
        if len(points) > 1
    }


def _point(runs: Sequence[Run]) -> SweepPoint:
    """Rounds of equal blocks: the goodput is the block over their mean time, and so are the ends of its interval. No
    round is faster than one without loss."""
    spec = runs[0].parameters
    distinct = [each for number, each in enumerate(runs) if each.spec not in [one.spec for one in runs[:number]]]
    block_bits = spec.senders * spec.sender_bytes * 8
    rounds_s = [[each.seconds for each in one.rounds] for one in distinct]
    means_s = [mean(times_s) for times_s in rounds_s]
    interval_s = mean_interval(means_s if len(means_s) > 1 else rounds_s[0])
    best_bps = block_bits / spec.ideal_seconds
    found_bps = block_bits / mean(means_s)
    if interval_s is None:
        return SweepPoint(found_bps, None, best_bps)
    low_s, high_s = interval_s
    most_bps = max(block_bits / low_s if low_s > 0 else best_bps, found_bps)
    return SweepPoint(found_bps, (block_bits / high_s, min(most_bps, max(best_bps, found_bps))), best_bps)


def _sweep_title(curves: dict[str, Curve]) -> str:
    """For each scheme, how far goodput falls behind its peak, where that is by half or more."""
    falls = [words for scheme, curve in curves.items() for words in [_fall(scheme, curve)] if words]
    return "; ".join(falls) if falls else "Goodput grows with the senders, or falls by less than half, in every scheme"


def _fall(scheme: str, curve: Curve) -> str:
    """From which peak to which low beyond it a scheme's goodput falls; empty when by less than half."""
    peak = max(curve, key=lambda senders: curve[senders].bps)
    low = min((senders for senders in curve if senders >= peak), key=lambda senders: curve[senders].bps)
    if curve[low].bps > curve[peak].bps / 2:
        return ""
    high, bottom = (text.rate(curve[senders].bps) for senders in (peak, low))
    return f"{scheme} falls from {high} with {text.counted(peak, 'sender')} to {bottom} with {low}"
