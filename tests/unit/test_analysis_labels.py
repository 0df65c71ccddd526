"""Labels in Wireshark's terms: each of them by hand, and all of them as tshark gives them."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from analysis.capture.packets import RST, SYN
from analysis.capture.reader import read_capture
from analysis.transport import labels_tshark
from analysis.transport.labels import NAMES, labels
from analysis.transport.labels_tshark import compare, compare_with_tshark, tshark_labels
from tests.unit.frames import pcap_bytes
from tests.unit.roce_capture import RoceCapture
from tests.unit.talk import Talk
from topologies.units import BadRequest

SECOND_US = 1_000_000
FAST, SPURIOUS, AGAIN, OVERTAKEN = "fast_retransmission", "spurious_retransmission", "retransmission", "out_of_order"
LOST, ACKED_LOST, DUPLICATE = "lost_segment", "ack_lost_segment", "duplicate_ack"
KEEP, KEPT = "keep_alive", "keep_alive_ack"
PROBE, PROBED, CLOSED, FULL, UPDATE = (
    *("zero_window_probe", "zero_window_probe_ack", "zero_window"),
    *("window_full", "window_update"),
)


_ports = itertools.count(20_000)


def talk_of(*ends: str) -> Talk:
    """A conversation of its own, so that all may be in one capture."""
    return Talk((ends[0], ends[1]) if ends else ("10.0.0.2", "10.0.0.1"), ports=(next(_ports), 5_000))


def sent(*places: int) -> Talk:
    talk = talk_of().handshake()
    for number, place in enumerate(places):
        talk.send(number, 1 + 1_000 * place)
    return talk


def cases() -> dict[str, tuple[Talk, list[tuple[str, ...]]]]:
    """Conversations, and the labels of their last packets."""
    asked = sent(0, 1, 2, 3).ack(30, 1_001).ack(31, 1_001).ack(32, 1_001)
    fresh = sent(0, 1).ack(30, 2_001, window=0)
    return {
        "nothing": (sent(0, 1, 2).ack(30, 3_001), [(), (), (), ()]),
        "fast": (asked.send(50, 1_001), [(DUPLICATE,), (DUPLICATE,), (FAST,)]),
        "fast_too_late": (sent(0, 1).ack(30, 1).ack(31, 1).ack(32, 1).send(30_000, 1), [(AGAIN,)]),
        "after_silence": (sent(0, 1, 2).ack(30, 1_001).send(201_000, 1_001), [(), (AGAIN,)]),
        "tail": (sent(0, 1, 2).send(10, 2_001), [(AGAIN,)]),
        "spurious": (sent(0, 1).ack(30, 2_001).send(90, 1_001), [(), (SPURIOUS,)]),
        "overtaken": (sent(0, 2, 1), [(), (LOST,), (OVERTAKEN,)]),
        "gap": (sent(0, 2).send(100, 1_001), [(), (LOST,), (AGAIN,)]),
        "acked_unseen": (sent(0).ack(30, 3_001).ack(40, 3_001), [(), (ACKED_LOST,), (DUPLICATE,)]),
        "keep_alive": (
            sent(0).ack(30, 1_001).say(75 * SECOND_US, seq=1_000).ack(75 * SECOND_US + 9, 1_001),
            [(KEEP,), (KEPT,)],
        ),
        "keep_alive_byte": (sent(0).ack(30, 1_001).send(75 * SECOND_US, 1_000, payload=1), [(), (KEEP,)]),
        "zero_window": (fresh.ack(40, 2_001, window=0), [(CLOSED,), (CLOSED,)]),
        "probe": (
            sent(0, 1).ack(30, 2_001, window=0).send(200_000, 2_001, payload=1).ack(200_009, 2_001, window=0),
            [(CLOSED,), (PROBE,), (CLOSED, PROBED)],
        ),
        "update": (sent(0, 1).ack(30, 1_001).ack(31, 1_001, window=400), [(), (UPDATE,)]),
        "full": (sent(0).ack(30, 1_001, window=10).send(40, 1_001, payload=1_280), [(), (FULL,)]),
        "syn_again": (talk_of().say(0, seq=0, flags=SYN).say(SECOND_US, seq=0, flags=SYN), [(), (AGAIN,)]),
        "fin_again": (sent(0).close(20, 1_001).close(200_000, 1_001), [(), (AGAIN,)]),
        "reset": (sent(0).say(20, seq=9_001, flags=RST), [(), ()]),
        "copy": (sent(0, 1).again(5), [(), (AGAIN,)]),
        "ipv6": (talk_of("fe80::2", "fe80::1").send(0, 1).send(1, 1_001).send(9_000, 1), [(), (), (AGAIN,)]),
    }


@pytest.mark.parametrize("name", list(cases()))
def test_each_label_by_hand(tmp_path: Path, name: str) -> None:
    talk, expected = cases()[name]
    found = labels(talk.read(tmp_path))
    assert [set(found.of(len(talk.records) - len(expected) + place)) for place in range(len(expected))] == [
        set(each) for each in expected
    ]


def test_every_label_is_among_the_cases() -> None:
    assert {name for _, expected in cases().values() for each in expected for name in each} == set(NAMES)


def test_a_new_connection_of_the_same_ends_begins_afresh(tmp_path: Path) -> None:
    talk, again = sent(0, 1), Talk(initial=(9_000, 7_000)).handshake(50)
    talk.records += again.send(100, 1).records
    assert not labels(talk.read(tmp_path)).bits.any()


def test_what_is_not_tcp_bears_no_label(tmp_path: Path) -> None:
    (tmp_path / "roce.pcap").write_bytes(pcap_bytes(RoceCapture().send(0, 0, 1, 1).records))
    assert labels(read_capture(tmp_path / "roce.pcap")).bits.tolist() == [0, 0, 0]


# --- as tshark has it

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")


@needs_tshark
def test_tshark_says_the_same_of_all_cases(tmp_path: Path) -> None:
    path = tmp_path / "all.pcap"
    path.write_bytes(pcap_bytes([record for talk, _ in cases().values() for record in talk.records], snaplen=134))
    ours, theirs = labels(read_capture(path)), tshark_labels(path)
    assert [ours.of(row) for row in range(len(ours.bits))] == [theirs.of(row) for row in range(len(theirs.bits))]
    found = compare_with_tshark(path)
    assert (found.share, found.labelled_share) == (1, 1)


@needs_tshark
def test_a_file_that_tshark_cannot_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "no.pcap").write_text("no capture")
    with pytest.raises(BadRequest, match=r"^tshark: "):
        tshark_labels(tmp_path / "no.pcap")


def test_agreement_is_counted_overall_and_by_label(tmp_path: Path) -> None:
    talk, _ = cases()["fast"]
    other = sent(0, 1, 2, 3).ack(30, 1_001).ack(31, 1_001).ack(32, 1_001).send(50, 5_001)
    found = compare(labels(talk.read(tmp_path)), labels(other.read(tmp_path)))
    kinds = {each.name: (each.both, each.ours, each.theirs) for each in found.kinds}
    assert (found.packets, found.same, found.labelled) == (11, 10, 3)
    assert (found.share, found.labelled_share) == (pytest.approx(10 / 11), pytest.approx(2 / 3))
    assert (kinds[DUPLICATE], kinds[FAST], kinds[LOST]) == ((2, 0, 0), (0, 1, 0), (0, 0, 1))


def test_labels_of_different_captures_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="of 4 and of 5 packets"):
        compare(labels(sent(0).read(tmp_path)), labels(sent(0, 1).read(tmp_path)))


def test_a_missing_tshark_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_words: Any, **_more: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(labels_tshark.subprocess, "run", missing)
    with pytest.raises(BadRequest, match="tshark: is not installed"):
        tshark_labels(tmp_path / "any.pcap")


def test_a_tshark_that_does_not_end_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_words: Any, **_more: Any) -> None:
        raise subprocess.TimeoutExpired("tshark", 1)

    monkeypatch.setattr(labels_tshark.subprocess, "run", endless)
    with pytest.raises(BadRequest, match="took longer"):
        tshark_labels(tmp_path / "any.pcap")
