"""Captures of any size: pieces in which flows are whole, files for what memory does not hold, cuts, and counts."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from analysis.explain import conversations, gathering
from analysis.explain.cutting import best_cut
from analysis.explain.document import document
from analysis.explain.explain import explain
from analysis.explain.gathering import gather
from analysis.explain.known import Known
from analysis.explain.model import FlowStory
from analysis.explain.spool import Spooled
from analysis.explain.stories import tell
from tests.unit.explained_path import SEGMENT, FlowPath, lossy_path
from tests.unit.frames import T0_NS, Capture, pcap_bytes, tcp_frame


def many_flows(path: Path, count: int) -> Path:
    """Flows one after the other, five packets each at the port: the third of three segments is lost and repeated."""
    records = []
    for number in range(count):
        flow = FlowPath(source=f"10.1.{number // 250}.{number % 250}:20000")
        for place in range(3):
            flow.send(number * 10_000 + 1000 * place, SEGMENT * place, lost=place == 1)
        flow.send(number * 10_000 + 200_000_000, SEGMENT).ack(number * 10_000 + 200_040_000, 3 * SEGMENT)
        records += flow.records["port"]
    path.write_bytes(pcap_bytes(sorted(records, key=lambda record: record[0])))
    return path


def comparable(path: Path, most_packets: int) -> dict[str, object]:
    found = document(explain([path], most_packets=most_packets))
    return {key: value for key, value in found.items() if key not in ("facts",)}


def test_a_spooled_capture_tells_the_same_as_one_in_memory(tmp_path: Path) -> None:
    path = many_flows(tmp_path / "a.pcap", 300)
    assert comparable(path, 100) == comparable(path, 10**6)


def test_every_flow_is_whole_in_one_piece_and_in_the_captures_order(tmp_path: Path) -> None:
    path = many_flows(tmp_path / "a.pcap", 300)
    pieces = [piece.packets for piece in gather(str(path), most_packets=50).pieces]
    assert len(pieces) > 10
    assert all(len(piece) <= 50 for piece in pieces)
    assert all((np.diff(piece.number) > 0).all() for piece in pieces)
    homes: dict[int, int] = {}
    for place, piece in enumerate(pieces):
        for key in conversations.conversation_keys(piece, np.arange(len(piece))).tolist():
            assert homes.setdefault(key, place) == place
    assert sorted(number for piece in pieces for number in piece.number.tolist()) == list(range(1, 1201))


def test_temporary_files_go_with_the_last_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    path = many_flows(tmp_path / "a.pcap", 100)
    explain([path], most_packets=50)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/none")
    with pytest.raises(RuntimeError, match="temporary files of a long capture cannot be written"):
        explain([many_flows(tmp_path / "a.pcap", 100)], most_packets=50)


def long_flow(path: Path, bursts: int, idle: bool) -> Path:
    """One flow in bursts of four segments; idle: all acknowledged in between, else one stays outstanding."""
    capture = Capture()
    for burst in range(bursts):
        for place in range(4):
            capture.send(burst * 1000 + place, SEGMENT * (4 * burst + place))
        capture.ack(burst * 1000 + 100, SEGMENT * (4 * burst + (4 if idle else 3)))
    return capture.write(path)


def test_a_long_flow_is_cut_where_nothing_is_outstanding(tmp_path: Path) -> None:
    path = long_flow(tmp_path / "a.pcap", 60, idle=True)
    pieces = list(gather(str(path), most_packets=40).pieces)
    assert len(pieces) > 3
    assert not any(piece.is_cut for piece in pieces)
    (whole,), (parts,) = explain([path]).flows, explain([path], most_packets=40).flows
    apart = ("notes", "series", "blocks", "stalls", "repeats", "rtt_p99_ns")
    assert _without(parts, apart) == _without(whole, apart)
    assert [(block.start, block.end) for block in parts.blocks] == [(block.start, block.end) for block in whole.blocks]
    assert "not known whether it was sent again" not in parts.notes[0]


def _without(story: FlowStory, names: Sequence[str]) -> dict[str, object]:
    return {name: value for name, value in vars(story).items() if name not in names}


def test_a_flow_with_data_always_outstanding_is_cut_and_that_is_told(tmp_path: Path) -> None:
    path = long_flow(tmp_path / "a.pcap", 60, idle=False)
    (flow,) = explain([path], most_packets=40).flows
    assert "not known whether it was sent again" in flow.notes[0]
    assert flow.payload_bytes == 240 * SEGMENT


def test_a_cut_is_behind_its_earliest_place(tmp_path: Path) -> None:
    (piece,) = gather(str(long_flow(tmp_path / "a.pcap", 10, idle=True))).pieces
    assert [best_cut(piece.packets, earliest).place for earliest in (1, 20, 44)] == [45, 45, 45]
    assert best_cut(piece.packets, 20).is_idle
    assert not best_cut(piece.packets, 47).is_idle


def test_of_many_conversations_the_largest_are_told_and_the_others_counted(tmp_path: Path) -> None:
    capture = Capture()
    for number in range(50):
        each = (
            Capture(source=f"10.0.9.{number}:1").send(number, 0, payload=100 + number).ack(number + 0.5, 100 + number)
        )
        capture.records += each.records
    capture.records += [(T0_NS + 10**6, tcp_frame(f"10.0.8.{number}:1", "10.0.0.1:5000", 1, 1)) for number in range(30)]
    (piece,) = gather(str(capture.write(tmp_path / "a.pcap"))).pieces
    found = tell(piece.packets, gather(str(tmp_path / "a.pcap")).point, Known(), most=20)
    assert sorted(story.payload_bytes for story in found.stories) == list(range(130, 150))
    assert (found.counted.conversations, found.counted.with_data, found.counted.untold) == (80, 50, 30)
    assert found.counted.untold_bytes == sum(range(100, 130))


def test_a_scan_of_many_connections_takes_no_time_for_each(tmp_path: Path) -> None:
    records = [
        (
            T0_NS + number,
            tcp_frame(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1", "10.0.0.1:80", 1, 0, flags=2),
        )
        for number in range(20_000)
    ]
    (tmp_path / "a.pcap").write_bytes(pcap_bytes(records))
    found = explain([tmp_path / "a.pcap"])
    assert found.flows == ()
    assert found.facts["conversations"]["a"]["conversations"] == 20_000


def test_keys_do_not_depend_on_the_direction(tmp_path: Path) -> None:
    (piece,) = gather(str(lossy_path().write(tmp_path)["port"])).pieces
    assert len(set(conversations.conversation_keys(piece.packets, np.arange(len(piece.packets))).tolist())) == 1


def test_an_empty_capture_is_one_empty_piece(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap_bytes([]))
    found = gather(str(tmp_path / "a.pcap"))
    assert [len(piece.packets) for piece in found.pieces] == [0]
    assert (found.point.packets, found.point.first_ns, found.point.name) == (0, 0, "a")
    assert explain([tmp_path / "a.pcap"]).flows == ()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("-", "stdin"),
        ("x/leaf1-eth1.pcap", "leaf1-eth1"),
        ("a.pcapng.gz", "a"),
        ("b.PCAP.zst", "b"),
        (".pcap", ".pcap"),
    ],
)
def test_a_point_is_called_by_its_file(path: str, name: str) -> None:
    assert gathering.point_name(path) == name


def test_what_a_file_holds_is_read_in_slices(tmp_path: Path) -> None:
    record = np.dtype([("number", np.int64)])
    spooled = Spooled(tmp_path / "1", record)
    spooled.add(np.arange(10).astype(record), np.full(10, 7, np.uint64))
    assert [columns["number"].tolist() for columns in spooled.slices(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert spooled.is_one
    spooled.add(np.arange(1).astype(record), np.full(1, 8, np.uint64))
    assert not spooled.is_one
