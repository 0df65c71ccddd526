"""ECN thresholds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.marking import dcqcn_curve, dctcp_step, dctcp_threshold_bytes, marking_for, red_drop
from topologies.profiles import Marking, MarkingByRate


@pytest.mark.parametrize(
    ("rate_bps", "rtt_ns", "mtu_bytes", "frames"),
    [
        (10**9, 100_000, 1500, 20),  # 1,786 bytes would do; DCTCP, SIGCOMM 2010, section 3.5: 20 packets at 1 Gb/s
        (10**10, 100_000, 1500, 20),  # 17,857 bytes: 11.8 frames
        (4 * 10**11, 5_000, 1500, 24),  # 35,714 bytes: 23.6 frames
        (4 * 10**11, 5_000, 9000, 20),
    ],
)
def test_dctcp_threshold(rate_bps: int, rtt_ns: int, mtu_bytes: int, frames: int) -> None:
    assert dctcp_threshold_bytes(rate_bps, rtt_ns, mtu_bytes) == frames * (mtu_bytes + 14)


@given(st.integers(10**6, 4 * 10**11), st.integers(1, 10**9), st.integers(576, 9000))
def test_dctcp_threshold_is_above_its_bound_by_a_frame_at_most(rate_bps: int, rtt_ns: int, mtu_bytes: int) -> None:
    threshold_bytes, frame_bytes = dctcp_threshold_bytes(rate_bps, rtt_ns, mtu_bytes), mtu_bytes + 14
    bound_bytes = rate_bps * rtt_ns / 8e9 / 7
    assert threshold_bytes % frame_bytes == 0
    assert threshold_bytes > bound_bytes * (1 - 1e-12)
    assert threshold_bytes <= max(20 * frame_bytes, bound_bytes * (1 + 1e-12) + frame_bytes)


def test_dctcp_marks_at_a_step() -> None:
    assert dctcp_step(30_280) == Marking(30_280, 30_280, 1.0, drop=False)


def test_red_drops_between_quarter_and_three_quarters_unless_told_otherwise() -> None:
    assert red_drop(400_000, None, None, None) == Marking(100_000, 300_000, 0.1, drop=True)
    assert red_drop(400_000, 1, 2, 0.5) == Marking(1, 2, 0.5, drop=True)


@pytest.mark.parametrize(
    ("rate_bps", "curve"),
    [
        (40 * 10**9, Marking(5_000, 200_000, 0.01)),
        (100 * 10**9, Marking(12_500, 500_000, 0.01)),
        (10**10, Marking(1_514, 50_000, 0.01)),  # 1,250 bytes are less than the frame that stands in no queue
        (400 * 10**9, Marking(50_000, 800_000, 0.01)),
        (10**8, Marking(1_514, 1_514, 0.01)),
    ],
)
def test_dcqcns_curve_follows_the_rate(rate_bps: int, curve: Marking) -> None:
    assert dcqcn_curve(rate_bps, frame_bytes=1514, most_bytes=800_000) == curve


def test_a_curve_is_carried_to_another_port_in_the_usual_proportion() -> None:
    given, usual = Marking(10_000, 300_000, 0.05), Marking(5_000, 200_000, 0.01)
    assert marking_for(given, usual, usual) == given
    assert marking_for(given, usual, Marking(20_000, 400_000, 0.01)) == Marking(40_000, 600_000, 0.05)
    assert marking_for(Marking(9_000, 9_000, 1.0), usual, Marking(20_000, 400_000, 0.01)) == Marking(
        18_000, 18_000, 1.0
    )


def test_thresholds_can_be_cut() -> None:
    curve = Marking(10_000, 300_000, 0.05, drop=True)
    assert curve.up_to(200_000) == Marking(10_000, 200_000, 0.05, drop=True)
    assert curve.up_to(5_000) == Marking(5_000, 5_000, 0.05, drop=True)
    assert curve.at(10**9) == curve


def test_each_rate_has_its_curve() -> None:
    slow, fast = Marking(1, 2, 0.1), Marking(10, 20, 0.1)
    marking = MarkingByRate(((10**9, slow), (10**10, fast)))
    assert (marking.at(10**9), marking.at(10**10)) == (slow, fast)
    with pytest.raises(KeyError):
        marking.at(10**8)
