"""Jain's index, phases of a schedule, how soon flows are equal, and what serving ports alike gives each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.kinds.fairness import Phase, jain, judged, phases, port_fair, settled_ns

RATES = st.lists(st.floats(1e3, 1e12), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("rates", "index"),
    [([5, 5, 5, 5], 1), ([1, 0, 0, 0], 0.25), ([3, 1, 1, 1], 0.75), ([2, 1, 1], 16 / 18), ([7], 1)],
)
def test_jains_index_by_hand(rates: list[float], index: float) -> None:
    assert jain(rates) == pytest.approx(index)


@pytest.mark.parametrize("rates", [[], [0.0, 0.0]])
def test_nothing_is_neither_fair_nor_unfair(rates: list[float]) -> None:
    assert jain(rates) is None


@given(rates=RATES, factor=st.floats(1e-3, 1e3))
def test_jains_index_knows_no_unit_and_lies_between_1_over_n_and_1(rates: list[float], factor: float) -> None:
    index = jain(rates)
    assert index is not None
    assert 1 / len(rates) - 1e-9 <= index <= 1 + 1e-9
    assert jain([factor * rate for rate in rates]) == pytest.approx(index)


def test_phases_end_where_a_flow_joins_or_leaves() -> None:
    found = phases({"a": (0, 100), "b": (20, 60), "late": (120, 130)})
    assert found == [
        Phase(0, 20, ("a",)),
        Phase(20, 60, ("a", "b")),
        Phase(60, 100, ("a",)),
        Phase(120, 130, ("late",)),
    ]


def test_flows_are_judged_in_the_second_half_of_the_longest_of_the_fullest_phases() -> None:
    spans = {"a": (0, 1000), "b": (10, 30), "c": (40, 140)}
    assert judged(phases(spans)) == Phase(90, 140, ("a", "c"))
    assert judged([]) is None


TIMES_NS = np.arange(0, 100, 10)


@pytest.mark.parametrize(
    ("index", "settled"),
    [
        ([1] * 10, 0),
        ([0.5, 0.7, 0.96, 0.97, 1, 1, 1, 1, 1, 1], 20),
        ([1, 1, 0.9, 1, 1, 1, 1, 1, 1, 1], 30),
        ([1, 1, 1, 1, 1, 1, 1, 1, 1, 0.9], None),
        ([np.nan] * 10, None),
        ([1, np.nan, 1, 1, 1, 1, 1, 1, 1, 1], 20),
    ],
)
def test_flows_have_settled_when_they_stay_equal_to_the_end(index: list[float], settled: int | None) -> None:
    assert settled_ns(Phase(0, 100, ("a", "b")), TIMES_NS, np.array(index)) == settled


def test_only_bins_that_lie_whole_in_the_phase_count() -> None:
    """The bin at 20 begins before the phase, the one at 70 ends after it."""
    index = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0])
    assert settled_ns(Phase(25, 75, ("a", "b")), TIMES_NS, index) == 5
    assert settled_ns(Phase(25, 34, ("a", "b")), TIMES_NS, index) is None


def test_ports_served_alike_halve_the_link_between_one_flow_and_all_others() -> None:
    far = {f"h{host}": ["leaf1", "spine1", "leaf2", f"h{host}"] for host in (5, 6, 7)}
    shares = port_fair({"h2": ["leaf1", "h2"], **far})
    assert shares == pytest.approx({"h2": 1 / 2, "h5": 1 / 6, "h6": 1 / 6, "h7": 1 / 6})


def test_every_switch_on_the_way_serves_its_ports_alike() -> None:
    """Three leaves feed the spine: each gets a third, whoever sends behind it."""
    near = {f"h{host}": ["leaf1", "spine1", "leaf2", f"h{host}"] for host in (6, 7, 8, 9)}
    shares = port_fair({**near, "h16": ["leaf1", "spine1", "leaf4", "h16"], "h21": ["leaf1", "spine1", "leaf5", "h21"]})
    assert shares["h6"] == pytest.approx(1 / 12)
    assert shares["h16"] == shares["h21"] == pytest.approx(1 / 3)


def test_two_flows_of_one_host_share_its_port() -> None:
    shares = port_fair({"h2": ["leaf1", "h2"], "h2#2": ["leaf1", "h2"], "h3": ["leaf1", "h3"]})
    assert shares == pytest.approx({"h2": 0.25, "h2#2": 0.25, "h3": 0.5})


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=12))
def test_shares_of_a_full_link_add_up_to_it(senders: list[tuple[int, int]]) -> None:
    ways = {f"f{n}": ["leaf0", "spine", f"leaf{leaf}", f"h{leaf}.{host}"] for n, (leaf, host) in enumerate(senders)}
    assert sum(port_fair(ways).values()) == pytest.approx(1)
