"""The alpha-beta model of collectives: published terms, the least of any algorithm, lines and where they cross."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.kinds.collective_model import (
    JITTER_S,
    LEAST_FITTED,
    Link,
    Setting,
    busbw_factor,
    fit,
    phases,
    seconds,
)
from analysis.kinds.scaling_points import crossings, slope_s
from experiments.cluster import CHOICES
from topologies.units import BadRequest

LINK = Link(delay_s=1.4e-6, beta_s=8e-11)  # 100 Gb/s without headers
FAST = Link(delay_s=1.4e-6, beta_s=8e-11 / 9)
MIB = 1 << 20


def setting(algorithm: str = "ring", collective: str = "all_reduce", ranks: int = 16, **changes: object) -> Setting:
    whole = Setting(collective, algorithm, ranks, 64 << 10, 4, 1, LINK, LINK, LINK)
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_a_ring_is_what_patarasuk_and_yuan_say() -> None:
    """2 (p-1) alpha + 2 (p-1)/p n beta, and the last of 16 starts."""
    expected_s = 30 * 1.4e-6 + 30 / 16 * MIB * 8e-11 + JITTER_S * 16 / 17
    assert seconds(setting(), MIB) == pytest.approx(expected_s)


def test_halving_doubling_is_rabenseifners() -> None:
    """2 lg p alpha + 2 (p-1)/p n beta; 6 of 22 ranks fold before and after, with all of the data."""
    usual = 8 * 1.4e-6 + 30 / 16 * MIB * 8e-11
    assert seconds(setting("halving_doubling"), MIB) == pytest.approx(usual + JITTER_S * 16 / 17)
    folded = usual + 2 * (1.4e-6 + MIB * 8e-11)
    assert seconds(setting("halving_doubling", ranks=22), MIB) == pytest.approx(folded + JITTER_S * 22 / 23)


def test_a_parameter_server_is_linear_in_the_ranks() -> None:
    times = {ranks: seconds(setting("parameter_server", ranks=ranks), 16 * MIB) for ranks in (4, 8, 16, 32)}
    chunk_rounds = 16 * MIB + (64 << 10)
    assert slope_s(times) == pytest.approx(chunk_rounds * 8e-11, rel=1e-3)


def test_as_many_servers_as_ranks_share_the_work() -> None:
    """Each rank's own link carries the data once in and once out, at the same time."""
    found = phases(setting("parameter_server", shards=16), 16 * MIB)
    assert [phase.payload_bytes for phase in found] == [pytest.approx(16 * MIB + 16 * (64 << 10))]


def test_in_the_network_each_rank_sends_once() -> None:
    wide = replace(LINK, beta_s=LINK.beta_s / 32)
    assert seconds(setting("in_network", helper=wide), MIB) == pytest.approx(
        MIB * 8e-11 + 2 * 1.4e-6 + JITTER_S * 16 / 17
    )
    narrow = phases(setting("in_network", ranks=64, helper=wide), MIB)
    assert [(phase.link, phase.payload_bytes) for phase in narrow] == [("helper", 64 * MIB)]


def test_stages_of_a_pod_overlap_piece_by_piece() -> None:
    """Two levels: with one piece the stages follow each other; with many the slower link decides."""
    pod = setting("hierarchical", ranks=64, group=8, inner=FAST, is_one_link=False, chunk_bytes=64 << 20)
    size = 1000 * MIB
    inside, between = 14 / 8 * size * FAST.beta_s, 14 / 8 / 8 * size * LINK.beta_s
    delays_s = 28 * 1.4e-6 + JITTER_S * 64 / 65
    assert seconds(pod, size) == pytest.approx(inside + between + delays_s)
    many = replace(pod, chunk_bytes=64 << 10)
    assert seconds(many, size) == pytest.approx(max(inside, between), rel=0.01)


def test_a_ring_over_unlike_links_is_as_fast_as_the_slowest() -> None:
    mixed = replace(LINK, mean_beta_s=LINK.beta_s / 5)
    found = phases(setting(ranks=64, outer=mixed), 64 * MIB)
    assert [(phase.steps, phase.payload_bytes) for phase in found] == [(1, pytest.approx(126 / 64 * 64 * MIB))]


def test_the_first_frame_leaves_an_idle_port_at_once() -> None:
    assert replace(LINK, packet_bytes=8948).alpha_s(MIB) == pytest.approx(1.4e-6 - 8948 * 8e-11)
    assert replace(LINK, packet_bytes=8948).alpha_s(1000) == pytest.approx(1.4e-6 - 1000 * 8e-11)


_ALL = [(name, algorithm) for name, several in CHOICES.items() for algorithm in several]


@pytest.mark.parametrize(("collective", "algorithm"), _ALL)
@settings(max_examples=25)
@given(ranks=st.integers(2, 96).map(lambda number: 4 * number), size=st.integers(1, 1 << 30))
def test_every_algorithm_has_a_model_above_the_least_that_is_possible(
    collective: str, algorithm: str, ranks: int, size: int
) -> None:
    """No link carries less than the collective's bus bytes (in the network: half of them), and nothing is faster than a
    delay."""
    least_s = busbw_factor(collective, ranks) * size * LINK.beta_s / (2 if algorithm == "in_network" else 1)
    found_s = seconds(setting(algorithm, collective, ranks), size)
    assert found_s >= least_s * (1 - 1e-9) + 1.4e-6
    assert seconds(setting(algorithm, collective, ranks), 2 * size) > found_s


def test_an_algorithm_that_a_collective_does_not_have_is_refused() -> None:
    with pytest.raises(BadRequest, match="algorithm: 'tree' has no model with all_to_all; allowed: direct"):
        phases(setting("tree", "all_to_all"), MIB)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all_reduce", 1.75),
        ("all_gather", 0.875),
        ("reduce_scatter", 0.875),
        ("all_to_all", 0.875),
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("gather", 0.875),
        ("scatter", 0.875),
    ],
)
def test_factors_of_bus_bandwidth_are_nccl_tests_own(collective: str, factor: float) -> None:
    assert busbw_factor(collective, 8) == factor


@given(
    alpha_s=st.floats(1e-6, 1e-3),
    beta_s=st.floats(1e-12, 1e-9),
    sizes=st.lists(st.integers(1 << 16, 1 << 26), min_size=LEAST_FITTED, max_size=8, unique=True),
)
def test_a_line_is_found_again(alpha_s: float, beta_s: float, sizes: list[int]) -> None:
    line = fit(sizes, [alpha_s + size * beta_s for size in sizes])
    assert line is not None
    assert line.error < 1e-6
    assert line.seconds(1e9) == pytest.approx(alpha_s + 1e9 * beta_s, rel=0.01)


def test_a_line_needs_four_sizes_and_has_no_negative_delay() -> None:
    assert fit([1, 2, 4, 4], [1.0, 2.0, 4.0, 4.0]) is None
    line = fit([10, 20, 30, 40], [9.0, 19.0, 29.0, 39.0])
    assert line is not None
    assert line.alpha_s == 0
    assert 0.9 < line.beta_s < 1


def test_curves_cross_where_they_are_equal() -> None:
    curves = {"steady": lambda _: 100.0, "linear": lambda place: place}
    (found,) = crossings(curves, [1, 10, 1000])
    assert (found.overtaken, found.overtaking) == ("linear", "steady")
    assert found.place == pytest.approx(100, rel=0.01)
    assert crossings({}, [1, 10]) == []


def test_a_line_that_counts_delays_tells_ranks_from_sizes() -> None:
    """Rings of 4 and 8 ranks: 6 and 14 delays."""
    told = [(steps, size, steps * 2e-6 + size * 1e-10) for steps in (6, 14) for size in (MIB, 4 * MIB)]
    steps, sizes, times = zip(*told)
    line = fit(sizes, times, steps)
    assert line is not None
    assert (line.alpha_s, line.beta_s) == (pytest.approx(2e-6), pytest.approx(1e-10))
    assert math.isclose(line.seconds(8 * MIB, 30), 60e-6 + 8 * MIB * 1e-10)
