"""What a claim of the lecture is, and what an attempt at it found: claimed, modelled, measured, verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from analysis.run import Run

QUICK, FULL = MODES = ("quick", "full")
REPRODUCED, REPRODUCED_IF, NOT_REPRODUCED = "reproduced", "reproduced if", "not reproduced"
VERDICTS = (REPRODUCED, REPRODUCED_IF, NOT_REPRODUCED)


@dataclass(frozen=True)
class Row:
    """One figure of a claim, in its unit: what the lecture says, what arithmetic gives, what the fabric did.

    A value is None where there is none: a claim without a number, no model of it, a run that does not tell. `holds`:
    whether measured agrees with claimed within the tolerance (in words); None where nothing is claimed or measured.
    `extrapolated`: measured is a line fitted to smaller sizes, read beyond the largest. `source`: the run and file, or
    the fit, that measured comes from.
    """

    quantity: str
    claimed: float | None
    modelled: float | None
    measured: float | None
    unit: str
    tolerance: str
    holds: bool | None
    source: str
    extrapolated: bool = False


@dataclass(frozen=True)
class Judged:
    """What an attempt found: one of VERDICTS; why in one sentence with numbers (of "reproduced if" it begins with the
    assumption); the rows it rests on, at least one; and the figures that show it, files of the run directory."""

    verdict: str
    because: str
    rows: tuple[Row, ...]
    figures: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Trial:
    """What is run for a claim, or for several: `experiment` with the keys of `quick` or of `full` laid over its own;
    `only` (no comparison cases) or the labels of the `cases` wanted (empty: all) say beside what, `quick_cases` which
    of them `quick` makes do with (empty: the same)."""

    experiment: str
    quick: Mapping[str, str]
    full: Mapping[str, str]
    cases: tuple[str, ...] = ()
    quick_cases: tuple[str, ...] = ()
    only: bool = False

    def keys(self, mode: str) -> Mapping[str, str]:
        """The keys laid over the experiment's own."""
        return self.quick if mode == QUICK else self.full

    def labels(self, mode: str) -> tuple[str, ...]:
        """The labels of the cases wanted, empty for all."""
        return (self.quick_cases if mode == QUICK else ()) or self.cases


@dataclass(frozen=True)
class Claim:
    """A claim of the lecture, and how it is tried.

    `key`: its name on the command line; `slides` such as "11" or "13, 17"; `says`: the claim in one sentence;
    `figures`: the lecture's figures in words. `trial`: what is run for it; claims for which the same is run share it.
    `model`: the arithmetic in words and symbols; `tolerance`: what counts as agreement; `assumptions`: what the
    emulation takes for granted. `judge` reads the run directory alone and decides by its numbers.
    """

    key: str
    slides: str
    says: str
    figures: str
    trial: Trial
    model: str
    tolerance: str
    judge: Callable[[Run], Judged]
    assumptions: tuple[str, ...] = ()
