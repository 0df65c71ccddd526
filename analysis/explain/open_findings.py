"""What captures leave open, in sentences: silences that they cannot explain, and what is wrong with them."""

from __future__ import annotations

from analysis import text
from analysis.explain.damage import damage_words
from analysis.explain.model import CERTAIN, UNSURE, Explanation, Finding
from analysis.transport.stalls import APPLICATION_IDLE, UNEXPLAINED


def unsure(explanation: Explanation) -> list[Finding]:
    """Silences whose cause these captures leave open."""
    stalls = [
        stall
        for flow in explanation.once
        for stall in flow.stalls
        if stall.confidence == UNSURE and stall.cause in (APPLICATION_IDLE, UNEXPLAINED)
    ]
    if not stalls:
        return []
    longest = max(stalls, key=lambda stall: stall.seconds)
    count, total = text.counted(len(stalls), "silence"), text.seconds(sum(stall.seconds for stall in stalls))
    sentence = f"{count} of {total} in all cannot be explained from these captures."
    return [Finding(sentence, UNSURE, f"The longest, of {longest.flow}: {longest.reason}.")]


def damage(explanation: Explanation) -> list[Finding]:
    """Captures that are not whole."""
    return [
        Finding(
            f"{point.name} is not whole: {'; '.join(told)}.", CERTAIN, "What is missing may change what is told here."
        )
        for point in explanation.points
        for told in [damage_words(point.damage)]
        if told
    ]
