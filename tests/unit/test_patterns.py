"""Who sends to whom."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.patterns import all_to_all, incast, permutation, random_flows

HOSTS = st.integers(2, 1024).map(lambda count: [f"h{number}" for number in range(1, count + 1)])
FEW_HOSTS = st.integers(2, 40).map(lambda count: [f"h{number}" for number in range(1, count + 1)])


@given(HOSTS)
def test_a_permutation_is_one(hosts: list[str]) -> None:
    pairs = permutation(hosts)
    assert [sender for sender, _ in pairs] == hosts
    assert sorted(receiver for _, receiver in pairs) == sorted(hosts)
    assert all(sender != receiver for sender, receiver in pairs)


@given(st.integers(1, 512))
def test_a_permutation_of_an_even_number_crosses_the_middle(half: int) -> None:
    hosts = [f"h{number}" for number in range(2 * half)]
    left = set(hosts[:half])
    assert all((sender in left) != (receiver in left) for sender, receiver in permutation(hosts))


def test_known_permutations() -> None:
    assert permutation(["a", "b", "c", "d"]) == [("a", "c"), ("b", "d"), ("c", "a"), ("d", "b")]
    assert permutation(["a", "b", "c"]) == [("a", "b"), ("b", "c"), ("c", "a")]


@given(FEW_HOSTS)
def test_all_to_all_is_every_ordered_pair_once(hosts: list[str]) -> None:
    assert Counter(all_to_all(hosts)) == Counter(permutations(hosts, 2))


@given(FEW_HOSTS)
def test_nobody_is_everybodys_first_in_an_all_to_all(hosts: list[str]) -> None:
    """Each sender begins with another receiver: all beginning with h1 would be an incast."""
    pairs, each = all_to_all(hosts), len(hosts) - 1
    for turn in range(each):
        assert len({receiver for _, receiver in pairs[turn::each]}) == len(hosts)


@given(HOSTS, st.integers(1, 2000))
def test_an_incast_is_as_many_as_asked_for_to_the_first(hosts: list[str], senders: int) -> None:
    pairs = incast(hosts, senders)
    assert len(pairs) == min(senders, len(hosts) - 1)
    assert pairs == [(host, hosts[0]) for host in hosts[1 : senders + 1]]


@given(FEW_HOSTS, st.integers(0, 300), st.integers())
def test_random_flows_are_seeded_and_unique(hosts: list[str], flows: int, seed: int) -> None:
    found = random_flows(hosts, flows, seed)
    assert found == random_flows(hosts, flows, seed)
    assert len(set(found)) == len(found) == flows
    assert all(sender != receiver and {sender, receiver} <= set(hosts) for sender, receiver, _ in found)
    assert all(49152 <= port <= 65535 for _, _, port in found)


def test_seeds_give_other_flows() -> None:
    hosts = [f"h{number}" for number in range(128)]
    assert random_flows(hosts, 50, 1) != random_flows(hosts, 50, 2)


def test_random_flows_are_the_same_on_every_python() -> None:
    """Recorded: a new Python that draws otherwise would change every run."""
    assert random_flows(["h1", "h2", "h3", "h4"], 3, 1) == [
        ("h1", "h3", 61210),
        ("h4", "h1", 51923),
        ("h3", "h2", 60496),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_random_flows_are_spread_over_all_hosts(seed: int) -> None:
    hosts = [f"h{number}" for number in range(16)]
    flows = random_flows(hosts, 4000, seed)
    for side in (0, 1):
        counts = Counter(flow[side] for flow in flows)
        assert sum((counts[host] - 250) ** 2 / 250 for host in hosts) < 37.7  # chi-square, 15 degrees, p = 0.001
