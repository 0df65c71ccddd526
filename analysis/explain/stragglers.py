"""Flows that were silent because they waited for the slowest flow of a round.

Where several hosts send to one receiver in rounds, none begins the next block before the last of them has ended this
one. Then a flow whose block ends early has nothing to send, and its capture alone shows an idle application. Beside its
peers it can be told: one of them was still at work for most of the silence, and the flow began its next block only when
that was done. A flow is at work from the begin of its first block on, but for its own silences with nothing to send.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from analysis import text
from analysis.explain.crowd import by_receiver, host_of
from analysis.explain.model import LIKELY, FlowStall, FlowStory, each_once
from analysis.explain.reasons import NOT_LOST, STRAGGLER
from analysis.transport.spans import without
from analysis.transport.stalls import APPLICATION_IDLE

_FEWEST_FLOWS = 2
_COVERED_SHARE = 0.5  # of the silence, by the straggler's work
_SOON_SHARE = 0.25  # of the silence: the next block begins so soon after the straggler's has ended
_MOST_BLOCKS = 200_000  # of the flows to one receiver: beyond it nobody reads who waited for whom


def with_stragglers(flows: Sequence[FlowStory]) -> list[FlowStory]:
    """The flows, with silences of applications that waited for a peer told as such (STRAGGLER, likely)."""
    peers = _peers(flows)
    return [_told(flow, peers.get(host_of(flow.destination), ())) for flow in flows]


def waited_for(flows: Sequence[FlowStory]) -> dict[str, int]:
    """How often each flow was waited for by others, the one that most waited for first."""
    peers = _peers(flows)
    found: Counter[str] = Counter()
    for flow in each_once(flows):
        for stall in flow.stalls:
            last = _slowest(stall, peers.get(host_of(flow.destination), ())) if stall.cause == STRAGGLER else None
            found.update([last.name] if last else [])
    return dict(found.most_common())


def _peers(flows: Sequence[FlowStory]) -> dict[str, list[_Work]]:
    """The work of all flows to each receiver that several send to, in order of its ends."""
    found: dict[str, list[_Work]] = {}
    for receiver, group in by_receiver(each_once(flows)).items():
        work = sorted((each for flow in group for each in _work(flow)), key=lambda each: each.end_ns)
        if len(group) >= _FEWEST_FLOWS and len(work) <= _MOST_BLOCKS:
            found[receiver] = work
    return found


class _Work(NamedTuple):
    """A block's end, and since when its flow had been at work."""

    name: str
    begin_ns: int
    end_ns: int


def _work(flow: FlowStory) -> Iterable[_Work]:
    ends_ns = [block.end_ns for block in flow.blocks if block.end_ns is not None]
    whole = [(flow.blocks[0].begin_ns, max(ends_ns))] if ends_ns else []
    silent = [(stall.start_ns, stall.end_ns) for stall in flow.stalls if stall.cause in NOT_LOST]
    begins_ns = [start for start, _ in without(whole, silent)]
    return (
        _Work(flow.name, begins_ns[place - 1], end_ns)
        for end_ns in ends_ns
        for place in [bisect_left(begins_ns, end_ns)]
        if place
    )


def _told(flow: FlowStory, peers: Sequence[_Work]) -> FlowStory:
    if not peers or not any(stall.cause == APPLICATION_IDLE for stall in flow.stalls):
        return flow
    return replace(flow, stalls=tuple(_stall(stall, peers) for stall in flow.stalls))


def _stall(stall: FlowStall, peers: Sequence[_Work]) -> FlowStall:
    """A silence of an application, told as a wait where a peer's block explains it."""
    if stall.cause != APPLICATION_IDLE:
        return stall
    last = _slowest(stall, peers)
    if last is None:
        return stall
    behind = text.seconds(max(stall.end_ns - last.end_ns, 0) / 1e9)
    reason = f"its block was done; {last.name} went on with its own, and {behind} after that ended the next one began"
    return replace(stall, cause=STRAGGLER, confidence=LIKELY, reason=reason)


def _slowest(stall: FlowStall, peers: Sequence[_Work]) -> _Work | None:
    """The last work of a peer that explains a silence; None without any."""
    found = (each for each in reversed(_ended_in(peers, stall)) if each.name != stall.flow and _explains(each, stall))
    return next(found, None)


def _ended_in(peers: Sequence[_Work], stall: FlowStall) -> Sequence[_Work]:
    """The work that ended within a silence, in order of its ends."""
    return peers[_first_after(peers, stall.start_ns) : _first_after(peers, stall.end_ns)]


def _first_after(peers: Sequence[_Work], time_ns: int) -> int:
    """The place of the first work that ended after a time."""
    low, high = 0, len(peers)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if peers[middle].end_ns > time_ns else (middle + 1, high)
    return low


def _explains(work: _Work, stall: FlowStall) -> bool:
    """Whether a peer was at work for most of a silence, and its end brought the silence's own."""
    length_ns = stall.end_ns - stall.start_ns
    covered_ns = work.end_ns - max(work.begin_ns, stall.start_ns)
    return covered_ns >= _COVERED_SHARE * length_ns and stall.end_ns - work.end_ns <= _SOON_SHARE * length_ns
