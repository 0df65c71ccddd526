"""Stalls and their causes, on sequences worked by hand; rounds of one flow, RTT 20 µs, RTOmin 200 ms."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.transport import stalls as causes
from analysis.transport.recovery import Recovery
from analysis.transport.stalls import Round, Stall, stalls, stood_still, waits
from tests.unit.frames import T0_NS, Capture
from tests.unit.test_analysis_flows import flow_of
from tests.unit.test_analysis_retransmits import RTO_MIN_NS, RTO_US, window

SECOND = Round(T0_NS, T0_NS + 10**9, 6000)
NO_PROBES = Recovery(RTO_MIN_NS, tlp=False, rack=False)


def acknowledged() -> Capture:
    """Six segments, all but the last acknowledged one by one within 21 µs."""
    capture = window()
    for place in range(2, 6):
        capture.ack(20 + place / 10, 1000 * place)
    return capture.ack(21, 5000)


def found(
    capture: Capture, folder: Path, recovery: Recovery = NO_PROBES, rounds: tuple[Round, ...] = (SECOND,)
) -> list[Stall]:
    return stalls([flow_of(capture, folder)], rounds, recovery)


def cause(capture: Capture, folder: Path, recovery: Recovery = NO_PROBES) -> str:
    (stall,) = found(capture, folder, recovery)
    return stall.cause


def test_a_lost_tail(tmp_path: Path) -> None:
    (stall,) = found(window().send(RTO_US, 1000).ack(RTO_US + 20, 6000), tmp_path)
    assert stall.cause == causes.TAIL
    assert stall.start_s == pytest.approx(20e-6)
    assert stall.seconds == pytest.approx((RTO_US - 20) / 1e6)


def test_a_whole_window_lost_while_more_of_the_block_waits(tmp_path: Path) -> None:
    assert (
        cause(window().send(RTO_US, 1000).ack(RTO_US + 20, 6000).send(RTO_US + 21, 6000), tmp_path)
        == causes.FULL_WINDOW
    )


def test_a_whole_block_lost(tmp_path: Path) -> None:
    capture = Capture().send(0, 0).send(0.1, 1000).send(RTO_US, 0).ack(RTO_US + 20, 2000)
    assert cause(capture, tmp_path) == causes.FULL_WINDOW


def test_a_lost_retransmission(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000, sacks=1).send(21, 1000).send(21 + RTO_US, 1000)
    assert cause(capture, tmp_path) == causes.LOST_RETRANSMISSION


def test_too_few_duplicates(tmp_path: Path) -> None:
    assert cause(window().ack(20.2, 1000).ack(20.3, 1000).send(RTO_US, 1000), tmp_path) == causes.FEW_DUPLICATES


def test_duplicates_ignored_right_after_a_recovery_without_sack(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000).ack(20.3, 1000).ack(20.4, 1000).send(21, 1000).ack(41, 6000)
    for place in range(5):
        capture.send(42 + place / 10, 6000 + 1000 * place)
    for place in range(3):
        capture.ack(62 + place / 10, 6000)
    assert cause(capture.send(42 + RTO_US, 6000), tmp_path) == causes.AFTER_RECOVERY


def test_a_probe_that_waited_for_rto_min(tmp_path: Path) -> None:
    capture = window(2).send(RTO_US, 1000).ack(RTO_US + 20, 2000)
    assert cause(capture, tmp_path, Recovery(RTO_MIN_NS)) == causes.LOSS_PROBE


def test_racks_timer(tmp_path: Path) -> None:
    capture = window().ack(20.2, 1000, sacks=1).send(3_000, 1000).ack(3_020, 6000)
    assert cause(capture, tmp_path, Recovery(1_000_000)) == causes.RACK_TIMER


def test_a_delayed_acknowledgement(tmp_path: Path) -> None:
    capture = acknowledged().ack(150_000, 6000).send(150_001, 6000).ack(150_021, 7000)
    assert cause(capture, tmp_path) == causes.DELAYED_ACK


def test_an_acknowledgement_later_than_any_receiver_may_delay_it_is_not_explained(tmp_path: Path) -> None:
    assert cause(acknowledged().ack(600_000, 6000).send(600_001, 6000), tmp_path) == causes.UNEXPLAINED


def test_an_acknowledgement_of_nothing_new_explains_nothing(tmp_path: Path) -> None:
    assert cause(acknowledged().ack(150_000, 5000).send(150_001, 6000), tmp_path) == causes.UNEXPLAINED


def test_a_sender_that_had_nothing_to_send(tmp_path: Path) -> None:
    capture = window(1).send(300_000, 1000).ack(300_020, 2000)
    assert cause(capture, tmp_path) == causes.APPLICATION_IDLE


def test_a_flow_that_waits_at_the_barrier_is_no_stall(tmp_path: Path) -> None:
    second = Round(SECOND.end_ns, SECOND.end_ns + 10**8, 1000)
    capture = window().ack(21, 6000).send(1_000_010, 6000).ack(1_000_030, 7000)
    assert found(capture, tmp_path, rounds=(SECOND, second)) == []
    first, after = waits([flow_of(capture, tmp_path)], (SECOND, second))
    assert (first.start_s, first.seconds) == (pytest.approx(21e-6), pytest.approx(1 - 21e-6))
    assert after.seconds == pytest.approx(0.1 - 30e-6)


def test_silence_beyond_the_rounds_end_held_nobody_up(tmp_path: Path) -> None:
    """The last data arrived and ended the round; only its acknowledgement never came back."""
    capture = window().ack(21, 5000).send(1_200_000, 5000).ack(1_200_020, 6000)
    assert found(capture, tmp_path) == []


@pytest.mark.parametrize(("silent_us", "count"), [(99_000, 0), (101_000, 1)])
def test_silence_counts_from_half_of_rto_min(tmp_path: Path, silent_us: int, count: int) -> None:
    assert len(found(acknowledged().ack(21 + silent_us, 6000).send(150_000, 6000), tmp_path)) == count


@pytest.mark.parametrize(("silent_us", "count"), [(900, 0), (1_100, 1)])
def test_silence_counts_from_half_of_two_ticks_where_probes_are_on(tmp_path: Path, silent_us: int, count: int) -> None:
    capture = acknowledged().send(21 + silent_us, 5000).ack(41 + silent_us, 6000)
    assert len(found(capture, tmp_path, Recovery(RTO_MIN_NS))) == count


@pytest.mark.parametrize(("silent_us", "count"), [(155, 0), (165, 1)])
def test_silence_counts_from_eight_round_trips_where_rto_min_is_short(
    tmp_path: Path, silent_us: int, count: int
) -> None:
    capture = acknowledged().send(21 + silent_us, 5000).ack(41 + silent_us, 6000)
    assert len(found(capture, tmp_path, Recovery(1_000))) == count


# --- time in which nothing moved


def share_still(captures: list[Capture], folder: Path) -> float:
    """Of a round of a second, the share in which all flows stood still."""
    flows = [flow_of(capture, folder / str(place)) for place, capture in enumerate(captures)]
    spans = stood_still(flows, [SECOND], stalls(flows, [SECOND], NO_PROBES))
    return sum(end - start for start, end in spans) / 1e9


def test_flows_that_are_done_do_not_make_up_for_one_that_waits(tmp_path: Path) -> None:
    late = window().send(RTO_US, 1000).ack(RTO_US + 20, 6000)
    done = Capture("10.0.0.3:20001").send(0, 0).ack(20, 1000)
    assert share_still([late, done], tmp_path) == pytest.approx(0.201, rel=0.001)


def test_a_flow_that_moves_does(tmp_path: Path) -> None:
    late, busy = window().send(RTO_US, 1000).ack(RTO_US + 20, 6000), Capture("10.0.0.3:20001")
    for place in range(30):
        busy.send(5000 * place, 1000 * place).ack(5000 * place + 20, 1000 * place + 1000)
    assert share_still([late, busy], tmp_path) == pytest.approx(0.201 - 0.145, rel=0.001)


def test_an_application_that_sends_nothing_loses_no_time(tmp_path: Path) -> None:
    assert share_still([window(1).send(300_000, 1000).ack(300_020, 2000)], tmp_path) == 0.0
