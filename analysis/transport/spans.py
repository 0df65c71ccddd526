"""Spans of time, each (start, end) in ns: together, without one another, and how long (pure)."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def union(spans: Iterable[Span]) -> list[Span]:
    """The time that any of the spans covers, in order, as spans that do not touch; those of no length are left out."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def without(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """The time that `spans` cover and `others` do not, in order."""
    found: list[Span] = []
    away, place = union(others), 0
    for start, end in union(spans):
        while place < len(away) and away[place][1] <= start:
            place += 1
        here = place
        while here < len(away) and away[here][0] < end:
            found.append((start, away[here][0]))
            start = max(start, away[here][1])
            here += 1
        found.append((start, end))
    return [span for span in found if span[0] < span[1]]


def common(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """The time that both cover, in order."""
    first = union(spans)
    return without(first, without(first, others))


def total_ns(spans: Iterable[Span]) -> int:
    """How long the spans last together, each counted for itself."""
    return sum(end - start for start, end in spans)
