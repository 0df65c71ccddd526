"""Every experiment by name; an experiment is a module of this folder that ends in EXPERIMENT = Experiment(...)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from experiments.spec import Spec, parse
from topologies.units import BadRequest


@dataclass(frozen=True)
class Case:
    """One run of an experiment beside the main one: its label (a folder name) and what it changes."""

    label: str
    changes: Mapping[str, Any]


def no_cases(spec: Spec) -> tuple[Case, ...]:
    """The main run alone."""
    return ()


@dataclass(frozen=True)
class Experiment:
    """A question, the spec that answers it, and the cases it is compared with.

    `claim`: the slide of the lecture and what it says. `expects`: what should be seen, in a sentence. `cases`
    gives the comparison runs of a main spec; a case that changes a key which the user set is left out (the user
    has decided it).
    """

    name: str
    question: str
    claim: str
    expects: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    cases: Callable[[Spec], tuple[Case, ...]] = no_cases


@dataclass(frozen=True)
class Plan:
    """What will be run: the main spec and labelled comparison specs, none of them resolved yet."""

    experiment: Experiment
    main: Spec
    cases: tuple[tuple[str, Spec], ...]


_MODULES = ("demo", "fast08", "incast", "incast_scaling")


def catalog() -> dict[str, Experiment]:
    """Name -> experiment."""
    found = (importlib.import_module(f"experiments.{name}").EXPERIMENT for name in _MODULES)
    return {experiment.name: experiment for experiment in found}


def find(name: str) -> Experiment:
    """The experiment called `name`; raises BadRequest listing all names."""
    known = catalog()
    if name not in known:
        raise BadRequest(
            f"experiment: {name!r} is unknown; allowed: {', '.join(known)}, or a YAML file with the key 'experiment'"
        )
    return known[name]


def plan(experiment: Experiment, given: Mapping[str, Any]) -> Plan:
    """The runs of `experiment` with the user's `given` keys laid over its defaults."""
    main = parse({**experiment.defaults, **given})
    cases = tuple(
        (case.label, parse(case.changes, main)) for case in experiment.cases(main) if not set(case.changes) & set(given)
    )
    return Plan(experiment, main, cases)
