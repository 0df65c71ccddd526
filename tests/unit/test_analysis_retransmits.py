"""Why segments were sent again: sequences worked by hand after Linux's loss recovery. RTT 20 µs, RTOmin 200
ms."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.retransmits import (
    FAST,
    GO_BACK_N,
    PROBE,
    RTO,
    UNEXPLAINED,
    Recovery,
    compare_with_kernel,
    retransmissions,
)
from tests.unit.test_analysis_flows import flow_of
from tests.unit.test_capture_reader import Capture

RTO_MIN_NS = 200_000_000
RTO_US = 201_000
LINUX = Recovery(RTO_MIN_NS)
NO_PROBES = Recovery(RTO_MIN_NS, tlp=False)


def window(count: int = 6) -> Capture:
    """`count` segments sent back to back, and the first acknowledged 20 µs after it was sent."""
    capture = Capture()
    for place in range(count):
        capture.send(0.1 * place, 1000 * place)
    return capture.ack(20, 1000)


def kinds(capture: Capture, folder: Path, recovery: Recovery = LINUX) -> list[str]:
    return [event.kind for event in retransmissions(flow_of(capture, folder), recovery)]


def test_three_duplicates_bring_a_fast_retransmission(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000).ack(20.3, 1000).ack(20.4, 1000).send(60, 1000)
    assert kinds(capture, tmp_path) == [FAST]


def test_one_sack_block_is_enough(tmp_path: Path) -> None:
    assert kinds(window().ack(20.2, 1000, sacks=1).send(60, 1000), tmp_path) == [FAST]


def test_a_partial_acknowledgement_goes_on_with_the_same_recovery(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000, sacks=1).send(21, 1000).ack(41, 2000).send(1000, 2000)
    assert kinds(capture, tmp_path, NO_PROBES) == [FAST, FAST]


def test_silence_and_no_duplicates_end_in_a_timeout_and_go_back_n(tmp_path: Path) -> None:
    capture = window().send(RTO_US, 1000).ack(RTO_US + 20, 2000).send(RTO_US + 20, 2000).send(RTO_US + 21, 3000)
    assert kinds(capture, tmp_path, NO_PROBES) == [RTO, GO_BACK_N, GO_BACK_N]


def test_a_second_timeout_of_the_same_segment(tmp_path: Path) -> None:
    capture = window().send(RTO_US, 1000).send(3 * RTO_US, 1000)
    events = retransmissions(flow_of(capture, tmp_path), NO_PROBES)
    assert [(event.kind, event.earlier) for event in events] == [(RTO, 0), (RTO, 1)]
    assert events[1].age_ns == 2 * RTO_US * 1000


def test_a_lost_retransmission_is_resent_by_a_timeout(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000, sacks=1).send(21, 1000).send(21 + RTO_US, 1000)
    events = retransmissions(flow_of(capture, tmp_path), LINUX)
    assert [(event.kind, event.earlier) for event in events] == [(FAST, 0), (RTO, 1)]


def test_the_last_segment_out_of_silence_is_a_probe_and_the_head_later_a_timeout(tmp_path: Path) -> None:
    capture = window().send(3_000, 5000).send(3_000 + RTO_US, 1000)
    assert kinds(capture, tmp_path) == [PROBE, RTO]


def test_a_probe_is_the_last_segment_and_comes_without_sacks(tmp_path: Path) -> None:
    assert kinds(window().send(3_000, 1000), tmp_path) == [UNEXPLAINED]
    assert kinds(window().ack(20.2, 1000, sacks=1).send(3_000, 5000), tmp_path) == [FAST]


def test_a_flight_of_one_segment_is_probed_when_its_timeout_is_due(tmp_path: Path) -> None:
    capture = window(2).send(RTO_US, 1000).send(2 * RTO_US, 1000)
    assert kinds(capture, tmp_path) == [PROBE, RTO]


def test_without_probes_the_same_packets_are_two_timeouts(tmp_path: Path) -> None:
    capture = window(2).send(RTO_US, 1000).send(2 * RTO_US, 1000)
    assert kinds(capture, tmp_path, NO_PROBES) == [RTO, RTO]


def test_a_timeout_is_not_due_before_rto_min(tmp_path: Path) -> None:
    assert kinds(window().send(0.89 * RTO_MIN_NS / 1000, 1000), tmp_path, NO_PROBES) == [UNEXPLAINED]


def test_rack_resends_out_of_silence_what_sacks_told_too_little_about(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000, sacks=1).send(RTO_US, 1000)
    soon = Recovery(8_000_000)
    assert kinds(window().ack(20.2, 1000, sacks=1).send(9_000, 1000), tmp_path, soon) == [FAST]
    assert kinds(window().ack(20.2, 1000, sacks=1).send(9_000, 1000), tmp_path, Recovery(8_000_000, rack=False)) == [
        RTO
    ]
    # RACK's timer is never so late: the kernel counted such a one as a timeout.
    assert kinds(capture, tmp_path, Recovery(RTO_MIN_NS, rack=True)) == [RTO]


def test_what_an_acknowledgement_crossed_belongs_to_the_recovery_before(tmp_path: Path) -> None:
    """The sender resends 2000 while the acknowledgement of everything is on its way through its own queue."""
    capture = window().send(RTO_US, 1000).ack(RTO_US + 20, 6000).send(RTO_US + 21, 2000)
    assert kinds(capture, tmp_path, NO_PROBES) == [RTO, GO_BACK_N]


def test_what_follows_an_acknowledgement_at_once_is_no_timer(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000).send(21, 1000)
    assert kinds(capture, tmp_path, NO_PROBES) == [FAST]


def test_where_the_last_recovery_ended_is_said(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000, sacks=1).send(21, 1000).ack(41, 6000).send(42, 6000).send(42.1, 7000)
    capture.send(42 + RTO_US, 6000)
    first, second = retransmissions(flow_of(capture, tmp_path), NO_PROBES)
    assert (first.recovered_to_here, second.kind, second.recovered_to_here) == (False, RTO, True)


@pytest.mark.parametrize(("timeouts", "agrees"), [(1, True), (2, False)])
def test_the_kernels_counters_are_compared_one_by_one(timeouts: int, agrees: bool) -> None:
    kernel = {
        "RetransSegs": 4,
        "TCPTimeouts": timeouts,
        "TCPFastRetrans": 1,
        "TCPSlowStartRetrans": 1,
        "TCPLossProbes": 5,
    }
    matches = {match.counter: match for match in compare_with_kernel([RTO, FAST, GO_BACK_N, PROBE], kernel)}
    assert matches["TCPTimeouts"].agrees is agrees
    assert all(match.agrees for name, match in matches.items() if name != "TCPTimeouts")
