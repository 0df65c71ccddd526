"""The repeated captures that `analyze` is measured on are what they claim to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.explain.explain import explain
from analysis.explain.model import FlowStory
from experiments.bench_analyze import FEW, MANY, Cost, analyze_cost, repeated, streamed_cost
from tests.unit.explained_path import SEGMENT, lossy_path

REPETITIONS = 5


def again(folder: Path, kind: str) -> Path:
    capture = lossy_path().write(folder)["sender"]
    (folder / "long.pcap").write_bytes(b"".join(repeated(capture, REPETITIONS * capture.stat().st_size, kind)))
    return folder / "long.pcap"


def flows(path: Path) -> tuple[FlowStory, ...]:
    return explain([path]).flows


def test_many_are_the_same_flow_again_and_again_between_other_hosts(tmp_path: Path) -> None:
    found = flows(again(tmp_path, MANY))
    assert len({flow.source for flow in found}) == REPETITIONS
    assert [(flow.packets, dict(flow.kinds)) for flow in found] == [(7, {"rto": 1})] * REPETITIONS
    assert all(np.diff([flow.begin_ns for flow in found]) > 200_000_000)


def test_few_go_on_without_a_gap(tmp_path: Path) -> None:
    (flow,) = flows(again(tmp_path, FEW))
    repetitions = flow.packets // 7
    assert repetitions >= REPETITIONS  # without their handshakes more of them fit in
    assert (flow.delivered_bytes, flow.gaps) == (repetitions * 6 * SEGMENT, 0)
    assert flow.kinds == {"rto": repetitions}


@pytest.mark.parametrize("kind", [MANY, FEW])
def test_what_analyze_takes_is_measured(kind: str, tmp_path: Path) -> None:
    capture = lossy_path().write(tmp_path)["sender"]
    for cost in (analyze_cost(capture), streamed_cost(capture, 5 * capture.stat().st_size, kind)):
        assert isinstance(cost, Cost)
        assert 0.05 < cost.seconds < 60
        assert 20_000_000 < cost.peak_bytes < 1_000_000_000
