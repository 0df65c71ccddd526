"""DCQCN's fixed point by hand, and the verdict on flows that converge or do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import summarize
from analysis.dcqcn_model import Curve, Sender, marking_probability
from analysis.kinds import dcqcn_convergence
from analysis.kinds.dcqcn_convergence import AT_KMAX, CONVERGES, DEEP, IDLE, PAUSED, UNFAIR
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_long_flows import (
    DCQCN,
    LINE_BPS,
    MS,
    flow,
    long_run,
    lossless_port,
    write_dcqcn,
    write_queue,
)

SPEC = {"experiment": "dcqcn_convergence", "topology": "star", **DCQCN}
# The paper's parameters, with packets of 1,000 bytes: 5 million a second at 40 Gb/s.
SENDER = Sender(40_000_000, 55_000, 10_000_000, 55_000, 1000)
CURVE = Curve(5_000, 200_000, 0.01)


def test_the_fixed_point_by_hand() -> None:
    """N = 10 at 5e6 packets/s: R_AI 5,000 packets/s, so that p^3 = 5000 x 100 / (55e-6 x 25e12) x (1e-4 + 10 /
    (55e-6 x 5e6))^2."""
    by_hand = (5000 * 100 / (55e-6 * 25e12) * (1e-4 + 10 / (55e-6 * 5e6)) ** 2) ** (1 / 3)
    assert marking_probability(SENDER, 10, 40e9) == pytest.approx(by_hand)
    assert by_hand == pytest.approx(0.00785, abs=0.0001)


@given(flows=st.integers(1, 200), rate_gbps=st.sampled_from([10, 25, 40, 100, 400]))
def test_more_flows_need_more_marks_and_faster_links_fewer(flows: int, rate_gbps: int) -> None:
    here = marking_probability(SENDER, flows, rate_gbps * 1e9)
    assert 0 < here <= 1
    assert marking_probability(SENDER, flows + 1, rate_gbps * 1e9) >= here
    assert marking_probability(SENDER, flows, 2 * rate_gbps * 1e9) <= here


@pytest.mark.parametrize(("probability", "depth"), [(0, 5_000), (0.005, 102_500), (0.01, 200_000), (0.3, 200_000)])
def test_the_queue_is_where_the_curve_marks_so_often(probability: float, depth: float) -> None:
    assert CURVE.queue_bytes(probability) == pytest.approx(depth)


def shared(path: Path, shares: dict[str, float], depth_bytes: int = 80_000, **changes: Any) -> Run:
    """Flows with these shares of the line for 80 ms, and a queue that is always as deep."""
    flows = [flow(name, 0, 80 * MS) for name in shares]
    rates = {name: [(share * LINE_BPS, 0, 80 * MS)] for name, share in shares.items()}
    spec = {**SPEC, **changes.pop("spec", {})}
    port = {"leaf1-eth1": {**lossless_port()["leaf1-eth1"]}}
    run = long_run(path, flows, rates, spec, fabric=None, ports=port, **changes)
    write_queue(run.path, "leaf1-eth1", depth_bytes, 80 * MS)
    write_dcqcn(run.path, list(shares), range(MS, 80 * MS, MS), 20 * 10**9)
    return Run(run.path)


EQUAL = {"h2": 0.49, "h3": 0.48}


def test_flows_that_are_equal_and_full_over_a_short_queue_converge(tmp_path: Path) -> None:
    told = dcqcn_convergence.verdict(run := shared(tmp_path / "run", EQUAL))
    assert (told.verdict, told.good) == (CONVERGES, True)
    row = dcqcn_convergence.row(run)
    assert (row["flows"], row["queue_p99_bytes"], row["kmax_bytes"]) == (2, 80_000, 200_000)
    assert 5_000 < row["queue_modelled_bytes"] < 200_000
    assert row["settles_s"] == 0


@pytest.mark.parametrize(
    ("shares", "depth_bytes", "answer"),
    [
        ({"h2": 0.8, "h3": 0.18}, 80_000, UNFAIR),
        ({"h2": 0.4, "h3": 0.4}, 80_000, IDLE),
        (EQUAL, 250_000, DEEP),
    ],
)
def test_what_stands_against_convergence_is_said(
    tmp_path: Path, shares: dict[str, float], depth_bytes: int, answer: str
) -> None:
    assert dcqcn_convergence.verdict(shared(tmp_path / "run", shares, depth_bytes)).verdict == answer


def test_a_queue_that_has_its_fixed_point_at_kmax_is_told_from_one_that_swings_above(tmp_path: Path) -> None:
    """Sixteen flows in packets of 4 KB need 6 % of marks; the curve gives 1 % at most below Kmax."""
    many = {f"h{number}": 0.0605 for number in range(2, 18)}
    told = dcqcn_convergence.verdict(run := shared(tmp_path / "run", many, 250_000))
    assert (told.verdict, dcqcn_convergence.row(run)["queue_modelled_bytes"]) == (AT_KMAX, 200_000)


def test_a_pause_counts_only_where_flows_are_judged(tmp_path: Path) -> None:
    """They are from 40 ms on."""
    early = shared(tmp_path / "early", EQUAL, pauses=[(MS, "leaf1-eth2", "xoff_sent")])
    assert dcqcn_convergence.verdict(early).verdict == CONVERGES
    late = shared(tmp_path / "late", EQUAL, pauses=[(50 * MS, "leaf1-eth2", "xoff_sent")])
    assert dcqcn_convergence.verdict(late).verdict == PAUSED


def test_without_queue_samples_nothing_is_proven(tmp_path: Path) -> None:
    run = shared(tmp_path / "run", EQUAL)
    (run.path / "telemetry" / "queue.parquet").unlink()
    told = dcqcn_convergence.verdict(Run(run.path))
    assert (told.verdict, told.missing) == (NOT_PROVEN, ("no queue samples of a hot port, or nothing is marked",))


def test_flows_without_dcqcn_have_no_fixed_point(tmp_path: Path) -> None:
    run = shared(tmp_path / "run", EQUAL, spec={"cc": "none", "queue": "droptail", "kmin": "auto", "kmax": "auto"})
    assert dcqcn_convergence.row(run)["queue_modelled_bytes"] is None
    assert dcqcn_convergence.compared(run) == []


def test_hpccs_queue_stands_beside_ours_where_the_set_up_is_theirs(tmp_path: Path) -> None:
    shares = {f"h{number}": 0.138 for number in range(2, 9)}
    theirs = {"rate": "25Gbps", "kmin": "100KB", "kmax": "400KB", "pmax": 0.2}
    rows = dcqcn_convergence.compared(shared(tmp_path / "run", shares, 500_000, spec=theirs))
    assert [(row.published, row.measured) for row in rows][1] == ("550 KB", "500 KB")
    assert rows[1].verdict == "reproduced"
    far = dcqcn_convergence.compared(shared(tmp_path / "far", shares, 150_000, spec=theirs))[1]
    assert far.verdict.startswith("not reproduced: 150 KB gather before the first CNPs act")
    assert len(dcqcn_convergence.compared(shared(tmp_path / "own", EQUAL))) == 1


def test_the_page_of_flows_that_join_and_leave(tmp_path: Path) -> None:
    flows = [flow("h2", 0, 80 * MS), flow("h3", 20 * MS, 60 * MS)]
    alone, both = LINE_BPS * 0.98, LINE_BPS * 0.49
    rates = {
        "h2": [(alone, 0, 20 * MS), (both, 20 * MS, 60 * MS), (alone, 60 * MS, 80 * MS)],
        "h3": [(both, 20 * MS, 60 * MS)],
    }
    run = long_run(tmp_path / "run", flows, rates, SPEC, fabric=None, ports=lossless_port())
    write_queue(run.path, "leaf1-eth1", 80_000, 80 * MS)
    write_dcqcn(run.path, ["h2", "h3"], range(20 * MS, 60 * MS, MS), 20 * 10**9)
    run = Run(run.path)
    told = summarize(run)
    assert told["verdict"] == CONVERGES
    assert [(each["flows"], each["seconds"]) for each in told["long_flows"]["settling"]] == [(2, 0.0)]
    drawn = draw_all(run)
    assert {figure.name for figure in drawn if not figure.path} == {"cases", "pauses"}
    html = page(run, drawn)
    assert "<h2>After each change</h2>" in html
    assert "use of the line with DCQCN" in html
