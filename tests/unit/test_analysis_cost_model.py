"""The arithmetic, against figures worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.cost_model import (
    Path,
    buffer_fill_seconds,
    goodput_one_timeout_bps,
    headroom_bytes,
    ideal_round_seconds,
    line_rate_fill_seconds,
    longest_links,
    one_way_delay_ns,
    store_and_forward_ns,
)
from controller import pause
from topologies.units import BadRequest

PATH = Path(rate_bps=400_000_000_000, delay_ns=2500, mtu_bytes=1500)


def test_headers_of_a_full_packet() -> None:
    assert (PATH.segment_bytes, PATH.frame_bytes) == (1448, 1514)
    assert PATH.wire_bytes(1448) == 1514
    assert PATH.wire_bytes(1449) == 1449 + 2 * 66


def test_a_round_of_64_senders() -> None:
    """64 x (262144 B + 182 headers of 66 B) and one first frame at 400 Gb/s, then 2.5 us."""
    bits = 8 * (64 * (262_144 + 182 * 66) + 1514)
    assert ideal_round_seconds(PATH, 64, 262_144) == pytest.approx(bits / 400e9 + 2.5e-6)
    assert ideal_round_seconds(PATH, 64, 262_144) == pytest.approx(353.5e-6, rel=1e-3)


def test_the_first_frame_of_a_small_block_is_small() -> None:
    assert ideal_round_seconds(PATH, 1, 100) == pytest.approx(2 * 8 * 166 / 400e9 + 2.5e-6)


def test_one_sender_waits_for_its_own_start() -> None:
    """Expected at half of 100 us; then 262144 B + 182 headers of 66 B, one frame, and 2.5 us."""
    bits = 8 * (262_144 + 182 * 66 + 1514)
    assert ideal_round_seconds(PATH, 1, 262_144, 100_000) == pytest.approx(50e-6 + bits / 400e9 + 2.5e-6)
    assert ideal_round_seconds(PATH, 1, 262_144, 100_000) == pytest.approx(58.0e-6, rel=1e-3)


def test_the_last_start_of_four_is_expected_at_four_fifths_of_the_jitter() -> None:
    longer_s = ideal_round_seconds(PATH, 4, 262_144, 100_000) - ideal_round_seconds(PATH, 1, 262_144)
    assert longer_s == pytest.approx(80e-6)


def test_many_senders_hide_the_jitter() -> None:
    assert ideal_round_seconds(PATH, 64, 262_144, 100_000) == ideal_round_seconds(PATH, 64, 262_144)


def test_senders_with_a_link_of_their_own_do_not_wait_for_the_others() -> None:
    """8 of 15 share the receiver's link; the last of all 15 starts counts all the same."""
    assert ideal_round_seconds(PATH, 15, 262_144, beside=7) == ideal_round_seconds(PATH, 8, 262_144)
    alone_s = ideal_round_seconds(PATH, 1, 262_144)
    assert ideal_round_seconds(PATH, 7, 262_144, 80_000, beside=7) == pytest.approx(70e-6 + alone_s)


def test_one_timeout_per_block_of_the_fast_paper() -> None:
    """8 servers, 256 KB each at 1 Gb/s, RTO 200 ms: 16.8 ms of data in 216.8 ms."""
    assert goodput_one_timeout_bps(8 * 262_144, 1e9, 200_000_000) == pytest.approx(1e9 * 0.016777216 / 0.216777216)


def test_the_lectures_twelve_microseconds() -> None:
    assert line_rate_fill_seconds(600_000, 400e9) == pytest.approx(12e-6)


def test_all_at_once_fill_the_buffer_sooner_the_more_they_are() -> None:
    assert buffer_fill_seconds(600_000, 2, 400e9) == pytest.approx(12e-6)
    assert buffer_fill_seconds(600_000, 64, 400e9) == pytest.approx(12e-6 / 63)
    assert buffer_fill_seconds(600_000, 1, 400e9) == math.inf


def test_one_way_delay_of_a_star() -> None:
    assert one_way_delay_ns("star", 1000, 500) == 2500


@pytest.mark.parametrize(
    ("topology", "links", "switches"),
    [("star", 2, 1), ("dumbbell", 3, 2), ("leaf_spine", 4, 3), ("gpu_pod", 4, 3), ("fat_tree", 6, 5)],
)
def test_one_way_delay_between_the_hosts_farthest_apart(topology: str, links: int, switches: int) -> None:
    assert one_way_delay_ns(topology, 1000, 1) == links * 1000 + switches


def test_a_frame_is_sent_whole_on_each_link() -> None:
    """78 B at 400 Gb/s take 1.56 ns, at 100 Gb/s 6.24 ns."""
    assert store_and_forward_ns(78, 2, 4 * 10**11, 10**11, 1000, 500) == pytest.approx(2 * 1001.56 + 500)
    assert store_and_forward_ns(78, 6, 4 * 10**11, 10**11, 1000, 500) == pytest.approx(
        2 * 1001.56 + 4 * 1006.24 + 5 * 500
    )


def test_the_first_frame_crosses_the_links_between_switches_too() -> None:
    """Two more links at a quarter of the rate: eight more frames' time at 400 Gb/s."""
    far = replace(PATH, uplinks=2, uplink_bps=100_000_000_000)
    longer_s = ideal_round_seconds(far, 64, 262_144) - ideal_round_seconds(PATH, 64, 262_144)
    assert longer_s == pytest.approx(8 * 8 * 1514 / 400e9)


def test_a_topology_without_a_model_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"topology: 'torus'.*star"):
        one_way_delay_ns("torus", 1, 1)


def test_headers_of_roce() -> None:
    """Ethernet 14, IPv4 20, UDP 8, BTH 12 and ICRC 4 on each packet, RETH 16 on the first of a WRITE."""
    path = replace(PATH, mtu_bytes=4300, roce_mtu_bytes=4096, message_bytes=16)
    assert (path.segment_bytes, path.frame_bytes) == (4096, 4154)
    assert path.wire_bytes(4096) == 4154 + 16
    assert path.wire_bytes(4097) == 4097 + 2 * 58 + 16
    assert replace(path, message_bytes=0).wire_bytes(4097) == 4097 + 2 * 58


@given(
    rate_gbps=st.integers(1, 400),
    delay_ns=st.integers(0, 100_000),
    switch_ns=st.integers(0, 5_000),
    mtu_bytes=st.integers(576, 9000),
    latency_ns=st.integers(0, 10**7),
)
def test_headroom_is_what_the_fabric_sets_aside(
    rate_gbps: int, delay_ns: int, switch_ns: int, mtu_bytes: int, latency_ns: int
) -> None:
    rate_bps = rate_gbps * 10**9
    asked = pause.headroom_bytes(
        rate_bps, delay_ns, mtu_bytes + 14, pause.reaction_ns(rate_bps, switch_ns) + latency_ns
    )
    assert headroom_bytes(rate_bps, delay_ns, switch_ns, mtu_bytes, latency_ns) == asked


def test_headroom_of_a_fast_link() -> None:
    """400 Gb/s for 2 x 1 us, 2 x 0.5 us, 2 ns of pause frame and 50 ns; two frames."""
    assert headroom_bytes(400 * 10**9, 1000, 500, 1500) == 3052 * 50 + 2 * 1514


def test_a_ring_is_as_long_as_one_way_round() -> None:
    assert longest_links("ring", 5) == 6
    assert one_way_delay_ns("ring", 1000, 1, switches=5) == 6 * 1000 + 5
