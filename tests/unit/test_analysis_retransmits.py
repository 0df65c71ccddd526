"""Why segments were sent again: sequences worked by hand after Linux's loss recovery. RTT 20 µs, RTOmin 200
ms."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.transport.events import FAST, GO_BACK_N, PROBE, RACK, RTO, UNEXPLAINED
from analysis.transport.flows import flows_of
from analysis.transport.recovery import Recovery, infer_recovery
from analysis.transport.retransmits import compare_with_kernel, retransmissions
from experiments.bench_analyze import explained_s
from tests.unit.frames import Capture
from tests.unit.talk import Talk
from tests.unit.test_analysis_flows import flow_of

RTO_MIN_NS = 200_000_000
RTO_US = 201_000
LINUX = Recovery(RTO_MIN_NS)
NO_PROBES = Recovery(RTO_MIN_NS, tlp=False)
_FEW, _TIMES = 1_000, 16  # retransmissions whose growth in time is looked at


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
    assert kinds(window().ack(20.2, 1000, sacks=1).send(3_000, 5000), tmp_path) == [RACK]


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
    soon = Recovery(3_000_000)
    assert kinds(window().ack(20.2, 1000, sacks=1).send(4_000, 1000), tmp_path, soon) == [RACK]
    assert kinds(window().ack(20.2, 1000, sacks=1).send(4_000, 1000), tmp_path, Recovery(3_000_000, rack=False)) == [
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


# --- with SACK blocks and time stamps as senders see them


def story(talk: Talk, folder: Path, recovery: Recovery = LINUX) -> list[tuple[str, bool]]:
    (flow,) = flows_of(talk.read(folder))
    return [(event.kind, event.spurious) for event in retransmissions(flow, recovery)]


def flight(count: int = 6) -> Talk:
    """`count` segments back to back; the first is acknowledged, and the third and fourth are reported by SACK."""
    talk = Talk().handshake()
    for place in range(count):
        talk.send(place / 10, 1 + 1_000 * place)
    return talk.ack(20, 1_001).ack(20.2, 1_001, [(2_001, 3_001)]).ack(20.3, 1_001, [(2_001, 4_001)])


def test_a_retransmission_that_is_lost_and_sent_again_without_a_timeout_is_told_by_rack(tmp_path: Path) -> None:
    talk = flight().send(21, 1_001).send(21.1, 6_001).ack(41, 1_001, [(2_001, 4_001), (6_001, 7_001)]).send(42, 1_001)
    assert story(talk, tmp_path) == [(FAST, False), (RACK, False)]


def test_after_a_timeout_a_lost_retransmission_ends_go_back_n(tmp_path: Path) -> None:
    talk = Talk().handshake()
    for place in range(6):
        talk.send(place / 10, 1 + 1_000 * place)
    talk.send(RTO_US, 1).ack(RTO_US + 20, 1_001).send(RTO_US + 21, 1_001).send(RTO_US + 21.1, 2_001)
    talk.ack(RTO_US + 41, 1_001, [(2_001, 3_001)]).send(RTO_US + 42, 1_001).ack(RTO_US + 62, 3_001)
    kinds_told = [kind for kind, _ in story(talk.send(RTO_US + 63, 3_001), tmp_path, NO_PROBES)]
    assert kinds_told == [RTO, GO_BACK_N, GO_BACK_N, RACK, FAST]


def test_a_needless_timeout_is_no_begin_of_go_back_n(tmp_path: Path) -> None:
    """Both segments had arrived; the acknowledgement of them was late. What is lost later is another story."""
    talk = Talk().handshake().send(0, 1).send(0.1, 1_001).send(0.2, 2_001).send(RTO_US, 1)
    talk.ack(RTO_US + 5, 2_001, echo=1_000).send(RTO_US + 6, 3_001).send(RTO_US + 6.1, 4_001)
    talk.ack(RTO_US + 30, 2_001, [(3_001, 4_001)]).send(RTO_US + 31, 2_001)
    assert story(talk, tmp_path, NO_PROBES) == [(RTO, True), (FAST, False)]


@pytest.mark.parametrize(("block", "spurious"), [((1_001, 2_001), True), ((2_001, 3_001), False)])
def test_a_dsack_proves_what_it_reports_to_have_come_twice(
    tmp_path: Path, block: tuple[int, int], spurious: bool
) -> None:
    talk = flight().send(21, 1_001).ack(30, 6_001).ack(41, 6_001, [block])
    assert story(talk, tmp_path) == [(FAST, spurious)]


def test_each_dsack_proves_one_of_several(tmp_path: Path) -> None:
    talk = Talk().handshake().send(0, 1).send(RTO_US, 1).send(3 * RTO_US, 1).ack(3 * RTO_US + 20, 1_001, [(1, 1_001)])
    assert story(talk, tmp_path, NO_PROBES) == [(RTO, True), (RTO, False)]
    assert story(talk.ack(3 * RTO_US + 30, 1_001, [(1, 1_001)]), tmp_path, NO_PROBES) == [(RTO, True), (RTO, True)]


@pytest.mark.parametrize(("echo", "spurious"), [(1_000, True), (1_201, False), (1_202, False)])
def test_an_older_stamp_in_the_answer_proves_that_the_first_sending_came(
    tmp_path: Path, echo: int, spurious: bool
) -> None:
    talk = Talk().handshake().send(0, 1).send(RTO_US, 1).ack(RTO_US + 5, 1_001, echo=echo)
    assert story(talk, tmp_path, NO_PROBES) == [(RTO, spurious)]


def test_without_stamps_and_sack_nothing_is_proven(tmp_path: Path) -> None:
    talk = Talk(stamped=False).send(0, 1).send(RTO_US, 1).ack(RTO_US + 1, 1_001)
    assert story(talk, tmp_path, NO_PROBES) == [(RTO, False)]


def test_a_timeout_comes_alone(tmp_path: Path) -> None:
    """A sender that paces its packets sends several out of a silence, in recovery: no timeout does."""
    talk = flight().send(21, 1_001).ack(41, 4_001).send(4_100, 4_001).send(4_100.1, 5_001).ack(4_120, 6_001)
    assert [kind for kind, _ in story(talk, tmp_path, Recovery(1_000_000))] == [FAST, FAST, FAST]


def test_without_sack_there_is_no_probe(tmp_path: Path) -> None:
    talk = Talk().handshake().send(0, 1).ack(20, 1_001).send(100, 1_001).send(100 + RTO_US, 1_001)
    assert [kind for kind, _ in story(talk, tmp_path)] == [PROBE]
    assert [kind for kind, _ in story(talk, tmp_path, Recovery(RTO_MIN_NS, sack=False))] == [RTO]


# --- senders of which nothing else is known


def test_timeouts_show_rto_min(tmp_path: Path) -> None:
    talk = flight(3).ack(25, 3_001).send(1_000, 3_001).send(1_000.1, 4_001).send(1_000 + 31_000, 3_001)
    assert infer_recovery(flows_of(talk.read(tmp_path))).recovery == LINUX  # one alone may be anything
    talk.ack(32_020, 5_001).send(33_000, 5_001).send(33_000.1, 6_001).send(33_000 + 31_100, 5_001)
    found = infer_recovery(flows_of(talk.read(tmp_path)))
    assert (found.recovery, found.is_certain) == (Recovery(31_000_000), False)
    assert found.because == "2 of 2 timeouts came after 31 ms or little more, a round trip left out"


def test_timeouts_that_do_not_agree_show_nothing(tmp_path: Path) -> None:
    talk, at_us, place = flight(3).ack(25, 3_001), 1_000.0, 3_001
    for wait_us in (500, 7_000, 31_000, 90_000, 300_000):
        talk.send(at_us, place).send(at_us + 0.1, place + 1_000).send(at_us + wait_us, place)
        talk.ack(at_us + wait_us + 20, place + 2_000)
        at_us, place = at_us + wait_us + 1_000, place + 2_000
    assert infer_recovery(flows_of(talk.read(tmp_path))).recovery == LINUX


def test_without_a_timeout_it_is_linux(tmp_path: Path) -> None:
    found = infer_recovery(flows_of(flight().read(tmp_path)))
    assert (found.recovery, found.because) == (LINUX, "no timeouts agree on another RTOmin: Linux's 200 ms are assumed")
    assert infer_recovery([]).recovery == LINUX


def test_duplicates_without_blocks_are_of_a_receiver_without_sack(tmp_path: Path) -> None:
    talk = Talk().handshake().send(0, 1).send(0.1, 1_001).send(0.2, 2_001).ack(20, 1_001).ack(20.1, 1_001)
    assert infer_recovery(flows_of(talk.read(tmp_path))).recovery == Recovery(RTO_MIN_NS, rack=False, sack=False)


# --- speed


def test_sixteen_times_the_retransmissions_take_no_more_than_sixteen_times_as_long() -> None:
    """In processor time, with room for what disturbs it on a busy machine; how long they take is told by `bench
    analyze`."""
    few = min(explained_s(_FEW) for _ in range(3))
    assert explained_s(_TIMES * _FEW) < 4 * _TIMES * few  # if each looked at all others it would be 16 times as much


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
