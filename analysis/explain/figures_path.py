"""Figures of the path from captures alone: one-way delay to the hot port, where packets were lost, and pauses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.explain.model import Explanation, Hop, PauseStory
from analysis.explain.time_axis import CUT, axis_of_packets
from analysis.figures.decimate import distinct
from analysis.figures.gantt import draw_bars, rows_height_in, set_rows
from analysis.figures.style import INK, Skipped, label, legend_below, legend_rows, new_figure, shown, time_unit

_DELAY, _LOST, _HELD = "#0072B2", "#D55E00", "#AA4499"
_MOST_ROWS = 24
_TOLD_LETTERS = 40
_NO_HOPS = "a flow has to be captured at two points for this"
_DELAY_CAPTION = (
    "One mark for each packet that was seen before {point} and there{many}: what lies above the least delay it spent "
    "in queues. {clock}Strokes at the top: packets that did not come."
)
_SAME_CLOCK = "Both captures are of one clock. "
_OTHER_CLOCK = (
    "The two clocks differ, as negative delays or their drift show: the least delay is taken for zero, and slow "
    "changes may be the clocks'. "
)
_LOSSES_CAPTION = (
    "Packets with data that one capture point saw and the next one on their way did not, of those that should have "
    "come there, in percent; their number beside the bar.{cut}"
)
_PAUSES_CAPTION = (
    "One row for each source of pause frames, with the class that they pause; a bar while they hold the neighbour that "
    "gets them, from a pause to the resume or, where the link's rate is known, until its time is "
    "over.{cut}"
)


def hot_point(hops: Sequence[Hop]) -> str | None:
    """The point before which most packets were lost, or without a loss that most packets came to."""
    names = sorted({hop.second for hop in hops}, key=text.natural)
    return max(names, key=lambda name: _weight(hops, name), default=None)


def _weight(hops: Sequence[Hop], name: str) -> tuple[int, int]:
    some = [hop for hop in hops if hop.second == name]
    return sum(len(hop.lost_ns) for hop in some), sum(hop.paired for hop in some)


def delay(explanation: Explanation) -> tuple[Figure, str, str]:
    """One-way delay to the hot port over time."""
    point = hot_point(explanation.hops)
    if point is None:
        raise Skipped(_NO_HOPS)
    some = [hop for hop in explanation.hops if hop.second == point and len(hop.sent_ns)]
    if not some:
        raise Skipped("no packet was seen at two capture points")
    is_one_clock = all(hop.same_clock for hop in some)
    sent_ns = np.concatenate([hop.sent_ns for hop in some])
    late_ns = np.concatenate([hop.delay_ns - (0 if is_one_clock else hop.delay_ns.min()) for hop in some])
    lost_ns = np.concatenate([hop.lost_ns for hop in some])
    begin_ns, end_ns = int(sent_ns.min()), int(max(sent_ns.max(), lost_ns.max(initial=0)))
    axis = axis_of_packets(np.concatenate([sent_ns, lost_ns]), begin_ns, end_ns)
    size, name_of_size = time_unit(max(float(late_ns.max()), 1))
    title = _delay_title(point, late_ns, len(lost_ns))
    figure, (axes,) = new_figure(title, legend_rows=1)
    places = axis.place(sent_ns)
    chosen = distinct(places, late_ns)
    axes.plot(places[chosen], late_ns[chosen] / size, ".", color=_DELAY, markersize=2, label="a packet")
    if len(lost_ns):
        _draw_lost(axes, axis.place(lost_ns))
    axis.draw(axes)
    axes.set_ylim(0, max(float(late_ns.max()) / size, 1e-9) * 1.15)
    words = "one-way delay" if is_one_clock else "delay beyond the least"
    label(axes, axes.get_xlabel(), f"{words} ({name_of_size})")
    legend_below([axes])
    many = f", of {text.counted(len({hop.flow for hop in some}), 'flow')}"
    caption = _DELAY_CAPTION.format(point=shown(point), many=many, clock=_SAME_CLOCK if is_one_clock else _OTHER_CLOCK)
    return figure, title, caption + (CUT if axis.is_cut else "")


def _draw_lost(axes: Axes, places: np.ndarray) -> None:
    """A stroke at the top for each moment at which packets were lost."""
    some = places[distinct(places, np.zeros(len(places)))]
    axes.vlines(some, 0.95, 1.0, transform=axes.get_xaxis_transform(), color=_LOST, linewidth=0.9, label="packets lost")


def _delay_title(point: str, late_ns: np.ndarray, lost: int) -> str:
    least_ns, middle_ns, most_ns = late_ns.min(), np.median(late_ns), late_ns.max()
    queued = text.seconds(float(most_ns - least_ns) / 1e9)
    told = (
        f"Packets wait up to {queued} on their way to {shown(point)}, {text.seconds(float(middle_ns - least_ns) / 1e9)}"
    )
    return f"{told} in the median; {text.counted(lost, 'packet')} lost"


def losses(explanation: Explanation) -> tuple[Figure, str, str]:
    """Between which points packets were lost."""
    if not explanation.hops:
        raise Skipped(_NO_HOPS)
    ways: dict[tuple[str, str], tuple[int, int]] = {}
    for hop in explanation.hops:
        lost, came = ways.get((hop.first, hop.second), (0, 0))
        ways[hop.first, hop.second] = (lost + len(hop.lost_ns), came + hop.paired)
    ordered = sorted(ways, key=lambda way: (-ways[way][0], *map(text.natural, way)))
    rows = ordered[:_MOST_ROWS]
    title = _losses_title(ways)
    figure, (axes,) = new_figure(title, height_in=rows_height_in(len(rows)), legend_rows=0)
    shares = [100 * ways[way][0] / max(sum(ways[way]), 1) for way in rows]
    axes.barh(range(len(rows)), shares, 0.66, color=_LOST)
    for number, way in enumerate(rows):
        lost, came = ways[way]
        words = f"{lost:,} of {lost + came:,}"
        axes.annotate(
            words, (shares[number], number), (4, 0), textcoords="offset points", va="center", fontsize=9, color=INK
        )
    axes.set_yticks(range(len(rows)), [shown(f"{first} → {second}", 30) for first, second in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.set_xlim(0, max(shares) * 1.35 or 1)
    label(axes, "packets lost (%)", "")
    cut = f" The {len(rows)} with most losses, of {len(ordered):,}." if len(rows) < len(ordered) else ""
    return figure, title, _LOSSES_CAPTION.format(cut=cut)


def _losses_title(ways: dict[tuple[str, str], tuple[int, int]]) -> str:
    total = sum(lost for lost, _ in ways.values())
    if not total:
        return f"No packet was lost between {text.counted(len(ways), 'pair')} of capture points"
    before: dict[str, int] = {}
    for (_, second), (lost, _) in ways.items():
        before[second] = before.get(second, 0) + lost
    worst = max(before, key=lambda name: before[name])
    return f"{text.counted(total, 'packet')} lost, {before[worst] / total:.0%} of them on the way to {shown(worst)}"


def pauses(explanation: Explanation) -> tuple[Figure, str, str]:
    """When each source of pause frames held its neighbour."""
    stories = sorted(explanation.pauses, key=lambda story: -story.total_ns)
    if not stories:
        raise Skipped("no pause frame was captured")
    held = [story for story in stories if story.spans]
    if not held:
        raise Skipped("no pause frame held anybody")
    rows = held[:_MOST_ROWS]
    begin_ns = min(point.first_ns for point in explanation.points if point.packets)
    end_ns = max(
        *(point.last_ns for point in explanation.points if point.packets),
        *(story.spans[-1][1] for story in rows),
    )
    scale, unit = time_unit(max(end_ns - begin_ns, 1))
    title = _pauses_title(held, end_ns - begin_ns)
    figure, (axes,) = new_figure(title, height_in=rows_height_in(len(rows)), legend_rows=legend_rows(["held"]))
    draw_bars(
        axes, [_merged(story, end_ns - begin_ns) for story in rows], lambda at: (at - begin_ns) / scale, _HELD, "held"
    )
    axes.set_xlim(0, (end_ns - begin_ns) / scale)
    set_rows(axes, [_source(story) for story in rows])
    label(axes, f"time since the first packet ({unit})", "")
    legend_below([axes])
    cut = f" The {len(rows)} that held the longest, of {len(held):,}." if len(rows) < len(held) else ""
    return figure, title, _PAUSES_CAPTION.format(cut=cut)


def _merged(story: PauseStory, lasted_ns: int) -> list[tuple[int, int]]:
    """The spans, those too close together to be told apart joined."""
    least_ns = lasted_ns // 2000
    found: list[tuple[int, int]] = []
    for begin_ns, end_ns in sorted(story.spans):
        if found and begin_ns - found[-1][1] < least_ns:
            found[-1] = (found[-1][0], max(end_ns, found[-1][1]))
        else:
            found.append((begin_ns, end_ns))
    return found


def _source(story: PauseStory) -> str:
    return f"{story.source}, {'all' if story.priority is None else story.priority}"


def _pauses_title(stories: Sequence[PauseStory], lasted_ns: int) -> str:
    worst = stories[0]
    count = text.counted(sum(story.pauses for story in stories), "pause frame")
    return (
        f"{count} from {text.counted(len(stories), 'source')}; {shown(worst.source)} holds its neighbour for "
        f"{text.seconds(worst.total_ns / 1e9)}, {worst.total_ns / max(lasted_ns, 1):.0%} of the time"
    )
