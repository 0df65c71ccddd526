"""Marking and pausing by a controller, by its latency, on runs made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import control_latency, kind_of
from analysis.kinds.control_latency import IDLE, WELL
from analysis.kinds.control_points import MARKS, PAUSES, point, points
from analysis.kinds.long_flows import LOSES
from analysis.pages.run_page import draw_all, write_report
from analysis.run import Run
from tests.unit.test_analysis_cures import lossless_port
from tests.unit.test_analysis_long_flows import DCQCN, LINE_BPS, MS, flow, long_run, write_queue


def loop_run(path: Path, bps: float = 39e9, lost: int = 0, depth_bytes: int = 100_000, **spec: Any) -> Run:
    """Two flows for 20 ms that get so much together."""
    flows = [flow(name, 0, 20 * MS) for name in ("h2", "h5")]
    rates = {name: [(bps / 2, 0, 20 * MS)] for name in ("h2", "h5")}
    label = "main" if path.parent.name != "cases" else path.name
    asked = {"experiment": "control_latency", "label": label, "control_latency": "1ms", **DCQCN, **spec}
    run = long_run(path, flows, rates, asked, ports={"leaf1-eth1": lossless_port(lost, hot=True)})
    write_queue(run.path, "leaf1-eth1", depth_bytes, 20 * MS)
    return run


def loops(path: Path) -> Run:
    """The switch, and a controller that marks or pauses after none, 10 µs and 10 ms."""
    alone: dict[str, Any] = {"queue": "droptail", "cc": "none", "kmin": "auto", "kmax": "auto", "marking": "auto"}
    for latency, bps, lost in (("0ns", 38.9e9, 0), ("10us", 38.8e9, 0), ("10ms", 20e9, 7)):
        spec: dict[str, Any] = {"marking": "controller", "control_latency": latency}
        loop_run(path / "cases" / f"marking-{latency}", bps, 0, **spec)
        loop_run(path / "cases" / f"pause-{latency}", bps, lost, **alone, pause="controller", control_latency=latency)
    loop_run(path / "cases" / "pause-switch", 39e9, depth_bytes=500_000, **alone)
    return loop_run(path)


def test_points_tell_who_does_what_after_how_long(tmp_path: Path) -> None:
    found = [(each.does, each.latency_ns, each.lost, each.queue_bytes) for each in points(loops(tmp_path / "run"))]
    assert found == [
        (MARKS, None, 0, 100_000),
        (MARKS, 0, 0, 100_000),
        (MARKS, 10_000, 0, 100_000),
        (MARKS, 10_000_000, 0, 100_000),
        (PAUSES, None, 0, 500_000),
        (PAUSES, 0, 0, 100_000),
        (PAUSES, 10_000, 0, 100_000),
        (PAUSES, 10_000_000, 7, 100_000),
    ]


def test_the_experiment_has_its_own_page(tmp_path: Path) -> None:
    run = loops(tmp_path / "run")
    assert kind_of(run) is control_latency
    assert point(run).goodput_bps == pytest.approx(39e9, rel=0.01)
    summary = summarize(run)
    assert summary["control"] == {"does": MARKS, "latency_ns": None}
    assert {row["label"]: row["lossless_drops"] for row in summary["comparison"]}["pause-10ms"] == 7
    html = write_report(run).read_text()
    assert "a controller pauses after 10 ms: 20 Gb/s, longest queue 100 KB, 7 packets lost" in html
    assert "pause-10ms: lossless class lost 7 packets: headroom too small." in html
    assert '<td data-head="latency" class="number">in the switch</td>' in html


@pytest.mark.parametrize(
    ("bps", "lost", "answer"),
    [(39e9, 0, WELL), (20e9, 0, IDLE), (39e9, 3, LOSES), (20e9, 3, LOSES)],
)
def test_a_loop_is_fast_enough_when_nothing_is_lost_and_the_link_is_full(
    tmp_path: Path, bps: float, lost: int, answer: str
) -> None:
    assert LINE_BPS > 39e9
    assert control_latency.verdict(loop_run(tmp_path / "run", bps, lost)).verdict == answer


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ([39e9, 38.9e9, 20e9], "the longer the latency, the less goodput"),
        ([39e9, 20e9, 30e9], "goodput does not follow the latency"),
        ([39e9, 39.1e9, 38.9e9], "goodput is the same whatever the latency"),
    ],
)
def test_what_latency_does_follows_from_the_runs(tmp_path: Path, rates: list[float], words: str) -> None:
    for place, bps in enumerate(rates):
        path = tmp_path / "run" / "cases" / f"marking-{place}"
        loop_run(path, bps, marking="controller", control_latency=f"{10**place}us")
    run = loop_run(tmp_path / "run")
    assert control_latency.headline(run).endswith(f"a controller marks: {words}")


def test_goodput_queue_and_losses_are_drawn_against_latency(tmp_path: Path) -> None:
    figures = {figure.name: figure for figure in draw_all(loops(tmp_path / "run"))}
    assert figures["losses"].title == (
        "Controller marks: packets lost 0 at once, 0 after 10 ms; Controller pauses: packets lost 0 at once, "
        "7 after 10 ms"
    )
    assert all(figures[name].path for name in ("goodput", "longest_queue", "losses"))


def test_without_a_sweep_nothing_is_drawn(tmp_path: Path) -> None:
    drawn = {figure.name: figure.reason for figure in draw_all(loop_run(tmp_path / "run"))}
    assert drawn["goodput"] == "fewer than two latencies of a controller that marks or pauses"
