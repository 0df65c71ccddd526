"""Our figures beside published ones, in one table: what was published, what a model says of our set-up, what was
measured, and whether that reproduces it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analysis import text
from analysis.pages.markup import Html, table
from analysis.verdicts import NOT_PROVEN

REPRODUCED = "reproduced"
DCQCN_PAPER = "Zhu et al., SIGCOMM 2015"
HPCC_PAPER = "Li et al., SIGCOMM 2019"
FROM_MEMORY = "a shape rather than a threshold: the published value is quoted from memory"
_HEADS = ("run", "what", "published", "by", "modelled here", "measured here", "tolerance", "verdict")


@dataclass(frozen=True)
class Compared:
    """One published figure beside ours, values in words.

    holds: whether ours is within the tolerance, None where there is none of ours; `reason` is told where it is not;
    `assumption`: what the published figure needs, where ours is within the tolerance under that alone.
    """

    label: str
    what: str
    published: str
    source: str
    modelled: str
    measured: str
    tolerance: str
    holds: bool | None
    reason: str = ""
    assumption: str = ""

    @property
    def verdict(self) -> str:
        """Whether the published figure is reproduced, in words."""
        if self.holds is None:
            return NOT_PROVEN
        if self.holds:
            return f"{REPRODUCED} if {self.assumption}" if self.assumption else REPRODUCED
        return f"not reproduced: {self.reason or f'{self.measured} is measured'}"


def published_table(rows: Iterable[Compared]) -> Html:
    """The comparison as a section of the page; empty without rows."""
    filled = [
        [
            each.label,
            each.what,
            each.published,
            each.source,
            each.modelled or text.NOTHING,
            each.measured,
            each.tolerance,
            each.verdict,
        ]
        for each in rows
    ]
    return Html(f"<h2>Beside published figures</h2>\n{table(_HEADS, filled, stacked=True)}\n" if filled else "")
