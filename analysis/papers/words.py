"""Scores in words, the same on the page and in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis import text
from analysis.papers.scores import AGREES, DISAGREES, NOT_MEASURED

HEADS = ("set", "curve", "onset published", "onset here", "median ratio", "farthest ratio", "score")
NO_COLLAPSE = "none"
_OF_SEVERAL = {AGREES: "agree", DISAGREES: "disagree", NOT_MEASURED: NOT_MEASURED}


def rows(told: Mapping[str, Any]) -> Iterator[list[str]]:
    """A row for each curve, below HEADS."""
    for each in told["sets"]:
        for curve in each["curves"]:
            yield [each["key"], curve["name"], *onsets(curve), *ratios(curve), curve["verdict"]]


def onsets(curve: Mapping[str, Any]) -> tuple[str, str]:
    """The published onset and ours; dashes for a curve that has none to compare."""
    if curve["steps"] is None:
        return text.NOTHING, text.NOTHING
    published, ours = (
        NO_COLLAPSE if place is None else str(place) for place in (curve["onset_published"], curve["onset_ours"])
    )
    return published, ours


def ratios(curve: Mapping[str, Any]) -> tuple[str, str]:
    """The median ratio and the one farthest from 1."""
    median, worst = (
        text.NOTHING if value is None else text.digits(value) for value in (curve["median_ratio"], curve["worst_ratio"])
    )
    return median, worst


def counted(told: Mapping[str, Any]) -> str:
    """How many curves have which score."""
    counts = {name: count for name, count in told["verdicts"].items() if count}
    parts = [f"{count} {name if count == 1 else _OF_SEVERAL[name]}" for name, count in counts.items()]
    return f"{text.counted(sum(counts.values()), 'curve')}: {', '.join(parts)}"
