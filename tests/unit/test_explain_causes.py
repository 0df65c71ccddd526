"""Why a flow stood still, at its sender's capture: sequences worked by hand; RTT 20 µs, RTOmin 200 ms."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.capture.reader import read_capture
from analysis.explain.causes import MEANINGS, stalls_of
from analysis.explain.model import CERTAIN, LIKELY, SENDER, UNSURE, Block, FlowStall
from analysis.explain.reasons import NEVER_WENT_ON, NOT_READY, SPURIOUS, SYN_AGAIN, ZERO_WINDOW
from analysis.transport import stalls as rules
from analysis.transport.queue_pairs import flows_of_roce
from analysis.transport.recovery import Recovery
from analysis.transport.retransmits import retransmissions
from analysis.transport.roce import QP_TIMEOUT_NS, resent
from tests.unit.frames import T0_NS, Capture
from tests.unit.roce_capture import RNR, RoceCapture
from tests.unit.silent import LINUX, NO_PROBES, RTO_US, Line, back_to_back, seen, stalls
from tests.unit.test_analysis_retransmits import window

WHOLE = (Block(1, T0_NS, None, 0, 6000),)


def only(found: list[FlowStall]) -> FlowStall:
    (stall,) = found
    return stall


def named(stall: FlowStall) -> tuple[str, str]:
    return stall.cause, stall.confidence


def test_a_lost_tail_with_its_numbers(tmp_path: Path) -> None:
    capture = window().send(RTO_US, 1000).ack(RTO_US + 20, 6000)
    stall = only(stalls(capture, tmp_path))
    assert named(stall) == (rules.TAIL, LIKELY)  # the capture ends here: there may have been more
    stall = only(stalls(capture.fin(RTO_US + 21, 6000), tmp_path))
    assert named(stall) == (rules.TAIL, CERTAIN)
    assert stall.seconds == pytest.approx((RTO_US - 20) / 1e6)
    assert (stall.first, stall.last) == (7, 8)
    assert "no duplicate acknowledgement came" in stall.reason


def test_a_whole_window_lost_while_more_waited(tmp_path: Path) -> None:
    capture = window().send(RTO_US, 1000).ack(RTO_US + 20, 6000).send(RTO_US + 21, 6000).ack(RTO_US + 41, 7000)
    assert named(only(stalls(capture, tmp_path))) == (rules.FULL_WINDOW, CERTAIN)


def test_a_lost_retransmission(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000, sacks=1).send(21, 1000).send(21 + RTO_US, 1000).ack(42 + RTO_US, 6000)
    assert named(only(stalls(capture, tmp_path))) == (rules.LOST_RETRANSMISSION, CERTAIN)


def test_timeouts_in_a_row_say_that_the_timer_doubled(tmp_path: Path) -> None:
    capture = window().send(RTO_US, 1000).send(3 * RTO_US, 1000).send(7 * RTO_US, 1000).ack(7 * RTO_US + 20, 6000)
    first, second, third = stalls(capture, tmp_path)
    assert [stall.cause for stall in (first, second, third)] == [rules.TAIL, *[rules.LOST_RETRANSMISSION] * 2]
    assert "the 2nd timeout in a row" in second.reason
    assert "the 3rd timeout in a row" in third.reason


def test_too_few_duplicates_are_counted(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000).ack(20.3, 1000).send(RTO_US, 1000).ack(RTO_US + 20, 6000)
    stall = only(stalls(capture, tmp_path))
    assert named(stall) == (rules.FEW_DUPLICATES, CERTAIN)
    assert "2 duplicate acknowledgements came" in stall.reason


def test_a_probe_and_racks_timer(tmp_path: Path) -> None:
    probed = window(2).send(RTO_US, 1000).ack(RTO_US + 20, 2000)
    assert named(only(stalls(probed, tmp_path, recovery=LINUX))) == (rules.LOSS_PROBE, CERTAIN)
    racked = window().ack(20.2, 1000, sacks=1).send(3_000, 1000).ack(3_020, 6000)
    assert named(only(stalls(racked, tmp_path, recovery=Recovery(1_000_000)))) == (rules.RACK_TIMER, CERTAIN)


def test_a_delayed_acknowledgement_is_likely_as_the_network_may_have_held_it(tmp_path: Path) -> None:
    capture = back_to_back().send(100, 6000).ack(40_100, 7000)
    stall = only(stalls(capture, tmp_path, recovery=LINUX))
    assert named(stall) == (rules.DELAYED_ACK, LIKELY)
    assert "1,000 bytes waited 40 ms" in stall.reason


def test_an_application_that_gave_nothing_is_no_fault_of_the_network(tmp_path: Path) -> None:
    stall = only(stalls(back_to_back().send(300_000, 6000).ack(300_020, 7000), tmp_path))
    assert named(stall) == (rules.APPLICATION_IDLE, CERTAIN)


def test_new_data_out_of_silence_without_a_sign_of_loss_is_the_applications(tmp_path: Path) -> None:
    capture = back_to_back().send(100, 6000).send(20_000, 7000).ack(20_020, 8000)
    assert named(only(stalls(capture, tmp_path, recovery=LINUX))) == (rules.APPLICATION_IDLE, LIKELY)


def test_new_data_out_of_silence_that_draws_sack_blocks_was_a_probe(tmp_path: Path) -> None:
    capture = back_to_back().send(100, 6000).send(20_000, 7000).ack(20_020, 6000, sacks=1)
    capture.send(20_030, 6000).ack(20_050, 8000)
    assert named(only(stalls(capture, tmp_path, recovery=LINUX))) == (rules.LOSS_PROBE, CERTAIN)


def test_a_closed_window_counts_once_however_often_it_is_probed(tmp_path: Path) -> None:
    capture = back_to_back().shut(30, 6000)
    for at_us in (200_000, 600_000, 1_400_000):
        capture.send(at_us, 5999, 1).shut(at_us + 20, 6000)
    capture.ack(2_000_000, 6000).send(2_000_001, 6000).ack(2_000_021, 7000)
    stall = only(stalls(capture, tmp_path))
    assert named(stall) == (ZERO_WINDOW, CERTAIN)
    assert stall.seconds == pytest.approx(2.0, rel=0.001)


def test_pauses_that_held_the_link_for_most_of_the_silence(tmp_path: Path) -> None:
    capture = back_to_back().send(100, 6000).ack(150_100, 7000)
    half = [(T0_NS + 100_000, T0_NS + 80_000_000)]
    assert named(only(stalls(capture, tmp_path, held=half))) == (rules.PAUSED, CERTAIN)
    less = [(T0_NS + 100_000, T0_NS + 70_000_000)]
    assert named(only(stalls(capture, tmp_path, held=less))) == (rules.DELAYED_ACK, LIKELY)


def test_a_pause_explains_no_silence_that_goes_on_long_after_it(tmp_path: Path) -> None:
    """Everything was acknowledged: the application may have been idle all the time."""
    capture = back_to_back().send(300_000, 6000).ack(300_020, 7000)
    early, late = [(T0_NS + 100_000, T0_NS + 200_000_000)], [(T0_NS + 100_000, T0_NS + 299_000_000)]
    assert only(stalls(capture, tmp_path, held=early)).cause == rules.APPLICATION_IDLE
    assert named(only(stalls(capture, tmp_path, held=late))) == (rules.PAUSED, LIKELY)


def test_a_needless_probe_tells_of_a_late_acknowledgement(tmp_path: Path) -> None:
    """It is answered, and before that the acknowledgement of the first sending comes, as time stamps show."""
    capture = Stamped().send(0, 0).ack(20, 1000).send(100, 1000).send(20_100, 1000)
    capture.ack(30_100, 2000).send(30_200, 2000).ack(30_220, 3000)
    stall = only(stalls(capture, tmp_path, recovery=LINUX))
    assert named(stall) == (rules.DELAYED_ACK, LIKELY)
    assert stall.seconds == pytest.approx(0.03)


@pytest.mark.parametrize("sure", [CERTAIN, LIKELY, UNSURE])
def test_nothing_is_surer_than_where_the_capture_was_taken(tmp_path: Path, sure: str) -> None:
    capture = window().send(RTO_US, 1000).ack(RTO_US + 20, 6000).fin(RTO_US + 21, 6000)
    packets, flow = seen(capture, tmp_path)
    (stall,) = stalls_of(flow, retransmissions(flow, NO_PROBES), (), packets, SENDER, (), NO_PROBES, sure)
    assert named(stall) == (rules.TAIL, CERTAIN if sure == CERTAIN else LIKELY)


def test_a_timeout_that_sent_what_had_arrived_is_spurious(tmp_path: Path) -> None:
    """The acknowledgement that comes after it echoes the first sending's time stamp (RFC 3522)."""
    capture = Stamped().send(0, 0).ack(20, 1000).send(100, 1000).send(RTO_US + 100, 1000)
    capture.ack(RTO_US + 110, 2000).send(RTO_US + 120, 2000).ack(RTO_US + 140, 3000)
    assert named(only(stalls(capture, tmp_path))) == (SPURIOUS, CERTAIN)


class Stamped(Line):
    """Each packet carries the time in ms; acknowledgements echo 0, the stamp of all before the timeout."""

    def send(self, at_us: float, start: int, payload: int = 1000) -> Stamped:
        super().send(at_us, start, payload)
        self._amend(58, int(at_us / 1000).to_bytes(4, "big"))
        return self

    def ack(self, at_us: float, place: int, sacks: int = 0, window: int = 500) -> Stamped:
        super().ack(at_us, place, sacks, window)
        self._amend(62, bytes(4))
        return self


def test_a_connection_asked_for_three_times(tmp_path: Path) -> None:
    capture = Line().syn(0).syn(1_000_000).syn(3_000_000).syn(3_000_020, answer=True)
    first, second = stalls(capture.send(3_000_040, 0).ack(3_000_060, 1000), tmp_path)
    assert [named(stall) for stall in (first, second)] == [(SYN_AGAIN, CERTAIN)] * 2
    assert [stall.seconds for stall in (first, second)] == [1.0, 2.0]
    assert "SYN number 2" in second.reason


def test_an_answer_that_had_to_be_sent_again_counts_where_no_syn_was(tmp_path: Path) -> None:
    capture = Line().syn(0).syn(20, answer=True).syn(1_000_020, answer=True).send(1_000_040, 0).ack(1_000_060, 1000)
    stall = only(stalls(capture, tmp_path))
    assert (stall.cause, stall.seconds) == (SYN_AGAIN, 1.0)
    assert "SYN/ACK" in stall.reason


def test_a_flow_that_never_went_on(tmp_path: Path) -> None:
    capture = back_to_back().send(100, 6000)
    Capture.send(other := Capture("10.0.0.9:9"), 900_000, 0)
    capture.records += other.records
    stall = only(stalls(capture, tmp_path))
    assert named(stall) == (NEVER_WENT_ON, UNSURE)
    assert stall.seconds == pytest.approx(0.8999)


def test_a_capture_of_one_way_leaves_the_cause_open(tmp_path: Path) -> None:
    capture = Line().send(0, 0).send(300_000, 1000).send(300_100, 2000)
    assert named(only(stalls(capture, tmp_path))) == (rules.UNEXPLAINED, UNSURE)


def test_silence_shorter_than_the_round_trip_explains_is_none(tmp_path: Path) -> None:
    """A round trip of 30 ms: the windows are as far apart, and no stall."""
    capture = Line()
    for trip in range(10):
        capture.send(30_000 * trip, 1000 * trip).ack(30_000 * trip + 29_990, 1000 * (trip + 1))
    assert stalls(capture, tmp_path, recovery=LINUX) == []


def test_a_timeout_counts_on_a_path_of_50_ms_too(tmp_path: Path) -> None:
    capture = Line()
    for trip in range(10):
        capture.send(50_000 * trip, 1000 * trip).ack(50_000 * trip + 49_990, 1000 * (trip + 1))
    capture.send(500_000, 10_000).send(755_000, 10_000).ack(805_000, 11_000).fin(805_001, 11_000)
    assert named(only(stalls(capture, tmp_path))) == (rules.TAIL, CERTAIN)


# --- queue pairs


def pair_stalls(capture: RoceCapture, folder: Path) -> list[FlowStall]:
    packets = read_capture(capture.write(folder / "pair.pcap"))
    (flow,) = flows_of_roce(packets)
    return list(stalls_of(flow, resent(flow), (), packets, SENDER, (), NO_PROBES))


def test_a_queue_pairs_timeout_that_nobody_told_of(tmp_path: Path) -> None:
    late_us = QP_TIMEOUT_NS / 1000 + 100
    capture = RoceCapture().send(0, 0, 1, 2).ack(20, 1).send(late_us, 2).ack(late_us + 20, 2)
    assert named(only(pair_stalls(capture, tmp_path))) == (rules.NOT_TOLD, CERTAIN)


def test_a_nak_that_was_ignored(tmp_path: Path) -> None:
    late_us = QP_TIMEOUT_NS / 1000 + 100
    capture = RoceCapture().send(0, 0, 1, 2, 3).nak(20, 1).send(21, 1, 2, 3).nak(41, 2)
    stall = only(pair_stalls(capture.send(late_us, 1, 2, 3).ack(late_us + 20, 3), tmp_path))
    assert named(stall) == (rules.NAK_IGNORED, CERTAIN)


def test_a_receiver_that_had_no_buffer(tmp_path: Path) -> None:
    capture = RoceCapture().send(0, 0, 1).ack(20, 0, RNR).send(100_000, 0, 1).ack(100_020, 1)
    assert named(only(pair_stalls(capture, tmp_path))) == (NOT_READY, CERTAIN)


def test_a_queue_pair_with_nothing_to_send(tmp_path: Path) -> None:
    capture = RoceCapture().send(0, 0, 1).ack(20, 1).send(100_000, 2).ack(100_020, 2)
    assert named(only(pair_stalls(capture, tmp_path))) == (rules.APPLICATION_IDLE, CERTAIN)


def test_every_cause_has_a_meaning() -> None:
    assert set(rules.CAUSES) < set(MEANINGS)
    assert all(MEANINGS.values())
