"""Scores of curves by hand: onset against onset, the median ratio, and that both can be bad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.papers.fast08_points import PUBLISHED_MBPS, PUBLISHED_RENO_MBPS, SERVERS
from analysis.papers.model import Curve, Onset, Point, Source
from analysis.papers.scores import AGREES, DISAGREES, NOT_MEASURED, Score, factor, score

SOURCE = Source("a paper", "figure 1", "https://example.org", "data")
FALLS = Onset(level=500, is_fall=True, early=0, late=1)
RISES = Onset(level=0.0, is_fall=False, early=1, late=1, published=8)


def curve(published: Sequence[float | None], **changes: Any) -> Curve:
    places = [2**number for number in range(2, 2 + len(published))]
    points = tuple(Point(place, value, f"n{place}") for place, value in zip(places, published))
    kept: dict[str, Any] = {"within": 2.0, "why": "as asked", **changes}
    return Curve("c", "Mb/s", SOURCE, points, lambda run, place: None, **kept)


def scored(published: Sequence[float | None], ours: Sequence[float | None], **changes: Any) -> Score:
    return score(curve(published, **changes), ours)


def test_a_curve_like_the_published_one_agrees() -> None:
    found = scored((986, 528, 152), (956, 520, 160), onset=FALLS)
    assert (found.verdict, found.onset_published, found.onset_ours, found.steps) == (AGREES, 16, 16, 0)
    assert found.median_ratio == pytest.approx(160 / 152)


@pytest.mark.parametrize(
    ("ours", "steps", "verdict"),
    [
        ((950, 100, 100, 100), 0, AGREES),
        ((950, 950, 100, 100), 1, AGREES),
        ((950, 950, 950, 100), 2, DISAGREES),
        ((950, 950, 950, 950), 3, DISAGREES),
        ((100, 100, 100, 100), -1, DISAGREES),
    ],
)
def test_the_onset_may_be_one_place_later_and_no_earlier(ours: Sequence[float], steps: int, verdict: str) -> None:
    found = scored((986, 100, 100, 100), ours, onset=FALLS, within=100.0)
    assert (found.steps, found.verdict) == (steps, verdict)
    assert ("onset" in found.because) and (f"{abs(steps)}" in found.because or steps == 0)


def test_points_at_the_rate_of_the_line_do_not_hide_those_that_collapse() -> None:
    found = scored((986, 993, 997, 307), (950, 950, 950, 60), onset=FALLS)
    assert [point.counts for point in found.points] == [False, False, False, True]
    assert (found.median_ratio, found.verdict) == (pytest.approx(60 / 307), DISAGREES)
    assert "median ratio 0.195" in found.because


def test_what_collapses_here_alone_counts_too() -> None:
    found = scored((986, 993), (950, 90), onset=FALLS)
    assert found.median_ratio == pytest.approx(90 / 993)
    assert found.verdict == DISAGREES


def test_without_any_collapse_all_points_count() -> None:
    found = scored((986, 993), (950, 950), onset=FALLS)
    assert (found.onset_published, found.onset_ours, found.steps, found.verdict) == (None, None, 0, AGREES)
    assert found.median_ratio == pytest.approx((950 / 986 + 950 / 993) / 2)


def test_an_onset_that_the_paper_names_needs_no_values() -> None:
    named = {"onset": RISES, "within": 1.0}
    assert scored((None, None, None, None), (0, 0, 0.2, 1), **named).verdict == AGREES
    late = scored((None, None, None, None), (0, 0, 0, 0), **named)
    assert (late.onset_published, late.onset_ours, late.steps, late.verdict) == (8, None, 3, DISAGREES)
    assert late.median_ratio is None


@pytest.mark.parametrize(("ours", "verdict"), [(0.99, AGREES), (0.98, AGREES), (0.96, DISAGREES)])
def test_a_bound_may_be_exceeded_and_not_missed(ours: float, verdict: str) -> None:
    assert scored((0.97, 0.97), (ours, ours), within=1.0, at_least=True).verdict == verdict


def test_what_is_said_of_every_point_must_hold_at_each() -> None:
    assert scored((0.97, 0.97, 0.97), (0.99, 0.99, 0.96), within=1.0, at_least=True).verdict == AGREES
    bound = scored((0.97, 0.97, 0.97), (0.99, 0.99, 0.96), within=1.0, at_least=True, every=True)
    assert bound.worst_ratio == pytest.approx(0.96 / 0.97)
    assert (bound.verdict, bound.because.split(",")[0]) == (DISAGREES, "smallest ratio 0.99")
    values = scored((46, 54, 475), (37, 54, 475), within=1.1, every=True)
    assert (values.verdict, values.because.split(",")[0]) == (DISAGREES, "farthest ratio 0.804")
    assert scored((46, 54, 475), (45, 56, 470), within=1.1, every=True).verdict == AGREES


def test_a_value_is_no_bound() -> None:
    assert scored((0.5,), (1.2,)).verdict == DISAGREES
    assert scored((0.5,), (0.2,)).verdict == DISAGREES
    assert scored((0.5,), (0.9,)).verdict == AGREES


def test_what_was_not_measured_is_no_agreement() -> None:
    found = scored((986, 100), (950, None), onset=FALLS)
    assert (found.verdict, found.because, found.steps) == (NOT_MEASURED, "nothing of ours at 8", None)


def test_the_farthest_ratio_is_shown_and_does_not_count() -> None:
    found = scored((1, 1, 1), (1.1, 0.9, 0.2))
    assert (found.worst_ratio, found.median_ratio, found.verdict) == (0.2, 0.9, AGREES)


@given(ratio=st.floats(1e-6, 1e6))
def test_a_factor_is_at_least_one_and_the_same_either_way(ratio: float) -> None:
    assert factor(ratio) >= 1
    assert factor(ratio) == pytest.approx(factor(1 / ratio))
    assert factor(0) == float("inf")


@given(scale=st.floats(0.1, 10))
def test_scaled_values_give_the_scale_as_median(scale: float) -> None:
    found = scored((3.0, 7.0, 11.0), [scale * value for value in (3.0, 7.0, 11.0)])
    assert found.median_ratio == pytest.approx(scale)
    assert (found.verdict == AGREES) == (0.5 <= (found.median_ratio or 0) <= 2)


def test_the_published_reno_does_not_pass_for_newreno() -> None:
    """Plain Reno at 64 KB falls at 8 servers already, NewReno at 16: the score tells them apart."""
    published = dict(zip(SERVERS, PUBLISHED_MBPS["64KB"]))
    found = scored(list(published.values()), [float(value) for value in PUBLISHED_RENO_MBPS], onset=FALLS)
    assert (found.steps, found.verdict) == (-1, DISAGREES)
