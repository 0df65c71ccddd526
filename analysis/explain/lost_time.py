"""The share of time in which flows stood still: "40 minutes of an hour".

A flow has work to do from the begin of a block to its end. It loses the time of its stalls, without those of an
application that had nothing to send, and without those that are unsure. Flows to one receiver share its link and often
wait for each other: what they lose together is the time in which one of them at least was stalled, and none of them
moved. So a round of 200 ms in which one flow of 64 waits for its timeout and all others for that flow is lost time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis import text
from analysis.explain.crowd import by_receiver, host_of
from analysis.explain.model import UNSURE, FlowStall, FlowStory, each_once
from analysis.explain.reasons import NOT_LOST
from analysis.transport.spans import Span, common, total_ns, union, without

_MINUTE_S, _HOUR_S = 60, 3600
_NEARLY_ALL = 0.9


def is_lost(stall: FlowStall) -> bool:
    """Whether a stall is time that network or transport lost, as far as that is known."""
    return stall.cause not in NOT_LOST and stall.confidence != UNSURE


def lost_stalls(flow: FlowStory) -> list[FlowStall]:
    """The stalls in which a flow stood still: those by network or transport, as far as that is known."""
    return [stall for stall in flow.stalls if is_lost(stall)]


def lost_s(flow: FlowStory) -> float:
    """How long a flow stood still."""
    return sum(stall.seconds for stall in lost_stalls(flow))


def working(flow: FlowStory) -> list[Span]:
    """When a flow had work to do: its blocks, and what it was stalled for outside of them (before the first one, for
    its connection)."""
    blocks = [(block.begin_ns, flow.end_ns if block.end_ns is None else block.end_ns) for block in flow.blocks]
    return union([*blocks, *lost(flow)]) if blocks else union([(flow.begin_ns, flow.end_ns), *lost(flow)])


def lost(flow: FlowStory) -> list[Span]:
    """When a flow stood still."""
    return union((stall.start_ns, stall.end_ns) for stall in lost_stalls(flow))


def idle(flow: FlowStory) -> list[Span]:
    """When a flow was silent for reasons that are no loss, or that nobody knows."""
    return union((stall.start_ns, stall.end_ns) for stall in flow.stalls if not is_lost(stall))


def lost_together(flows: Sequence[FlowStory]) -> list[Span]:
    """When flows that share a link all stood still, and one of them at least for a reason that is a loss."""
    moving = [span for flow in flows for span in without(working(flow), [*lost(flow), *idle(flow)])]
    return without([span for flow in flows for span in lost(flow)], moving)


def working_together(flows: Sequence[FlowStory]) -> list[Span]:
    """When one at least of several flows had work to do."""
    return union(span for flow in flows for span in without(working(flow), idle(flow)))


def most_at_once(flows: Iterable[FlowStory]) -> int:
    """The most hosts that had work to do at one time."""
    changes = []
    for flow in flows:
        changes += [(span[at], 1 - 2 * at, host_of(flow.source)) for span in working(flow) for at in (0, 1)]
    busy: dict[str, int] = {}
    most = 0
    for _, change, host in sorted(changes, key=lambda each: each[:2]):
        busy[host] = busy.get(host, 0) + change
        if not busy[host]:
            del busy[host]
        most = max(most, len(busy))
    return most


def lost_share(flows: Sequence[FlowStory]) -> float | None:
    """Of the time in which flows had work to do, the share in which they stood still, flows to one receiver taken
    together; None without flows."""
    groups = by_receiver(each_once(flows)).values()
    away_ns = sum(total_ns(common(lost_together(group), working_together(group))) for group in groups)
    whole_ns = sum(total_ns(working_together(group)) for group in groups)
    return away_ns / whole_ns if whole_ns else None


def hour_words(share: float) -> str:
    """A share of time as people feel it: "40 minutes of an hour"."""
    if share >= 1:
        return "all of it"
    seconds = share * _HOUR_S
    if seconds < _MINUTE_S:
        return f"{text.digits(seconds)} seconds of an hour"
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    if share <= _NEARLY_ALL or not rest:
        return f"{text.counted(round(seconds / _MINUTE_S), 'minute')} of an hour"
    return f"{text.counted(minutes, 'minute')} and {text.counted(rest, 'second')} of an hour"
