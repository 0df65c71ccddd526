"""A verdict's evidence as a table."""

from __future__ import annotations

from analysis import text
from analysis.pages.markup import Cell, Html, table
from analysis.verdicts import Evidence, Value, Verdict

_HEADS = ("evidence", "holds", "measured", "configured", "modelled", "holds if", "read from")
_HOLDS = {True: ("✓ yes", "good"), False: ("✗ no", "bad"), None: ("missing", "open")}


def evidence_table(verdict: Verdict) -> Html:
    """One row for each piece, with its values and where they were read."""
    return table(_HEADS, (_row(piece) for piece in verdict.evidence), whole=(0, 1, 2, 3, 4), stacked=True)


def _row(piece: Evidence) -> list[Cell]:
    words, colour = _HOLDS[piece.holds] if piece.applies else ("n/a", "soft")
    holds = Html(f'<span class="{colour}">{words}</span>')
    values = (_quantity(value, piece.unit) for value in (piece.measured, piece.configured, piece.modelled))
    return [piece.name, holds, *values, piece.tolerance, piece.source]


def _quantity(value: Value, unit: str) -> str:
    """A value in words, with its unit."""
    if value is None or isinstance(value, str):
        return value or text.NOTHING
    scaled = {"s": text.seconds, "b/s": text.rate}.get(unit)
    if scaled:
        return scaled(value)
    return text.Quantity(f"{text.count(value)} {unit.rstrip('s') if value == 1 else unit}", value)
