"""A walk through the lecture as one JSON-ready document, which its page and its Markdown are made of."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis import made_by
from analysis.claims.glossary import TERMS
from analysis.claims.model import QUICK, VERDICTS, Claim, Judged, Trial
from topologies.units import BadRequest

FORMAT = 1


@dataclass(frozen=True)
class Attempt:
    """A claim as it was tried: what its judge found, the run that it read, the command that repeats this run, and why
    there is no run (None: there is one)."""

    claim: Claim
    judged: Judged
    folder: Path
    repeat: str
    failure: str | None = None


@dataclass(frozen=True)
class Walk:
    """All attempts of a call in the lecture's order: `mode` is one of MODES, `folder` that of the page, `command` what
    makes it again."""

    mode: str
    folder: Path
    command: str
    attempts: Sequence[Attempt]
    provenances: Sequence[Mapping[str, Any]]


def document(walk: Walk) -> dict[str, Any]:
    """The walk, JSON-ready: where it comes from, how many claims have which verdict, every claim, the glossary."""
    counted = Counter(attempt.judged.verdict for attempt in walk.attempts)
    return {
        "format": FORMAT,
        "mode": walk.mode,
        "command": walk.command,
        "made_by": made_by.facts(walk.provenances),
        "verdicts": {verdict: counted[verdict] for verdict in VERDICTS},
        "claims": [_told(attempt, walk) for attempt in walk.attempts],
        "glossary": [asdict(term) for term in TERMS],
    }


def _told(attempt: Attempt, walk: Walk) -> dict[str, Any]:
    claim, judged = attempt.claim, attempt.judged
    return {
        "key": claim.key,
        "slides": claim.slides,
        "says": claim.says,
        "figures": claim.figures,
        "experiment": claim.trial.experiment,
        "keys": dict(claim.trial.keys(walk.mode)),
        "model": claim.model,
        "tolerance": claim.tolerance,
        "assumptions": list(claim.assumptions),
        "verdict": judged.verdict,
        "because": judged.because,
        "rows": [asdict(row) for row in judged.rows],
        "run": os.path.relpath(attempt.folder, walk.folder),
        "drawn": [os.path.relpath(path, walk.folder) for path in judged.figures],
        "repeat": attempt.repeat,
        "left_to_full": left_to_full(claim.trial) if walk.mode == QUICK else "",
        "failure": attempt.failure,
    }


def left_to_full(trial: Trial) -> str:
    """What the quick run leaves to the full one, in words; empty where they are the same."""
    quick, full = trial.quick, trial.full
    names = [name for name in {**full, **quick} if full.get(name) != quick.get(name)]
    told = [f"{name}={quick.get(name, 'its own')} (full: {full.get(name, 'its own')})" for name in names]
    if trial.quick_cases:
        told.append(f"{len(trial.quick_cases)} cases (full: {len(trial.cases) or 'all'})")
    return ", ".join(told)


def check(attempts: Sequence[Attempt]) -> None:
    """That every judgement is one: a known verdict, with rows, and of those at least one number where there was a run;
    raises BadRequest naming the claim."""
    for attempt in attempts:
        judged, key = attempt.judged, attempt.claim.key
        if judged.verdict not in VERDICTS:
            raise BadRequest(f"claim {key}: verdict {judged.verdict!r}; allowed: {', '.join(VERDICTS)}")
        if not judged.rows:
            raise BadRequest(f"claim {key}: no row; allowed: one for each of its figures")
        if attempt.failure is None and all(row.measured is None for row in judged.rows):
            raise BadRequest(f"claim {key}: verdict {judged.verdict!r} without a measured number; allowed: with one")
