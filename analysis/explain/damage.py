"""What is wrong with a capture, in words."""

from __future__ import annotations

from analysis import text
from analysis.capture.packets import Damage

_COUNTED = (
    ("foreign_link", "packet", "of a link type that is not read"),
    ("cut_headers", "packet", "captured shorter than the headers"),
    ("empty", "record", "of no bytes"),
    ("backwards", "packet", "earlier than the one before"),
    ("untimed", "packet", "without a time"),
    ("garbage_bytes", "byte", "that belong to no packet"),
)


def damage_words(found: Damage) -> list[str]:
    """A part of a sentence for each kind of damage that a capture has; none for a sound one."""
    counts = ((getattr(found, field), noun, what) for field, noun, what in _COUNTED)
    told = [f"{text.counted(count, noun)} {what}" for count, noun, what in counts if count]
    return [*(["the file ends inside a packet"] if found.truncated else []), *told]
