"""The figures of a run that show single flows: the sequence-time plot of a stalled flow, and the timeline of
all flows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from analysis import text
from analysis.figures.decimate import distinct, envelope
from analysis.figures.gantt import MOST_ROWS, block_spans, draw_bars, gantt, rows_height_in, set_rows
from analysis.figures.style import (
    GRID,
    INK,
    SMALL,
    Skipped,
    cause_colour,
    label,
    legend_below,
    legend_rows,
    look,
    new_figure,
    time_unit,
)
from analysis.run import Run
from analysis.transport.events import FAST, GO_BACK_N, PROBE, RTO, UNEXPLAINED
from analysis.transport.roce import NAK, QP_TIMEOUT
from analysis.transport.sent import Sent
from analysis.transport.spans import Span
from analysis.transport.stalls import CAUSES, DELAYED_ACK, LOSS_PROBE, PAUSED, Stall, Wait, waits

RACK = "rack"  # by RACK's timer, where it is told apart from a fast retransmission
_KIND_LOOKS = {  # kind of retransmission -> label, colour, marker, size
    FAST: ("fast retransmission", "#E69F00", "x", 30),
    RACK: ("by RACK's timer", "#56B4E9", "v", 30),
    GO_BACK_N: ("go-back-N behind it", "#CC79A7", "+", 40),
    PROBE: ("tail loss probe", "#0072B2", "D", 26),
    RTO: ("timeout (RTO)", "#D55E00", "*", 130),
    NAK: ("first packet after a NAK", "#E69F00", "x", 30),
    QP_TIMEOUT: ("queue pair's timeout", "#D55E00", "*", 130),
    UNEXPLAINED: ("unexplained", "#000000", "s", 26),
}
_FIRST, _ACKED = "first sending", "acknowledged"
_MARGIN = 0.06
_WAITING, _MOVING = "waits for the others", "block on its way"
_MOVING_COLOUR = "#A9D3EA"
SEQUENCE_CAPTION = (
    "Each mark is a packet leaving the sender, placed at its first byte; the line is the receiver's "
    "cumulative acknowledgement. The grey band stands for the time in which the flow neither sends nor "
    "hears anything; behind it the clock starts anew."
)
_TIMELINE_CAPTION = (
    "One row per flow, one dark line per round's start. Light: its block is on its way; a coloured bar on it is a "
    "stall, its colour the cause; grey is a flow that has delivered its block and waits for the round's slowest."
)


def sequence(run: Run) -> tuple[Figure, str, str]:
    """Byte positions over time of the flow with the longest stall, with the silence cut out of the time
    axis."""
    if not run.stalls:
        raise Skipped("no flow stalled, or its sender's capture is missing")
    stall = max(run.stalls, key=lambda each: each.seconds)
    flow = next(each for each in run.sent_flows if each.name == stall.flow)
    begin_ns = run.rounds[0].start_ns + round(stall.start_s * 1e9)
    during = next(each for each in run.rounds if each.start_ns <= begin_ns < each.end_ns)
    title = f"{flow.name} is silent for {text.seconds(stall.seconds)}, then its {_ending(stall)}"
    ending_ns = begin_ns + round(stall.seconds * 1e9)
    resent = [(event.time_ns, event.start, event.kind) for event in run.retransmissions[flow.name]]
    windows = ((during.start_ns, begin_ns), (ending_ns, during.end_ns))
    figure = broken_sequence(flow, windows, resent, title, f"silent for {text.seconds(stall.seconds)}\n{stall.cause}")
    label(figure.axes[0], "µs since the round began", "position in the block (KB)")
    label(figure.axes[2], "µs since the silence ended", "")
    return figure, title, SEQUENCE_CAPTION


Repeat = tuple[int, int, str]  # a packet sent again: its time in ns, its first byte's position, its kind


def broken_sequence(flow: Sent, windows: tuple[Span, Span], resent: Sequence[Repeat], title: str, words: str) -> Figure:
    """A flow before and after a silence that is cut out of the time axis, and told in `words`; axes 0 and 2 are the two
    panels, their times in µs since the begin of each of the windows (ns)."""
    span = (windows[0][0], windows[1][1])
    names = sequence_names(resent, span)
    figure, panels = new_figure(title, columns=[1, 0.2, 1], legend_rows=legend_rows(names))
    for axes, (start_ns, end_ns) in zip((panels[0], panels[2]), windows):
        draw_positions(axes, flow, span, resent, start_ns)
        margin = _MARGIN * max(end_ns - start_ns, 1000) / 1e3
        axes.set_xlim(-margin, (end_ns - start_ns) / 1e3 + margin)
    _draw_silence(panels[1], words)
    _join(panels)
    return figure


def sequence_names(resent: Sequence[Repeat], span: Span) -> list[str]:
    """What the legend of `draw_positions` tells."""
    return [_FIRST, _ACKED, *(_kind_look(kind)[0] for kind in _kinds(resent, span))]


def _kinds(resent: Sequence[Repeat], span: Span) -> list[str]:
    """The kinds that were sent again within the span, the known ones first."""
    found = dict.fromkeys(kind for time_ns, _, kind in resent if span[0] <= time_ns <= span[1])
    return sorted(found, key=lambda kind: list(_KIND_LOOKS).index(kind) if kind in _KIND_LOOKS else len(_KIND_LOOKS))


def _kind_look(kind: str) -> tuple[str, str, str, int]:
    return _KIND_LOOKS.get(kind) or (kind, look(kind).colour, look(kind).marker, 30)


def _ending(stall: Stall) -> str:
    """What ended a stall, in the words of a title."""
    if stall.cause.startswith("rto"):
        return "retransmission timeout fires"
    if stall.cause.startswith("qp_timeout"):
        return "queue pair's timeout fires"
    return {
        LOSS_PROBE: "loss probe leaves",
        DELAYED_ACK: "acknowledgement comes",
        PAUSED: "NIC is resumed",
    }.get(stall.cause, "next packet passes")


def draw_positions(
    axes: Axes, flow: Sent, span: Span, resent: Sequence[Repeat], zero_ns: int, scale: float = 1e3
) -> None:
    """The packets and acknowledgements of a flow within the span: time since zero_ns in units of `scale` ns, position
    in KB since the first byte that was sent in it."""
    before = flow.send_end[flow.send_ns < span[0]]
    base = int(before.max()) if len(before) else int(flow.send_start.min(initial=0))
    fresh = np.flatnonzero(_within(flow.send_ns, span) & ~flow.is_retransmission)
    times, places = (flow.send_ns[fresh] - zero_ns) / scale, (flow.send_start[fresh] - base) / 1e3
    some = distinct(times, places)
    axes.scatter(times[some], places[some], s=9, color="#56B4E9", label=_FIRST)
    heard = np.flatnonzero(_within(flow.ack_ns, span))
    times, places = (flow.ack_ns[heard] - zero_ns) / scale, (flow.ack_bytes[heard] - base) / 1e3
    some = envelope(times, places)
    axes.step(times[some], places[some], where="post", color="#009E73", linewidth=1.2, label=_ACKED)
    for kind in _kinds(resent, span):
        name, colour, marker, area = _kind_look(kind)
        events = np.array([each[:2] for each in resent if each[2] == kind and span[0] <= each[0] <= span[1]])
        times, places = (events[:, 0] - zero_ns) / scale, (events[:, 1] - base) / 1e3
        some = distinct(times, places)
        axes.scatter(
            times[some], places[some], s=area, color=colour, marker=marker, linewidths=1.2, label=name, zorder=3
        )


def _within(times_ns: np.ndarray, span: Span) -> np.ndarray:
    return (times_ns >= span[0]) & (times_ns <= span[1])


def _draw_silence(axes: Axes, words: str) -> None:
    """A grey band in place of the time in which nothing happened."""
    axes.set_axis_off()
    whole = axes.transAxes
    axes.add_patch(
        Rectangle((0, 0), 1, 1, transform=whole, facecolor="#EEEEEE", hatch="///", edgecolor=GRID, linewidth=0)
    )
    axes.text(0.5, 0.5, words, rotation=90, ha="center", va="center", fontsize=SMALL, color=INK, transform=whole)


def _join(panels: Sequence[Axes]) -> None:
    """Make the two outer panels one plot: a shared position axis and one legend."""
    left, _, right = panels
    low = min(left.get_ylim()[0], right.get_ylim()[0])
    high = max(left.get_ylim()[1], right.get_ylim()[1])
    for axes in (left, right):
        axes.set_ylim(low, high)
        axes.xaxis.set_major_locator(MaxNLocator(5))
    right.set_yticklabels([])
    right.spines["left"].set_visible(False)
    right.tick_params(left=False)
    legend_below([left, right])


def timeline(run: Run) -> tuple[Figure, str, str]:
    """What every flow did over all rounds: moving, stalled (by cause), or waiting for the others at the barrier;
    without captures of senders, when its blocks were on their way."""
    if not run.rounds:
        raise Skipped("no finished round")
    if not run.sent_flows:
        return gantt(run)
    rows = _longest_stalled(run)
    title, causes = _timeline_title(run), [cause for cause in CAUSES if any(each.cause == cause for each in run.stalls)]
    blocks = {name: spans for name, spans in block_spans(run).items() if name in rows}
    names = [*([_MOVING] if blocks else []), _WAITING, *causes]
    figure, (axes,) = new_figure(title, height_in=rows_height_in(len(rows)), legend_rows=legend_rows(names))
    start_ns, end_ns = run.span_ns
    scale, unit = time_unit(end_ns - start_ns)

    def place(time_ns: int) -> float:
        return (time_ns - start_ns) / scale

    draw_bars(axes, [blocks.get(name, []) for name in rows], place, _MOVING_COLOUR, _MOVING)
    waiting = _spans(waits(run.sent_flows, run.rounds), rows, start_ns)
    draw_bars(axes, waiting, place, "#DDDDDD", _WAITING, height=0.4)
    for cause in causes:
        spans = _spans([stall for stall in run.stalls if stall.cause == cause], rows, start_ns)
        draw_bars(axes, spans, place, cause_colour(cause), cause, height=0.6)
    for each in run.rounds:
        axes.axvline(place(each.start_ns), color=INK, linewidth=0.8, zorder=1)
    axes.set_xlim(0, place(end_ns))
    set_rows(axes, rows)
    label(axes, f"time since the first round began ({unit})", "")
    legend_below([axes])
    cut = f" The {len(rows)} that stood still the longest, of {len(run.sent_flows):,}."
    return figure, title, _TIMELINE_CAPTION + (cut if len(rows) < len(run.sent_flows) else "")


def _longest_stalled(run: Run) -> list[str]:
    """The flows that stood still the longest, in natural order."""
    stalled: dict[str, float] = {flow.name: 0.0 for flow in run.sent_flows}
    for stall in run.stalls:
        stalled[stall.flow] += stall.seconds
    longest = sorted(stalled, key=lambda name: (-stalled[name], text.natural(name)))[:MOST_ROWS]
    return sorted(longest, key=text.natural)


def _spans(found: Iterable[Stall | Wait], rows: Sequence[str], start_ns: int) -> list[list[Span]]:
    """The spans (ns) of each row."""
    spans: dict[str, list[Span]] = {name: [] for name in rows}
    for each in found:
        if each.flow in spans:
            begin_ns = start_ns + round(each.start_s * 1e9)
            spans[each.flow].append((begin_ns, begin_ns + round(each.seconds * 1e9)))
    return list(spans.values())


def stalled_share(run: Run) -> float:
    """The share of the rounds' time during which at least one flow was stalled."""
    spans = sorted((stall.start_s, stall.start_s + stall.seconds) for stall in run.stalls)
    covered = reached = 0.0
    for start, end in spans:
        covered += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    start_ns, end_ns = run.span_ns
    return covered * 1e9 / (end_ns - start_ns)


def _timeline_title(run: Run) -> str:
    if not run.stalls:
        return f"No flow stalls in {text.counted(len(run.rounds), 'round')}"
    stalled = len({stall.flow for stall in run.stalls})
    found = f"{text.counted(len(run.stalls), 'stall')} of {text.counted(stalled, 'flow')}"
    return f"{found}: for {stalled_share(run):.1%} of the time a flow stands still"
