"""Headroom against losses, on runs made by hand: a 400 Gb/s star with links of 1 µs and a switch of 0.5 µs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import headroom, kind_of
from analysis.kinds.room import room
from analysis.pages.run_page import draw_all, write_report
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_cures import PFC, facts, lossless_port, roce_run
from tests.unit.test_analysis_run import evidence

# 400 Gb/s x (2 us there and back + 1 us in the switch + 2 ns of pause frame + 50 ns) / 8 and two frames of 1514 B
NEEDED = (2000 + 1000 + 2 + 50) * 50 + 2 * 1514


def headroom_run(path: Path, given: int, lost: int, pauses: int = 3, **spec: Any) -> Run:
    """A run with so much headroom that lost so many packets."""
    ports = {
        "leaf1-eth1": lossless_port(lost, hot=True),
        "leaf1-eth2": lossless_port(0, hot=False, xoffs=pauses, max_headroom_bytes=min(given, 150_000)),
    }
    label = "main" if path.parent.name != "cases" else path.name
    asked = {**PFC, "experiment": "headroom", "headroom": f"{given}B", "label": label, **spec}
    return roce_run(path, asked, facts(lost, ports=ports))


def tried(path: Path, lost_with: int = 0, lost_without: int = 9) -> Run:
    """The formula's headroom, and half of it."""
    headroom_run(path / "cases" / "half", NEEDED // 2, lost_without)
    return headroom_run(path, NEEDED, lost_with)


def test_the_formula_worked_by_hand(tmp_path: Path) -> None:
    found = room(headroom_run(tmp_path / "run", 100_000, 2))
    assert (found.given_bytes, found.needed_bytes, found.used_bytes, found.lost) == (100_000, NEEDED, 100_000, 2)
    assert found.share == pytest.approx(100_000 / NEEDED)
    assert not found.is_enough


def test_a_controller_that_pauses_needs_room_for_its_latency(tmp_path: Path) -> None:
    run = headroom_run(tmp_path / "run", NEEDED, 0, pause="controller", control_latency="10us")
    assert room(run).needed_bytes == NEEDED + 10_000 * 50


def test_an_incast_of_the_experiment_is_asked_about_its_headroom(tmp_path: Path) -> None:
    run = headroom_run(tmp_path / "run", NEEDED, 0)
    assert kind_of(run) is headroom
    assert kind_of(headroom_run(tmp_path / "other", NEEDED, 0, experiment="incast")) is not headroom


@pytest.mark.parametrize(
    ("given", "lost", "pauses", "answer", "good"),
    [
        (NEEDED, 0, 3, headroom.ENOUGH, True),
        (NEEDED, 0, 0, NOT_PROVEN, None),
        (NEEDED // 2, 4, 3, headroom.LOSES, None),
        (NEEDED, 4, 3, headroom.LOSES, False),
    ],
)
def test_a_run_alone(tmp_path: Path, given: int, lost: int, pauses: int, answer: str, good: bool | None) -> None:
    verdict = headroom.verdict(headroom_run(tmp_path / "run", given, lost, pauses))
    assert (verdict.verdict, verdict.good) == (answer, good)


@pytest.mark.parametrize(
    ("lost_with", "lost_without", "answer", "good"),
    [
        (0, 9, headroom.HOLDS, True),
        (0, 0, headroom.GENEROUS, None),
        (1, 9, headroom.TOO_LITTLE, False),
    ],
)
def test_the_formula_is_judged_by_the_runs_with_less(
    tmp_path: Path, lost_with: int, lost_without: int, answer: str, good: bool | None
) -> None:
    verdict = headroom.verdict(tried(tmp_path / "run", lost_with, lost_without))
    assert (verdict.verdict, verdict.good) == (answer, good)


def test_a_run_whose_headroom_was_never_tried_tells_nothing(tmp_path: Path) -> None:
    headroom_run(tmp_path / "run" / "cases" / "half", NEEDED // 2, 0, pauses=0)
    verdict = headroom.verdict(headroom_run(tmp_path / "run", NEEDED, 0))
    assert verdict.verdict == NOT_PROVEN
    assert evidence(verdict)["less headroom than the formula asks for"] is None
    assert verdict.missing == ("no run with less headroom than the formula asks for had a pause",)


def test_a_run_without_pfc_proves_nothing(tmp_path: Path) -> None:
    run = roce_run(tmp_path / "run", {"experiment": "headroom"})
    assert headroom.verdict(run).verdict == NOT_PROVEN
    assert (
        kind_of(run)
        .headline(run)
        .endswith(
            f"with — of headroom the lossless class lost an unknown number; the formula asks for {NEEDED / 1000:.0f} KB"
        )
    )


def test_the_page_and_the_summary(tmp_path: Path) -> None:
    run = tried(tmp_path / "run")
    summary = summarize(run)
    assert summary["headroom"] == {"given_bytes": NEEDED, "needed_bytes": NEEDED, "used_bytes": 150_000}
    assert [(row["label"], row["lossless_drops"], row["verdict"]) for row in summary["comparison"]] == [
        ("main", 0, headroom.HOLDS),
        ("half", 9, headroom.LOSES),
    ]
    html = write_report(run).read_text()
    assert "Packets lost with other headroom: 77.8 KB (50%): 9." in html
    assert "half: lossless class lost 9 packets: headroom too small." in html
    assert '<td data-head="of the formula&#x27;s" class="number">50%</td>' in html


def test_the_formula_may_be_enough_with_less_that_loses_nothing(tmp_path: Path) -> None:
    """Of 156 KB, 150 are used; nine tenths of it lose nothing, a half does."""
    headroom_run(tmp_path / "run" / "cases" / "most", NEEDED * 9 // 10, 0)
    run = tried(tmp_path / "run")
    told = headroom.verdict(run)
    assert told.verdict == headroom.HOLDS == "the formula is enough"
    used = next(piece for piece in told.evidence if piece.name.startswith("headroom used"))
    assert (used.measured, used.modelled, used.tolerance) == (150_000, NEEDED, "96% of it")
    assert headroom.headline(run).endswith("the formula asks for 156 KB, of which 96% was used")


def test_the_figure_says_from_where_on_nothing_is_lost(tmp_path: Path) -> None:
    figures = {figure.name: figure for figure in draw_all(tried(tmp_path / "run"))}
    assert figures["losses"].title == (
        "Packets are lost up to 77.8 KB of headroom, none from 156 KB on; the formula asks for 156 KB"
    )
    clean = {figure.name: figure for figure in draw_all(tried(tmp_path / "clean", 0, 0))}
    assert clean["losses"].title.startswith("Nothing is lost even with 77.8 KB of headroom")
    alone = {figure.name: figure for figure in draw_all(headroom_run(tmp_path / "alone", NEEDED, 0))}
    assert alone["losses"].reason == "fewer than two runs with PFC and counters"
