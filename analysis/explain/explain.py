"""Captures in, their explanation out: `explain(["leaf1-eth1.pcap", "h2-eth0.pcap"])`.

One capture after the other is read in pieces (gathering), of each piece the flows are told (stories), those that
several captures saw are joined (joining), and what all of that means is concluded (incast, onset, lost_time, findings).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.capture.addresses import AddressTable
from analysis.capture.source import STDIN
from analysis.explain.causes_elsewhere import with_pauses
from analysis.explain.conversations import MOST_TOLD, Counted
from analysis.explain.findings import findings
from analysis.explain.gathering import MOST_PACKETS, gather
from analysis.explain.incast import incast_verdict
from analysis.explain.joining import Trace, clocks_of, join
from analysis.explain.known import Known, Names, captures_in, known_beside, shown_safely
from analysis.explain.lost_time import lost_share
from analysis.explain.merging import merged
from analysis.explain.model import Explanation, FlowStory, PauseStory, Point
from analysis.explain.onset import fill_s, onset_ns
from analysis.explain.pauses import pause_stories, tree
from analysis.explain.stories import tell
from analysis.explain.stragglers import with_stragglers
from analysis.explain.tally import point_name
from analysis.printable import printable
from analysis.transport.recovery import Inferred

MOST_JOINED = 12_000_000  # data packets of all captures: each takes 40 bytes until the points are joined
_MOST_NOTES = 20


@dataclass
class _Seen:
    """What has been found so far, capture by capture."""

    points: list[Point] = field(default_factory=list)
    flows: list[FlowStory] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    pauses: list[PauseStory] = field(default_factory=list)
    counted: dict[str, Counted] = field(default_factory=dict)
    datagrams: dict[str, int] = field(default_factory=dict)
    recoveries: dict[str, Inferred] = field(default_factory=dict)
    traced: int = 0
    notes: list[str] = field(default_factory=list)


def captures_of(paths: Sequence[str | Path]) -> list[str]:
    """The captures that files, run directories and "-" stand for, each once, whatever is given twice; raises BadRequest
    for a folder without any."""
    found: list[str] = []
    for path in map(str, paths):
        if path == STDIN or not Path(path).is_dir():
            found.append(path)
        else:
            found += map(str, captures_in(Path(path)))
    return list({path if path == STDIN else os.path.realpath(path): path for path in found}.values())


def explain(
    paths: Sequence[str | Path],
    names: Names | None = None,
    known: Known | None = None,
    note: Callable[[str], None] = lambda line: None,
    most_packets: int = MOST_PACKETS,
) -> Explanation:
    """Everything that captures, given in any order, tell together.

    names: (source, destination) -> what the flow is called; known: what is known beside the captures, by default what
    the run directory that they lie in tells; note is called with a line when a capture begins to be read. Raises
    BadRequest naming the file that is no capture, or that cannot be read.
    """
    captures = captures_of(paths)
    known = known or known_beside(captures) or Known()
    known = shown_safely(replace(known, names={**known.names, **(names or {})}))
    seen, table = _Seen(), AddressTable()
    for path, name in zip(captures, _point_names(captures)):
        note(f"reading {path}")
        _take(seen, path, name, known, table, joins=len(captures) > 1, most_packets=most_packets)
    hops, unjoined = join(seen.traces, seen.points)
    seen.notes += unjoined
    return _concluded(seen, hops, known)


def _point_names(captures: Sequence[str]) -> list[str]:
    """A name for each capture; those that would share one are called by folder and file."""
    names = [point_name(path) for path in captures]
    often = Counter(names)
    return [printable(path) if often[name] > 1 else name for path, name in zip(captures, names)]


def _take(seen: _Seen, path: str, name: str, known: Known, table: AddressTable, joins: bool, most_packets: int) -> None:
    """Read and tell one capture."""
    gathered = gather(path, name, table, most_packets)
    point, found, cut = gathered.point, [], set()
    pauses: list[PauseStory] = []
    counted = Counted()
    for piece in gathered.pieces:
        if piece.packets.mac_control.any():
            pauses += pause_stories(piece.packets, point, known.rate_bps)
        told = tell(piece.packets, point, known, pauses)
        found += told.stories
        cut |= {story.key for story in told.stories} if piece.is_cut else set()
        counted += told.counted
        if len(found) > 2 * MOST_TOLD:
            found, left = _largest(found, MOST_TOLD)
            counted += left
        if told.recovery is not None:
            seen.recoveries.setdefault(name, told.recovery)
        if joins:
            _keep(seen, told.traces, name)
    found, left = _largest(merged(found, frozenset(cut)), MOST_TOLD)
    seen.points.append(point)
    seen.flows += found
    seen.pauses += pauses
    seen.counted[name], seen.datagrams[name] = counted + left, gathered.datagram_conversations


def _largest(found: list[FlowStory], most: int) -> tuple[list[FlowStory], Counted]:
    """The flows with the most data, in their order, and the others as counted."""
    if len(found) <= most:
        return found, Counted()
    by_size = sorted(range(len(found)), key=lambda place: -found[place].payload_bytes)
    left = [found[place] for place in by_size[most:]]
    counted = Counted(untold=len(left), untold_bytes=sum(story.payload_bytes for story in left))
    return [found[place] for place in sorted(by_size[:most])], counted


def _keep(seen: _Seen, traces: Iterable[Trace], name: str) -> None:
    """Traces for the joining of points, as many as there is room for."""
    for trace in traces:
        seen.traced += len(trace.key)
        if seen.traced <= MOST_JOINED:
            seen.traces.append(trace)
        elif not any(line.startswith(f"{name}: ") for line in seen.notes):
            seen.notes.append(f"{name}: too many packets to join all points: some flows are told by point only")


def _concluded(seen: _Seen, hops: Sequence[Any], known: Known) -> Explanation:
    seen.flows = with_stragglers(with_pauses(seen.flows))
    told = (known.recovery, known.rate_bps, known.clock, known.fidelity)
    verdict = incast_verdict(seen.flows, hops, seen.points, seen.pauses, *told)
    bare = Explanation(
        points=tuple(seen.points),
        flows=tuple(seen.flows),
        hops=tuple(hops),
        pauses=tuple(seen.pauses),
        verdicts=(verdict,),
        findings=(),
        lost_share=lost_share(seen.flows),
        onset_ns=onset_ns(seen.flows, hops),
        fill_s=fill_s(hops, seen.flows),
        facts=_facts(seen, hops, known),
        pause_tree=tree(seen.pauses, known.fabric),
    )
    return replace(bare, findings=findings(bare))


def _facts(seen: _Seen, hops: Sequence[Any], known: Known) -> dict[str, Any]:
    """What else is told, JSON-ready."""
    return {
        "known": known.words(),
        "rate_bps": known.rate_bps,
        "buffer_bytes": known.buffer_bytes,
        "hot_port": known.hot_port,
        "clock": known.clock,
        "recovery": {name: _recovery(found) for name, found in seen.recoveries.items()},
        "conversations": {name: asdict(counted) for name, counted in seen.counted.items()},
        "udp_conversations": seen.datagrams,
        "clocks": [asdict(each) for each in clocks_of(hops, seen.traces)],
        "notes": [*seen.notes[:_MOST_NOTES], *_more(len(seen.notes) - _MOST_NOTES)],
    }


def _more(count: int) -> list[str]:
    return [f"and {count:,} more notes of this kind"] if count > 0 else []


def _recovery(found: Inferred) -> Mapping[str, Any]:
    return {**asdict(found.recovery), "is_certain": found.is_certain, "because": found.because}
