"""The parts of a flow that was cut for its length, as one story again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

import numpy as np

from analysis.explain.model import SURENESS, UNKNOWN, Block, FlowStory, Repeats
from analysis.explain.series import merged as merged_series

_SUMMED = (
    *("packets", "wire_bytes", "payload_bytes", "delivered_bytes", "spurious", "upstream_losses", "gaps"),
    *("duplicate_acks", "zero_windows", "zero_window_ns", "ect", "ce", "ece", "cwr", "cnps"),
)
_NO_SYN = "the capture does not have its SYN"


def merged(stories: Iterable[FlowStory], cut: frozenset[tuple[str, str, str]] = frozenset()) -> list[FlowStory]:
    """One story for each flow of one point, in the order of their beginnings; cut: the keys of those that were
    cut while data was outstanding."""
    parts: dict[tuple[str, str, str], list[FlowStory]] = {}
    for story in stories:
        parts.setdefault(story.key, []).append(story)
    found = [_merged(each, key in cut) for key, each in parts.items()]
    return sorted(found, key=lambda story: (story.begin_ns, story.name))


def _merged(parts: Sequence[FlowStory], was_cut: bool) -> FlowStory:
    if len(parts) == 1:
        return parts[0]
    surest = max(parts, key=lambda part: (part.position != UNKNOWN, SURENESS.index(part.position_confidence)))
    series = [part.series for part in parts if part.series is not None]
    return replace(
        surest,
        **{name: sum(getattr(part, name) for part in parts) for name in _SUMMED},
        both_ways=any(part.both_ways for part in parts),
        handshake=any(part.handshake for part in parts),
        begin_ns=min(part.begin_ns for part in parts),
        end_ns=max(part.end_ns for part in parts),
        rtt_min_ns=min((part.rtt_min_ns for part in parts if part.rtt_min_ns is not None), default=None),
        rtt_median_ns=_weighted(parts, "rtt_median_ns"),
        rtt_p99_ns=_weighted(parts, "rtt_p99_ns"),
        kinds=dict(sum((Counter(part.kinds) for part in parts), Counter())),
        min_rto_ns=min((part.min_rto_ns for part in parts if part.min_rto_ns is not None), default=None),
        series=merged_series(series) if series else None,
        blocks=_blocks(parts),
        stalls=tuple(stall for part in parts for stall in part.stalls),
        repeats=_repeats(parts),
        notes=_notes(parts, was_cut),
    )


def _weighted(parts: Sequence[FlowStory], name: str) -> int | None:
    """The parts' values, weighted by their packets: of medians and percentiles of parts no more can be had."""
    known = [(getattr(part, name), part.packets) for part in parts if getattr(part, name) is not None]
    return sum(value * packets for value, packets in known) // sum(packets for _, packets in known) if known else None


def _blocks(parts: Sequence[FlowStory]) -> tuple[Block, ...]:
    """The blocks, numbered on, their positions counted from the flow's first byte."""
    found: list[Block] = []
    before = 0
    for part in parts:
        for block in part.blocks:
            number = len(found) + 1
            found.append(replace(block, number=number, start=block.start + before, end=block.end + before))
        before += part.blocks[-1].end if part.blocks else 0
    return tuple(found)


def _repeats(parts: Sequence[FlowStory]) -> Repeats:
    columns = {
        each.name: np.concatenate([getattr(part.repeats, each.name) for part in parts]) for each in fields(Repeats)
    }
    return Repeats(**columns)


def _notes(parts: Sequence[FlowStory], was_cut: bool) -> tuple[str, ...]:
    told = dict.fromkeys(note for part in parts for note in part.notes)
    if any(part.handshake for part in parts):
        told = {note: None for note in told if not note.startswith(_NO_SYN)}
    also = "; of what was outstanding at a cut it is not known whether it was sent again" if was_cut else ""
    return (f"told in {len(parts)} parts, because of its length: percentiles are means of theirs{also}", *told)
