"""How well our curve agrees with a published one (pure): onset of collapse against onset, and the median ratio."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from analysis import text
from analysis.papers.model import Curve, Onset, Place

AGREES, DISAGREES, NOT_MEASURED = "agrees", "disagrees", "not measured"
RULE = (
    "A ratio is ours over the published value; where a curve collapses, only points that have collapsed in the paper "
    "or here count, for those at the rate of the line are alike in any network. Onset is the first place that has "
    "collapsed. A curve agrees when its onset and its median ratio both do, each within the tolerance that it names. "
    "Where the paper says something of every point, the ratio farthest from 1 decides instead, of a bound the smallest;"
    " the farthest is shown beside the median in any case."
)


@dataclass(frozen=True)
class ScoredPoint:
    """A place, the published value there and ours, and whether its ratio counts."""

    place: Place
    run: str
    published: float | None
    ours: float | None
    counts: bool

    @property
    def ratio(self) -> float | None:
        """Ours over published; None without either, or where nothing is published (zero)."""
        return None if self.ours is None or not self.published else self.ours / self.published


@dataclass(frozen=True)
class Score:
    """A curve as scored. Onsets are places (None: no collapse on the axis); `steps`: by how many places of the axis
    ours is later, None where the curve has no onset to compare; the verdict is one of the three above."""

    points: tuple[ScoredPoint, ...]
    onset_published: Place | None
    onset_ours: Place | None
    steps: int | None
    median_ratio: float | None
    worst_ratio: float | None
    verdict: str
    because: str


def score(curve: Curve, ours: Sequence[float | None]) -> Score:
    """The score of our values (n,), one for each point of the curve; None where a run did not tell."""
    beyond = [_counts(curve.onset, point.published, value) for point, value in zip(curve.points, ours)]
    whole = not any(beyond)  # nothing collapsed: all of the curve is compared
    points = tuple(
        ScoredPoint(point.place, point.run, point.published, value, whole or counts)
        for point, value, counts in zip(curve.points, ours, beyond)
    )
    ratios = [point.ratio for point in points if point.counts and point.ratio is not None]
    published, found, steps = _onsets(curve, points)
    median = statistics.median(ratios) if ratios else None
    worst = _farthest(curve, ratios) if ratios else None
    verdict, because = _verdict(curve, ours, steps, ratios)
    return Score(points, published, found, steps, median, worst, verdict, because)


def factor(ratio: float) -> float:
    """How far a ratio is from 1, either way: 2 for twice and for half."""
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def _counts(onset: Onset | None, published: float | None, ours: float | None) -> bool:
    """Whether a point belongs to the collapse, there or here."""
    return onset is not None and any(value is not None and onset.is_beyond(value) for value in (published, ours))


def _onsets(curve: Curve, points: Sequence[ScoredPoint]) -> tuple[Place | None, Place | None, int | None]:
    """The published place, ours, and by how many places ours is later (one behind the last where there is none)."""
    onset = curve.onset
    if onset is None or any(point.ours is None for point in points):
        return None, None, None
    places = [point.place for point in points]
    there = places.index(onset.published) if onset.published is not None else _first(onset, points, "published")
    here = _first(onset, points, "ours")
    named = [places[place] if place < len(places) else None for place in (there, here)]
    return named[0], named[1], here - there


def _first(onset: Onset, points: Sequence[ScoredPoint], which: str) -> int:
    values = [getattr(point, which) for point in points]
    found = (place for place, value in enumerate(values) if value is not None and onset.is_beyond(value))
    return next(found, len(points))


def _verdict(curve: Curve, ours: Sequence[float | None], steps: int | None, ratios: Sequence[float]) -> tuple[str, str]:
    """The verdict and why, in a sentence."""
    if any(value is None for value in ours):
        lacking = ", ".join(str(point.place) for point, value in zip(curve.points, ours) if value is None)
        return NOT_MEASURED, f"nothing of ours at {lacking}"
    told = [_ratio_words(curve, ratios), _onset_words(curve.onset, steps)]
    wrong = [words for words, holds in told if not holds and words]
    right = [words for words, holds in told if holds and words]
    return (DISAGREES, "; ".join(wrong)) if wrong else (AGREES, "; ".join(right))


def _ratio_words(curve: Curve, ratios: Sequence[float]) -> tuple[str, bool]:
    if not ratios:
        return "", True
    which, decides = _deciding(curve, ratios)
    holds = decides >= 1 / curve.within and (curve.at_least or decides <= curve.within)
    bound = f"at least {text.digits(1 / curve.within)}" if curve.at_least else f"within {text.digits(curve.within)}x"
    return f"{which} ratio {text.digits(decides)}, asked {bound} ({curve.why})", holds


def _deciding(curve: Curve, ratios: Sequence[float]) -> tuple[str, float]:
    """Which of the ratios decides, and its value."""
    if not curve.every:
        return "median", statistics.median(ratios)
    return ("smallest" if curve.at_least else "farthest"), _farthest(curve, ratios)


def _farthest(curve: Curve, ratios: Sequence[float]) -> float:
    """The ratio farthest from 1; of a bound the smallest."""
    return min(ratios) if curve.at_least else max(ratios, key=factor)


def _onset_words(onset: Onset | None, steps: int | None) -> tuple[str, bool]:
    if onset is None or steps is None:
        return "", True
    moved = f"{text.counted(abs(steps), 'place')} of the axis {'later' if steps > 0 else 'earlier'}"
    where = moved if steps else "at the published place"
    asked = f"asked up to {onset.early} earlier and {onset.late} later"
    return f"onset {where}, {asked}", -onset.early <= steps <= onset.late
