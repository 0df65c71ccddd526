"""Figures of flows from captures alone: goodput and round trips over time, a Gantt chart of blocks and stalls, and the
tail of the blocks' completion times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.explain.figures_common import edges_ns, marks_of_rtt, rates_bps, span_ns
from analysis.explain.lost_time import lost_s, lost_stalls
from analysis.explain.model import Explanation, FlowStory
from analysis.explain.reasons import NOT_LOST
from analysis.explain.time_axis import CUT, TimeAxis, axis_of_flows
from analysis.figures.completions import Completions
from analysis.figures.decimate import envelope
from analysis.figures.gantt import MOST_ROWS, draw_bars, rows_height_in, set_rows
from analysis.figures.style import (
    INK,
    Skipped,
    cause_colour,
    label,
    legend_below,
    legend_rows,
    looks,
    new_figure,
    shown,
    time_unit,
)
from analysis.figures.tail import caption, draw_tails, told

_MOST_NAMED = 7
_LOG_FROM = 20  # round trips that span more than this factor need a logarithmic axis
_CROWD, _MEDIAN, _REST = "#9BC9E8", "#0072B2", "#BBBBBB"
_MOVES = "#A9D3EA"
_BLOCK, _REPEAT = "block on its way", "sent again"
_NO_FLOW = "no flow with data was captured"
_TOLD_LETTERS = 40
_GOODPUT_CAPTION = (
    "Payload that was acknowledged (of a flow whose acknowledgements were not captured: that passed), flows on top of "
    "each other, in bins of {width}."
)
_RTT_CAPTION = (
    "The time from a packet to the acknowledgement that covers it, seen from the capture point onward; in each bin the "
    "median of a flow's samples. Packets that were sent again give none.{many}"
)
_MANY = " Light: from the least to the greatest of all flows in a bin; dark: their median."
_GANTT_CAPTION = (
    "One row for each flow. Light: a block on its way, from its first packet (or the request for it) to its last "
    "byte's acknowledgement; a coloured bar is a stall, its colour the cause; a small stroke below, packets that were "
    "sent again.{cut}"
)
_TAIL_MEANING = "from the request for it, or its first packet, to the acknowledgement (or passing) of its last byte"


def _stories(explanation: Explanation) -> list[FlowStory]:
    stories = explanation.once
    if not stories:
        raise Skipped(_NO_FLOW)
    return stories


def goodput(explanation: Explanation) -> tuple[Figure, str, str]:
    """What was delivered over time, the largest flows on top of each other and the others together."""
    stories = [story for story in _stories(explanation) if story.series is not None]
    if not stories:
        raise Skipped("no flow is told over time")
    edges = edges_ns(stories)
    rates = {story.name: rates_bps(story, edges) for story in stories}
    layers = _layers(stories, rates)
    total = np.sum(list(layers.values()), axis=0)
    title = _goodput_title(stories, edges, total)
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(list(layers)))
    axis = axis_of_flows(stories, int(edges[0]), int(edges[-1]))
    styles, below, places = looks(list(layers)), np.zeros(len(total)), axis.place(edges)
    for name, rate in layers.items():
        colour = styles[name].colour if name in rates else _REST if len(layers) > 1 else _MEDIAN
        axes.stairs(below + rate, places, baseline=below, fill=True, color=colour, label=name)
        below = below + rate
    axis.draw(axes)
    axes.set_ylim(0, max(float(total.max()) * 1.08, 1.0))
    axes.yaxis.set_major_formatter(lambda bps, _: text.rate(bps) if bps else "0")
    label(axes, axes.get_xlabel(), "goodput")
    legend_below([axes])
    caption = _GOODPUT_CAPTION.format(width=text.seconds(float(edges[1] - edges[0]) / 1e9))
    return figure, title, caption + (CUT if axis.is_cut else "")


def _layers(stories: Sequence[FlowStory], rates: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The flows that are shown each by itself, the largest below, and all others together; of many flows none of which
    stands out all together."""
    largest = sorted(stories, key=lambda story: -story.delivered_bytes)
    named = [story.name for story in largest]
    if len(named) > _MOST_NAMED:
        named = named[: _MOST_NAMED - 1]
        some, whole = (sum(story.delivered_bytes for story in each) for each in (largest[: len(named)], largest))
        named = named if some > whole / 2 else []
    others = [rate for name, rate in rates.items() if name not in named]
    layers = {name: rates[name] for name in named}
    if others:
        words = f"the other {text.counted(len(others), 'flow')}" if named else f"all {len(others):,} flows"
        layers[words] = np.sum(others, axis=0)
    return layers


def _goodput_title(stories: Sequence[FlowStory], edges: np.ndarray, total: np.ndarray) -> str:
    lasted_s = float(edges[-1] - edges[0]) / 1e9
    delivered = sum(story.delivered_bytes for story in stories)
    idle = float((total == 0).mean())
    told_ = f"{text.counted(len(stories), 'flow')}: {text.rate(delivered * 8 / lasted_s)} on average"
    return f"{told_}; for {idle:.0%} of the time nothing is delivered" if idle >= 0.01 else told_


def round_trips(explanation: Explanation) -> tuple[Figure, str, str]:
    """Round trips over time."""
    stories = [story for story in _stories(explanation) if len(marks_of_rtt(story)[0])]
    if not stories:
        raise Skipped("no round trip can be told: acknowledgements were not captured")
    begin_ns, end_ns = span_ns(stories)
    found = {story.name: marks_of_rtt(story) for story in stories}
    axis = axis_of_flows(stories, begin_ns, end_ns)
    title = _rtt_title(stories)
    is_few = len(found) <= _MOST_NAMED
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(list(found)) if is_few else 1)
    for (name, (at_ns, rtt_ns)), style in zip(found.items(), looks(list(found)).values()) if is_few else ():
        some = envelope(at_ns, rtt_ns)
        places, values = _broken(axis, at_ns[some], rtt_ns[some] / 1e9)
        axes.plot(places, values, ".-", color=style.colour, markersize=3, linewidth=0.9, label=name)
    if not is_few:
        _draw_crowd(axes, found, axis, edges_ns(stories))
    values = np.concatenate([rtt for _, rtt in found.values()])
    if values.max() > _LOG_FROM * max(values.min(), 1):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda seconds, _: text.seconds(seconds) if seconds else "0")
    axis.draw(axes)
    label(axes, axes.get_xlabel(), "round trip")
    legend_below([axes])
    return figure, title, _RTT_CAPTION.format(many="" if is_few else _MANY) + (CUT if axis.is_cut else "")


def _broken(axis: TimeAxis, at_ns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and values of a line that is interrupted where the time axis is cut."""
    cuts = np.unique(np.searchsorted(at_ns, [begin_ns for begin_ns, _ in axis.silences], side="right"))
    return np.insert(axis.place(at_ns), cuts, np.nan), np.insert(values, cuts, np.nan)


def _draw_crowd(
    axes: Axes,
    found: dict[str, tuple[np.ndarray, np.ndarray]],
    axis: TimeAxis,
    edges: np.ndarray,
) -> None:
    """Least, greatest and median of all samples in each bin that has any."""
    at_ns, rtt_ns = (np.concatenate(each) for each in zip(*found.values()))
    order = np.argsort(at_ns, kind="stable")
    at_ns, rtt_ns = at_ns[order], rtt_ns[order] / 1e9
    cuts = np.searchsorted(at_ns, edges)
    filled = np.flatnonzero(np.diff(cuts))
    parts = [rtt_ns[cuts[number] : cuts[number + 1]] for number in filled]
    middles = axis.place((edges[filled] + edges[filled + 1]) // 2)
    low, middle, high = (np.array([pick(part) for part in parts]) for pick in (np.min, np.median, np.max))
    axes.vlines(middles, low, high, color=_CROWD, linewidth=1.4, label=f"{len(found):,} flows")
    axes.plot(middles, middle, ".", color=_MEDIAN, markersize=3.5, label="median")


def _rtt_title(stories: Sequence[FlowStory]) -> str:
    known = [story for story in stories if story.rtt_min_ns is not None and story.rtt_p99_ns is not None]
    if not known:
        return f"Round trips of {text.counted(len(stories), 'flow')}"
    least_ns = min(story.rtt_min_ns or 0 for story in known)
    middle_ns = float(np.median([story.rtt_median_ns or 0 for story in known]))
    worst = max(known, key=lambda story: story.rtt_p99_ns or 0)
    return (
        f"Round trips take {text.seconds(least_ns / 1e9)} at the least, {text.seconds(middle_ns / 1e9)} in the median; "
        f"p99 of {shown(worst.name, _TOLD_LETTERS)}: {text.seconds((worst.rtt_p99_ns or 0) / 1e9)}"
    )


def gantt(explanation: Explanation) -> tuple[Figure, str, str]:
    """Blocks, stalls by cause, and packets that were sent again, a row for each flow."""
    stories = _stories(explanation)
    rows = _rows(stories)
    begin_ns, end_ns = span_ns(stories)
    scale, unit = time_unit(max(end_ns - begin_ns, 1))
    causes = [cause for cause, _ in Counter(stall.cause for story in rows for stall in story.stalls).most_common()]
    names = [_BLOCK, *([_REPEAT] if any(map(_resent, rows)) else []), *causes]
    title = _gantt_title(stories)
    figure, (axes,) = new_figure(title, height_in=rows_height_in(len(rows)), legend_rows=legend_rows(names))

    def place(time_ns: int) -> float:
        return (time_ns - begin_ns) / scale

    draw_bars(axes, [_block_spans(story, end_ns) for story in rows], place, _MOVES, _BLOCK, height=0.8)
    for cause in causes:
        spans = [[(each.start_ns, each.end_ns) for each in story.stalls if each.cause == cause] for story in rows]
        draw_bars(axes, spans, place, cause_colour(cause), cause, height=0.3 if cause in NOT_LOST else 0.6)
    _draw_repeats(axes, rows, begin_ns, scale)
    axes.set_xlim(0, (end_ns - begin_ns) / scale or 1)
    set_rows(axes, _row_names(rows))
    label(axes, f"time since the first packet ({unit})", "")
    legend_below([axes])
    cut = f" The {len(rows)} that stood still the longest, of {len(stories):,}." if len(rows) < len(stories) else ""
    return figure, title, _GANTT_CAPTION.format(cut=cut)


def _row_names(rows: Sequence[FlowStory]) -> list[str]:
    """The flows' names; where these tell addresses and all flows have one destination, the sources alone."""
    are_addresses = all(story.name == f"{story.source} > {story.destination}" for story in rows)
    is_one = len({story.destination for story in rows}) == 1
    return [story.source if are_addresses and is_one and len(rows) > 1 else story.name for story in rows]


def _resent(story: FlowStory) -> int:
    return story.resent


def _rows(stories: Sequence[FlowStory]) -> list[FlowStory]:
    """The flows that stood still the longest, in natural order of their names."""
    longest = sorted(stories, key=lambda story: (-lost_s(story), -story.delivered_bytes, text.natural(story.name)))
    return sorted(longest[:MOST_ROWS], key=lambda story: text.natural(story.name))


def _block_spans(story: FlowStory, end_ns: int) -> list[tuple[int, int]]:
    """From the request, or the first packet, to the end (of the captures, where a block was not finished)."""
    return [
        (block.begin_ns if block.asked_ns is None else block.asked_ns, end_ns if block.end_ns is None else block.end_ns)
        for block in story.blocks
    ]


def _draw_repeats(axes: Axes, rows: Sequence[FlowStory], begin_ns: int, scale: float) -> None:
    """A stroke below its row for each moment at which packets were sent again, near ones as one."""
    places, heights = [], []
    for number, story in enumerate(rows):
        times_ns = np.sort(np.asarray(story.repeats.time_ns))
        some = times_ns[envelope(times_ns, np.zeros(len(times_ns)))]
        places.append((some - begin_ns) / scale)
        heights.append(np.full(len(some), number + 0.44))
    if any(map(len, places)):
        marks = axes.plot(np.concatenate(places), np.concatenate(heights), "|", color=INK, markersize=3.5, zorder=4)
        marks[0].set(label=_REPEAT, markeredgewidth=0.7)


def _gantt_title(stories: Sequence[FlowStory]) -> str:
    stalls = [stall for story in stories for stall in lost_stalls(story)]
    if not stalls:
        return f"No stall of {text.counted(len(stories), 'flow')} by network or transport was found"
    longest = max(stalls, key=lambda stall: stall.seconds)
    stalled = sum(bool(lost_stalls(story)) for story in stories)
    return (
        f"{text.counted(len(stalls), 'stall')} of {text.counted(stalled, 'flow')} by network or transport; longest: "
        f"{shown(longest.flow, _TOLD_LETTERS)}: {text.seconds(longest.seconds)}, {longest.cause}"
    )


def tail(explanation: Explanation) -> tuple[Figure, str, str]:
    """The tail of the completion times of all blocks."""
    seconds = [block.seconds for story in _stories(explanation) for block in story.blocks]
    times_s = [value for value in seconds if value is not None and value > 0]
    if not times_s:
        raise Skipped("no block was seen from its begin to its end")
    what = Completions("block", _TAIL_MEANING, tuple(times_s))
    title = f"{text.counted(len(times_s), 'block')}: {told(times_s)}"
    styles = looks(["blocks of all flows"])
    return draw_tails({"blocks of all flows": times_s}, styles, "blocks of all flows", title), title, caption(what)
