"""The figures of a run that show single flows: the sequence-time plot of a stalled flow, and the timeline of
all flows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis import text
from analysis.flows import Sent
from analysis.retransmits import FAST, GO_BACK_N, PROBE, RTO, UNEXPLAINED, Resent
from analysis.roce import NAK, QP_TIMEOUT
from analysis.run import Run
from analysis.stalls import CAUSES, DELAYED_ACK, LOSS_PROBE, PAUSED, Round, Stall, waits
from analysis.style import GRID, INK, SMALL, Skipped, label, legend_below, legend_rows, new_figure

_KIND_LOOKS = {  # kind of retransmission -> label, colour, marker, size
    FAST: ("fast retransmission", "#E69F00", "x", 30),
    GO_BACK_N: ("go-back-N behind it", "#CC79A7", "+", 40),
    PROBE: ("tail loss probe", "#0072B2", "D", 26),
    RTO: ("timeout (RTO)", "#D55E00", "*", 130),
    NAK: ("first packet after a NAK", "#E69F00", "x", 30),
    QP_TIMEOUT: ("queue pair's timeout", "#D55E00", "*", 130),
    UNEXPLAINED: ("unexplained", "#000000", "s", 26),
}
_TCP_KINDS, _ROCE_KINDS = (FAST, GO_BACK_N, PROBE, RTO, UNEXPLAINED), (NAK, GO_BACK_N, QP_TIMEOUT, UNEXPLAINED)
_CAUSE_COLOURS = dict(
    zip(
        CAUSES,
        (
            "#E69F00",
            "#D55E00",
            "#CC79A7",
            "#0072B2",
            "#56B4E9",
            "#009E73",
            "#7F7F7F",
            "#F0E442",
            "#8C564B",
            "#000000",
            "#882255",
            "#AA4499",
            "#999933",
        ),
    )
)
_MARGIN = 0.06
_WAITING = "waits for the others"
_SEQUENCE_CAPTION = (
    "Each mark is a packet leaving the sender, placed at its first byte; the line is the receiver's "
    "cumulative acknowledgement. The grey band stands for the time in which the flow neither sends nor "
    "hears anything; behind it the clock starts anew."
)
_TIMELINE_CAPTION = (
    "One row per flow, one dark line per round's start. A coloured bar is a stall, its colour the cause; "
    "grey is a flow that has delivered its block and waits for the round's slowest. Data moves only in "
    "the white between them."
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
    kinds = _ROCE_KINDS if run.parameters.is_roce else _TCP_KINDS
    figure, panels = new_figure(
        title, columns=[1, 0.2, 1], legend_rows=legend_rows([_KIND_LOOKS[kind][0] for kind in kinds])
    )
    ending_ns = begin_ns + round(stall.seconds * 1e9)
    windows = [(during.start_ns, begin_ns, during.start_ns), (ending_ns, during.end_ns, ending_ns)]
    for axes, (start_ns, end_ns, zero_ns) in zip((panels[0], panels[2]), windows):
        _draw_sequence(axes, flow, during, run.retransmissions[flow.name], zero_ns)
        margin = _MARGIN * max(end_ns - start_ns, 1000) / 1e3
        axes.set_xlim((start_ns - zero_ns) / 1e3 - margin, (end_ns - zero_ns) / 1e3 + margin)
    _draw_silence(panels[1], stall)
    _join(panels, during)
    return figure, title, _SEQUENCE_CAPTION


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


def _draw_sequence(axes: Axes, flow: Sent, during: Round, resent: Sequence[Resent], zero_ns: int) -> None:
    """The flow's packets and acknowledgements in one round: time in µs since zero_ns, position in KB since
    the round's block began."""
    block_start = int(flow.send_end[flow.send_ns < during.start_ns].max(initial=0))
    sent = (flow.send_ns >= during.start_ns) & (flow.send_ns <= during.end_ns)
    fresh = sent & ~flow.is_retransmission
    axes.scatter(
        (flow.send_ns[fresh] - zero_ns) / 1e3,
        (flow.send_start[fresh] - block_start) / 1e3,
        s=9,
        color="#56B4E9",
        label="first sending",
    )
    heard = (flow.ack_ns >= during.start_ns) & (flow.ack_ns <= during.end_ns)
    axes.step(
        (flow.ack_ns[heard] - zero_ns) / 1e3,
        (flow.ack_bytes[heard] - block_start) / 1e3,
        where="post",
        color="#009E73",
        linewidth=1.2,
        label="acknowledged",
    )
    for kind, (name, colour, marker, area) in _KIND_LOOKS.items():
        events = [event for event in resent if event.kind == kind and during.start_ns <= event.time_ns <= during.end_ns]
        if events:
            times = np.array([event.time_ns - zero_ns for event in events]) / 1e3
            places = np.array([event.start - block_start for event in events]) / 1e3
            axes.scatter(times, places, s=area, color=colour, marker=marker, linewidths=1.2, label=name, zorder=3)


def _draw_silence(axes: Axes, stall: Stall) -> None:
    """A grey band in place of the time in which nothing happened."""
    axes.set_axis_off()
    whole = axes.transAxes
    axes.add_patch(
        Rectangle((0, 0), 1, 1, transform=whole, facecolor="#EEEEEE", hatch="///", edgecolor=GRID, linewidth=0)
    )
    words = f"silent for {text.seconds(stall.seconds)}\n{stall.cause}"
    axes.text(0.5, 0.5, words, rotation=90, ha="center", va="center", fontsize=SMALL, color=INK, transform=whole)


def _join(panels: Sequence[Axes], during: Round) -> None:
    """Make the two outer panels one plot: a shared position axis, one legend, and both time axes named."""
    left, _, right = panels
    low = min(left.get_ylim()[0], right.get_ylim()[0])
    high = max(left.get_ylim()[1], right.get_ylim()[1])
    for axes in (left, right):
        axes.set_ylim(low, high)
    right.set_yticklabels([])
    right.spines["left"].set_visible(False)
    right.tick_params(left=False)
    label(left, "µs since the round began", "position in the block (KB)")
    label(right, "µs since the silence ended", "")
    legend_below([left, right])


def timeline(run: Run) -> tuple[Figure, str, str]:
    """What every flow did over all rounds: moving, stalled (by cause), or waiting for the others at the
    barrier."""
    if not run.sent_flows or not run.rounds:
        raise Skipped("no sender captures, or no finished round")
    rows = {name: row for row, name in enumerate(sorted((flow.name for flow in run.sent_flows), key=text.natural))}
    title = _timeline_title(run)
    figure, (axes,) = new_figure(
        title,
        height_in=min(1.6 + 0.055 * len(rows), 5.8),
        legend_rows=legend_rows([_WAITING, *{stall.cause for stall in run.stalls}]),
    )
    waiting = [
        ((wait.start_s, rows[wait.flow]), (wait.start_s + wait.seconds, rows[wait.flow]))
        for wait in waits(run.sent_flows, run.rounds)
    ]
    axes.add_collection(LineCollection(waiting, colors="#DDDDDD", linewidths=1.6, label=_WAITING))
    for cause in CAUSES:
        spans = [
            ((stall.start_s, rows[stall.flow]), (stall.start_s + stall.seconds, rows[stall.flow]))
            for stall in run.stalls
            if stall.cause == cause
        ]
        if spans:
            axes.add_collection(LineCollection(spans, colors=_CAUSE_COLOURS[cause], linewidths=2.2, label=cause))
    start_ns, end_ns = run.span_ns
    for each in run.rounds:
        axes.axvline((each.start_ns - start_ns) / 1e9, color=INK, linewidth=0.8)
    axes.set_xlim(0, (end_ns - start_ns) / 1e9)
    axes.set_ylim(-1, len(rows))
    _name_rows(axes, list(rows))
    label(axes, "time since the first round began (s)", "")
    legend_below([axes])
    return figure, title, _TIMELINE_CAPTION


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name every row, or as many as fit."""
    step = -(-len(names) // 16)
    axes.set_yticks(range(0, len(names), step), list(names)[::step])


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
