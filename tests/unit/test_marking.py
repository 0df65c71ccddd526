"""ECN thresholds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.marking import dctcp_step, dctcp_threshold_bytes, red_drop
from topologies.profiles import Marking


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
