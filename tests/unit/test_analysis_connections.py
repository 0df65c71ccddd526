"""Flows from captures that make it hard: one direction, no handshake, used endpoints, copies, reordering, probes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.capture.packets import ACK, FIN, RST, SYN
from analysis.transport.flows import flows_of
from analysis.transport.recovery import Recovery
from analysis.transport.retransmits import retransmissions
from analysis.transport.sent import Flow
from analysis.transport.sequences import Holes, running_max, unwrap, unwrap_runs
from tests.unit.talk import THERE, Talk

LINUX = Recovery(200_000_000)
SECOND_US = 1_000_000


def flow_of(talk: Talk, folder: Path) -> Flow:
    (flow,) = flows_of(talk.read(folder))
    return flow


def burst(talk: Talk, count: int = 6, at_us: float = 0, start: int = 1) -> Talk:
    """Segments of 1000 bytes back to back."""
    for place in range(count):
        talk.send(at_us + place / 10, start + 1_000 * place)
    return talk


# --- positions


def test_positions_count_from_the_byte_behind_the_syn_though_the_first_data_was_not_seen(tmp_path: Path) -> None:
    flow = flow_of(burst(Talk().handshake(), start=3_001).ack(30, 5_001), tmp_path)
    assert (flow.send_start[0], flow.ack_bytes[-1], flow.has_syn) == (3_000, 5_000, True)
    assert not flow.fills_gap.any()


def test_data_in_the_syn_begins_behind_its_number(tmp_path: Path) -> None:
    talk = Talk().say(0, seq=0, flags=SYN, payload=100).say(20, THERE, 0, 101, flags=SYN | ACK)
    flow = flow_of(talk.send(21, 101).ack(40, 1_101), tmp_path)
    assert (flow.send_start.tolist(), flow.send_end.tolist()) == ([0, 100], [100, 1_100])
    assert flow.ack_bytes.tolist() == [100, 1_100]
    assert not flow.is_retransmission.any()


@pytest.mark.parametrize("initial", [0, 2**31 - 3_000, 2**32 - 3_000])
def test_no_initial_number_makes_a_difference(tmp_path: Path, initial: int) -> None:
    talk = burst(Talk(initial=(initial, 2**32 - 1)).handshake()).ack(20, 1_001, [(2_001, 4_001)]).send(30, 1_001)
    flow = flow_of(talk, tmp_path)
    assert flow.send_start.tolist() == [0, 1_000, 2_000, 3_000, 4_000, 5_000, 1_000]
    assert flow.ack_sacks[-1].tolist() == [2_000, 4_000, 0, 0]
    assert [event.kind for event in retransmissions(flow, LINUX)] == ["fast"]


def test_ipv6_is_told_like_ipv4(tmp_path: Path) -> None:
    talk = burst(Talk(("fe80::2", "fe80::1")).handshake()).ack(20, 1_001).send(201_000, 6_001 - 1_000)
    flow = flow_of(talk, tmp_path)
    assert flow.name == "[fe80::2]:20000 > [fe80::1]:5000"
    assert flow.is_retransmission.tolist() == [False] * 6 + [True]


def test_only_one_direction(tmp_path: Path) -> None:
    flow = flow_of(burst(Talk()).send(201_000, 1), tmp_path)
    assert (len(flow.ack_ns), len(flow.rtt_ns()), len(flow.back_rows)) == (0, 0, 0)
    assert flow.is_retransmission.tolist() == [False] * 6 + [True]
    assert [event.kind for event in retransmissions(flow, LINUX)] == ["rto"]


def test_a_clock_that_goes_backwards_keeps_the_files_order(tmp_path: Path) -> None:
    talk = burst(Talk(), 3).ack(20, 3_001).send(-500, 3_001).ack(-480, 4_001).send(-470, 3_001)
    flow = flow_of(talk, tmp_path)
    assert flow.is_retransmission.tolist() == [False] * 4 + [True]
    assert (flow.shortest_rtt_ns, len(retransmissions(flow, LINUX))) == (19_800, 1)


def test_data_that_was_acknowledged_before_it_passed_gives_no_round_trip(tmp_path: Path) -> None:
    flow = flow_of(burst(Talk(), 2).ack(-50, 1_001).ack(20, 2_001), tmp_path)
    assert flow.round_trips.at_ns.tolist() == flow.ack_ns[1:].tolist()
    assert (flow.rtt_ns().tolist(), flow.shortest_rtt_ns, flow.median_rtt_ns) == ([19_900], 19_900, 19_900)


# --- connections


def test_a_syn_with_another_number_begins_another_flow_with_the_same_ends(tmp_path: Path) -> None:
    again = Talk(initial=(7_000_000, 9_000_000))
    talk = burst(Talk().handshake()).ack(20, 6_001).close(30, 6_001)
    talk.records += burst(again.handshake(50), 3, 100).ack(130, 3_001).records
    first, second = flows_of(talk.read(tmp_path))
    assert (first.name, second.name) == ("10.0.0.2:20000 > 10.0.0.1:5000", "10.0.0.2:20000 > 10.0.0.1:5000 (2)")
    assert (len(first.send_ns), len(second.send_ns), second.send_start.tolist()) == (6, 3, [0, 1_000, 2_000])
    assert (first.ack_bytes[-1], second.ack_bytes[-1]) == (6_000, 3_000)
    names = {("10.0.0.2:20000", "10.0.0.1:5000"): "h2"}
    assert [flow.name for flow in flows_of(talk.read(tmp_path), names)] == ["h2", "h2 (2)"]


def test_a_late_word_of_the_old_connection_does_not_part_the_new_handshake(tmp_path: Path) -> None:
    talk = burst(Talk().handshake()).ack(20, 6_001)
    late, again = Talk().say(55, THERE, 1, 6_001).records, Talk(initial=(7_000_000, 9_000_000)).handshake(50)
    talk.records += sorted([*burst(again, 2, 100).records, *late])
    assert [flow.name.endswith(" (2)") for flow in flows_of(talk.read(tmp_path))] == [False, True]


def test_syn_and_fin_that_are_sent_again_are_counted_and_make_no_new_flow(tmp_path: Path) -> None:
    talk = Talk().say(-3 * SECOND_US, seq=0, flags=SYN).say(-2 * SECOND_US, seq=0, flags=SYN).handshake()
    talk = burst(talk).ack(20, 6_001).close(30, 6_001).close(200_030, 6_001).close(600_030, 6_001)
    flow = flow_of(talk, tmp_path)
    assert (flow.syn_repeats, flow.fin_repeats, flow.is_retransmission.any()) == (2, 2, False)


def test_a_fin_with_data_sent_again_alone_is_one_repeat_of_it(tmp_path: Path) -> None:
    talk = burst(Talk()).send(1, 6_001, flags=FIN | ACK).say(300_000, seq=7_001, flags=FIN | ACK)
    assert flow_of(talk, tmp_path).fin_repeats == 1


def test_a_reset_is_no_part_of_a_flow(tmp_path: Path) -> None:
    talk = burst(Talk()).say(9, THERE, 1, 1, flags=RST | ACK).ack(20, 2_001)
    assert flow_of(talk, tmp_path).ack_bytes.tolist() == [2_000]


def test_a_hundred_thousand_connections_without_data_are_no_flows(tmp_path: Path) -> None:
    talk = Talk().handshake()
    for port in range(1, 2_000):
        talk.records += Talk(ports=(port, 80)).say(port, seq=0, flags=SYN).records
    assert flows_of(talk.read(tmp_path)) == []


# --- copies


def test_a_frame_captured_twice_is_neither_sent_again_nor_a_duplicate(tmp_path: Path) -> None:
    talk = burst(Talk().handshake()).again(1).again(1.1, -3).ack(20, 1_001).again(20.1).again(20.2, -2)
    flow = flow_of(talk, tmp_path)
    assert (flow.copies, flow.is_retransmission.any(), flow.ack_is_duplicate.any()) == (2, False, False)
    assert len(flow.ack_ns) == 2


def test_what_is_sent_again_with_another_identification_is_no_copy(tmp_path: Path) -> None:
    flow = flow_of(burst(Talk()).send(0.7, 5_001, stamp=1_000).ack(20, 1_001).ack(20.1, 1_001), tmp_path)
    assert (flow.copies, flow.is_retransmission.sum(), flow.ack_is_duplicate.sum()) == (0, 1, 1)


def test_without_telling_identifications_only_what_follows_at_once_is_a_copy(tmp_path: Path) -> None:
    for ends in (("fe80::2", "fe80::1"), ("10.0.0.2", "10.0.0.1")):
        talk = Talk(ends)
        for place in range(4):
            talk.send(place / 10, 1 + 1_000 * place, identification=0).again(place / 10 + 0.05)
        talk.ack(20, 1_001, identification=0).ack(20.1, 1_001, identification=0)
        talk.send(5_000, 3_001, identification=0, stamp=1_000)
        flow = flow_of(talk, tmp_path)
        assert (flow.copies, flow.is_retransmission.sum(), flow.ack_is_duplicate.sum()) == (4, 1, 1)


# --- captures elsewhere than at the sender


def test_at_the_receiver_a_repeat_of_what_was_lost_before_fills_a_gap(tmp_path: Path) -> None:
    talk = burst(Talk().handshake(), 1).send(2, 2_001).send(3, 3_001).send(60, 1_001).send(61, 2_001)
    flow = flow_of(talk, tmp_path)
    assert flow.is_retransmission.tolist() == [False, False, False, True, True]
    assert flow.fills_gap.tolist() == [False, False, False, True, False]
    assert not flow.is_overtaken.any()


def test_a_repeat_that_brings_part_of_what_was_missing_fills_a_gap(tmp_path: Path) -> None:
    flow = flow_of(Talk().handshake().send(0, 1).send(1, 3_001).send(2, 501, payload=1_000), tmp_path)
    assert flow.fills_gap.tolist() == [False, False, True]


def test_what_left_earlier_and_came_later_was_overtaken(tmp_path: Path) -> None:
    talk = Talk().handshake()
    for place, number in ((0, 1), (2, 3), (3, 4), (1, 2), (4, 5)):
        talk.send(place, 1 + 1_000 * place, identification=number)
    flow = flow_of(talk, tmp_path)
    assert flow.fills_gap.tolist() == flow.is_overtaken.tolist() == [False, False, False, True, False]
    assert not flow.is_retransmission.any()


def test_stamps_tell_the_order_where_identifications_do_not(tmp_path: Path) -> None:
    talk = Talk(("fe80::2", "fe80::1"))
    for at_us, place, stamp in ((0, 0, 10), (1, 2, 12), (2, 1, 11), (3, 4, 13), (9_000, 3, 22), (9_001, 5, 22)):
        talk.send(at_us, 1 + 1_000 * place, stamp=stamp)
    flow = flow_of(talk, tmp_path)
    assert flow.fills_gap.tolist() == [False, False, True, False, True, False]
    assert flow.is_overtaken.tolist() == [False, False, True, False, False, False]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), min_size=1, max_size=40))
def test_holes_are_those_of_a_bitmap(segments: list[tuple[int, int]]) -> None:
    holes, seen, highest = Holes(), np.zeros(64, bool), 0
    for start, length in segments:
        end = start + length
        brings = bool((~seen[start : min(end, highest)]).any())
        if start > highest:
            holes.opened(highest, start)
        elif start < highest:
            assert holes.filled(start, end) == brings
        seen[start:end] = True
        highest = max(highest, end)


# --- keep-alives and window probes


def test_keep_alives_with_a_byte_are_not_sent_again(tmp_path: Path) -> None:
    talk = burst(Talk(), 2).ack(20, 2_001).send(75 * SECOND_US, 2_000, payload=1).ack(75 * SECOND_US + 20, 2_001)
    flow = flow_of(talk.send(150 * SECOND_US, 2_000, payload=1), tmp_path)
    assert flow.is_keep_alive.tolist() == [False, False, True, True]
    assert (flow.is_retransmission.any(), retransmissions(flow, LINUX)) == (False, [])


def test_keep_alives_without_data_are_no_segments(tmp_path: Path) -> None:
    flow = flow_of(
        burst(Talk(), 2).ack(20, 2_001).say(75 * SECOND_US, seq=2_000).ack(75 * SECOND_US + 9, 2_001), tmp_path
    )
    assert (len(flow.send_ns), flow.ack_is_duplicate.any()) == (2, False)


def test_a_lone_byte_sent_again_before_it_is_acknowledged_is_sent_again(tmp_path: Path) -> None:
    flow = flow_of(burst(Talk(), 1).ack(20, 1_001).send(30, 1_001, payload=1).send(201_030, 1_001, payload=1), tmp_path)
    assert flow.is_retransmission.tolist() == [False, False, True]


def test_probes_of_a_closed_window_are_not_sent_again(tmp_path: Path) -> None:
    talk = burst(Talk(), 2).ack(20, 2_001, window=0).send(200_000, 2_001, payload=1).ack(200_020, 2_001, window=0)
    talk = talk.send(600_000, 2_001, payload=1).ack(600_020, 2_001, window=0).ack(700_000, 2_001, window=500)
    flow = flow_of(talk.send(700_100, 2_001), tmp_path)
    assert flow.is_window_probe.tolist() == [False, False, False, True, False]
    assert [event.index for event in retransmissions(flow, LINUX)] == [4]


# --- many runs at once


@given(st.lists(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=9), min_size=1, max_size=9))
def test_the_running_maximum_is_each_runs_own(runs: list[list[int]]) -> None:
    values = np.array([value for run in runs for value in run], np.int64)
    begins = np.cumsum([0, *map(len, runs[:-1])])
    expected = np.concatenate([np.maximum.accumulate(np.array(run, np.int64)) for run in runs])
    assert np.array_equal(running_max(values, begins), expected)


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9), min_size=1, max_size=9))
def test_each_run_is_unwrapped_by_itself(runs: list[list[int]]) -> None:
    numbers = np.array([number for run in runs for number in run], np.uint32)
    begins = np.cumsum([0, *map(len, runs[:-1])])
    expected = np.concatenate([unwrap(np.array(run, np.uint32)) for run in runs])
    assert np.array_equal(unwrap_runs(numbers, begins), expected)
