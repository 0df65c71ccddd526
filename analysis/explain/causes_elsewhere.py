"""What another capture point tells of a flow's silence: pauses that held its data on the way.

At its sender such a flow waits for an acknowledgement, as for a delayed one: only the point whose link was held saw the
pause frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from analysis import text
from analysis.explain.model import CERTAIN, LIKELY, FlowStall, FlowStory
from analysis.transport.spans import Span, common, total_ns
from analysis.transport.stalls import APPLICATION_IDLE, DELAYED_ACK, PAUSED, UNEXPLAINED

_MAY_BE_A_PAUSE = (DELAYED_ACK, UNEXPLAINED, APPLICATION_IDLE)
_COVERED_SHARE = 0.5  # of the silence, by the silence that the pause made elsewhere


def with_pauses(flows: Sequence[FlowStory]) -> list[FlowStory]:
    """The flows, with silences told as pauses (likely) where another point saw the flow's data held meanwhile."""
    held: dict[tuple[str, str], list[tuple[str, list[Span]]]] = {}
    for flow in flows:
        spans = [(stall.start_ns, stall.end_ns) for stall in flow.stalls if stall.cause == PAUSED]
        if spans:
            held.setdefault((flow.source, flow.destination), []).append((flow.point, spans))
    return [_told(flow, held.get((flow.source, flow.destination), ())) for flow in flows]


def _told(flow: FlowStory, held: Sequence[tuple[str, list[Span]]]) -> FlowStory:
    if not held:
        return flow
    return replace(flow, stalls=tuple(_stall(stall, held) for stall in flow.stalls))


def _stall(stall: FlowStall, held: Iterable[tuple[str, list[Span]]]) -> FlowStall:
    if stall.cause not in _MAY_BE_A_PAUSE or (stall.cause == APPLICATION_IDLE and stall.confidence == CERTAIN):
        return stall
    for point, spans in held:
        covered_ns = total_ns(common([(stall.start_ns, stall.end_ns)], spans))
        if covered_ns >= _COVERED_SHARE * (stall.end_ns - stall.start_ns):
            length = text.seconds(stall.seconds)
            reason = f"{length}; meanwhile pause frames held the flow's data at {point}"
            return replace(stall, cause=PAUSED, confidence=LIKELY, reason=reason)
    return stall
