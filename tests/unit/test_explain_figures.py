"""Figures from captures alone: what is drawn equals what was found, hostile names are harmless, reasons are given."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.explain import figures_flows, figures_path, figures_sequence
from analysis.explain.figures import NAMES, draw_all
from analysis.explain.figures_common import edges_ns, rates_bps
from analysis.explain.model import Explanation, FlowStory, Hop, Point
from analysis.explain.time_axis import axis_of
from analysis.figures.style import Skipped
from tests.unit.artists import across, bars, heights, points, told, widths
from tests.unit.explained import END_NS, MS, explanation, flow
from tests.unit.frames import T0_NS, Capture

EVIL = "_$\\frac{1}{0}$</title><script>alert(1)</script>\n\x00\x1b[31m\u202e" + "x" * 200
EMPTY = Explanation((), (), (), (), (), (), None, None, None)


def test_every_figure_is_drawn_and_equal_values_give_equal_bytes(tmp_path: Path) -> None:
    for copy in ("a", "b"):
        found = draw_all(explanation(), tmp_path / copy)
        assert [each.name for each in found] == list(NAMES)
        assert all(each.path and each.title and each.caption for each in found), found
    for name in NAMES:
        assert (tmp_path / "a" / f"{name}.png").read_bytes() == (tmp_path / "b" / f"{name}.png").read_bytes()


def test_hostile_names_neither_warn_nor_fail(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = draw_all(explanation(EVIL, EVIL), tmp_path)
    assert all(each.path for each in found)
    assert not any(set(each.title) & set("\n\x00\x1b\u202e") for each in found)


def test_of_nothing_every_figure_says_why_it_is_not_drawn(tmp_path: Path) -> None:
    reasons = {each.name: each.reason for each in draw_all(EMPTY, tmp_path)}
    assert all(reasons.values())
    assert reasons["pauses"] == "no pause frame was captured"
    assert reasons["delay"] == reasons["losses"] == "a flow has to be captured at two points for this"
    assert not list(tmp_path.iterdir())


def test_gantt_bars_are_blocks_and_stalls() -> None:
    figure, title, _ = figures_flows.gantt(explanation("h2"))
    (axes,) = figure.axes
    assert [each[:2] for each in bars(axes, "rto_tail_loss")] == [(100, 300)]
    assert [each[:2] for each in bars(axes, "block on its way")] == [
        (0, 100),
        (300, 400),
    ] * 2  # the last one is not finished
    assert title == "2 stalls of 2 flows by network or transport; longest: h2: 200 ms, rto_tail_loss"


def test_waiting_for_others_is_no_stall_by_the_network() -> None:
    idle = flow("h2", "h2-eth0", cause="application_idle")
    found = replace(explanation("h2"), flows=(idle,))
    figure, title, _ = figures_flows.gantt(found)
    assert title == "No stall of 1 flow by network or transport was found"
    assert [each[:2] for each in bars(figure.axes[0], "application_idle")] == [(100, 300)]
    _, title, _ = figures_sequence.sequence(found)
    assert title == "h2 sends 1 packet again; neither network nor transport ever makes it stand still"


def test_goodput_adds_up_to_what_was_delivered() -> None:
    story = flow("h2", "h2-eth0")
    edges = edges_ns([story])
    assert (edges[0], edges[-1]) == (T0_NS, END_NS)
    assert (rates_bps(story, edges) * np.diff(edges) / 8e9).sum() == pytest.approx(story.delivered_bytes)
    figure, title, _ = figures_flows.goodput(replace(explanation("h2"), flows=(story,)))
    patch: Any = figure.axes[0].patches[0]
    values, places, _ = patch.get_data()
    assert values.tolist() == pytest.approx(rates_bps(story, edges).tolist())
    assert (len(values), places[-1]) == (40, 400 * MS)
    assert title == "1 flow: 2.9 Mb/s on average"


def test_many_flows_of_one_size_are_one_area() -> None:
    many = tuple(flow(f"h{number}", "hot") for number in range(2, 66))
    figure, title, _ = figures_flows.goodput(replace(explanation("h2"), flows=many))
    assert told(figure.legends[0]) == ["all 64 flows"]
    assert title.startswith("64 flows: 185 Mb/s")
    one_is_large = (replace(many[0], delivered_bytes=10**9), *many[1:])
    figure, _, _ = figures_flows.goodput(replace(explanation("h2"), flows=one_is_large))
    names = set(told(figure.legends[0]))
    assert {"h2", "the other 58 flows"} <= names


def test_a_flow_seen_at_two_points_is_one_row() -> None:
    seen_twice = (flow("h2", "h2-eth0"), replace(flow("h2", "leaf1-eth1"), stalls=()))
    stories = replace(explanation("h2"), flows=seen_twice).once
    assert [(story.name, story.point) for story in stories] == [("h2", "h2-eth0")]


def test_flows_to_one_place_are_named_by_their_sources() -> None:
    def to_one(source: str) -> FlowStory:
        return replace(flow(f"{source} > d:1", "p"), source=source, destination="d:1")

    figure, _, _ = figures_flows.gantt(replace(explanation(), flows=(to_one("10.0.0.2:5"), to_one("10.0.0.3:5"))))
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["10.0.0.2:5", "10.0.0.3:5"]


def test_round_trips_are_the_series() -> None:
    figure, _, _ = figures_flows.round_trips(explanation("h2"))
    assert {tuple(heights(line)) for line in figure.axes[0].lines[:2]} == {(50e-6,) * 40}


def test_the_tail_is_of_the_blocks_that_were_seen_to_their_end() -> None:
    figure, title, _ = figures_flows.tail(explanation("h2"))
    assert title == "2 blocks: p50 100 ms, slowest 100 ms"
    assert across(figure.axes[0].lines[0]) == [0.1, 0.1]


def hop(first: str, second: str, delays_ns: list[int], lost: int, same_clock: bool = True) -> Hop:
    times = T0_NS + np.arange(len(delays_ns), dtype=np.int64) * MS
    lost_ns = np.full(lost, T0_NS + MS, np.int64)
    delays = np.array(delays_ns, np.int64)
    return Hop("f", first, second, len(delays_ns), 1, 2, 3, lost_ns, lost_ns, 0, same_clock, times, delays)


def test_delays_are_those_of_the_point_before_which_packets_were_lost() -> None:
    hops = (hop("h2", "leaf1", [900, 5900], 2), hop("leaf1", "h1", [500] * 9, 0))
    figure, title, caption = figures_path.delay(replace(explanation(), hops=hops))
    assert title == "Packets wait up to 5 µs on their way to leaf1, 2.5 µs in the median; 2 packets lost"
    assert points(figure.axes[0].lines[0]) == [[0, 0.9], [MS, 5.9]]
    assert "of one clock" in caption


def test_on_different_clocks_delays_are_told_beyond_the_least() -> None:
    hops = (hop("h2", "leaf1", [-900, 100], 0, same_clock=False),)
    figure, _, caption = figures_path.delay(replace(explanation(), hops=hops))
    assert heights(figure.axes[0].lines[0]) == [0, 1]
    assert figure.axes[0].get_ylabel() == "delay beyond the least (µs)"
    assert "clocks differ" in caption


def test_losses_are_told_by_the_way_they_happened_on() -> None:
    hops = (hop("h2", "leaf1", [1] * 98, 2), hop("h2", "leaf1", [1] * 99, 1), hop("h3", "leaf1", [1] * 50, 0))
    figure, title, _ = figures_path.losses(replace(explanation(), hops=hops))
    assert widths(figure.axes[0]) == [pytest.approx(1.5), 0]
    assert [text.get_text() for text in figure.axes[0].texts] == ["3 of 200", "0 of 50"]
    assert title == "3 packets lost, 100% of them on the way to leaf1"


def test_pauses_are_the_spans() -> None:
    figure, title, _ = figures_path.pauses(explanation("02:00:00:00:00:01"))
    assert [each[:2] for each in bars(figure.axes[0], "held")] == [(10, 20), (30, 35)]
    assert title == "4 pause frames from 1 source; 02:00:00:00:00:01 holds its neighbour for 15 ms, 4% of the time"


def test_silences_are_cut_short_and_told() -> None:
    axis = axis_of(0, 1000, np.array([[0, 10], [500, 520], [990, 1000]]))
    assert axis.silences == [(10, 500), (520, 990)]
    gap = 0.03 * 40
    assert axis.place(np.array([0, 10, 500, 520, 990, 1000])).tolist() == pytest.approx(
        [0, 10, 10 + gap, 30 + gap, 30 + 2 * gap, 40 + 2 * gap]
    )
    busy = axis_of(0, 1000, np.array([[0, 700]]))
    assert not busy.is_cut
    assert busy.place(np.array([0, 250, 1000])).tolist() == [0, 250, 1000]


def read_again(path: Path) -> Explanation:
    """A flow whose capture is there: 6 packets in 1 ms, silence for 200 ms, the third one again."""
    capture = Capture("10.0.0.2:5000", "10.0.0.1:4000")
    for place in range(6):
        capture.send(100 * place, 1000 * place)
    capture.ack(600, 2000).send(200_600, 2000).ack(200_700, 6000)
    file = capture.write(path / "h2-eth0.pcap")
    story = flow("h2", "h2-eth0")
    stall = replace(story.stalls[0], start_ns=T0_NS + 600_000, end_ns=T0_NS + 200_600_000)
    again = replace(story.repeats, time_ns=np.array([T0_NS + 200_600_000]), start=np.array([2000]))
    block = replace(story.blocks[0], end_ns=T0_NS + 200_700_000)
    point = Point(str(file), "h2-eth0", 9, 9, 0, 0, 0, 0, 9000, T0_NS, END_NS, explanation().points[1].damage)
    story = replace(story, stalls=(stall,), repeats=again, blocks=(block,))
    return replace(explanation("h2"), points=(point,), flows=(story,))


def test_the_worst_flows_packets_are_read_again_and_the_silence_is_cut_out(tmp_path: Path) -> None:
    figure, title, _ = figures_sequence.sequence(read_again(tmp_path))
    assert title == "h2 stands still for 200 ms: rto_tail_loss, likely"
    left, middle, right = figure.axes
    first, resent = left.collections[0].get_offsets(), right.collections[1].get_offsets()
    assert np.asarray(first).tolist() == [[100 * place, place] for place in range(6)]
    assert np.asarray(resent).tolist() == [[0, 2]]
    assert [text.get_text() for text in middle.texts] == ["silent for 200 ms\nrto_tail_loss"]
    assert heights(left.lines[0]) == [2, 6]


def test_without_the_capture_the_series_tells_the_same_coarsely(tmp_path: Path) -> None:
    found = read_again(tmp_path)
    Path(found.points[0].file).unlink()
    figure, title, caption = figures_sequence.sequence(found)
    assert title == "h2 stands still for 200 ms: rto_tail_loss, likely"
    assert "In bins of 10 ms" in caption
    line = next(each for each in figure.axes[0].lines if each.get_label() == "acknowledged")
    assert heights(line)[-1] == pytest.approx(144.8)


def test_a_damaged_capture_is_not_read_again(tmp_path: Path) -> None:
    found = read_again(tmp_path)
    Path(found.points[0].file).write_bytes(b"nonsense")
    assert "In bins of" in figures_sequence.sequence(found)[2]


def test_pauses_that_hold_nobody_are_not_drawn() -> None:
    found = explanation()
    silent = replace(found, pauses=tuple(replace(each, spans=()) for each in found.pauses))
    with pytest.raises(Skipped, match="held anybody"):
        figures_path.pauses(silent)
