"""Pause frames as captures show them: who held whom, for how long, what that makes of a fabric, and storms.

A frame of priority-based flow control (IEEE 802.1Qbb), or the older PAUSE of IEEE 802.3 annex 31B, is never forwarded:
it comes from the other end of the very link that it holds. It tells for how many quanta of 512 bit times of that link;
the next one sets the time anew, and one of 0 ends it. Several captures together tell who paused whom: a pause goes
against the data, so that its tree has its root where congestion is, and a circle is a deadlock
(analysis/congestion_tree.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.capture.packets import PAUSE, PAUSE_CLASSES, PFC, Packets
from analysis.congestion_tree import circle, depths, peers
from analysis.explain.model import PausedLink, PauseStory, PauseTree, Point
from analysis.fabric import Fabric
from analysis.transport.spans import Span, total_ns, union
from topologies.units import BadRequest

QUANTUM_BITS = 512
STORM_SHARE = 0.5  # of a capture's time, in one unbroken span: an operator's watchdog would have acted
STORM_NS = 10_000_000  # at the least, of one span
_GLOBAL = -1


def mac_words(number: int) -> str:
    """A MAC address in words: "02:01:00:00:00:01"."""
    return int(number).to_bytes(6, "big").hex(":")


def pause_stories(packets: Packets, point: Point, rate_bps: int | None = None) -> list[PauseStory]:
    """The pause frames in `packets`, of the capture `point`: a story for each source and class, in order of first
    frame. rate_bps: of the link, which quanta are counted by; where it is not known, a pause that no frame ends lasts
    to the last one that renewed it."""
    rows = np.flatnonzero(np.isin(packets.mac_control, (PAUSE, PFC)))
    found: dict[tuple[int, int], list[int]] = {}
    for row, source, classes in zip(rows.tolist(), packets.src_mac[rows].tolist(), _classes(packets, rows)):
        for each in classes:
            found.setdefault((source, each), []).append(row)
    return [
        _story(packets, np.array(frames), source, priority, point, rate_bps)
        for (source, priority), frames in found.items()
    ]


def _classes(packets: Packets, rows: np.ndarray) -> list[list[int]]:
    """The classes that each frame names; _GLOBAL for PAUSE."""
    bits = packets.pause_classes[rows].tolist()
    return [
        [_GLOBAL] if is_global else [each for each in range(PAUSE_CLASSES) if named >> each & 1]
        for is_global, named in zip((packets.mac_control[rows] == PAUSE).tolist(), bits)
    ]


def _story(
    packets: Packets, rows: np.ndarray, source: int, priority: int, point: Point, rate_bps: int | None
) -> PauseStory:
    quanta = packets.pause_quanta[rows, max(priority, 0)].astype(np.int64)
    spans = tuple(spans_of(packets.time_ns[rows], quanta, rate_bps))
    lengths_ns = [end - start for start, end in spans]
    return PauseStory(
        source=mac_words(source),
        point=point.name,
        priority=None if priority == _GLOBAL else priority,
        pauses=int((quanta > 0).sum()),
        resumes=int((quanta == 0).sum()),
        spans=spans,
        total_ns=sum(lengths_ns),
        longest_ns=max(lengths_ns, default=0),
    )


def spans_of(time_ns: np.ndarray, quanta: np.ndarray, rate_bps: int | None) -> list[Span]:
    """When frames (n,) in order of time held their link: each until its quanta are over, the next one comes, or one of
    0 ends it."""
    lasts_ns = quanta * (QUANTUM_BITS * 10**9) // rate_bps if rate_bps else None
    following_ns = np.append(time_ns[1:], time_ns[-1:])
    ends_ns = following_ns if lasts_ns is None else time_ns + lasts_ns
    if lasts_ns is not None:
        ends_ns[:-1] = np.minimum(ends_ns[:-1], following_ns[:-1])
    holding = quanta > 0
    return union(zip(time_ns[holding].tolist(), ends_ns[holding].tolist()))


def holding(stories: Iterable[PauseStory], sides: Iterable[str], others: Iterable[str], is_sender: bool) -> list[Span]:
    """When pauses held a flow's data at one capture point, of those that the point saw: `sides` are the MAC addresses
    that the data comes from there, `others` those that its acknowledgements come from; is_sender: the point is the
    sender's own link.

    A frame from where acknowledgements come from holds the data for certain, and one from where the data comes from
    holds the acknowledgements alone. Any other source is a switch's port: on the sender's link the far one, which holds
    the sender; elsewhere the near one, which holds the way back.
    """
    own, far = set(sides), set(others)
    told = [story for story in stories if story.source not in own and (is_sender or story.source in far)]
    return union(span for story in told for span in story.spans)


def storms(stories: Iterable[PauseStory], points: Iterable[Point]) -> list[PauseStory]:
    """Those that held their neighbour for STORM_SHARE of the capture, or longer, without a break (and for STORM_NS at
    least): what a pause storm of a stuck NIC looks like (Guo et al., SIGCOMM 2016)."""
    lengths_ns = {point.name: point.last_ns - point.first_ns for point in points}
    return [
        story
        for story in stories
        if story.longest_ns >= max(STORM_NS, STORM_SHARE * lengths_ns.get(story.point, story.longest_ns))
    ]


def tree(stories: Sequence[PauseStory], fabric: Mapping[str, Any] | None = None) -> PauseTree:
    """The congestion tree of the pauses that several points saw. With fabric, the document of a fabric.json, captures
    are taken to be named by their interfaces ("leaf1-eth2", "h2-eth0"), and nodes have their names; else a MAC address
    stands for the side that paused and the capture's name for the one that was held."""
    nodes = _nodes(fabric)
    links = _links(stories, nodes)
    if not links:
        return PauseTree()
    far = depths(list(links))
    told = [PausedLink(*link, len(spans), total_ns(spans), far.get(link)) for link, spans in links.items()]
    told.sort(key=lambda each: (each.depth or len(told) + 1, -each.held_ns, each.sender))
    senders = {link.sender for link in told}
    roots = tuple(dict.fromkeys(link.receiver for link in told if link.receiver not in senders))
    named = (
        "fabric.json names the ends"
        if nodes.ends
        else "no fabric.json: MAC addresses and captures' names stand for nodes"
    )
    return PauseTree(tuple(told), roots, _circle(links), named)


@dataclass(frozen=True)
class _Nodes:
    """What a fabric.json tells: of each interface its node and the one at the other end, hosts by their MAC addresses,
    and interfaces of switches by theirs."""

    ends: Mapping[str, tuple[str, str]]
    hosts: Mapping[str, str]
    ports: Mapping[str, str]


def _nodes(fabric: Mapping[str, Any] | None) -> _Nodes:
    """Nothing for a document that is none, or lacks something."""
    try:
        ends, wires = (peers(fabric), Fabric.of(fabric).wires) if fabric else ({}, ())
        hosts = {each["mac"]: each["name"] for each in (fabric or {}).get("hosts", ()) if "mac" in each}
    except (BadRequest, TypeError):
        return _Nodes({}, {}, {})
    # The lab's ports have addresses of their own: the side of the wire, 0 or 1, and its number (topologies/emulate.py).
    ports = {
        mac_words(2 << 40 | side << 32 | number): wire.interfaces[side]
        for number, wire in enumerate(wires, start=1)
        for side in (0, 1)
    }
    return _Nodes(ends, hosts, ports)


def _links(stories: Iterable[PauseStory], nodes: _Nodes) -> dict[tuple[str, str], list[Span]]:
    """(held, pausing) -> when, over all classes; a link that two captures saw counts once."""
    found: dict[tuple[str, str], list[Span]] = {}
    for story in stories:
        link = _link(story, nodes)
        found[link] = union([*found.get(link, []), *story.spans])
    return {link: spans for link, spans in found.items() if spans}


def _link(story: PauseStory, nodes: _Nodes) -> tuple[str, str]:
    """Who was held, and who paused it."""
    port, host = nodes.ports.get(story.source), nodes.hosts.get(story.source)
    at_point: tuple[str, ...] = nodes.ends.get(story.point, ())
    if host is not None and host in at_point:
        return next((node for node in at_point if node != host), host), host
    if host is None and port is not None and port in nodes.ends:
        node, other = nodes.ends[port]
        return other, node
    return f"the other side at {story.point}", story.source


def _circle(links: Mapping[tuple[str, str], Sequence[Span]]) -> tuple[str, ...]:
    """Who waits for whom in a circle, at the first moment at which somebody does."""
    if not circle(list(links)):
        return ()
    begins = [(start, 1, link) for link, spans in links.items() for start, _ in spans]
    ends = [(end, 0, link) for link, spans in links.items() for _, end in spans]
    held: set[tuple[str, str]] = set()
    for _, is_begin, link in sorted(begins + ends):
        held = held | {link} if is_begin else held - {link}
        way = circle(sorted(held)) if is_begin else []
        if way:
            return tuple(way)
    return ()
