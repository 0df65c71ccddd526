"""The timelines of captures that can be zoomed: what each flow did, its goodput and bytes in flight, one-way delays,
pauses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis import text
from analysis.explain.figures_common import rates_bps
from analysis.explain.lost_time import lost_s, lost_stalls
from analysis.explain.model import (
    Explanation,
    FlowStall,
    FlowStory,
    Hop,
    PauseStory,
    Series,
)
from analysis.figures.style import cause_colour, looks
from analysis.kinds.arrivals import even_edges_ns
from analysis.pages.timeline_bars import MOST_ROWS, Bar, bars_of
from analysis.pages.timelines import (
    DOTS,
    MOST_BARS,
    MOST_POINTS,
    TICKS,
    Chart,
    Clock,
    Line,
    View,
    joined_spans,
    thinned,
)

_BLOCK, _HELD = "#A9D3EA", "#D55E00"
_MOST_LINES = 8
_BINS = 600
_TIME = "time since the first packet"


def capture_charts(explanation: Explanation) -> list[Chart]:
    """Every timeline that the captures have something for; none of captures without packets."""
    seen = [point for point in explanation.points if point.packets]
    if not seen:
        return []
    begin_ns, end_ns = min(point.first_ns for point in seen), max(point.last_ns for point in seen)
    clock = Clock.over(begin_ns, end_ns - begin_ns)
    flows = explanation.once
    found = [
        _flow_chart(flows, clock, explanation),
        _rate_chart(flows, clock, begin_ns, end_ns),
        _delay_chart(explanation.hops, clock),
        _pause_chart(explanation.pauses, clock),
    ]
    return [chart for chart in found if chart is not None]


def _chart(name: str, title: str, caption: str, clock: Clock, **drawn: object) -> Chart:
    return Chart(name, title, caption, f"{_TIME} ({clock.unit})", clock.unit, **drawn)  # type: ignore[arg-type]


# --- flows


def _flow_chart(flows: Sequence[FlowStory], clock: Clock, explanation: Explanation) -> Chart | None:
    """Blocks and stalls of those flows that stood still longest, or sent most."""
    if not flows:
        return None
    chosen = sorted(flows, key=lambda flow: (-lost_s(flow), -flow.payload_bytes))
    shown = chosen[:MOST_ROWS]
    rows = sorted((flow.name for flow in shown), key=text.natural)
    share = max(MOST_BARS // (2 * len(shown)), 1)
    bars = [bar for flow in shown for bar in (*_block_bars(flow, share), *map(_stall_bar, flow.stalls))]
    causes = dict.fromkeys(stall.cause for flow in shown for stall in flow.stalls)
    colours = {"block": _BLOCK, **{cause: cause_colour(cause) for cause in causes}}
    few = f" Shown: {len(rows)} of {text.counted(len(flows), 'flow')}." if len(rows) < len(flows) else ""
    return _chart(
        "flows",
        f"Flows over time: {_stall_words(flows)}",
        "One row per flow: a light blue bar is a block that it sent without being idle in between; a bar in another "
        f"colour is a stall, its colour the cause.{few}",
        clock,
        bars=bars_of(bars, rows, colours, clock),
        rows=tuple(rows),
        views=_views(shown, clock),
        moments=() if explanation.onset_ns is None else tuple(clock.at([explanation.onset_ns]).tolist()),
        still="gantt",
    )


def _stall_words(flows: Sequence[FlowStory]) -> str:
    stalls = [stalls for stalls in map(lost_stalls, flows) if stalls]
    if not stalls:
        return "none stalls"
    return f"{text.counted(sum(map(len, stalls)), 'stall')} of {text.counted(len(stalls), 'flow')}"


def _block_bars(flow: FlowStory, most: int) -> list[Bar]:
    spans = [(block.begin_ns, flow.end_ns if block.end_ns is None else block.end_ns) for block in flow.blocks]
    ordered = sorted((begin, max(end, begin)) for begin, end in spans) or [(flow.begin_ns, flow.end_ns)]
    return [Bar(flow.name, "block", begin, end) for begin, end, _, _ in joined_spans(ordered, most)]


def _stall_bar(stall: FlowStall) -> Bar:
    return Bar(stall.flow, stall.cause, stall.start_ns, stall.end_ns, f"{stall.confidence}: {stall.reason}")


def _views(flows: Sequence[FlowStory], clock: Clock) -> tuple[View, ...]:
    stalls = [stall for flow in flows for stall in lost_stalls(flow)]
    if not stalls:
        return ()
    longest = max(stalls, key=lambda stall: stall.end_ns - stall.start_ns)
    begin, end = clock.at([longest.start_ns, longest.end_ns]).tolist()
    return (View("longest stall", begin - 0.05 * (end - begin), end + 0.05 * (end - begin)),)


# --- goodput and bytes in flight


def _rate_chart(flows: Sequence[FlowStory], clock: Clock, begin_ns: int, end_ns: int) -> Chart | None:
    """Goodput of all flows together and of the largest, and what these had in flight."""
    told = [(flow, flow.series) for flow in flows if flow.series is not None and len(flow.series.sent_bytes)]
    if not told or end_ns <= begin_ns:
        return None
    edges_ns = even_edges_ns(begin_ns, end_ns, _BINS)
    rates = {flow.name: rates_bps(flow, edges_ns) for flow, _ in told}
    together = np.sum(list(rates.values()), axis=0)
    largest = sorted(told, key=lambda each: -each[0].payload_bytes)[:_MOST_LINES]
    own = looks([flow.name for flow, _ in largest])
    times = clock.at(edges_ns)
    lines = [Line("all flows", "#333333", times, _held(together / 1e9), width=1.8)]
    for flow, series in largest:
        colour = own[flow.name].colour
        lines.append(Line(flow.name, colour, times, _held(rates[flow.name] / 1e9), width=1.1))
        lines.append(_flight_line(flow.name, colour, series, clock))
    few = f" Single lines: the {len(largest)} flows with most bytes." if len(largest) < len(told) else ""
    mean, bin_s = text.rate(float(together.mean())), (end_ns - begin_ns) / _BINS / 1e9
    return _chart(
        "goodput",
        f"Goodput over time: {mean} on average",
        "Above, payload bits a second that were acknowledged (of flows without acknowledgements: passed), in parts "
        f"of {text.seconds(bin_s)}; an acknowledgement that ends a gap counts all at once, and may pass the link's "
        f"rate. Below, the most that a flow had outstanding.{few}",
        clock,
        panels=("goodput (Gb/s)", "in flight (KB)"),
        lines=tuple(lines),
        still="goodput",
    )


def _held(values: np.ndarray) -> np.ndarray:
    return np.append(values, values[-1:])


def _flight_line(name: str, colour: str, series: Series, clock: Clock) -> Line:
    values = np.asarray(series.in_flight_bytes, float) / 1e3
    some = thinned(values, MOST_POINTS // (2 * _MOST_LINES))
    times = clock.at(series.begin_ns + series.bin_ns * some.astype(np.int64))
    return Line(name, colour, times, values[some], panel=1, width=1.1)


# --- between points


def _delay_chart(hops: Sequence[Hop], clock: Clock) -> Chart | None:
    """One-way delay of the packets that two points saw, and those that did not get from one to the other."""
    found = [hop for hop in hops if len(hop.sent_ns) and hop.same_clock]
    if not found:
        return None
    chosen = sorted(found, key=lambda hop: -hop.paired)[:_MOST_LINES]
    names = [f"{hop.flow}, {hop.first} to {hop.second}" for hop in chosen]
    own = looks(names)
    lines = [line for name, hop in zip(names, chosen) for line in _hop_lines(name, own[name].colour, hop, clock)]
    few = f" Shown: {len(chosen)} of {len(found)} pairs of a flow and two points." if len(chosen) < len(found) else ""
    most_ns = max(hop.delay_max_ns or 0 for hop in chosen)
    return _chart(
        "delay",
        f"One-way delay: at most {text.seconds(most_ns / 1e9)}",
        "From one capture point to the next, packet by packet; ticks at the bottom are packets that were lost between."
        f"{few}",
        clock,
        panels=("one-way delay (µs)",),
        lines=tuple(lines),
        still="delay",
    )


def _hop_lines(name: str, colour: str, hop: Hop, clock: Clock) -> list[Line]:
    delays = np.asarray(hop.delay_ns, float) / 1e3
    some = thinned(delays, MOST_POINTS // _MOST_LINES)
    lines = [Line(name, colour, clock.at(hop.sent_ns[some]), delays[some], form=DOTS)]
    if len(hop.lost_ns):
        lost = hop.lost_ns[:: -(-len(hop.lost_ns) // 400)]
        lines.append(Line(f"{name}: lost", colour, clock.at(lost), np.zeros(len(lost)), form=TICKS))
    return lines


def _pause_chart(pauses: Sequence[PauseStory], clock: Clock) -> Chart | None:
    """When each source of pause frames held its neighbour."""
    told = sorted((story for story in pauses if story.spans), key=lambda story: -story.total_ns)
    if not told:
        return None
    rows = [_pause_row(story) for story in told][:MOST_ROWS]
    share = max(MOST_BARS // len(rows), 1)
    bars = [
        Bar(row, "paused", begin, end, f"{text.counted(count, 'pause')}, {text.seconds(held_ns / 1e9)} of it")
        for row, story in zip(rows, told)
        for begin, end, count, held_ns in joined_spans(story.spans, share)
    ]
    return _chart(
        "pauses",
        f"Pauses: {rows[0]} held its neighbour for {text.seconds(told[0].total_ns / 1e9)}",
        "One row for each source of pause frames and its priority; a bar is a time in which its neighbour had to wait.",
        clock,
        bars=bars_of(bars, rows, {"paused": _HELD}, clock),
        rows=tuple(rows),
        still="pauses",
    )


def _pause_row(story: PauseStory) -> str:
    priority = "all" if story.priority is None else f"priority {story.priority}"
    return f"{story.source} {priority} ({story.point})"
