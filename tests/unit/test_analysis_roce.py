"""RoCE flows, NAKs, go-back-N and queue pairs' timeouts, on sequences worked by hand. RTT 20 µs, timeout 67 ms."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.capture.reader import read_capture
from analysis.transport.events import GO_BACK_N, UNEXPLAINED
from analysis.transport.queue_pairs import RoceFlow, flow_between
from analysis.transport.roce import (
    NAK,
    QP_TIMEOUT,
    QP_TIMEOUT_NS,
    compare_with_soft_roce,
    go_backs,
    resent,
    roce_stalls,
)
from analysis.transport.spans import Span
from analysis.transport.stalls import NAK_IGNORED, NOT_TOLD, PAUSED, Round, Stall
from analysis.transport.stalls import UNEXPLAINED as NO_CAUSE
from tests.unit.frames import T0_NS, Capture, pcap_bytes
from tests.unit.roce_capture import PAYLOAD_BYTES, RNR, RoceCapture

TIMEOUT_US = 67_200
SECOND = Round(T0_NS, T0_NS + 10**9, 6 * PAYLOAD_BYTES)


def flow_of(capture: RoceCapture, folder: Path) -> RoceFlow:
    flow = flow_between(read_capture(capture.write(folder / "flow.pcap")), "10.0.0.2:17", "10.0.0.1:18", "h2>h1")
    assert flow is not None
    return flow


def six() -> RoceCapture:
    """Six packets back to back, the first two acknowledged after a round trip."""
    return RoceCapture().send(0, 0, 1, 2, 3, 4, 5).ack(20, 1)


def kinds(capture: RoceCapture, folder: Path) -> list[str]:
    return [event.kind for event in resent(flow_of(capture, folder))]


def test_positions_count_from_the_first_packet_and_cross_the_wrap_of_24_bits(tmp_path: Path) -> None:
    flow = flow_of(six().ack(21, 5), tmp_path)
    assert flow.send_psn.tolist() == [0, 1, 2, 3, 4, 5]
    assert flow.send_start.tolist() == [PAYLOAD_BYTES * number for number in range(6)]
    assert flow.send_end.tolist() == [PAYLOAD_BYTES * number for number in range(1, 7)]
    assert flow.ack_bytes.tolist() == [2 * PAYLOAD_BYTES, 6 * PAYLOAD_BYTES]
    assert not flow.is_retransmission.any()
    assert flow.rtt_ns().tolist() == [20_000, 19_900, 20_800, 20_700, 20_600, 20_500]


def test_a_last_packet_that_is_short_and_padded_ends_where_its_payload_does(tmp_path: Path) -> None:
    flow = flow_of(RoceCapture().send(0, 0, 1).send(1, 2, payload=7).ack(20, 2), tmp_path)
    assert flow.send_end.tolist() == [1024, 2048, 2055]
    assert flow.ack_bytes.tolist() == [2055]
    assert flow.send_wire_bytes.tolist() == [14 + 20 + 8 + 12 + 16 + 1024 + 4, 14 + 20 + 8 + 12 + 1024 + 4, 66]


def test_a_nak_acknowledges_what_is_before_it_alone(tmp_path: Path) -> None:
    flow = flow_of(six().nak(21, 3).ack(22, 3, RNR), tmp_path)
    assert flow.ack_bytes.tolist() == [2048, 3072, 3072]
    assert flow.ack_is_nak.tolist() == [False, True, False]


def test_cnps_are_told_apart_from_acknowledgements(tmp_path: Path) -> None:
    flow = flow_of(six().cnp(30).cnp(80), tmp_path)
    assert (flow.cnp_ns - T0_NS).tolist() == [30_000, 80_000]
    assert len(flow.ack_ns) == 1


def test_other_queue_pairs_and_other_transports_are_no_part_of_the_flow(tmp_path: Path) -> None:
    records = [*six().records, *RoceCapture(own=19, peer=20).send(1, 0, 1).ack(9, 1).records]
    (tmp_path / "all.pcap").write_bytes(pcap_bytes([*records, *Capture().send(2, 0).records]))
    packets = read_capture(tmp_path / "all.pcap")
    first, second = (
        flow_between(packets, f"10.0.0.2:{own}", f"10.0.0.1:{peer}", "x") for own, peer in ((17, 18), (19, 20))
    )
    assert first is not None and second is not None
    assert (len(first.send_ns), len(second.send_ns)) == (6, 2)
    assert flow_between(packets, "10.0.0.2:17", "10.0.0.1:21", "x") is None


def test_after_a_nak_everything_from_the_gap_on_is_sent_again(tmp_path: Path) -> None:
    capture = six().nak(21, 2).send(22, 2, 3, 4, 5)
    assert kinds(capture, tmp_path) == [NAK, GO_BACK_N, GO_BACK_N, GO_BACK_N]
    (back,) = go_backs(flow_of(capture, tmp_path))
    assert (back.index, back.start, back.told) == (6, 2 * PAYLOAD_BYTES, True)


def test_new_packets_behind_those_sent_again_are_not_sent_again(tmp_path: Path) -> None:
    assert kinds(six().nak(21, 4).send(22, 4, 5, 6, 7), tmp_path) == [NAK, GO_BACK_N]


def test_out_of_silence_it_is_the_timeout(tmp_path: Path) -> None:
    assert kinds(six().send(TIMEOUT_US, 2, 3), tmp_path) == [QP_TIMEOUT, GO_BACK_N]


def test_a_timeout_after_a_nak_that_was_ignored_is_a_timeout_still(tmp_path: Path) -> None:
    """Packet 3 is lost once more; its NAK comes before anything is acknowledged since the flow went back."""
    capture = six().nak(21, 2).send(22, 2, 3, 4, 5).nak(43, 3).send(43 + TIMEOUT_US, 3, 4, 5)
    assert kinds(capture, tmp_path)[4:] == [QP_TIMEOUT, GO_BACK_N, GO_BACK_N]
    assert [back.told for back in go_backs(flow_of(capture, tmp_path))] == [True, True]


def test_a_flow_that_never_fell_silent_goes_back_for_a_timeout_when_nothing_was_heard(tmp_path: Path) -> None:
    """A slow NIC still sends what it was given when the timeout fires."""
    capture = RoceCapture().send(0, 0, 1, 2).ack(20, 0)
    for number in range(3, 9):
        capture.send(10_000 * (number - 2), number)
    assert kinds(capture.send(TIMEOUT_US + 20, 1), tmp_path) == [QP_TIMEOUT]
    assert kinds(six().send(30, 2), tmp_path) == [UNEXPLAINED]


@pytest.mark.parametrize(("silent_us", "kind"), [(33_000, NAK), (34_000, QP_TIMEOUT)])
def test_half_of_the_timeout_tells_a_nak_from_it(tmp_path: Path, silent_us: int, kind: str) -> None:
    assert kinds(six().nak(21, 2).send(21 + silent_us, 2), tmp_path) == [kind]


def found(capture: RoceCapture, folder: Path, held: dict[str, list[Span]] | None = None) -> list[Stall]:
    return roce_stalls([flow_of(capture, folder)], [SECOND], held or {})


def test_a_lost_end_costs_a_timeout_of_which_nobody_told(tmp_path: Path) -> None:
    (stall,) = found(six().send(TIMEOUT_US, 2, 3, 4, 5).ack(TIMEOUT_US + 20, 5), tmp_path)
    assert (stall.cause, stall.flow) == (NOT_TOLD, "h2>h1")
    assert stall.start_s == pytest.approx(20e-6)
    assert stall.seconds == pytest.approx((TIMEOUT_US - 20) / 1e6)


def test_a_nak_that_was_ignored_is_named(tmp_path: Path) -> None:
    capture = six().nak(21, 2).send(22, 2, 3, 4, 5).nak(43, 3).send(43 + TIMEOUT_US, 3, 4, 5)
    assert [stall.cause for stall in found(capture.ack(70 + TIMEOUT_US, 5), tmp_path)] == [NAK_IGNORED]


def test_silence_under_a_pause_is_the_pauses(tmp_path: Path) -> None:
    capture = six().ack(21, 5).send(50_000, 6).ack(50_020, 6)
    for end_us, cause in ((30_000, PAUSED), (20_000, NO_CAUSE)):
        held = {"h2>h1": [(T0_NS, T0_NS + end_us * 1000)]}
        assert [stall.cause for stall in found(capture, tmp_path, held)] == [cause]


def test_what_is_shorter_than_half_of_the_timeout_is_no_stall(tmp_path: Path) -> None:
    assert found(six().ack(21, 5).send(30_000, 6).ack(30_020, 6), tmp_path) == []


def test_the_counters_of_soft_roce_are_compared_one_by_one(tmp_path: Path) -> None:
    flow = flow_of(six().nak(21, 2).send(22, 2, 3, 4, 5).send(22 + TIMEOUT_US, 5), tmp_path)
    counters = {
        "h1": {"sent_pkts": 99, "out_of_seq_request": 1, "completer_retry_err": 0},
        "h2": {"sent_pkts": 11, "completer_retry_err": 3},
    }
    matches = {each.counter: each for each in compare_with_soft_roce([flow], counters, ["h2"])}
    assert [(name, each.kernel, each.captured) for name, each in matches.items()] == [
        ("sent_pkts", 11, 11),
        ("out_of_seq_request", 1, 1),
        ("completer_retry_err", 3, 2),
    ]
    assert not matches["completer_retry_err"].agrees


def test_the_timeout_is_the_usual_one() -> None:
    assert pytest.approx(0.0671, abs=1e-4) == QP_TIMEOUT_NS / 1e9
