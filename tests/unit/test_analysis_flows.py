"""Flows from packets: positions across the sequence wrap, duplicates, retransmissions, round trips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.capture.reader import read_capture
from analysis.transport.flows import flows_of
from analysis.transport.sent import Flow
from analysis.transport.sequences import distance, unwrap
from tests.unit.frames import T0_NS, Capture, pcap_bytes, tcp_frame


def flow_of(capture: Capture, folder: Path) -> Flow:
    (flow,) = flows_of(read_capture(capture.write(folder / "flow.pcap")))
    return flow


@given(
    first=st.integers(0, 2**32 - 1),
    steps=st.lists(st.integers(-(2**31) + 1, 2**31 - 1), max_size=60),
)
def test_unwrapping_gives_back_any_walk_of_steps_below_half_the_space(first: int, steps: list[int]) -> None:
    positions = np.cumsum([0, *steps], dtype=np.int64)
    numbers = ((first + positions) % 2**32).astype(np.uint32)
    assert np.array_equal(unwrap(numbers), positions)


@given(origin=st.integers(0, 2**32 - 1), away=st.integers(-(2**31), 2**31 - 1))
def test_distance_is_signed_and_circular(origin: int, away: int) -> None:
    assert distance((origin + away) % 2**32, origin) == away


@given(total=st.integers(2**32, 2**34), step=st.integers(2**20, 2**30))
def test_unwrapping_counts_every_turn(total: int, step: int) -> None:
    positions = np.arange(0, total, step, dtype=np.int64)
    assert np.array_equal(unwrap((positions % 2**32).astype(np.uint32)), positions)


def test_positions_count_from_the_first_data_byte_and_cross_the_wrap(tmp_path: Path) -> None:
    capture = Capture()
    for place in range(5):
        capture.send(place, 1000 * place)
    flow = flow_of(capture.ack(10, 3000).ack(11, 5000), tmp_path)
    assert flow.send_start.tolist() == [0, 1000, 2000, 3000, 4000]
    assert flow.send_end.tolist() == [1000, 2000, 3000, 4000, 5000]
    assert flow.ack_bytes.tolist() == [3000, 5000]
    assert not flow.is_retransmission.any()
    assert flow.name == "10.0.0.2:20000 > 10.0.0.1:5000"


def test_names_are_taken_by_both_endpoints(tmp_path: Path) -> None:
    packets = read_capture(Capture().send(0, 0).write(tmp_path / "a.pcap"))
    (flow,) = flows_of(packets, {("10.0.0.2:20000", "10.0.0.1:5000"): "h2", ("10.0.0.2:20001", "10.0.0.1:5000"): "h9"})
    assert flow.name == "h2"


def test_a_capture_that_begins_with_a_retransmission_counts_from_the_lowest_byte(tmp_path: Path) -> None:
    flow = flow_of(Capture().send(0, 3000).send(1, 1000).send(2, 4000).ack(3, 2000), tmp_path)
    assert flow.send_start.tolist() == [2000, 0, 3000]
    assert flow.is_retransmission.tolist() == [False, True, False]
    assert flow.ack_bytes.tolist() == [1000]


def test_duplicates_need_outstanding_data_and_an_unchanged_acknowledgement(tmp_path: Path) -> None:
    capture = Capture().send(0, 0).ack(5, 1000).ack(6, 1000)  # nothing outstanding: no duplicate
    capture.send(10, 1000).send(11, 2000).ack(15, 1000).ack(16, 1000, sacks=1).ack(17, 3000).ack(18, 3000)
    flow = flow_of(capture, tmp_path)
    assert flow.ack_is_duplicate.tolist() == [False, False, True, True, False, False]
    assert flow.duplicates_since_advance.tolist() == [0, 0, 1, 2, 0, 0]


def test_a_changed_window_makes_an_update_unless_sack_blocks_come_along(tmp_path: Path) -> None:
    capture = Capture().send(0, 0).send(1, 1000).ack(2, 1000)
    capture.ack(3, 1000, window=400).ack(4, 1000, sacks=1, window=300)
    assert flow_of(capture, tmp_path).ack_is_duplicate.tolist() == [False, False, True]


def test_what_was_known_when_a_segment_was_sent(tmp_path: Path) -> None:
    flow = flow_of(Capture().send(0, 0).send(1, 1000).ack(2, 1000).send(2, 2000), tmp_path)
    assert flow.acked_before.tolist() == [0, 0, 1000]
    assert flow.highest_before.tolist() == [0, 1000, 2000]


def test_round_trips_leave_out_what_was_sent_twice_and_what_waited_for_it(tmp_path: Path) -> None:
    capture = Capture().send(0, 0).send(1, 1000).send(2, 2000).ack(10, 1000).send(50, 1000).ack(60, 3000)
    assert flow_of(capture.send(61, 3000).ack(72, 4000).send(73, 4000), tmp_path).rtt_ns().tolist() == [
        10_000,
        11_000,
    ]


def test_both_directions_of_a_connection_and_strangers_are_kept_apart(tmp_path: Path) -> None:
    there, back, other = (
        ("10.0.0.2:1", "10.0.0.1:2"),
        ("10.0.0.1:2", "10.0.0.2:1"),
        ("10.0.0.3:1", "10.0.0.1:2"),
    )
    frames = [
        tcp_frame(*there, 0, 0, 10),
        tcp_frame(*back, 0, 10, 20),
        tcp_frame(*there, 10, 20),
        tcp_frame(*other, 5, 5, 30),
    ]
    path = tmp_path / "three.pcap"
    path.write_bytes(pcap_bytes([(T0_NS + place, frame) for place, frame in enumerate(frames)]))
    flows = flows_of(read_capture(path))
    assert [(flow.source, flow.send_end.tolist(), flow.ack_bytes.tolist()) for flow in flows] == [
        ("10.0.0.2:1", [10], [10]),
        ("10.0.0.1:2", [20], [0, 20]),
        ("10.0.0.3:1", [30], []),
    ]


def test_a_capture_without_data_has_no_flows(tmp_path: Path) -> None:
    assert flows_of(read_capture(Capture().send(0, 0, payload=0).ack(1, 0).write(tmp_path / "bare.pcap"))) == []
