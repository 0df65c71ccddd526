"""Published curves as data, the runs that they need, how ours are measured, and the page that shows both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.papers import dctcp, fast08, measures, words
from analysis.papers.document import document
from analysis.papers.figures import draw_all
from analysis.papers.model import NAMES, CurveSet
from analysis.papers.page import page
from analysis.papers.scores import AGREES, DISAGREES, NOT_MEASURED, score
from analysis.papers.sets import SETS
from analysis.run import Run
from experiments import papers, walking
from experiments.cli import main
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_long_flows import LINE_BPS, MS, flow, long_run
from tests.unit.test_analysis_run import make_run
from topologies.units import BadRequest

RUNS = papers.all_runs()
CURVES = [(each, curve) for each in SETS for curve in each.curves]
PROVENANCE = {
    "fabriclab": "0.1.0",
    "git_commit": "abc",
    "seed": 1,
    "clock": "virtual",
    "python": "3.11",
    "ended": "2026",
}


# --- the data


@pytest.mark.parametrize(("each", "curve"), CURVES, ids=lambda told: getattr(told, "key", getattr(told, "name", "")))
def test_a_curve_says_where_it_comes_from_and_what_agreement_is(each: CurveSet, curve: Any) -> None:
    assert all((curve.source.paper, curve.source.where, curve.source.precision, curve.why))
    assert curve.source.address.startswith("https://")
    assert curve.within >= 1
    assert any(point.published is not None for point in curve.points) or curve.onset.published is not None
    assert each.differs


def test_what_is_read_off_a_text_says_so() -> None:
    told = [curve.source.precision for each in SETS for curve in each.curves if each.key.startswith("dcqcn_")]
    assert sum(precision.startswith("text: ") for precision in told) == len(told) - 1  # but for HPCC's number


def test_the_curves_of_2008_begin_with_the_window_of_2008() -> None:
    begins = {name: spec.initial_window_packets for name, (_, spec) in papers.all_runs().items()}
    assert {
        begins[point.run]
        for each in SETS
        for curve in each.curves
        for point in curve.points
        if each.key.startswith("fast08_")
    } == {2}
    assert {packets for name, packets in begins.items() if not name.startswith("fast08-")} == {10}


def test_sets_and_curves_have_names_of_their_own() -> None:
    assert len({each.key for each in SETS}) == len(SETS)
    assert all(len({curve.name for curve in each.curves}) == len(each.curves) for each in SETS)


def test_places_stand_on_their_axis() -> None:
    for each, curve in CURVES:
        assert all(isinstance(point.place, str) == (each.axis == NAMES) for point in curve.points)
        if each.axis != NAMES:
            places = [point.place for point in curve.points]
            assert places == sorted(places)


# --- the runs


def test_every_point_has_a_run_that_can_be_planned() -> None:
    wanted = papers.planned(SETS)
    assert {each.name for each in wanted} == {name for each in SETS for name in each.runs} <= set(RUNS)
    assert all(run.clock == "virtual" for each in wanted for run in each.runs)


def test_runs_are_of_the_papers_set_up() -> None:
    (own,) = papers.planned([dctcp.MULTI_HOP])
    spec = own.runs[0].spec
    assert (spec.rate_bps, spec.uplink_rate_bps, spec.hosts) == (10**9, 10**10, 62)
    assert len(spec.traffic or ()) == 40
    queries = [RUNS[dctcp.incast_run("dctcp-300ms", servers)][1] for servers in dctcp.INCAST_SERVERS]
    assert all(990_000 < (query.senders or 0) * query.sru_bytes <= 10**6 for query in queries)
    assert {query.buffer_bytes for query in queries} == {100_000}


def test_curves_of_the_same_runs_share_them() -> None:
    assert len(papers.planned([fast08.BUFFERS, fast08.RENO])) == len(papers.planned([fast08.BUFFERS]))
    assert len(papers.planned([dctcp.TIMEOUTS, dctcp.COMPLETION])) == len(papers.planned([dctcp.TIMEOUTS]))


def test_sets_are_chosen_by_name_and_an_unknown_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert walking.chosen(SETS, None) == SETS
    assert walking.chosen(SETS, ["dctcp_queue", "fast08_reno"]) == (fast08.RENO, dctcp.QUEUE)
    with pytest.raises(BadRequest, match="--only: 'fast09' is unknown; allowed: fast08_buffers, "):
        walking.chosen(SETS, ["fast09"])
    assert main(["papers", "--only", "fast09"]) == 2
    assert capsys.readouterr().err.startswith("run_experiment: --only: 'fast09' is unknown; allowed: ")


def test_another_ones_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert main(["papers", "--out", str(tmp_path)]) == 2
    assert "one that `papers` wrote" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


# --- ours


def rounds(*milliseconds: float) -> dict[str, Any]:
    """Rounds of 1 MB each that last so long."""
    edges = np.cumsum([0.0, *milliseconds]) * 1e6 + T0_NS
    spans = zip(edges.astype(int).tolist(), edges[1:].astype(int).tolist())
    return {"rounds": [{"start_ns": start, "end_ns": end, "bytes": 10**6} for start, end in spans]}


def test_rounds_by_hand(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", facts=rounds(500, 8, 8, 208, 16))
    assert measures.goodput_mbps(run, 4) == pytest.approx(5 * 8 / 0.740)
    assert measures.mean_round_ms(run, 4) == pytest.approx(60)  # the first does not count
    assert measures.timeouts_share(run, 4) == pytest.approx(1 / 4)


def test_rounds_that_are_not_there_tell_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", facts=rounds(8))
    assert measures.mean_round_ms(run, 4) is None
    assert measures.timeouts_share(run, 4) is None


def test_percentiles_of_the_queue_are_weighted_by_time(tmp_path: Path) -> None:
    """0, 1, 2, 1, 0 packets from one microsecond to the next, in the second half of a round of 4 us: 2 and 1."""
    spans = [{"start_ns": T0_NS, "end_ns": T0_NS + 4_000, "bytes": 6000}]
    run = make_run(tmp_path / "run", facts={"rounds": spans})
    assert [measures.queue_packets(run, place) for place in (25, 75, 100)] == [1, 2, 2]
    (run.path / "telemetry" / "queue.parquet").unlink()
    assert measures.queue_packets(Run(run.path), 50) is None


def test_groups_of_senders_get_the_mean_of_their_flows(tmp_path: Path) -> None:
    flows = [flow(name, 0, 80 * MS) for name in ("h2", "h3", "h4")]
    shares = {"h2": 0.1, "h3": 0.3, "h4": 0.4}
    rates = {name: [(share * LINE_BPS, 0, 80 * MS)] for name, share in shares.items()}
    run = long_run(tmp_path / "run", flows, rates)
    measure = measures.mean_mbps({"S1": ("h2", "h3"), "S2": ("h4",)})
    assert measure(run, "S1") == pytest.approx(0.2 * LINE_BPS / 1e6, rel=0.02)
    assert measure(run, "S2") == pytest.approx(0.4 * LINE_BPS / 1e6, rel=0.02)


# --- the page


def told(scale: float, sets: tuple[CurveSet, ...] = (fast08.BUFFERS, dctcp.MULTI_HOP)) -> dict[str, Any]:
    """A document in which ours are the published values times `scale`."""
    scores = {
        each.key: [
            score(curve, [None if point.published is None else scale * point.published for point in curve.points])
            for curve in each.curves
        ]
        for each in sets
    }
    return document(sets, scores, [PROVENANCE], "./run_experiment papers --out DIR")


def test_the_page_shows_good_and_bad_scores(tmp_path: Path) -> None:
    good, bad = told(1.0), told(0.2)
    assert good["verdicts"] == {AGREES: 6, DISAGREES: 0, NOT_MEASURED: 0}
    assert bad["verdicts"][DISAGREES] == 6
    drawn = draw_all(bad, tmp_path)
    assert all(figure.path is not None and figure.path.stat().st_size > 10_000 for figure in drawn.values())
    shown = page(bad, drawn)
    assert "6 curves: 6 disagree" in shown
    assert "median ratio 0.2" in shown
    for each in bad["sets"]:
        assert each["title"] in shown
        assert each["curves"][0]["source"]["address"] in shown


def test_what_was_not_measured_is_drawn_and_said(tmp_path: Path) -> None:
    scores = {dctcp.MULTI_HOP.key: [score(dctcp.MULTI_HOP.curves[0], [None, None, None])]}
    nothing = document([dctcp.MULTI_HOP], scores, [], "")
    drawn = draw_all(nothing, tmp_path)
    assert drawn["dctcp_multi_hop"].reason == "no run of it told anything"
    assert "nothing of ours at S1, S3, S2" in page(nothing, drawn)


def test_rows_tell_onsets_and_ratios() -> None:
    rows = list(words.rows(told(1.0)))
    assert rows[1] == ["fast08_buffers", "buffer 64KB", "16", "16", "1", "1", AGREES]
    assert rows[-1][2:4] == ["—", "—"]
    assert all(len(row) == len(words.HEADS) for row in rows)
