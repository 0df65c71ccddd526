"""The congestion tree on the fabric: every link that was paused, as an arrow of the way its data goes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from analysis import text
from analysis.congestion_tree import HeldLink, circle, held_links
from analysis.fabric import Fabric
from analysis.figures.draw_layout import NAME_PT, SMALL_PT, Box, place
from analysis.figures.style import INK, SMALL, TITLE, PlainFigure, Skipped
from analysis.kinds.arrivals import long_flows
from analysis.run import Run
from analysis.transport.spans import Span

_RING = "ring"
_RING_IN, _RING_HOST_IN, _RING_MARGIN_IN = 1.15, 0.75, 0.55  # circle of the switches, hosts outside it
_SWITCH_IN, _HOST_IN = (0.62, 0.26), (0.36, 0.2)
_TITLE_IN, _SCALE_IN = 0.62, 0.72
_LETTERS_PER_IN = 9.3  # of a title, as in style.new_figure
_LINK, _SWITCH, _HOST = "#CCCCCC", "#DCEBF7", "#FFFFFF"
_SHARES = LinearSegmentedColormap.from_list("paused", ("#F2C79B", "#D55E00", "#7A1F00"))
_CAPTION = (
    "Arrows: links that were paused, in the direction of the data that had to wait; an arrow ends at the node that "
    "asked for it. Colour: the share of the time for which the link was paused, {}."
)


def tree(run: Run, span_ns: Span | None = None) -> tuple[Figure, str, str]:
    """The links that were paused, in `span_ns` or in the time of all flows, on the fabric."""
    log, flows = run.pauses, long_flows(run)
    if run.fabric is None or log is None or not flows:
        raise Skipped("no fabric.json, or no pauses.parquet tells of pauses")
    begin_ns = min(flow.begin_ns for flow in flows)
    start_ns, end_ns = span_ns or (begin_ns, max(flow.end_ns for flow in flows))
    links = held_links(log.held, run.fabric, start_ns, end_ns)
    if not links:
        raise Skipped("no link was paused")
    title = _title(links)
    figure = _figure(Fabric.of(run.fabric), run.parameters.topology, links, end_ns - start_ns, title)
    spoken = (text.seconds((time_ns - begin_ns) / 1e9) for time_ns in (start_ns, end_ns))
    return figure, title, _CAPTION.format("from {} to {}".format(*spoken))


def _title(links: Sequence[HeldLink]) -> str:
    """How far the pauses reach, and from where."""
    way = circle((link.sender, link.receiver) for link in links if link.depth is None)
    if way:
        return f"No root: {', '.join(way)} wait for each other"
    roots = list(dict.fromkeys(link.receiver for link in links if link.depth == 1))
    deepest = max(link.depth or 0 for link in links)
    reach = "1 link" if deepest == 1 else f"{deepest} links deep"
    return f"From {', '.join(roots[:3])}, pauses on {text.counted(len(links), 'link')} spread {reach}"


def _figure(fabric: Fabric, topology: str, links: Sequence[HeldLink], lasted_ns: int, title: str) -> Figure:
    boxes, width_in, height_in = _round(fabric) if topology == _RING else _tiers(fabric)
    figure = PlainFigure(figsize=(width_in, height_in))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width_in)
    axes.set_ylim(0, height_in)
    axes.set_axis_off()
    words = textwrap.fill(title, int(_LETTERS_PER_IN * width_in))
    axes.text(0.1, height_in - 0.1, words, fontsize=TITLE, fontweight="bold", va="top", color=INK)
    scale = Normalize(0, 1)
    _draw_links(axes, fabric, boxes)
    for link in links:
        _draw_arrow(axes, boxes[link.sender], boxes[link.receiver], _SHARES(scale(link.held_ns / lasted_ns)))
    _draw_nodes(axes, fabric, boxes)
    _draw_scale(axes, width_in, height_in, scale)
    return figure


def _tiers(fabric: Fabric) -> tuple[dict[str, Box], float, float]:
    """The nodes as in the drawing of the fabric, above the colours' scale."""
    placed = place(fabric)
    up = {name: box._replace(y=box.y + _SCALE_IN) for name, box in placed.boxes.items()}
    return up, placed.width_in, placed.height_in + _SCALE_IN


def _round(fabric: Fabric) -> tuple[dict[str, Box], float, float]:
    """The switches of a ring on a circle, clockwise from the top, their hosts outside it."""
    racks = fabric.racks()
    reach_in = _RING_IN + _RING_HOST_IN + _RING_MARGIN_IN
    middle_x, middle_y = max(reach_in, 3.1), _SCALE_IN + reach_in
    boxes = {}
    for number, (switch, hosts) in enumerate(racks.items()):
        angle = math.pi / 2 - 2 * math.pi * number / len(racks)
        boxes[switch] = _at(angle, _RING_IN, middle_x, middle_y, _SWITCH_IN)
        step = 2 * math.pi / len(racks) / (len(hosts) + 1)
        for place_, host in enumerate(hosts, start=1):
            aside = angle + math.pi / len(racks) - step * place_
            boxes[host] = _at(aside, _RING_IN + _RING_HOST_IN, middle_x, middle_y, _HOST_IN)
    return boxes, 2 * middle_x, middle_y + reach_in + _TITLE_IN


def _at(angle: float, radius_in: float, middle_x: float, middle_y: float, size_in: tuple[float, float]) -> Box:
    return Box(middle_x + radius_in * math.cos(angle), middle_y + radius_in * math.sin(angle), *size_in)


def _draw_links(axes: Axes, fabric: Fabric, boxes: Mapping[str, Box]) -> None:
    for wire in fabric.wires:
        first, second = (boxes[name] for name in wire.ends)
        axes.plot([first.x, second.x], [first.y, second.y], color=_LINK, linewidth=1, zorder=1)


def _draw_arrow(axes: Axes, sender: Box, receiver: Box, colour: tuple[float, float, float, float]) -> None:
    """Beside the link, to the right of its direction: both ways of a link may be paused."""
    length_in = math.hypot(receiver.x - sender.x, receiver.y - sender.y)
    aside_x = 0.05 * (receiver.y - sender.y) / length_in
    aside_y = -0.05 * (receiver.x - sender.x) / length_in
    begin, end = (sender.x + aside_x, sender.y + aside_y), (receiver.x + aside_x, receiver.y + aside_y)
    axes.add_patch(
        FancyArrowPatch(
            begin, end, arrowstyle="-|>", mutation_scale=11, color=colour, linewidth=2, zorder=2, shrinkA=8, shrinkB=12
        )
    )


def _draw_nodes(axes: Axes, fabric: Fabric, boxes: Mapping[str, Box]) -> None:
    """Every switch with its name, and every host that has a place of its own."""
    for name, box in boxes.items():
        fill = _HOST if name in fabric.hosts else _SWITCH
        axes.text(
            box.x,
            box.y,
            name,
            fontsize=SMALL_PT if name in fabric.hosts else NAME_PT,
            ha="center",
            va="center",
            color=INK,
            zorder=4,
            bbox={"boxstyle": "round,pad=0.25", "facecolor": fill, "edgecolor": INK, "linewidth": 0.6},
        )


def _draw_scale(axes: Axes, width_in: float, height_in: float, scale: Normalize) -> None:
    """The colours of the shares, below."""
    panel = axes.figure.add_axes(((width_in - 2.4) / 2 / width_in, 0.32 / height_in, 2.4 / width_in, 0.08 / height_in))
    bar = axes.figure.colorbar(ScalarMappable(scale, _SHARES), cax=panel, orientation="horizontal", format="{x:.0%}")
    bar.set_ticks([0, 0.5, 1])
    bar.ax.tick_params(labelsize=NAME_PT, length=2, pad=1)
    panel.set_title("share of the time paused", fontsize=SMALL, pad=3)
