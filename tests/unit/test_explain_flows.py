"""Blocks, series, gaps and the numbers of a flow's story, each from a capture whose truth is known."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.explain.explain import explain
from analysis.explain.gaps import Gaps, filled
from analysis.explain.merging import merged
from analysis.explain.model import FlowStory, Series
from analysis.explain.series import MOST_BINS, bin_ns_of
from analysis.explain.series import merged as merged_series
from tests.unit.explained_path import SEGMENT, FlowPath, lossy_path
from tests.unit.frames import ISN, T0_NS, Capture, pcap_bytes, tcp_frame


def story(path: Path) -> FlowStory:
    (flow,) = explain([path]).flows
    return flow


# --- gaps


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), min_size=1, max_size=40))
def test_gaps_are_what_a_set_of_positions_tells(packets: list[tuple[int, int]]) -> None:
    start = np.array([first for first, _ in packets])
    end = start + np.array([size for _, size in packets])
    brings, gaps = filled(start, end)
    seen: set[int] = set()
    for index, (first, last) in enumerate(zip(start.tolist(), end.tolist())):
        own = set(range(first, last))
        skipped = set(range(int(start[0]), max(seen, default=first))) - seen
        assert brings[index] == bool(own & skipped)
        seen |= own
    assert gaps.total == len(set(range(int(start[0]), max(seen) + 1)) - seen)


def test_a_gap_filled_in_its_middle_becomes_two() -> None:
    gaps = Gaps()
    gaps.skip(10, 20)
    assert gaps.fill(12, 15) == 3
    assert gaps.fill(12, 15) == 0
    assert gaps.spans == [(10, 12), (15, 20)]
    assert gaps.fill(0, 30) == 7
    assert gaps.spans == []


def test_what_was_overtaken_is_no_loss(tmp_path: Path) -> None:
    """The third segment comes last, by its identification: nothing was lost. One that was sent again is a loss, but for
    where its original comes yet."""
    overtaken, needless = FlowPath(), FlowPath()
    for path in (overtaken, needless):
        for place in range(6):
            path.send(1000 * place, SEGMENT * place)
    for path, number in ((overtaken, 6), (needless, 7)):
        path.send(10_000, 2 * SEGMENT, payload=SEGMENT) if path is needless else None
        frame = path.records["port"].pop(2)[1]
        path.records["port"].append((T0_NS + 1_000_000 * number, frame))
    for name, path, kinds in (("a", overtaken, 6), ("b", needless, 7)):
        flow = story(path.write(tmp_path / name)["port"])
        assert (flow.upstream_losses, flow.packets) == (0, kinds)
    assert story(lossy_path().write(tmp_path / "c")["port"]).upstream_losses == 1


# --- blocks


def bursts(*begin_us: float, of: int = 3) -> Capture:
    """Bursts of a few segments, each acknowledged 50 us after its last one."""
    capture, sent = Capture(), 0
    for at_us in begin_us:
        for place in range(of):
            capture.send(at_us + place, SEGMENT * (sent + place))
        sent += of
        capture.ack(at_us + of + 50, SEGMENT * sent)
    return capture


def test_bursts_between_idle_times_are_blocks(tmp_path: Path) -> None:
    found = story(bursts(0, 10_000, 30_000).write(tmp_path / "a.pcap")).blocks
    assert [(block.start, block.end) for block in found] == [(0, 3000), (3000, 6000), (6000, 9000)]
    assert [block.begin_ns - T0_NS for block in found] == [0, 10_000_000, 30_000_000]
    assert [block.number for block in found] == [1, 2, 3]


def test_a_timeout_begins_no_block(tmp_path: Path) -> None:
    """Something is outstanding meanwhile."""
    capture = Capture().send(0, 0).send(1, 1000).ack(50, 1000).send(200_000, 1000).ack(200_050, 2000)
    (block,) = story(capture.send(200_051, 2000).ack(200_100, 3000).write(tmp_path / "a.pcap")).blocks
    assert (block.start, block.end, block.seconds) == (0, 3000, pytest.approx(0.2001))


def test_a_block_that_is_not_acknowledged_has_no_end(tmp_path: Path) -> None:
    capture = bursts(0, 10_000)
    capture.records.pop()
    first, second = story(capture.write(tmp_path / "a.pcap")).blocks
    assert first.end_ns is not None
    assert (second.end_ns, second.seconds) == (None, None)


def test_a_request_begins_a_block_and_its_time_counts(tmp_path: Path) -> None:
    """Answers follow each other at once; what divides them is that they were asked for."""
    source, destination = "10.0.0.2:20000", "10.0.0.1:5000"
    records, asked, sent, at_ns = [], 0, 0, T0_NS
    for _ in range(3):
        records.append((at_ns, tcp_frame(destination, source, 1 + asked, ISN + sent, 10)))
        asked += 10
        records.append((at_ns + 5_000, tcp_frame(source, destination, ISN + sent, 1 + asked, 1000)))
        sent += 1000
        at_ns += 60_000
    records.append((at_ns, tcp_frame(destination, source, 1 + asked, ISN + sent)))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes(records))
    answers = next(flow for flow in explain([path]).flows if flow.source == source)
    assert [block.asked_ns for block in answers.blocks] == [T0_NS, T0_NS + 60_000, T0_NS + 120_000]


# --- series


def test_series_add_up_to_the_story(tmp_path: Path) -> None:
    flow = story(lossy_path().write(tmp_path)["sender"])
    series = flow.series
    assert series is not None
    assert series.sent_bytes.sum() == flow.payload_bytes == 7 * SEGMENT
    assert series.delivered_bytes.sum() == flow.delivered_bytes == 6 * SEGMENT
    assert series.resent.sum() == flow.resent == 1
    assert series.in_flight_bytes.max() == 6 * SEGMENT
    assert len(series.sent_bytes) <= MOST_BINS


def test_what_is_in_flight_stays_so_while_nothing_passes(tmp_path: Path) -> None:
    series = story(lossy_path().write(tmp_path)["sender"]).series
    assert series is not None
    middle = series.in_flight_bytes[len(series.in_flight_bytes) // 2]
    assert middle == 4 * SEGMENT  # six sent, two acknowledged, through 200 ms of silence


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**12), st.integers(0, 10**15))
def test_bins_are_few_and_lie_on_each_other(begin_ns: int, lasts_ns: int) -> None:
    bin_ns = bin_ns_of(begin_ns, begin_ns + lasts_ns)
    first = begin_ns - begin_ns % bin_ns
    assert bin_ns & (bin_ns - 1) == 0
    assert (begin_ns + lasts_ns - first) // bin_ns + 1 <= MOST_BINS


def series_of(begin_ns: int, bin_ns: int, count: int) -> Series:
    ones = np.ones(count, np.int64)
    return Series(begin_ns, bin_ns, ones, ones, 5 * ones, ones * 7.0, ones, ones, ones)


def test_parts_of_a_series_add_up() -> None:
    whole = merged_series([series_of(1 << 20, 1 << 10, 100), series_of(1 << 22, 1 << 12, 50)])
    assert (whole.sent_bytes.sum(), whole.in_flight_bytes.max(), np.nanmax(whole.rtt_ns)) == (150, 5, 7.0)
    assert len(whole.sent_bytes) <= MOST_BINS
    assert whole.begin_ns <= 1 << 20


# --- the numbers of a story


def test_zero_windows_count_until_the_window_opens(tmp_path: Path) -> None:
    capture = Capture().send(0, 0).ack(50, 1000, window=0).ack(5_000, 1000, window=0).ack(9_050, 1000)
    flow = story(capture.send(9_060, 1000).ack(9_100, 2000).write(tmp_path / "a.pcap"))
    assert (flow.zero_windows, flow.zero_window_ns) == (2, 9_000_000)


def test_one_direction_alone_is_told_with_what_is_missing(tmp_path: Path) -> None:
    path = lossy_path()
    only = [record for record in path.records["port"] if record[1][26:30] == b"\x0a\x00\x00\x02"]
    path.records["port"] = only
    flow = story(path.write(tmp_path)["port"])
    assert not flow.both_ways
    assert flow.rtt_median_ns is None
    assert flow.delivered_bytes == 6 * SEGMENT
    assert any("only this direction" in note for note in flow.notes)


def test_a_capture_that_missed_packets_is_told(tmp_path: Path) -> None:
    path = FlowPath().connect(0)
    for place in range(5):
        path.send(100_000 + 1000 * place, SEGMENT * place)
    path.ack(140_000, 5 * SEGMENT)
    del path.records["port"][5]
    flow = story(path.write(tmp_path)["port"])
    assert flow.gaps == SEGMENT
    assert any("1,000 bytes were acknowledged that this capture does not have" in note for note in flow.notes)


def test_parts_of_a_flow_make_one_story(tmp_path: Path) -> None:
    flow = story(lossy_path().write(tmp_path)["sender"])
    (whole,) = merged([flow, flow])
    assert (whole.packets, whole.payload_bytes, len(whole.repeats)) == (14, 14 * SEGMENT, 2)
    assert whole.kinds == {kind: 2 * count for kind, count in flow.kinds.items()}
    assert (whole.rtt_min_ns, whole.rtt_median_ns) == (flow.rtt_min_ns, flow.rtt_median_ns)
    assert [block.number for block in whole.blocks] == list(range(1, len(whole.blocks) + 1))
    assert "in 2 parts" in whole.notes[0]
    assert {each.name for each in fields(FlowStory)} == set(vars(whole))


def test_connections_of_the_same_endpoints_are_told_and_joined_apart(tmp_path: Path) -> None:
    """The second one begins 1 s later, with another initial sequence number, which its identifications go on from."""
    first, second = FlowPath().connect(0), FlowPath(isn=12_345)
    second.sent = 500
    second.connect(1_000_000_000)
    for path, begin_ns in ((first, 0), (second, 1_000_000_000)):
        for place in range(5):
            path.send(begin_ns + 100_000 + 1000 * place, SEGMENT * place)
        path.ack(begin_ns + 150_000, 5 * SEGMENT)
    for name, records in second.records.items():
        first.records[name] += records
    paths = first.write(tmp_path)
    found = explain([paths["sender"], paths["port"]])
    assert sorted(flow.name[-4:] for flow in found.once) == [" (2)", "5000"]
    assert all(flow.handshake and flow.rtt_min_ns for flow in found.flows)
    assert [(hop.paired, len(hop.lost_ns)) for hop in found.hops] == [(5, 0), (5, 0)]
