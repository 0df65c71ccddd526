"""Which link was paused by whom: the tree that congestion spreads in, and the circle that it ends in (pure).

A pause goes against the data: the receiving end of a link holds its sending end. A switch pauses what feeds it when it
cannot pass on what it holds, because its own ports are paused, or because one of them is simply full: there a tree has
its root. When every switch of a circle waits for the next one, there is no root, and nothing moves any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.fabric import Fabric
from analysis.text import natural
from topologies.units import BadRequest

Held = Mapping[str, Sequence[tuple[int, int]]]  # port -> the spans in ns during which it was paused


@dataclass(frozen=True)
class HeldLink:
    """A link in the direction in which it was paused: the port held, whose it is, who paused it, and how often and how
    long (ns); depth: 1 where the congestion is at `receiver` itself, one more for each link further back, None where
    no root is found (a circle)."""

    port: str
    sender: str
    receiver: str
    times: int
    held_ns: int
    depth: int | None


def peers(document: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Interface -> its node, and the node at the other end of its link, of the document of a fabric.json."""
    found = {}
    for wire in Fabric.of(document).wires:
        for end in (0, 1):
            found[wire.interfaces[end]] = wire.ends[end], wire.ends[1 - end]
    return found


def held_links(held: Held, document: Mapping[str, Any], start_ns: int, end_ns: int) -> list[HeldLink]:
    """The links that were paused in [start_ns, end_ns), the nearest to the congestion first, then the longest held."""
    ends = peers(document)
    inside = {port: _within(spans, start_ns, end_ns) for port, spans in held.items() if port in ends}
    paused = {port: lengths_ns for port, lengths_ns in inside.items() if lengths_ns}
    far = depths([ends[port] for port in paused])
    links = [
        HeldLink(port, *ends[port], len(lengths_ns), sum(lengths_ns), far.get(ends[port]))
        for port, lengths_ns in paused.items()
    ]
    return sorted(links, key=lambda link: (link.depth or len(links) + 1, -link.held_ns, natural(link.port)))


def _within(spans: Sequence[tuple[int, int]], start_ns: int, end_ns: int) -> list[int]:
    """How long each span lasts within [start_ns, end_ns), those outside left out."""
    lengths_ns = (min(stop_ns, end_ns) - max(begin_ns, start_ns) for begin_ns, stop_ns in spans)
    return [length_ns for length_ns in lengths_ns if length_ns > 0]


def depths(links: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """How far each (sender, receiver) is from a root, breadth first: a root is a receiver that nobody holds."""
    senders = {sender for sender, _ in links}
    found = {link: 1 for link in links if link[1] not in senders}
    waiting = list(found)
    for here in waiting:
        for link in links:
            if link[1] == here[0] and link not in found:
                found[link] = found[here] + 1
                waiting.append(link)
    return found


def circle(links: Iterable[tuple[str, str]]) -> list[str]:
    """Nodes each of which waits for the next and the last for the first, of links (sender, receiver) that are all held
    at one time; empty when there is no such circle. The first one found, begun at its first node by name."""
    following: dict[str, list[str]] = {}
    for sender, receiver in links:
        following.setdefault(sender, []).append(receiver)
    for start in sorted(following, key=natural):
        way = _way_back(start, following)
        if way:
            return way
    return []


def _way_back(start: str, following: Mapping[str, Sequence[str]]) -> list[str]:
    """The shortest way from a node to itself, breadth first, itself once; empty when there is none."""
    before: dict[str, str] = {}
    waiting = [start]
    for here in waiting:
        for there in following.get(here, ()):
            if there == start:
                return _unrolled(start, here, before)
            if there not in before:
                before[there] = here
                waiting.append(there)
    return []


def _unrolled(start: str, last: str, before: Mapping[str, str]) -> list[str]:
    way = [last]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


def held_at(held: Held, document: Mapping[str, Any], time_ns: int) -> list[tuple[str, str]]:
    """The links, as (sender, receiver), that are paused at one moment."""
    ends = peers(document)
    return [
        ends[port]
        for port, spans in held.items()
        if port in ends and any(begin_ns <= time_ns < stop_ns for begin_ns, stop_ns in spans)
    ]


def way_back(document: Mapping[str, Any], receiver: str, sender: str) -> list[str]:
    """The nodes of a shortest way from the switch of a receiver back to a sender, of several the first by the
    document's order; raises BadRequest where there is none."""
    switches = {each.name for each in Fabric.of(document).switches}
    neighbours: dict[str, list[str]] = {}
    for here, there in peers(document).values():
        neighbours.setdefault(here, []).append(there)
    before = {receiver: receiver}
    waiting = [receiver]
    for here in waiting:
        for there in neighbours.get(here, ()):
            if there not in before and (here in switches or here == receiver):
                before[there] = here
                waiting.append(there)
    if sender not in before:
        raise BadRequest(f"fabric.json: no way from {sender} to {receiver}; allowed: the fabric that the flows ran on")
    way = [sender]
    while way[-1] != receiver:
        way.append(before[way[-1]])
    return way[-2::-1]
