"""The sequence-time figure of the flow that stood still the longest: packets, what was sent again, the silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.capture.packets import Packets
from analysis.capture.reader import read_capture
from analysis.explain.lost_time import lost_stalls
from analysis.explain.model import ROCE_FLOW, Block, Explanation, FlowStall, FlowStory
from analysis.figures.flows import SEQUENCE_CAPTION, Repeat, broken_sequence, draw_positions, sequence_names
from analysis.figures.style import Skipped, label, legend_below, legend_rows, new_figure, shown, time_unit
from analysis.transport.flows import flows_of
from analysis.transport.queue_pairs import flow_between
from analysis.transport.sent import Sent
from analysis.transport.spans import Span
from topologies.units import BadRequest

_MOST_PACKETS = 4_000_000  # of a capture that is read a second time
_CUT_SHARE = 0.4  # of the time shown: a longer silence is cut out
_TOLD_LETTERS = 44
_ACKED, _FLYING, _SILENT = "#009E73", "#9BC9E8", "#EEEEEE"
_WHOLE_CAPTION = (
    "Each mark is a packet that passed the capture point, placed at its first byte; the line is the receiver's "
    "cumulative acknowledgement. Grey: the flow stands still."
)
_COARSE_CAPTION = (
    "In bins of {width} (the capture was not read a second time): the line is the receiver's cumulative "
    "acknowledgement, above it what was in flight; marks are packets that were sent again, placed at their first byte. "
    "Grey: the flow stands still."
)


def sequence(explanation: Explanation) -> tuple[Figure, str, str]:
    """Byte positions over time of the flow with the longest stall; without a stall of the one that sent most again, or
    else delivered most."""
    stories = [story for story in explanation.once if story.payload_bytes]
    if not stories:
        raise Skipped("no flow with data was captured")
    story = max(stories, key=lambda each: (_longest_s(each), each.resent, each.delivered_bytes))
    stall = max(lost_stalls(story), key=lambda each: each.seconds, default=None)
    flow = _flow(explanation, story)
    span, title = _window(story, stall), _title(story, stall)
    if flow is None:
        return _coarse(story, span, title)
    resent = [*zip(story.repeats.time_ns.tolist(), story.repeats.start.tolist(), map(str, story.repeats.kind))]
    if stall is not None and stall.end_ns - stall.start_ns > _CUT_SHARE * (span[1] - span[0]):
        words = f"silent for {text.seconds(stall.seconds)}\n{stall.cause}"
        figure = broken_sequence(flow, ((span[0], stall.start_ns), (stall.end_ns, span[1])), resent, title, words)
        label(figure.axes[0], "µs since the block began", "position (KB)")
        label(figure.axes[2], "µs since the silence ended", "")
        return figure, title, SEQUENCE_CAPTION
    return _whole(flow, story, span, resent, title), title, _WHOLE_CAPTION


def _longest_s(story: FlowStory) -> float:
    return max((stall.seconds for stall in lost_stalls(story)), default=0.0)


def _title(story: FlowStory, stall: FlowStall | None) -> str:
    name = shown(story.name, _TOLD_LETTERS)
    if stall is not None:
        return f"{name} stands still for {text.seconds(stall.seconds)}: {stall.cause}, {stall.confidence}"
    again = f"sends {text.counted(story.resent, 'packet')} again" if story.resent else "sends nothing again"
    return f"{name} {again}; neither network nor transport ever makes it stand still"


def _window(story: FlowStory, stall: FlowStall | None) -> Span:
    """From the begin of the block in which the flow stood still to its end; without a stall the longest block."""
    blocks = [(block.begin_ns, _end_ns(block, story)) for block in story.blocks]
    if stall is not None:
        around = [each for each in blocks if each[0] <= stall.start_ns and each[1] >= stall.end_ns]
        begin_ns, end_ns = around[-1] if around else (story.begin_ns, story.end_ns)
        return min(begin_ns, stall.start_ns), max(end_ns, stall.end_ns)
    return max(blocks, key=lambda each: each[1] - each[0], default=(story.begin_ns, story.end_ns))


def _end_ns(block: Block, story: FlowStory) -> int:
    return story.end_ns if block.end_ns is None else block.end_ns


def _flow(explanation: Explanation, story: FlowStory) -> Sent | None:
    """The flow's packets, read from its capture again; None where that is too long, or cannot be read a second time."""
    point = next((point for point in explanation.points if point.name == story.point), None)
    if point is None or point.packets > _MOST_PACKETS or not Path(point.file).is_file():
        return None
    try:
        packets = _between(read_capture(point.file), story)
    except BadRequest:
        return None
    if story.transport == ROCE_FLOW:
        return flow_between(packets, story.source, story.destination, story.name)
    ends = (story.source, story.destination)
    return next((flow for flow in flows_of(packets) if (flow.source, flow.destination) == ends), None)


def _between(packets: Packets, story: FlowStory) -> Packets:
    """Those that went between the flow's two hosts."""
    hosts = {_host(story.source), _host(story.destination)}
    numbers = [
        number
        for number in np.unique(np.concatenate([packets.src_ip, packets.dst_ip])).tolist()
        if packets.address(number) in hosts
    ]
    return packets.select(np.isin(packets.src_ip, numbers) & np.isin(packets.dst_ip, numbers))


def _host(endpoint: str) -> str:
    return endpoint.rpartition(":")[0].strip("[]")


def _whole(flow: Sent, story: FlowStory, span: Span, resent: list[Repeat], title: str) -> Figure:
    """The block without a cut."""
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(sequence_names(resent, span)))
    scale, unit = time_unit(max(span[1] - span[0], 1))
    draw_positions(axes, flow, span, resent, span[0], scale)
    _shade(axes, story, span, scale)
    axes.set_xlim(0, max((span[1] - span[0]) / scale * 1.02, 1e-3))
    label(axes, f"time since the block began ({unit})", "position (KB)")
    legend_below([axes])
    return figure


def _shade(axes: Axes, story: FlowStory, span: Span, scale: float) -> None:
    for stall in story.stalls:
        if stall.start_ns < span[1] and stall.end_ns > span[0]:
            begin, end = ((at_ns - span[0]) / scale for at_ns in (stall.start_ns, stall.end_ns))
            axes.axvspan(begin, end, color=_SILENT, zorder=0)


def _coarse(story: FlowStory, span: Span, title: str) -> tuple[Figure, str, str]:
    """The same from the flow's series alone."""
    series = story.series
    if series is None:
        raise Skipped("the flow's capture cannot be read a second time, and it is not told over time")
    scale, unit = time_unit(max(span[1] - span[0], 1))
    resent = [*zip(story.repeats.time_ns.tolist(), story.repeats.start.tolist(), map(str, story.repeats.kind))]
    figure, (axes,) = new_figure(title, legend_rows=1)
    acked = np.concatenate([[0], np.cumsum(series.delivered_bytes if story.both_ways else series.sent_bytes)]) / 1e3
    times = (series.begin_ns + np.arange(len(acked)) * series.bin_ns - span[0]) / scale
    flying = np.concatenate([series.in_flight_bytes, [0]]) / 1e3
    axes.fill_between(times, acked, acked + flying, step="post", color=_FLYING, label="in flight")
    axes.step(times, acked, where="post", color=_ACKED, linewidth=1.2, label="acknowledged")
    again = np.array([each[:2] for each in resent]).reshape(-1, 2)
    if len(again):
        axes.plot((again[:, 0] - span[0]) / scale, again[:, 1] / 1e3, "x", color="#D55E00", label="sent again")
    _shade(axes, story, span, scale)
    axes.set_xlim(0, max((span[1] - span[0]) / scale * 1.02, 1e-9))
    label(axes, f"time since the block began ({unit})", "position (KB)")
    legend_below([axes])
    return figure, title, _COARSE_CAPTION.format(width=text.seconds(series.bin_ns / 1e9))
