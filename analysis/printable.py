"""Names from outside, made harmless for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """A text on one line, every character in it that cannot be shown (controls, line ends, what turns the writing
    direction, bytes that are no text) as its escape: "\\x1b"."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
