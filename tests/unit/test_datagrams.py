"""The account of a stream of numbered datagrams, and of a probe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.datagrams import Probe, Stream, _account

PAIR = ("h1", "h5")


def account(*arrivals: tuple[int, int], count: int) -> Stream:
    """Of `count` datagrams, each arrival a number and its time in ns."""
    return _account(PAIR, arrivals, first_ns=1_000, interval_ns=10, count=count)


def test_a_stream_that_arrives_whole() -> None:
    assert account((0, 1_005), (1, 1_015), (2, 1_025), count=3) == Stream(
        "h1", "h5", 1_000, 10, sent=3, lost=(), duplicates=0, reordered=0, longest_gap_ns=10
    )


@pytest.mark.parametrize(
    ("numbers", "lost", "duplicates", "reordered"),
    [
        ([], (0, 1, 2, 3), 0, 0),
        ([0, 1, 2, 3], (), 0, 0),
        ([1, 2], (0, 3), 0, 0),
        ([0, 0, 1, 2, 3], (), 1, 0),
        ([0, 1, 2, 3, 3, 3], (), 2, 0),
        ([1, 0, 2, 3], (), 0, 1),
        ([3, 0, 1, 2], (), 0, 3),  # one that overtakes three
        ([0, 3, 1], (2,), 0, 1),
        ([0, 1, 2, 3, 1], (), 1, 1),  # a second copy that comes late is both
    ],
)
def test_lost_duplicate_and_late(numbers: list[int], lost: tuple[int, ...], duplicates: int, reordered: int) -> None:
    found = account(*((number, 1_000 + at) for at, number in enumerate(numbers)), count=4)
    assert (found.lost, found.duplicates, found.reordered) == (lost, duplicates, reordered)


@pytest.mark.parametrize(
    ("times_ns", "gap_ns"),
    [([], 30), ([1_000], 30), ([1_000, 1_010], 20), ([1_000, 1_010, 1_900, 1_910], 890), ([1_025, 1_030], 25)],
)
def test_the_longest_gap_is_any_silence(times_ns: list[int], gap_ns: int) -> None:
    assert account(*enumerate(times_ns), count=4).longest_gap_ns == gap_ns


@given(st.lists(st.integers(0, 19), max_size=40))
def test_every_datagram_is_accounted_for(numbers: list[int]) -> None:
    found = account(*((number, 1_000 + at) for at, number in enumerate(numbers)), count=20)
    assert found.sent - len(found.lost) + found.duplicates == len(numbers)
    assert set(found.lost) == set(range(20)) - set(numbers)
    assert (found.reordered == 0) == (numbers == sorted(numbers))


@given(st.permutations(range(12)))
def test_disorder_loses_nothing(numbers: list[int]) -> None:
    found = account(*((number, 1_000 + at) for at, number in enumerate(numbers)), count=12)
    assert (found.lost, found.duplicates) == ((), 0)
    assert found.reordered == sum(number < max(numbers[: at + 1]) for at, number in enumerate(numbers))


def test_a_probe_counts_switches_by_its_ttl() -> None:
    assert Probe("h1", "h2", 63, 500).switches == 1
    assert Probe("h1", "h9", 59, 900).switches == 5
    assert Probe("h1", "h9", None, None).switches is None
