"""What captures leave open, in sentences: silences that they cannot explain, and what is wrong with them."""

from __future__ import annotations

from analysis import text
from analysis.capture.packets import Damage
from analysis.explain.model import CERTAIN, UNSURE, Explanation, Finding, each_once
from analysis.transport.stalls import APPLICATION_IDLE, UNEXPLAINED


def unsure(explanation: Explanation) -> list[Finding]:
    """Silences whose cause these captures leave open."""
    stalls = [
        stall
        for flow in each_once(explanation.flows)
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
        for told in [_damage_words(point.damage)]
        if told
    ]


def _damage_words(found: Damage) -> list[str]:
    counted = (
        ("foreign_link", "packet", "of a link type that is not read"),
        ("cut_headers", "packet", "captured shorter than the headers"),
        ("empty", "packet", "of no bytes"),
        ("backwards", "packet", "earlier than the one before"),
        ("garbage_bytes", "byte", "that belong to no packet"),
    )
    told = ["the file ends inside a packet"] if found.truncated else []
    return told + [
        f"{text.counted(getattr(found, name), noun)} {what}" for name, noun, what in counted if getattr(found, name)
    ]
