"""What pause frames mean, in sentences."""

from __future__ import annotations

from analysis import text
from analysis.explain.model import CERTAIN, LIKELY, UNSURE, Explanation, Finding, PauseTree
from analysis.explain.pauses import storms

_SHOWN = 3


def pause_findings(explanation: Explanation) -> list[Finding]:
    """A circle of nodes that wait for each other, storms, and who paused whom, in this order."""
    if not explanation.pauses:
        return []
    return [*_circle(explanation), *_storms(explanation), *_tree(explanation)]


def _circle(explanation: Explanation) -> list[Finding]:
    way = explanation.pause_tree.circle
    if not way:
        return []
    round_ = " waits for ".join([*way, way[0]])
    sentence = f"A circle of pauses: {round_}; where it lasts, nothing in it moves any more (a deadlock)."
    return [Finding(sentence, CERTAIN, "All links of the circle were held at one moment.")]


def _storms(explanation: Explanation) -> list[Finding]:
    return [
        Finding(
            f"{story.source} paused its neighbour at {story.point} for {text.seconds(story.longest_ns / 1e9)} without "
            "a break: a pause storm, as of a NIC that is stuck.",
            LIKELY,
            f"{text.counted(story.pauses, 'pause frame')} without one that resumes in between.",
        )
        for story in storms(explanation.pauses, explanation.points)
    ]


def _tree(explanation: Explanation) -> list[Finding]:
    found = explanation.pause_tree
    frames = sum(story.pauses for story in explanation.pauses)
    held_s = sum(story.total_ns for story in explanation.pauses) / 1e9
    longest_s = max(story.longest_ns for story in explanation.pauses) / 1e9
    where = f"; the congestion is at {_listed(found.roots)}" if found.roots else ""
    held = f"{text.counted(frames, 'pause frame')} held {text.counted(len(found.links), 'link')}"
    sentence = f"{held} for {text.seconds(held_s)} in all, {text.seconds(longest_s)} at the longest{where}."
    timed = any(story.spans for story in explanation.pauses)
    return [Finding(sentence, CERTAIN if timed and explanation.facts.get("rate_bps") else UNSURE, _because(found))]


def _because(found: PauseTree) -> str:
    return f"Who paused whom: {found.because}." if found.because else ""


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
