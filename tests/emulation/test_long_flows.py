"""Long flows over TCP in the lab: they fill the link while they send, end when they should, and hang nobody."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.kernel import Kernel
from tests.conftest import run_in_lab
from tests.emulation.captures import read
from workloads.long_flows import BLOCK_BYTES

pytestmark = pytest.mark.lab

KEYS = {"hosts": 3, "rate": "10Gbps", "queue": "dctcp", "delay": "2us"}
LINE_SHARE = 1448 / 1514  # payload of a full frame with TCP's timestamps
ROUND_TRIP_MS = 1.0  # far more than any queue here, far less than a timeout
LOSSLESS = 26


@pytest.fixture
def inside(kernel: Kernel, tmp_path: Path) -> Callable[..., Any]:
    """Call a function of tests/emulation/long_flows_inside.py in the lab."""

    def call(name: str, **arguments: Any) -> Any:
        words = (sys.executable, "-m", "tests.emulation.long_flows_inside", name, json.dumps(arguments))
        return run_in_lab(kernel, words, results=tmp_path, memory_bytes=1 << 30).json

    return call


def rate_gbps(told: Any, flow: int, from_ms: float, to_ms: float) -> float:
    got = sum(size for at_ms, number, size in told["arrivals"] if number == flow and from_ms <= at_ms < to_ms)
    return got * 8 / (to_ms - from_ms) / 1e6


def test_flows_fill_the_link_share_it_and_end_in_time(inside: Callable[..., Any], tmp_path: Path) -> None:
    traffic = [("h2", "h1", 0, 20), ("h3", "h1", 5, 20), ("h2", "h1", 22, 24)]
    told = inside("over_tcp", keys=KEYS, traffic=traffic, settle_ms=900, dscp=LOSSLESS, folder=str(tmp_path))
    assert told["names"] == ["h2", "h3", "h2#2"]
    for (_, _, begin_ms, end_ms), outcome in zip(traffic, told["outcomes"]):
        assert (outcome["undelivered_bytes"], outcome["died"]) == (0, None)
        last_ms = (outcome["last_arrival_ns"] - told["begin_ns"]) / 1e6
        assert begin_ms < last_ms < end_ms + ROUND_TRIP_MS
    assert rate_gbps(told, 0, 2, 5) == pytest.approx(10 * LINE_SHARE, rel=0.01)
    both = [rate_gbps(told, flow, 6, 20) for flow in (0, 1)]
    assert sum(both) == pytest.approx(10 * LINE_SHARE, rel=0.02)
    assert min(both) > 1  # the second is not starved by what the first has standing in front of its NIC
    assert told["ended_ms"] < 24 + ROUND_TRIP_MS  # nobody waits once all has arrived
    frames = [frame for frame in read(tmp_path / "leaf1-eth1.pcap") if frame.is_ip]
    assert {frame.source for frame in frames} == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}
    assert {frame.kept[15] >> 2 for frame in frames} == {LOSSLESS}


def test_a_flow_that_is_cut_off_is_told_as_stuck_and_hangs_nobody(inside: Callable[..., Any]) -> None:
    traffic = [("h2", "h1", 0, 20), ("h3", "h2", 0, 20)]
    told = inside("over_tcp", keys=KEYS, traffic=traffic, settle_ms=50, cut_ms=10)
    cut, whole = told["outcomes"]
    assert cut["undelivered_bytes"] > 0
    assert (cut["last_arrival_ns"] - told["begin_ns"]) / 1e6 < 20 + ROUND_TRIP_MS
    assert rate_gbps(told, 0, 11, 21) * 10e6 / 8 < BLOCK_BYTES  # what was left of a block is noted at the end
    assert whole["undelivered_bytes"] == 0
    assert 70 <= told["ended_ms"] < 70 + ROUND_TRIP_MS
