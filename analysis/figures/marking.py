"""The figure of the marking curve: what share of packets the hot port marked at each length of its queue, beside the
curve that it was configured with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.confidence import wilson
from analysis.figures.marked_packets import Curve, Joined, curve, joined, trouble
from analysis.figures.style import IDEAL, Skipped, label, legend_below, legend_rows, look, new_figure
from analysis.measures import peers
from analysis.run import Run

_BINS = 24
_LEAST_BIN_BYTES = 500  # finer than a packet tells nothing
_LOW_PMAX = 0.3  # a line that ends below it needs an axis of its own
_AXIS_ON_RIGHT = 0.885  # where a panel ends whose ticks and label are on its right
_CONFIGURED = "configured"
_ZOOMED = " Left: the same up to the longest queue on the line."
_CAPTION = (
    "Of the packets with data that joined the hot port's queue when it held so many bytes, the share that left it "
    "marked CE, with its interval of 95 % (Wilson). The queue is what had joined before and not yet left, by the "
    "captures of the senders and of the port. Black: the configured curve; no bin reaches over one of its corners."
)


class Bin(NamedTuple):
    """Packets that found a queue of [begin, end) bytes: their mean queue, how many there were, how many were marked."""

    begin_bytes: float
    end_bytes: float
    mean_bytes: float
    packets: int
    marked: int

    @property
    def share(self) -> float:
        """Marked ones among them."""
        return self.marked / self.packets


def marking(run: Run) -> tuple[Figure, str, str]:
    """The measured marking curve of the run, or of the first of its peers that marks, beside the configured one."""
    shown = next((each for _, each in peers(run) if not trouble(each)), None)
    if shown is None:
        raise Skipped(trouble(run))
    asked, packets = curve(shown), joined(shown)
    assert asked is not None
    bins = binned(packets, asked)
    if not bins:
        raise Skipped("no packet with data that could be marked passed the hot port")
    scheme = shown.parameters.scheme
    title = f"{scheme} marks {_finding(packets, asked)}"
    is_steep = asked.pmax >= _LOW_PMAX or asked.kmax_bytes == asked.kmin_bytes
    columns = (1,) if is_steep else (1, 0.08, 1)
    figure, panels = new_figure(
        title, columns, legend_rows=legend_rows([scheme, _CONFIGURED]), right=0.975 if is_steep else _AXIS_ON_RIGHT
    )
    longest_bytes = max(float(packets.queue_bytes.max()), 1.2 * asked.kmin_bytes)
    if not is_steep:
        line = [each for each in bins if each.end_bytes <= asked.kmax_bytes]
        _draw(panels[0], line, asked, min(longest_bytes, asked.kmax_bytes), scheme)
        panels[0].set_ylim(0, max(130 * asked.pmax, panels[0].get_ylim()[1]))
        panels[1].set_axis_off()
        panels[2].yaxis.tick_right()
        panels[2].yaxis.set_label_position("right")
        label(panels[0], "queue that was found (KB)", "marked (%)")
    _draw(panels[-1], bins, asked, longest_bytes, scheme)
    panels[-1].set_ylim(-3, 104)
    label(panels[-1], "queue that a packet found (KB)" if is_steep else "queue (KB)", "marked (%)")
    legend_below(panels)
    return figure, title, _CAPTION + ("" if is_steep else _ZOOMED)


def _draw(axes: Axes, bins: Sequence[Bin], asked: Curve, longest_bytes: float, scheme: str) -> None:
    """The measured shares with their intervals, and the curve."""
    shares = np.array([each.share for each in bins])
    lows, highs = np.array([wilson(each.marked, each.packets) for each in bins]).reshape(-1, 2).T
    style = look(scheme)
    axes.errorbar(
        np.array([each.mean_bytes for each in bins]) / 1e3,
        100 * shares,
        yerr=100 * np.maximum([shares - lows, highs - shares], 0),
        fmt=style.marker,
        color=style.colour,
        markersize=5,
        capsize=2.5,
        label=scheme,
    )
    places = _places(asked, longest_bytes)
    axes.plot(places / 1e3, 100 * asked.probability(places), color=IDEAL, linewidth=1.3, label=_CONFIGURED, zorder=1.5)
    axes.set_xlim(0, longest_bytes / 1e3 * 1.02)


def _places(asked: Curve, most_bytes: float) -> np.ndarray:
    """Queues that draw the curve with its corners sharp."""
    corners = [asked.kmin_bytes, asked.kmin_bytes + 1e-3, asked.kmax_bytes, asked.kmax_bytes + 1e-3]
    return np.array([0.0, *(each for each in corners if each < most_bytes), most_bytes])


def binned(packets: Joined, asked: Curve) -> list[Bin]:
    """The packets by the queue that they found, in ascending order, bins without any left out."""
    if not len(packets.queue_bytes):
        return []
    edges = _edges(asked, float(packets.queue_bytes.max()))
    place = np.searchsorted(edges, packets.queue_bytes, side="left") - 1  # a queue of just kmin is not above it
    place = np.clip(place, 0, len(edges) - 2)
    counts, marked = (np.bincount(place, weights, len(edges) - 1) for weights in (None, packets.is_marked))
    sums = np.bincount(place, packets.queue_bytes, len(edges) - 1)
    return [
        Bin(edges[number], edges[number + 1], sums[number] / counts[number], int(counts[number]), int(marked[number]))
        for number in np.flatnonzero(counts).tolist()
    ]


def _edges(asked: Curve, most_bytes: float) -> np.ndarray:
    """Of about _BINS bins up to the longest queue, an edge at each corner of the curve."""
    corners = sorted({0.0, *(float(each) for each in asked[:2] if each < most_bytes), most_bytes})
    parts = []
    for low, high in zip(corners, corners[1:]):
        count = max(round(_BINS * (high - low) / most_bytes), 1)
        count = max(min(count, int((high - low) / _LEAST_BIN_BYTES)), 1)
        parts.append(np.linspace(low, high, count, endpoint=False))
    return np.append(np.concatenate(parts), most_bytes) if parts else np.array([0.0, 1.0])


def _finding(packets: Joined, asked: Curve) -> str:
    """How many were marked below, on and above the curve's line, as far as it was reached."""
    below, above = packets.queue_bytes <= asked.kmin_bytes, packets.queue_bytes > asked.kmax_bytes
    parts = [(f"up to {text.size(asked.kmin_bytes)}", below)]
    if asked.kmax_bytes > asked.kmin_bytes:
        parts.append((f"from there to {text.size(asked.kmax_bytes)}", ~below & ~above))
    parts.append(("above", above))
    told = [(float(packets.is_marked[some].mean()), where) for where, some in parts if some.any()]
    first, *others = (f"{_percent(share)}{{}} {where}" for share, where in told)
    return ", ".join([first.format(" of packets"), *(each.format("") for each in others)])


def _percent(share: float) -> str:
    return f"{text.digits(round(100 * share, 2))} %"
