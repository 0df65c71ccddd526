"""Spans of time, against sets of single nanoseconds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from analysis.transport.spans import Span, common, total_ns, union, without

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def covered(spans: list[Span]) -> set[int]:
    return {at for start, end in spans for at in range(start, end)}


def is_in_order(spans: list[Span]) -> bool:
    return all(start < end for start, end in spans) and all(a[1] < b[0] for a, b in zip(spans, spans[1:]))


@given(SPANS, SPANS)
def test_spans_are_sets_of_moments(first: list[Span], second: list[Span]) -> None:
    for found, expected in (
        (union(first), covered(first)),
        (without(first, second), covered(first) - covered(second)),
        (common(first, second), covered(first) & covered(second)),
    ):
        assert covered(found) == expected
        assert total_ns(found) == len(expected)


@given(SPANS)
def test_a_union_is_in_order_and_leaves_no_two_that_touch(spans: list[Span]) -> None:
    assert is_in_order(union(spans))
