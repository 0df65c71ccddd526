"""A comparison as one JSON-ready document, which its page and figures are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from analysis import made_by
from analysis.papers.model import Curve, CurveSet
from analysis.papers.scores import AGREES, DISAGREES, NOT_MEASURED, Score

FORMAT = 1


def document(
    sets: Sequence[CurveSet],
    scores: Mapping[str, Sequence[Score]],
    provenances: Sequence[Mapping[str, Any]],
    command: str,
) -> dict[str, Any]:
    """All sets with their curves and scores (set -> a score for each of its curves), and where ours come from."""
    told = [_set(each, scores[each.key]) for each in sets]
    counted = Counter(curve["verdict"] for each in told for curve in each["curves"])
    return {
        "format": FORMAT,
        "command": command,
        "made_by": made_by.facts(provenances),
        "verdicts": {verdict: counted[verdict] for verdict in (AGREES, DISAGREES, NOT_MEASURED)},
        "sets": told,
    }


def _set(each: CurveSet, scores: Sequence[Score]) -> dict[str, Any]:
    return {
        "key": each.key,
        "title": each.title,
        "x": each.x,
        "y": each.y,
        "axis": each.axis,
        "differs": list(each.differs),
        "curves": [_curve(curve, score) for curve, score in zip(each.curves, scores)],
    }


def _curve(curve: Curve, score: Score) -> dict[str, Any]:
    return {
        "name": curve.name,
        "unit": curve.unit,
        "source": asdict(curve.source),
        "every": curve.every,
        "at_least": curve.at_least,
        "within": curve.within,
        "why": curve.why,
        "has_onset": curve.onset is not None,
        **asdict(score),
        "points": [{**asdict(point), "ratio": point.ratio} for point in score.points],
    }
