"""A drawing of a fabric, from the document in its run directory's fabric.json: tiers as rows, hosts at the bottom.

Hosts show name and address, or are dots with their rack's subnet, or one count per rack ("8 hosts"), whichever the
width allows. GPU servers are boxes with their NVSwitch inside; the pods of a fabric of three tiers stand on a grey
ground.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch

from analysis import text
from analysis.fabric import Fabric, Wire
from analysis.figures.draw_layout import (
    BOTH,
    COUNTS,
    DOTS,
    LEFT_IN,
    LINE,
    LINES,
    NAME_PT,
    ROW_PT,
    SMALL_PT,
    Box,
    Placed,
    fitting,
    line,
    place,
    text_width_in,
)
from analysis.figures.style import DPI, INK, TITLE, TITLE_LETTERS, PlainFigure, shown
from topologies.units import BadRequest

_Line = list[tuple[float, float]]
_METADATA: dict[str, dict[str, None]] = {  # what would make equal drawings differ, left out
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_RATE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_HOST_FILL, _NVSWITCH_FILL, _GROUND, _UNTOLD = "#FFFFFF", "#E9D8F0", "#EFEFEF", "#CCCCCC"
_TIER_FILLS = ("#DCEBF7", "#CFE8DC", "#F7E3C8")
_ROW_NAMES = {"agg": "aggregation", "sw": "switch"}
_LOADS = LinearSegmentedColormap.from_list("load", ("#A9D3EA", "#0072B2", "#D55E00"))
_LITTLE = 0.25  # use of links below which the colours do not reach to the whole rate
_LOADED, _BETWEEN_PT = 1.3, 0.25  # a direction's line is wider than a link's alone; half of what parts the two
_TINY_PT, _BELOW_HOSTS_IN, _OVER_ROW_IN = 5.0, 1.0, 0.14
_ARC_POINTS = 24
_BOLD = 1.15  # how much wider bold letters are, at the most
_THINNER = ((60, 1.0), (300, 0.7), (1000, 0.4), (math.inf, 0.25))  # up to so many links, their width


def draw_fabric(document: Mapping[str, Any], path: Path, title: str, load: Mapping[str, float] | None = None) -> None:
    """Draw the fabric of a fabric.json into `path`, as PNG, SVG or PDF by its suffix; equal input gives equal bytes.

    `load`: by the sending interface ("leaf1-eth5"), how much of its rate was used, 0 to 1; every link is then two lines
    in the colours of its two directions, data going on the right-hand one, grey where it is not told. Raises BadRequest
    for another suffix, or a document that lacks something.
    """
    if path.suffix not in _METADATA:
        raise BadRequest(f"path: {path.name!r} is given; allowed: names that end in {', '.join(_METADATA)}")
    figure = fabric_figure(document, title, load)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "fabriclab", "pdf.fonttype": 42}):
        figure.savefig(path, dpi=DPI, metadata=_METADATA[path.suffix])


def fabric_figure(document: Mapping[str, Any], title: str, load: Mapping[str, float] | None = None) -> Figure:
    """The drawing of `draw_fabric` before it is saved."""
    return _figure(place(Fabric.of(document)), title, load)


def _figure(placed: Placed, title: str, load: Mapping[str, float] | None) -> Figure:
    """The whole drawing: one panel over the whole figure, its unit the inch."""
    figure = PlainFigure(figsize=(placed.width_in, placed.height_in))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, placed.width_in)
    axes.set_ylim(0, placed.height_in)
    axes.set_axis_off()
    title = shown(title, TITLE_LETTERS)
    size_pt = min(TITLE, (placed.width_in - 0.25) / (_BOLD * text_width_in(title, 1)))
    axes.text(0.1, placed.height_in - 0.1, title, fontsize=size_pt, fontweight="bold", va="top", color=INK)
    _draw_grounds(axes, placed)
    _draw_wires(axes, placed, load)
    _draw_switches(axes, placed)
    _draw_hosts(axes, placed)
    _name_rows(axes, placed)
    return figure


def _draw_grounds(axes: Axes, placed: Placed) -> None:
    """The pods and the servers, behind everything, each with its name inside."""
    for noun, boxes in (("pod", placed.pods), ("server", list(placed.servers.values()))):
        names = [f"{noun} {number}" for number in range(1, len(boxes) + 1)]
        for box in boxes:
            _draw_box(axes, box, _GROUND, edge="none" if noun == "pod" else "#999999", zorder=0)
        _name(axes, names, [Box(box.x, box.y - box.height / 2 + 0.1, box.width, 0.16) for box in boxes], (SMALL_PT,))


def _draw_wires(axes: Axes, placed: Placed, load: Mapping[str, float] | None) -> None:
    """Every link, as wide as its rate ranks; by colour its rate, or its load. What one line cannot tell, the legend
    does."""
    wires = placed.fabric.wires
    rates = sorted({wire.rate_bps for wire in wires})
    ends, scale, handles = _ends(placed), Normalize(0, _top(load or {})), []
    for rank, rate_bps in enumerate(rates):
        some = [wire for wire in wires if wire.rate_bps == rate_bps]
        width = (0.9 + 0.7 * rank) * next(thinner for links, thinner in _THINNER if len(wires) <= links)
        colour = _RATE_COLOURS[rank % len(_RATE_COLOURS)] if load is None else INK
        courses = [_course(placed, ends[wire, 0], ends[wire, 1]) for wire in some]
        if load is None:
            axes.add_collection(LineCollection(courses, colors=colour, linewidths=width, zorder=1))
        else:
            axes.add_collection(_both_ways(some, courses, width * _LOADED, load, scale))
        handles.append(Line2D([], [], color=colour, linewidth=1 + 0.7 * rank, label=_rate_label(rate_bps, len(some))))
    axes.legend(
        handles=handles, loc="lower center" if load is None else "lower left", ncols=len(handles), frameon=False,
        fontsize=ROW_PT if load is None else NAME_PT, borderaxespad=0.3, handlelength=1.6, columnspacing=1.6,
    )  # fmt: skip
    if load is not None:
        _draw_scale(axes, placed, scale)


def _course(placed: Placed, one: tuple[float, float], other: tuple[float, float]) -> _Line:
    """The corners of a link's line: straight, or over the row when boxes stand in it between the ends (a ring's last
    link); in an arc, as high as it is wide, where there are many of these."""
    (left, y), (right, other_y) = sorted((one, other))
    row = placed.boxes.values() if y == other_y else ()
    between = [box.height for box in row if box.y == y and left < box.x < right]
    if not between:
        return [one, other]
    if placed.arcs_in:
        high_in = placed.arcs_in * (right - left) / (placed.width_in - LEFT_IN)
        angles = np.linspace(0, math.pi, _ARC_POINTS)
        xs = (left + right) / 2 - (right - left) / 2 * np.cos(angles)
        ys = y + max(between) / 2 + high_in * np.sin(angles)
        return [(left, y), *zip(xs.tolist(), ys.tolist()), (right, y)]
    over = y + max(between) / 2 + _OVER_ROW_IN
    return [(left, y), (left, over), (right, over), (right, y)]


def _ends(placed: Placed) -> dict[tuple[Wire, int], tuple[float, float]]:
    """Where each end of every wire meets its box: along the upper or lower edge, in the order of the boxes at the other
    ends; in the middle of a box when the other is in the same row."""
    reaches: dict[tuple[str, bool], float] = {}
    between_rows = [
        ends
        for wire in placed.fabric.wires
        for ends in (wire.ends, wire.ends[::-1])
        if placed.boxes[ends[0]].y != placed.boxes[ends[1]].y
    ]
    for here, there in between_rows:
        side, apart_in = _side(placed, here, there), abs(placed.boxes[there].x - placed.boxes[here].x)
        reaches[side] = max(reaches.get(side, 0), apart_in)
    neighbours = Counter(_side(placed, *ends) for ends in between_rows)
    reaches = {side: reach_in if neighbours[side] > 1 else math.inf for side, reach_in in reaches.items()}
    return {
        (wire, end): _end(placed, wire.ends[end], wire.ends[1 - end], reaches)
        for wire in placed.fabric.wires
        for end in (0, 1)
    }


def _side(placed: Placed, here: str, there: str) -> tuple[str, bool]:
    """A box, and whether the other is above it."""
    return here, placed.boxes[there].y > placed.boxes[here].y


def _end(placed: Placed, here: str, there: str, reaches: Mapping[tuple[str, bool], float]) -> tuple[float, float]:
    """One end: as far from the middle as its neighbour among all neighbours on that side, but no further than that."""
    box, other, side = placed.boxes[here], placed.boxes[there], _side(placed, here, there)
    if box.y == other.y:
        return box.x, box.y
    apart_in = other.x - box.x
    furthest_in = min(0.42 * box.width, reaches[side])
    offset_in = furthest_in * apart_in / reaches[side] if reaches[side] else 0
    return box.x + offset_in, box.y + (0.5 if side[1] else -0.5) * box.height


def _top(load: Mapping[str, float]) -> float:
    """Where the colours end: at the whole rate, or, where little of it is used, at the next 1, 2 or 5 above."""
    most = max(load.values(), default=1.0)
    if not 0 < most < _LITTLE:
        return 1.0
    decade = 10.0 ** math.floor(math.log10(most))
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= most)


def _both_ways(
    wires: Sequence[Wire], courses: Sequence[_Line], width_pt: float, load: Mapping[str, float], scale: Normalize
) -> LineCollection:
    """Two lines for each link, to the right of the way that their data goes; the busiest above all others."""
    lines = [
        (load.get(interface, -1.0), _aside(way, (width_pt / 2 + _BETWEEN_PT) / 72))
        for wire, course in zip(wires, courses)
        for interface, way in zip(wire.interfaces, (course, course[::-1]))
    ]
    lines.sort(key=lambda line: line[0])
    colours = [_UNTOLD if share < 0 else _LOADS(scale(share)) for share, _ in lines]
    return LineCollection([way for _, way in lines], colors=colours, linewidths=width_pt, zorder=1, capstyle="butt")


def _aside(way: _Line, by_in: float) -> _Line:
    """The corners of a line, moved to the right of its direction."""
    (x, y), (to_x, to_y) = way[0], way[-1]
    length_in = math.hypot(to_x - x, to_y - y) or 1
    aside_x, aside_y = by_in * (to_y - y) / length_in, by_in * (x - to_x) / length_in
    return [(x + aside_x, y + aside_y) for x, y in way]


def _rate_label(rate_bps: int, links: int) -> str:
    rate = text.rate(rate_bps) if rate_bps else "no rate given"
    return f"{rate} ({text.counted(links, 'link')})"


def _draw_scale(axes: Axes, placed: Placed, scale: Normalize) -> None:
    """The colours of the loads, below on the right."""
    panel = axes.figure.add_axes(
        (1 - 2.2 / placed.width_in, 0.3 / placed.height_in, 2 / placed.width_in, 0.08 / placed.height_in)
    )
    bar = axes.figure.colorbar(ScalarMappable(scale, _LOADS), cax=panel, orientation="horizontal")
    top = scale.vmax or 1.0
    ticks = [0, top / 2, top]
    bar.set_ticks(ticks, labels=[f"{text.digits(100 * share)} %" for share in ticks])
    bar.ax.tick_params(labelsize=NAME_PT, length=2, pad=1)
    panel.set_title("share of the rate used", fontsize=NAME_PT, pad=2)


def _draw_switches(axes: Axes, placed: Placed) -> None:
    """Every switch, named where a whole row's names fit."""
    for inside, tier in sorted({(switch.inside_server, switch.tier) for switch in placed.fabric.switches}):
        some = [each.name for each in placed.fabric.switches if (each.inside_server, each.tier) == (inside, tier)]
        boxes = [placed.boxes[name] for name in some]
        for box in boxes:
            _draw_box(axes, box, _NVSWITCH_FILL if inside else _TIER_FILLS[min(tier, len(_TIER_FILLS)) - 1])
        _name(axes, some, boxes)


def _draw_hosts(axes: Axes, placed: Placed) -> None:
    """The hosts in the layout's style, and below those without a text of their own what they are as a group."""
    style = placed.style
    for name, address in placed.fabric.hosts.items() if style.kind != COUNTS else ():
        box = placed.boxes[name]
        _draw_box(axes, box._replace(width=min(0.8 * box.width, box.height)) if style.kind == DOTS else box, _HOST_FILL)
        if style.kind == BOTH:
            _draw_two_lines(axes, box, name, address, style.turned)
        elif style.kind == LINES:
            _write(axes, box.x, box.y, line(placed.fabric, name), SMALL_PT, 90)
    if style.kind in (DOTS, COUNTS):
        _draw_groups(axes, placed)


def _draw_two_lines(axes: Axes, box: Box, name: str, address: str, turned: bool) -> None:
    """A host's name above its address; to the left of it where both are turned."""
    apart_in = LINE * (NAME_PT + SMALL_PT) / 72 / 4
    for words, size_pt, side in ((name, NAME_PT, 1), (address, SMALL_PT, -1)):
        x, y = (box.x - side * apart_in, box.y) if turned else (box.x, box.y + side * apart_in)
        _write(axes, x, y, words, size_pt, 90 if turned else 0)


def _draw_groups(axes: Axes, placed: Placed) -> None:
    """How many hosts each group has, and the subnet of a rack, where there is room: below the hosts, or in a server in
    their place."""
    subnets = {switch.name: switch.subnet for switch in placed.fabric.switches}
    groups = {group: members for group, members in placed.groups.items() if members}
    counts = [text.counted(len(members), "GPU" if placed.servers else "host") for members in groups.values()]
    places = [_below(placed, members) for members in groups.values()]
    if placed.servers and placed.style.kind == COUNTS:
        boxes = [placed.boxes[members[0]] for members in groups.values()]
        for box in boxes:
            _draw_box(axes, box, _HOST_FILL)
        _name(axes, counts, boxes, (SMALL_PT, _TINY_PT))
    if not placed.servers:
        both = [f"{count}, {subnets[group]}" if subnets[group] else count for count, group in zip(counts, groups)]
        sizes = (SMALL_PT, _TINY_PT)
        _name(axes, both if fitting(both, places[0], sizes) else counts, places, sizes, va="top")


def _below(placed: Placed, members: Sequence[str]) -> Box:
    """The room below a group's hosts for a text, as wide as the group with its gap, by the middle of its upper
    edge."""
    places = [placed.boxes[name].x for name in members]
    cells = (1 if placed.style.kind == COUNTS else len(members)) + placed.style.gap
    return Box(
        (min(places) + max(places)) / 2,
        placed.rows[0] - placed.style.height_in,
        cells * placed.style.pitch_in,
        _BELOW_HOSTS_IN,
    )


def _name_rows(axes: Axes, placed: Placed) -> None:
    """What each row is and how many, at the left."""
    for tier, y in placed.rows.items():
        if tier:
            names = placed.fabric.tier(tier)
            _name_row(axes, y, _noun(names), len(names))
    hosts = len(placed.fabric.hosts)
    _name_row(axes, placed.rows[0], "GPUs" if placed.servers else "hosts", hosts)
    if placed.servers:
        inner = [each.name for each in placed.fabric.switches if each.inside_server]
        _name_row(axes, placed.boxes[inner[0]].y, "NVSwitches", len(inner))


def _noun(names: Sequence[str]) -> str:
    """What the switches of a row are called, by their names: "edge", "leaf"; "switches" where those differ."""
    kinds = {re.sub(r"\d+$", "", name) for name in names}
    return _ROW_NAMES.get(kind := kinds.pop(), kind) if len(kinds) == 1 else "switches"


def _name_row(axes: Axes, y: float, noun: str, count: int) -> None:
    axes.text(0.1, y + 0.02, noun, fontsize=ROW_PT, fontweight="bold", va="bottom", color=INK)
    axes.text(0.1, y - 0.02, f"{count:,}", fontsize=ROW_PT, va="top", color=INK)


def _name(
    axes: Axes,
    names: Sequence[str],
    boxes: Sequence[Box],
    sizes_pt: Sequence[float] = (NAME_PT, SMALL_PT),
    va: str = "center",
) -> None:
    """Write each name into its box, all alike; none where the longest does not fit the narrowest."""
    narrowest = Box(0, 0, min(box.width for box in boxes), min(box.height for box in boxes)) if boxes else None
    found = fitting(names, narrowest, sizes_pt) if narrowest else None
    if found:
        for name, box in zip(names, boxes):
            _write(axes, box.x, box.y, name, found[0], found[1], va)


def _write(axes: Axes, x: float, y: float, words: str, size_pt: float, degrees: int, va: str = "center") -> None:
    seen = shown(words, TITLE_LETTERS)
    axes.text(x, y, seen, fontsize=size_pt, rotation=degrees, ha="center", va=va, color=INK, zorder=4)


def _draw_box(axes: Axes, box: Box, fill: str, edge: str = INK, zorder: int = 2) -> None:
    corner = (box.x - box.width / 2, box.y - box.height / 2)
    round_in = min(0.15 * min(box.width, box.height), 0.05)
    axes.add_patch(
        FancyBboxPatch(
            corner, box.width, box.height, boxstyle=f"round,pad=0,rounding_size={round_in}", facecolor=fill,
            edgecolor=edge, linewidth=0.6 if box.width > 0.1 else 0.3, zorder=zorder,
        )
    )  # fmt: skip
