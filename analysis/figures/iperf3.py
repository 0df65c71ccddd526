"""The figures of iperf3: each sender's rate as iperf3 tells it and as the packets do, and over time the sender that was
silent for longest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.style import Skipped, label, legend_below, legend_rows, new_figure
from analysis.kinds.iperf3_told import Interval, SenderTest, passed
from analysis.run import Run

_SENT, _RECEIVED, _PACKETS = "iperf3: sent", "iperf3: received", "packets: acknowledged"
_COLOURS = {_SENT: "#E69F00", _RECEIVED: "#0072B2", _PACKETS: "#009E73"}
_MOST_SENDERS, _BINS_PER_S, _MEGA = 32, 100, 1e6
_RATES_CAPTION = (
    "What each client has handed to its kernel, what its server has read, and what the receiver has acknowledged in "
    "the same time, over that time. What a client has handed over and nobody has read yet lies in buffers."
)
_SILENCE_CAPTION = (
    "Light: data of this sender that passed the receiver's port, in parts of 10 ms. Lines: what iperf3's two ends "
    "noted. Their begins are drawn at the first data."
)


def rates(found: Sequence[SenderTest]) -> tuple[Figure, str, str]:
    """Three bars for each sender."""
    shown = [each for each in found if each.told][:_MOST_SENDERS]
    if not shown:
        raise Skipped("iperf3 left no result")
    bars = {
        _SENT: [each.told.sent_bps for each in shown if each.told],
        _RECEIVED: [each.told.received_bps for each in shown if each.told],
        _PACKETS: [each.seen.delivered_bps if each.seen else 0.0 for each in shown],
    }
    title = f"iperf3's clients tell {text.rate(sum(bars[_SENT]))} in all, its servers {text.rate(sum(bars[_RECEIVED]))}"
    if all(each.seen for each in shown):
        title += f", the packets {text.rate(sum(bars[_PACKETS]))}"
    figure, (axes,) = new_figure(title)
    for place, (name, values) in enumerate(bars.items()):
        places = [number + 0.27 * (place - 1) for number in range(len(shown))]
        axes.bar(places, [value / _MEGA for value in values], width=0.27, color=_COLOURS[name], label=name)
    every = -(-len(shown) // 16)
    axes.set_xticks(range(0, len(shown), every), [each.sender for each in shown][::every])
    axes.grid(False, axis="x")
    label(axes, "sender", "rate, Mb/s")
    legend_below([axes])
    return figure, title, _RATES_CAPTION


def silence(run: Run, found: Sequence[SenderTest]) -> tuple[Figure, str, str]:
    """The packets of the sender that was silent for longest, and what iperf3 noted meanwhile."""
    seen = [each for each in found if each.seen and each.told]
    if not seen:
        raise Skipped("no capture of the hot port has a test's data")
    worst = max(seen, key=lambda each: each.seen.silence_s if each.seen else 0.0)
    assert worst.seen is not None and worst.told is not None
    times_s, sizes = passed(run, worst.sender)
    edges_s = np.arange(0, worst.told.received_s + 1 / _BINS_PER_S, 1 / _BINS_PER_S)
    bits = np.histogram(times_s, edges_s, weights=sizes)[0] * 8
    silent = text.seconds(worst.seen.silence_s)
    title = f"{worst.sender} is silent for {silent}; iperf3 tells {_span(worst.told.received)}"
    names = ["packets at the port", _SENT, _RECEIVED]
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(names))
    axes.stairs(bits * _BINS_PER_S / _MEGA, edges_s, fill=True, color="#BFE3D5", label=names[0])
    for name, noted in ((_SENT, worst.told.sent), (_RECEIVED, worst.told.received)):
        if noted:
            edges = [noted[0].start_s, *(each.end_s for each in noted)]
            rates_mbps = [each.bps / _MEGA for each in noted]
            axes.stairs(rates_mbps, edges, baseline=None, color=_COLOURS[name], linewidth=1.8, label=name)
    axes.set_xlim(0, edges_s[-1])
    axes.set_ylim(bottom=0)
    label(axes, "time since the sender's first data, s", "rate, Mb/s")
    legend_below([axes])
    return figure, title, _SILENCE_CAPTION


def _span(noted: Sequence[Interval]) -> str:
    """The lowest and highest rate that was noted."""
    if not noted:
        return "no rate"
    return f"{text.rate(min(each.bps for each in noted))} to {text.rate(max(each.bps for each in noted))}"
