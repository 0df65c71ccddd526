"""The figures of a claim in words, the same on the page and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from analysis import text

HEADS = ("what", "claimed", "modelled", "measured", "tolerance", "holds", "from")
NUMBERS = (1, 2, 3)
EXTRAPOLATED = "by the line"
_SHOWN = 3  # figures of a claim in the summary
_HOLDS = {True: "yes", False: "no", None: text.NOTHING}
# Unit of a row -> how a value in it is read. Others stand behind the number.
_READ: Mapping[str, Callable[[float], str]] = {
    "s": text.seconds,
    "ns": lambda value: text.seconds(value / 1e9),
    "bytes": text.size,
    "bytes/s": lambda value: f"{text.size(value)}/s",
    "bits/s": text.rate,
    "x": text.times,
    "": text.digits,
}


def figure(value: float | None, unit: str) -> str:
    """A value with its unit as people read it; a dash for None."""
    if value is None:
        return text.NOTHING
    read = _READ.get(unit)
    return str(read(value)) if read else f"{text.digits(value)} {unit}"


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row of a claim's table, below HEADS."""
    measured = figure(row["measured"], row["unit"])
    return [
        row["quantity"],
        figure(row["claimed"], row["unit"]),
        figure(row["modelled"], row["unit"]),
        f"{measured} ({EXTRAPOLATED})" if row["extrapolated"] and row["measured"] is not None else measured,
        row["tolerance"],
        _HOLDS[row["holds"]],
        row["source"],
    ]


def verdict(claim: Mapping[str, Any]) -> str:
    """The verdict; "reproduced if" goes on in the sentence that says why."""
    return f"{claim['verdict']} …" if claim["verdict"].endswith("if") else str(claim["verdict"])


def first_figures(claim: Mapping[str, Any]) -> tuple[str, str]:
    """Claimed and measured in a few words, for the summary: of the rows that claim something, else of all."""
    told = [row for row in claim["rows"] if row["claimed"] is not None] or claim["rows"]
    shown = told[:_SHOWN]
    more = " …" if len(told) > _SHOWN else ""
    claimed = ", ".join(figure(row["claimed"], row["unit"]) for row in shown if row["claimed"] is not None)
    claimed = f"{claimed}{more}" if claimed else text.NOTHING
    return claimed, ", ".join(figure(row["measured"], row["unit"]) for row in shown) + more


def counted(verdicts: Mapping[str, int]) -> str:
    """How many claims have which verdict."""
    total = sum(verdicts.values())
    return f"{text.counted(total, 'claim')}: {', '.join(f'{count} {name}' for name, count in verdicts.items())}"
