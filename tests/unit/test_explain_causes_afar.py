"""Why a flow stood still, as captures tell that are not its sender's: at the hot port, and at the receiver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analysis.explain.causes_afar import Sighting, counts_packets, missing_before
from analysis.explain.model import CERTAIN, LIKELY, MIDDLE, RECEIVER, UNSURE, Block, FlowStall
from analysis.explain.reasons import TIMEOUT
from analysis.transport import stalls as rules
from analysis.transport.stalls import gaps
from tests.unit.frames import T0_NS, Capture
from tests.unit.silent import LINUX, RTO_US, Line, back_to_back, seen, stalls

MORE = RTO_US + 100


class Far(Line):
    """Acknowledgements are stamped with their number, and the next data echoes it."""

    stamp = 0

    def send(self, at_us: float, start: int, payload: int = 1000) -> Far:
        super().send(at_us, start, payload)
        self._amend(62, self.stamp.to_bytes(4, "big"))
        return self

    def ack(self, at_us: float, place: int, sacks: int = 0, window: int = 500) -> Far:
        super().ack(at_us, place, sacks, window)
        self.stamp += 1
        self._amend(58, self.stamp.to_bytes(4, "big"))
        return self


def only(found: list[FlowStall]) -> tuple[str, str]:
    (stall,) = found
    return stall.cause, stall.confidence


def test_packets_that_never_came_are_told_by_identifications(tmp_path: Path) -> None:
    packets, flow = seen(back_to_back().lose(3).send(MORE, 6000).ack(MORE + 20, 7000), tmp_path)
    (gap,) = gaps(flow, 1e8)
    assert counts_packets(flow, packets)
    assert missing_before(Sighting(flow, packets), gap) == 3


def test_a_flow_is_judged_by_the_packets_that_are_asked_about(tmp_path: Path) -> None:
    """The same flow, in packets whose identifications are lost, after it was asked about in whole ones."""
    packets, flow = seen(back_to_back().lose(3).send(MORE, 6000).ack(MORE + 20, 7000), tmp_path)
    (gap,) = gaps(flow, 1e8)
    assert missing_before(Sighting(flow, packets), gap) == 3
    assert missing_before(Sighting(flow, replace(packets, ip_id=packets.ip_id * 0)), gap) is None


def test_identifications_that_wrap_go_on_counting(tmp_path: Path) -> None:
    line = Line()
    line.identification = 2**16 - 4
    wrapped = back_to_back(3, line)
    wrapped.identification = 1
    packets, flow = seen(wrapped.send(50, 3000).send(51, 4000).ack(71, 5000).send(MORE, 5000), tmp_path)
    assert missing_before(Sighting(flow, packets), gaps(flow, 1e8)[0]) == 0


def test_identifications_that_do_not_count_tell_nothing(tmp_path: Path) -> None:
    capture = Capture()
    for place in range(6):
        capture.send(place, 1000 * place).ack(place + 0.5, 1000 * (place + 1))
    packets, flow = seen(capture.send(MORE, 6000), tmp_path)
    assert not counts_packets(flow, packets)
    assert missing_before(Sighting(flow, packets), gaps(flow, 1e8)[0]) is None


def test_a_tail_lost_before_the_hot_port(tmp_path: Path) -> None:
    """Everything that passed was acknowledged, and yet the flow was not idle: three packets are missing."""
    capture = back_to_back().lose(3).send(MORE, 6000).ack(MORE + 20, 7000)
    capture.send(MORE + 21, 7000).send(MORE + 22, 8000).ack(MORE + 42, 9000)
    assert only(stalls(capture, tmp_path, MIDDLE)) == (rules.TAIL, LIKELY)


def test_a_whole_window_lost_before_the_hot_port(tmp_path: Path) -> None:
    capture = back_to_back().lose(2).send(MORE, 6000).ack(MORE + 20, 7000)
    for place in range(7, 20):
        capture.send(MORE + 21 + place, 1000 * place)
    assert only(stalls(capture.ack(MORE + 60, 20_000), tmp_path, MIDDLE)) == (rules.FULL_WINDOW, LIKELY)


def test_an_idle_application_seen_from_the_hot_port_is_certain_where_nothing_is_missing(tmp_path: Path) -> None:
    capture = back_to_back().send(MORE, 6000).ack(MORE + 20, 7000)
    assert only(stalls(capture, tmp_path, MIDDLE)) == (rules.APPLICATION_IDLE, CERTAIN)


def test_the_same_without_identifications_is_unsure(tmp_path: Path) -> None:
    capture = Capture()
    for place in range(6):
        capture.send(place, 1000 * place).ack(place + 0.5, 1000 * (place + 1))
    capture.send(MORE, 6000).ack(MORE + 0.5, 7000)
    assert only(stalls(capture, tmp_path, MIDDLE)) == (rules.APPLICATION_IDLE, UNSURE)


def test_a_loss_after_a_blocks_end_may_have_come_at_any_time(tmp_path: Path) -> None:
    """Blocks of 6000 bytes: after the first the flow was idle for certain; after the second packets are missing."""
    capture = back_to_back()
    for place in range(6, 12):
        capture.send(MORE + place, 1000 * place)
    capture.ack(MORE + 40, 12_000).lose(2).send(2 * MORE, 12_000).ack(2 * MORE + 20, 13_000)
    first, second = stalls(capture, tmp_path, MIDDLE)
    assert (first.cause, first.confidence) == (rules.APPLICATION_IDLE, CERTAIN)
    assert (second.cause, second.confidence) == (rules.APPLICATION_IDLE, UNSURE)


def test_a_gap_that_a_timeout_fills(tmp_path: Path) -> None:
    """1000 is missing, what follows passed and drew duplicates: one, or so many that a lost repetition must be behind
    it."""
    few = Line().send(0, 0).ack(20, 1000).lose(1).send(21, 2000).ack(41, 1000).send(MORE, 1000).ack(MORE + 20, 3000)
    assert only(stalls(few.send(MORE + 21, 3000), tmp_path, MIDDLE)) == (rules.FEW_DUPLICATES, LIKELY)
    many = Line().send(0, 0).ack(20, 1000).lose(1)
    for place in range(2, 6):
        many.send(20 + place, 1000 * place).ack(40 + place, 1000)
    many.lose(1).send(MORE, 1000).ack(MORE + 20, 6000)
    assert only(stalls(many, tmp_path, MIDDLE)) == (rules.LOST_RETRANSMISSION, LIKELY)


def test_a_repetition_lost_before_this_point_is_told_by_its_identification(tmp_path: Path) -> None:
    line = Line().send(0, 0).ack(20, 1000).send(20.5, 1000).ack(21, 2000).lose(1)
    line.send(21.5, 3000).ack(41, 2000, sacks=1).lose(1).send(MORE, 2000).ack(MORE + 20, 4000)
    assert only(stalls(line.send(MORE + 21, 4000), tmp_path, MIDDLE)) == (rules.LOST_RETRANSMISSION, LIKELY)


def test_silence_shorter_than_a_timeout_is_a_probes_or_racks(tmp_path: Path) -> None:
    probe = back_to_back(6, Far()).send(40, 6000).ack(60, 7000).lose(1).send(3_000, 7000).ack(3_020, 8000)
    assert only(stalls(probe, tmp_path, MIDDLE, LINUX)) == (rules.LOSS_PROBE, LIKELY)
    racked = Far().send(0, 0).ack(20, 1000).lose(1).send(21, 2000).ack(41, 1000, sacks=1).send(3_000, 1000)
    assert only(stalls(racked.ack(3_020, 3000), tmp_path, MIDDLE, LINUX))[0] == rules.RACK_TIMER


def test_only_the_receivers_own_capture_makes_a_delayed_acknowledgement_certain(tmp_path: Path) -> None:
    capture = back_to_back(6, Far()).send(100, 6000).ack(40_100, 7000)
    assert only(stalls(capture, tmp_path, RECEIVER, LINUX)) == (rules.DELAYED_ACK, CERTAIN)
    assert only(stalls(capture, tmp_path, MIDDLE, LINUX)) == (rules.DELAYED_ACK, LIKELY)


def test_one_direction_alone_tells_a_timeout_by_what_is_sent_again(tmp_path: Path) -> None:
    capture = Line().send(0, 0).send(1, 1000).send(2, 2000).send(MORE, 1000).send(MORE + 1, 2000)
    assert only(stalls(capture, tmp_path, MIDDLE)) == (TIMEOUT, LIKELY)


def test_the_way_behind_the_point_counts_for_the_round_trip(tmp_path: Path) -> None:
    """At the receiver a window is acknowledged within 10 µs; the sender is 30 ms away, as time stamps show."""
    capture = Far()
    for trip in range(10):
        capture.send(30_000 * trip, 1000 * trip).ack(30_000 * trip + 10, 1000 * (trip + 1))
    assert stalls(capture, tmp_path, RECEIVER, LINUX, blocks=(Block(1, T0_NS, None, 0, 10_000),)) == []
