"""Where everything in a fabric's drawing goes, in inches, so that a text is only drawn where it fits.

Hosts from left to right by rack (or server), each rack's switch above its hosts, every further tier spread evenly over
the width, or over its pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from matplotlib.textpath import TextPath

from analysis.fabric import Fabric
from analysis.figures.style import letter_shown

LEFT_IN, RIGHT_IN, BELOW_IN, ROW_PT = 1.12, 0.14, 0.5, 9.0
NAME_PT, SMALL_PT, PAD_IN = 7.5, 5.6, 0.04
LINE, _GLYPH = 1.25, 0.8  # height of a line, and of its letters, over the font's size
BOTH, LINES, DOTS, COUNTS = "both", "lines", "dots", "counts"
_TOP_IN, _ARCS_IN = 0.5, 1.1
_NARROWEST_IN, _WIDEST_IN, _HOST_IN = 6.2, 11.0, 0.36
_SWITCH_IN, _SWITCH_HEIGHT_IN, _NVSWITCH_HEIGHT_IN, _DOT_IN, _COUNT_IN = 0.62, 0.24, 0.17, 0.07, 0.4
_TALL_ROW_IN, _ROW_IN, _MANY_LINKS = 1.35, 1.0, 60
_SERVER_IN, _POD_NAME_IN = 0.85, 0.22  # below the hosts
_CROWDED = 0.55  # of the distance that an even spread gives
_LEAST_PITCH_IN = 0.045  # hosts closer than this are a blur: they are counted instead
_GROUP_GAP, _COUNTS_GAP, _POD_GAP = 0.7, 0.3, 1.2  # in hosts, or in counts of hosts


def text_width_in(words: str, size_pt: float) -> float:
    """How wide a text is, in inches."""
    return sum(_advance(letter_shown(letter)) for letter in words) * size_pt / 72


@cache
def _advance(letter: str) -> float:
    """How far a letter moves the next one, over the font's size (measured between two others, for a space has no
    outline)."""
    alone, with_it = (TextPath((0, 0), words, size=100).get_extents().width for words in ("HH", f"H{letter}H"))
    return float(with_it - alone) / 100


class Box(NamedTuple):
    """A rectangle by its centre, in inches."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class HostStyle:
    """How hosts are drawn: each a box with name and address in two lines (BOTH) or one (LINES), as dots (DOTS), or only
    counted per group (COUNTS); `turned` by 90 degrees. pitch_in: from one to the next; gap: between groups, in
    those."""

    kind: str
    turned: bool
    pitch_in: float
    height_in: float
    gap: float = _GROUP_GAP


@dataclass(frozen=True)
class Placed:
    """A fabric with a place for everything; `groups` are racks, or servers where there are any.

    boxes: of switches and hosts (hosts that are only counted share their group's); rows: the middle of each tier's,
    0 that of the hosts; arcs_in: how high above its row the longest link of a single row rises, where many cross.
    """

    fabric: Fabric
    width_in: float
    height_in: float
    style: HostStyle
    groups: dict[str, list[str]]
    boxes: dict[str, Box]
    pods: list[Box]
    servers: dict[str, Box]
    rows: Rows
    arcs_in: float = 0.0


Extents = dict[str, tuple[float, float]]
Rows = dict[int, float]


def place(fabric: Fabric) -> Placed:
    """The fabric's layout."""
    pods, groups = fabric.pods(), fabric.servers() or fabric.racks()
    width_in, style = _width_and_style(fabric, groups, len(pods))
    rows = _rows(fabric, style)
    boxes, extents = _host_boxes(groups, pods, style, rows[0])
    servers = _servers(extents, boxes, style) if fabric.servers() else {}
    _place_racks(fabric, boxes, extents, width_in, rows[1])
    _place_upper(fabric, extents, boxes, width_in, rows)
    grounds = _grounds(fabric, extents, boxes, style.pitch_in)
    arcs_in = _ARCS_IN if _far_links(fabric) > 1 else 0.0
    height_in = rows[fabric.highest_tier] + _SWITCH_HEIGHT_IN + _TOP_IN + arcs_in
    return Placed(fabric, width_in, height_in, style, groups, boxes, grounds, servers, rows, arcs_in)


def _far_links(fabric: Fabric) -> int:
    """Links between switches of one row that others stand between, where that row is all there is."""
    places = {name: place for place, name in enumerate(fabric.tier(1))} if fabric.highest_tier == 1 else {}
    ends = [wire.ends for wire in fabric.wires if set(wire.ends) <= set(places)]
    return sum(abs(places[one] - places[other]) > 1 for one, other in ends)


def _width_and_style(fabric: Fabric, groups: Mapping[str, Sequence[str]], pods: int) -> tuple[float, HostStyle]:
    """The drawing's width, and the hosts in the fullest style that it has room for: counted per group when they are
    too many to be told apart."""
    for kind, gap in ((DOTS, _GROUP_GAP), (COUNTS, _COUNTS_GAP)):
        cells = sum(_cells(hosts, kind) for hosts in groups.values()) + gap * len(groups) + _POD_GAP * pods
        width_in = min(max(LEFT_IN + RIGHT_IN + _HOST_IN * cells, _NARROWEST_IN), _WIDEST_IN)
        pitch_in = (width_in - LEFT_IN - RIGHT_IN) / cells
        if kind == DOTS and pitch_in >= _LEAST_PITCH_IN:
            return width_in, _host_style(fabric, pitch_in)
    return width_in, HostStyle(COUNTS, False, pitch_in, _COUNT_IN if fabric.servers() else _DOT_IN, _COUNTS_GAP)


def _cells(hosts: Sequence[str], kind: str) -> int:
    """How many places of a host a group takes."""
    return 1 if kind == COUNTS else max(len(hosts), 1)


def _host_style(fabric: Fabric, pitch_in: float) -> HostStyle:
    """The fullest way of drawing hosts that fits into their distance."""
    inner_in = 0.9 * pitch_in - PAD_IN
    text_in = max(_longest_in(fabric.hosts.values(), SMALL_PT), _longest_in(fabric.hosts, NAME_PT))
    two_lines_in = LINE * (NAME_PT + SMALL_PT) / 72
    if text_in <= inner_in:
        return HostStyle(BOTH, False, pitch_in, two_lines_in + 2 * PAD_IN)
    if two_lines_in <= inner_in:
        return HostStyle(BOTH, True, pitch_in, text_in + 3 * PAD_IN)
    if inner_in >= SMALL_PT / 72:
        line_in = _longest_in((line(fabric, name) for name in fabric.hosts), SMALL_PT)
        return HostStyle(LINES, True, pitch_in, line_in + 3 * PAD_IN)
    return HostStyle(DOTS, False, pitch_in, _DOT_IN)


def line(fabric: Fabric, host: str) -> str:
    """A host's name and address in one line."""
    return f"{host}  {fabric.hosts[host]}"


def _rows(fabric: Fabric, style: HostStyle) -> Rows:
    """The middle of each row: many links need steep lines, what is written below the hosts needs room."""
    row_in = _TALL_ROW_IN if len(fabric.wires) > _MANY_LINKS else _ROW_IN
    below_in = _SERVER_IN if fabric.servers() else _below_in(fabric, style)
    below_in += _POD_NAME_IN if fabric.pods() else 0
    hosts_in = BELOW_IN + below_in + style.height_in / 2
    first_in = hosts_in + style.height_in / 2 + (row_in if fabric.servers() else 0.65 * row_in)
    return {0: hosts_in, **{tier: first_in + (tier - 1) * row_in for tier in range(1, fabric.highest_tier + 1)}}


def _below_in(fabric: Fabric, style: HostStyle) -> float:
    """The room for what is written below hosts that have no text of their own."""
    if style.kind in (BOTH, LINES):
        return 0.1
    return 1.05 if len(fabric.racks()) > 1 else 0.3


def _host_boxes(
    groups: Mapping[str, Sequence[str]], pods: Sequence[Sequence[str]], style: HostStyle, y: float
) -> tuple[dict[str, Box], Extents]:
    """The hosts' boxes, and from where to where each group reaches."""
    boxes: dict[str, Box] = {}
    extents: Extents = {}
    pitch_in, gap_in = style.pitch_in, style.gap * style.pitch_in
    firsts = {min(pod, key=list(groups).index) for pod in _racks_only(pods, groups)}
    x = LEFT_IN
    for group, members in groups.items():
        x += _POD_GAP * pitch_in if group in firsts else 0
        begin, width_in = x + gap_in / 2, pitch_in * _cells(members, style.kind)
        for number, name in enumerate(members):
            offset_in = width_in / 2 if style.kind == COUNTS else (number + 0.5) * pitch_in
            boxes[name] = Box(begin + offset_in, y, min(0.9 * pitch_in, _SWITCH_IN), style.height_in)
        extents[group] = (begin, begin + width_in)
        x += width_in + gap_in
    return boxes, extents


def _racks_only(pods: Sequence[Sequence[str]], groups: Mapping[str, Sequence[str]]) -> list[list[str]]:
    return [[name for name in pod if name in groups] for pod in pods]


def _servers(extents: Extents, boxes: dict[str, Box], style: HostStyle) -> dict[str, Box]:
    """The servers' boxes; places their NVSwitches below the GPUs."""
    found = {}
    middle_in = BELOW_IN + _SERVER_IN + style.height_in / 2
    for name, (begin, end) in extents.items():
        nvswitch_in = middle_in - style.height_in / 2 - 0.42
        boxes[name] = Box((begin + end) / 2, nvswitch_in, 0.86 * (end - begin), _NVSWITCH_HEIGHT_IN)
        top, bottom = middle_in + style.height_in / 2 + 0.08, nvswitch_in - 0.33
        width_in = end - begin + 0.3 * style.pitch_in
        found[name] = Box((begin + end) / 2, (top + bottom) / 2, width_in, top - bottom)
    return found


def _place_racks(fabric: Fabric, boxes: dict[str, Box], extents: Extents, width_in: float, y: float) -> None:
    """Every rack's switch above its hosts; all spread evenly where those are the same for many (the leaves of
    rails)."""
    racks = fabric.racks()
    middles = [_middle(_reach(name, hosts, boxes, extents)) for name, hosts in racks.items()]
    nearest_in = min((second - first for first, second in zip(middles, middles[1:])), default=width_in)
    if nearest_in < _CROWDED * (width_in - LEFT_IN - RIGHT_IN) / len(racks):
        _spread_all(list(racks), width_in, y, boxes)
        return
    like = _switch_box(list(racks), nearest_in)
    for name, middle in zip(racks, middles):
        boxes[name] = like._replace(x=middle, y=y)


def _reach(name: str, hosts: Sequence[str], boxes: Mapping[str, Box], extents: Extents) -> Sequence[float]:
    """Where a rack begins and ends, by its own group or, of servers, by its hosts (none: at the left)."""
    return extents.get(name) or [boxes[host].x for host in hosts] or [LEFT_IN]


def _middle(places: Sequence[float]) -> float:
    return (min(places) + max(places)) / 2


def _spread(names: Sequence[str], begin: float, end: float, y: float, boxes: dict[str, Box], like: Box) -> None:
    """Place switches evenly in their row, each like `like`."""
    step_in = (end - begin) / len(names)
    for number, name in enumerate(names):
        boxes[name] = like._replace(x=begin + (number + 0.5) * step_in, y=y)


def _spread_all(names: Sequence[str], width_in: float, y: float, boxes: dict[str, Box]) -> None:
    """Place a row of switches evenly over the whole width."""
    like = _switch_box(names, (width_in - LEFT_IN - RIGHT_IN) / len(names))
    _spread(names, LEFT_IN, width_in - RIGHT_IN, y, boxes, like)


def _place_upper(fabric: Fabric, extents: Extents, boxes: dict[str, Box], width_in: float, rows: Rows) -> None:
    """Place the tiers above the racks, those of a pod above its racks."""
    reaches = [_pod_reach(pod, extents) for pod in fabric.pods()]
    for tier in range(2, fabric.highest_tier):
        some = [[name for name in fabric.tier(tier) if name in pod] for pod in fabric.pods()]
        step_in = min((end - begin) / len(names) for (begin, end), names in zip(reaches, some))
        like = _switch_box(fabric.tier(tier), step_in)
        for (begin, end), names in zip(reaches, some):
            _spread(names, begin, end, rows[tier], boxes, like)
    if fabric.highest_tier > 1:
        _spread_all(fabric.tier(fabric.highest_tier), width_in, rows[fabric.highest_tier], boxes)


def _pod_reach(pod: Sequence[str], extents: Extents) -> tuple[float, float]:
    places = [x for name in pod for x in extents.get(name, ())]
    return min(places), max(places)


def _grounds(fabric: Fabric, extents: Extents, boxes: Mapping[str, Box], pitch_in: float) -> list[Box]:
    """The pods' grounds, hosts and name included."""
    found = []
    for pod in fabric.pods():
        begin, end = _pod_reach(pod, extents)
        top, bottom = max(boxes[name].y + boxes[name].height / 2 for name in pod) + 0.1, BELOW_IN + 0.06
        found.append(Box((begin + end) / 2, (top + bottom) / 2, end - begin + 0.9 * pitch_in, top - bottom))
    return found


def _switch_box(names: Sequence[str], step_in: float) -> Box:
    """The box of the switches of a row, `step_in` apart: tall where their names fit only turned."""
    flat = Box(0, 0, min(0.8 * step_in, _SWITCH_IN), _SWITCH_HEIGHT_IN)
    if fitting(names, flat) is None:
        for size_pt in (NAME_PT, SMALL_PT):
            tall = flat._replace(height=_longest_in(names, size_pt) + 3 * PAD_IN)
            if fitting(names, tall) is not None:
                return tall
    return flat


def fitting(
    texts: Sequence[str], box: Box, sizes_pt: Sequence[float] = (NAME_PT, SMALL_PT)
) -> tuple[float, int] | None:
    """The first of `sizes_pt` in which each of the texts fits into a box of this size, and by how many degrees they are
    turned; None where they do not."""
    for size_pt in sizes_pt:
        longest_in, high_in = _longest_in(texts, size_pt) + PAD_IN, _GLYPH * size_pt / 72 + PAD_IN / 4
        if longest_in <= box.width and high_in <= box.height:
            return size_pt, 0
        if longest_in <= box.height and high_in <= box.width:
            return size_pt, 90
    return None


def _longest_in(texts: Iterable[str], size_pt: float) -> float:
    return max((text_width_in(words, size_pt) for words in texts), default=0)
