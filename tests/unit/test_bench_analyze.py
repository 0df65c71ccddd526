"""The repeated captures that `analyze` is measured on are what they claim to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from analysis.explain.explain import explain
from analysis.explain.model import FlowStory
from experiments.bench_analyze import FEW, MANY, analyze_cost, repeated, streamed_cost
from tests.unit.explained_path import SEGMENT, lossy_path

REPETITIONS = 5
LONG = 2_000  # repetitions of the capture: as many flows as are told


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


def test_five_times_the_flows_that_are_told_take_less_than_twice_the_memory(tmp_path: Path) -> None:
    capture = lossy_path().write(tmp_path)["sender"]
    once, five_times = (streamed_cost(capture, count * LONG * capture.stat().st_size, MANY) for count in (1, 5))
    assert analyze_cost(capture).peak_bytes < once.peak_bytes < five_times.peak_bytes < 2 * once.peak_bytes
