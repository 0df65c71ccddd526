"""The runs that the lecture's claims need, planned from the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments import limits
from experiments.catalog import Labelled, find, plan
from experiments.walking import MAIN, Wanted
from topologies.units import BadRequest

if TYPE_CHECKING:
    from analysis.claims.model import Claim

PAGE, DOCUMENT = "claims.html", "claims.json"
COMMAND = "claims"
_CLOCK = "virtual"


def planned(claims: Sequence[Claim], mode: str, asked: Sequence[Claim]) -> list[Wanted]:
    """Every run that the asked ones of all claims need, once; a folder's name is the same whichever are asked for."""
    groups: dict[tuple[Any, ...], list[Claim]] = {}
    for claim in claims:
        trial = claim.trial
        what = (trial.experiment, trial.only, trial.labels(mode), *sorted(trial.keys(mode).items()))
        groups.setdefault(what, []).append(claim)
    return [
        _wanted(group, [claim for claim in group if claim in asked], mode)
        for group in groups.values()
        if any(claim in asked for claim in group)
    ]


def _wanted(group: Sequence[Claim], asked: Sequence[Claim], mode: str) -> Wanted:
    first = group[0]
    trial = first.trial
    keys, labels, experiment = trial.keys(mode), trial.labels(mode), find(trial.experiment)
    planned = plan(experiment, keys)
    cases = dict(() if trial.only else planned.cases)
    unknown = [label for label in labels if label not in cases]
    if unknown:
        raise BadRequest(f"claim {first.key}: case {unknown[0]!r}; allowed: {', '.join(cases) or 'none'}")
    specs = {MAIN: planned.main, **{label: cases[label] for label in labels or cases}}
    runs = tuple(Labelled(label, limits.resolve(spec), _CLOCK) for label, spec in specs.items())
    return Wanted(f"{experiment.name}-{first.key}", experiment, keys, runs, tuple(asked))
