"""Pause frames in captures: spans by quanta, who held whom, circles and storms, and what held a flow."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.capture.packets import Damage
from analysis.capture.reader import read_capture
from analysis.explain.model import Explanation, PausedLink, PauseStory, PauseTree, Point
from analysis.explain.pause_findings import pause_findings
from analysis.explain.pauses import holding, pause_stories, spans_of, storms, tree
from tests.unit.frames import T0_NS, pcap_bytes

GBPS_10 = 10**10  # a quantum is 51.2 ns
QUANTUM_NS = 51.2
PORT, HOST = "02:01:00:00:00:01", "00:00:00:00:00:01"


def pfc(source: str, quanta: dict[int, int]) -> bytes:
    """A frame of priority-based flow control (IEEE 802.1Qbb)."""
    told = [quanta.get(each, 0) for each in range(8)]
    classes = sum(1 << each for each in quanta)
    return _frame(source, struct.pack(">HH8H", 0x0101, classes, *told))


def pause(source: str, quanta: int) -> bytes:
    """A PAUSE frame (IEEE 802.3 annex 31B)."""
    return _frame(source, struct.pack(">HH", 0x0001, quanta))


def _frame(source: str, body: bytes) -> bytes:
    header = bytes.fromhex("0180c2000001") + bytes.fromhex(source.replace(":", "")) + b"\x88\x08"
    return (header + body).ljust(60, b"\0")


def point(name: str = "leaf1-eth1", length_ns: int = 10**9) -> Point:
    return Point(name, name, 0, 0, 0, 0, 0, 0, 0, T0_NS, T0_NS + length_ns, Damage())


def stories(folder: Path, frames: list[tuple[int, bytes]], rate_bps: int | None = GBPS_10) -> list[PauseStory]:
    path = folder / "pauses.pcap"
    path.write_bytes(pcap_bytes([(T0_NS + at_ns, frame) for at_ns, frame in frames]))
    return pause_stories(read_capture(path), point(), rate_bps)


def since(story: PauseStory) -> list[tuple[int, int]]:
    return [(start - T0_NS, end - T0_NS) for start, end in story.spans]


def test_a_pause_lasts_for_its_quanta(tmp_path: Path) -> None:
    (story,) = stories(tmp_path, [(0, pfc(PORT, {3: 1000}))])
    assert (story.source, story.priority, story.pauses, story.resumes) == (PORT, 3, 1, 0)
    assert since(story) == [(0, round(1000 * QUANTUM_NS))]


def test_quanta_of_0_end_it_and_a_refresh_begins_anew(tmp_path: Path) -> None:
    frames = [(0, {3: 1000}), (40_000, {3: 1000}), (60_000, {3: 0}), (100_000, {3: 100}), (200_000, {3: 0})]
    (story,) = stories(tmp_path, [(at_ns, pfc(PORT, quanta)) for at_ns, quanta in frames])
    assert since(story) == [(0, 60_000), (100_000, 105_120)]
    assert (story.pauses, story.resumes) == (3, 2)
    assert (story.total_ns, story.longest_ns) == (65_120, 60_000)


def test_a_refresh_that_comes_too_late_leaves_a_gap(tmp_path: Path) -> None:
    (story,) = stories(tmp_path, [(0, pfc(PORT, {3: 100})), (10_000, pfc(PORT, {3: 100}))])
    assert since(story) == [(0, 5_120), (10_000, 15_120)]


def test_classes_and_sources_and_the_older_pause_are_kept_apart(tmp_path: Path) -> None:
    frames = [(0, pfc(PORT, {3: 10, 4: 20})), (1, pause(HOST, 30)), (2, pfc(HOST, {3: 40}))]
    told = {(each.source, each.priority): since(each)[0][1] for each in stories(tmp_path, frames)}
    assert told == {(PORT, 3): 512, (PORT, 4): 1024, (HOST, None): 1 + 1536, (HOST, 3): 2 + 2048}


def test_without_a_rate_a_span_ends_with_the_frame_that_ends_it(tmp_path: Path) -> None:
    frames = [
        (0, pfc(PORT, {3: 1})),
        (40_000, pfc(PORT, {3: 0})),
        (50_000, pfc(PORT, {3: 1})),
        (70_000, pfc(PORT, {3: 1})),
    ]
    (story,) = stories(tmp_path, frames, rate_bps=None)
    assert since(story) == [(0, 40_000), (50_000, 70_000)]


@pytest.mark.parametrize("rate_bps", [10**9, 4 * 10**11])
def test_quanta_are_of_512_bits_at_the_links_rate(rate_bps: int) -> None:
    ((start, end),) = spans_of(np.array([5]), np.array([65_535]), rate_bps)
    assert end - start == 65_535 * 512 * 10**9 // rate_bps


def test_a_capture_without_pause_frames_has_no_story(tmp_path: Path) -> None:
    assert stories(tmp_path, [(0, bytes(60))]) == []


# --- what held a flow


def held(source: str, *spans: tuple[int, int], at: str = "leaf1-eth1") -> PauseStory:
    total = sum(end - start for start, end in spans)
    longest = max((end - start for start, end in spans), default=0)
    return PauseStory(source, at, 3, len(spans), len(spans), spans, total, longest)


def test_frames_from_where_acknowledgements_come_from_hold_the_data() -> None:
    far, own, port = held("far", (0, 10)), held("own", (20, 30)), held(PORT, (40, 50))
    assert holding([far, own, port], ["own"], ["far"], is_sender=False) == [(0, 10)]
    assert holding([far, own, port], ["own"], ["far"], is_sender=True) == [(0, 10), (40, 50)]


# --- trees


def fabric(*wires: tuple[str, int, str, int]) -> dict[str, Any]:
    """A document of hosts h1, h2, ... and switches, with such wires."""
    nodes = dict.fromkeys(end for wire in wires for end in (wire[0], wire[2]))
    hosts = [each for each in nodes if each.startswith("h")]
    return {
        "switches": [{"name": each, "tier": 1} for each in nodes if each not in hosts],
        "hosts": [{"name": h, "ip": f"10.0.0.{h[1:]}", "mac": f"00:00:00:00:00:0{h[1:]}"} for h in hosts],
        "wires": [{"a": a, "a_port": m, "b": b, "b_port": n, "rate_bps": GBPS_10} for a, m, b, n in wires],
    }


STAR = fabric(("h1", 0, "leaf1", 1), ("h2", 0, "leaf1", 2))


def test_a_switch_that_pauses_its_host_is_the_root() -> None:
    told = tree([held("02:01:00:00:00:02", (0, 10), (20, 50), at="h2-eth0")], STAR)
    (link,) = told.links
    assert (link.sender, link.receiver, link.times, link.held_ns, link.depth) == ("h2", "leaf1", 2, 40, 1)
    assert (told.roots, told.circle) == (("leaf1",), ())


def test_a_stuck_host_is_the_root_and_its_switch_the_branch() -> None:
    stuck = held("00:00:00:00:00:01", (0, 100), at="leaf1-eth1")
    passed_on = held("02:01:00:00:00:02", (10, 100), at="h2-eth0")
    told = tree([passed_on, stuck], STAR)
    assert [(link.sender, link.receiver, link.depth) for link in told.links] == [("leaf1", "h1", 1), ("h2", "leaf1", 2)]
    assert told.roots == ("h1",)


def test_a_link_that_two_captures_saw_counts_once() -> None:
    spans = ((0, 10), (20, 50))
    told = tree([held("02:01:00:00:00:02", *spans, at=at) for at in ("h2-eth0", "leaf1-eth2")], STAR)
    assert [(link.times, link.held_ns) for link in told.links] == [(2, 40)]


RING = fabric(("s1", 1, "s2", 2), ("s2", 1, "s3", 2), ("s3", 1, "s1", 2))


def around(last: tuple[int, int]) -> list[PauseStory]:
    """s2 holds s1, s3 holds s2, and s1 holds s3 at the time `last`."""
    spans = ((0, 100), (50, 100), last)
    return [held(f"02:01:00:00:00:0{wire}", span, at=f"s{wire}-eth1") for wire, span in enumerate(spans, start=1)]


def test_switches_that_all_wait_at_one_moment_make_a_circle() -> None:
    told = tree(around((90, 120)), RING)
    assert sorted(told.circle) == ["s1", "s2", "s3"]
    assert (told.roots, [link.depth for link in told.links]) == ((), [None] * 3)


def test_the_same_links_held_one_after_the_other_make_none() -> None:
    assert tree(around((110, 120)), RING).circle == ()


def test_without_a_fabric_addresses_and_points_stand_for_nodes() -> None:
    told = tree([held(PORT, (0, 10), at="a capture")])
    assert [(link.sender, link.receiver) for link in told.links] == [("the other side at a capture", PORT)]
    assert "MAC addresses" in told.because


@pytest.mark.parametrize("document", [{}, {"hosts": []}, {"hosts": [1], "switches": [], "wires": []}])
def test_a_document_that_is_no_fabric_is_as_none(document: dict[str, Any]) -> None:
    assert tree([held(PORT, (0, 10))], document).links[0].receiver == PORT


def test_no_pauses_no_tree() -> None:
    assert tree([]) == PauseTree()
    assert tree([held(PORT)]) == PauseTree()


# --- storms, and sentences


def test_a_storm_is_one_long_pause() -> None:
    stuck, busy = held(HOST, (0, 600_000_000)), held(PORT, *((at, at + 1) for at in range(0, 10**6, 10)))
    assert storms([stuck, busy], [point()]) == [stuck]


def test_a_long_pause_of_a_short_capture_is_no_storm() -> None:
    assert storms([held(HOST, (0, 1_000_000))], [point(length_ns=1_000_000)]) == []


LINK, NO_TREE = PausedLink("s1", "h1", 1, 10, 1), PauseTree()


def explanation(*pauses: PauseStory, pause_tree: PauseTree = NO_TREE, **facts: Any) -> Explanation:
    return Explanation((point(),), (), (), pauses, (), (), None, None, None, facts, pause_tree)


def test_a_circle_comes_first_then_a_storm_then_the_tree() -> None:
    stuck = held(HOST, (0, 600_000_000))
    found = PauseTree((LINK,), roots=("h1",), circle=("s1", "s2"), because="fabric.json names the ends")
    told = pause_findings(explanation(stuck, pause_tree=found, rate_bps=GBPS_10))
    assert "s1 waits for s2 waits for s1" in told[0].text
    assert "pause storm" in told[1].text
    assert (
        told[2].text == "1 pause frame held 1 link for 600 ms in all, 600 ms at the longest; the congestion is at h1."
    )


def test_pauses_by_an_unknown_rate_are_unsure() -> None:
    told = pause_findings(explanation(held(PORT, (0, 10)), pause_tree=PauseTree((LINK,))))
    assert [each.confidence for each in told] == ["unsure"]


def test_no_pauses_no_sentence() -> None:
    assert pause_findings(explanation()) == []
