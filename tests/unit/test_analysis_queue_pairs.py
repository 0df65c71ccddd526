"""Finding queue pairs and what belongs to them, copies, gaps, and what was sent again needlessly."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.capture.packets import Packets
from analysis.capture.reader import read_capture
from analysis.transport.events import GO_BACK_N
from analysis.transport.queue_pairs import RoceFlow, flow_between, flows_of_roce
from analysis.transport.roce import NAK, QP_TIMEOUT, resent
from tests.unit.frames import pcap_bytes
from tests.unit.roce_capture import PAYLOAD_BYTES, RoceCapture

TIMEOUT_US = 67_200


def read(folder: Path, *captures: RoceCapture) -> Packets:
    records = sorted(record for capture in captures for record in capture.records)
    (folder / "all.pcap").write_bytes(pcap_bytes(records))
    return read_capture(folder / "all.pcap")


def flow_of(folder: Path, *captures: RoceCapture) -> RoceFlow:
    (flow,) = flows_of_roce(read(folder, *captures))
    return flow


def test_a_flow_is_found_with_both_of_its_queue_pairs(tmp_path: Path) -> None:
    packets = read(tmp_path, RoceCapture().send(0, 0, 1, 2).ack(20, 2).cnp(30))
    (flow,) = flows_of_roce(packets, {("10.0.0.2:17", "10.0.0.1:18"): "h2>h1"})
    assert (flow.name, flow.source, flow.destination) == ("h2>h1", "10.0.0.2:17", "10.0.0.1:18")
    assert (len(flow.ack_ns), len(flow.cnp_ns), flow.ack_psn.tolist()) == (1, 1, [3])
    same = flow_between(packets, "10.0.0.2:17", "10.0.0.1:18", "h2>h1")
    assert same is not None
    assert (same.ack_bytes.tolist(), same.send_order.tolist()) == (flow.ack_bytes.tolist(), flow.send_order.tolist())


def test_pairs_between_the_same_hosts_are_told_apart_by_the_packets_that_are_answered(tmp_path: Path) -> None:
    one = RoceCapture(own=17, peer=18, first_psn=100).send(0, 0, 1, 2).ack(20, 2)
    other = RoceCapture(own=19, peer=20, first_psn=5_000).send(1, 0, 1, 2).ack(21, 1).ack(22, 2)
    flows = flows_of_roce(read(tmp_path, other, one))
    assert [(flow.source, flow.destination, len(flow.ack_ns)) for flow in flows] == [
        ("10.0.0.2:17", "10.0.0.1:18", 1),
        ("10.0.0.2:19", "10.0.0.1:20", 2),
    ]


def test_a_sender_whose_pair_nothing_tells_is_named_so(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, RoceCapture().send(0, 0, 1, 2))
    assert (flow.source, flow.name) == ("10.0.0.2:?", "10.0.0.2:? > 10.0.0.1:18")


def test_of_several_pairs_without_matching_answers_none_is_guessed(tmp_path: Path) -> None:
    one, other = RoceCapture(own=17, peer=18, first_psn=100), RoceCapture(own=19, peer=20, first_psn=5_000)
    answers = RoceCapture(own=21, peer=22, first_psn=9_000).ack(20, 2)
    flows = flows_of_roce(read(tmp_path, one.send(0, 0, 1), other.send(1, 0, 1), answers))
    assert [flow.source for flow in flows] == ["10.0.0.2:?", "10.0.0.2:?"]


def test_a_number_far_off_costs_no_memory(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, RoceCapture().send(0, 0, 1).send(1, 2**22).send(2, 2**23).send(3, 3 * 2**22))
    assert flow.send_end.max() == 5 * PAYLOAD_BYTES


def test_frames_captured_twice_are_left_out(tmp_path: Path) -> None:
    capture = RoceCapture().send(0, 0, 1).send(0.11, 1).send(0.2, 2).nak(20, 1).nak(20.1, 1).send(30, 1, 2)
    flow = flow_of(tmp_path, capture)
    assert (flow.copies, flow.ack_is_nak.sum()) == (1, 1)
    assert [event.kind for event in resent(flow)] == [NAK, GO_BACK_N]


def test_congestion_notifications_are_all_alike_and_no_copies(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, RoceCapture().send(0, 0, 1, 2).ack(20, 2).cnp(30).cnp(80))
    assert (len(flow.cnp_ns), flow.copies) == (2, 0)


def test_behind_a_loss_a_number_that_comes_back_fills_a_gap(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, RoceCapture().send(0, 0, 1, 3, 4).nak(20, 2).send(30, 2, 3, 4, 5))
    assert flow.is_retransmission.tolist() == [False] * 4 + [True, True, True, False]
    assert flow.fills_gap.tolist() == [False] * 4 + [True, False, False, False]


@pytest.mark.parametrize(
    ("answered", "needless"), [(5, [True, True]), (3, [False, False]), (1, [False, False]), (9, [False, False])]
)
def test_an_answer_for_what_was_not_sent_again_proves_that_all_of_it_had_come(
    tmp_path: Path, answered: int, needless: list[bool]
) -> None:
    """The answers of 2 to 5 were lost, and the sender goes back to 2 when its timeout is over."""
    flow = flow_of(
        tmp_path,
        RoceCapture().send(0, 0, 1, 2, 3, 4, 5).ack(20, 1).send(TIMEOUT_US, 2, 3).ack(TIMEOUT_US + 9, answered),
    )
    events = resent(flow)
    assert [event.kind for event in events] == [QP_TIMEOUT, GO_BACK_N]
    assert [event.spurious for event in events] == needless
