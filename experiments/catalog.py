"""Every experiment by name; an experiment is a module of this folder that ends in EXPERIMENT = Experiment(...)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from experiments.spec import Spec, keys, parse, unfit, without
from topologies.units import BadRequest


@dataclass(frozen=True)
class Case:
    """One run of an experiment beside the main one: its label (a folder name), what it changes, and its clock (None:
    the main run's)."""

    label: str
    changes: Mapping[str, Any]
    clock: str | None = None


def no_cases(spec: Spec) -> tuple[Case, ...]:
    """The main run alone."""
    return ()


@dataclass(frozen=True)
class Experiment:
    """A question, the spec that answers it, and the cases it is compared with.

    `claim`: the slide of the lecture and what it says. `expects`: what should be seen, in a sentence. `cases`
    gives the comparison runs of a main spec; a case that changes a key which the user set is left out (the user
    has decided it), and so is one on whose topology or for whose workload a key that the user set does not apply.
    `on_host` measures something on this machine itself, on the real clock; what it returns is kept as host.json.
    """

    name: str
    question: str
    claim: str
    expects: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    cases: Callable[[Spec], tuple[Case, ...]] = no_cases
    on_host: Callable[[], dict[str, Any]] | None = None

    @property
    def asks(self) -> dict[str, str]:
        """What a person wants to know beside the answer."""
        return {"question": self.question, "claim": self.claim, "expected": self.expects}


@dataclass(frozen=True)
class Plan:
    """What will be run: the main spec and labelled comparison specs, none of them resolved yet; and label -> clock of
    those that have a clock of their own."""

    experiment: Experiment
    main: Spec
    cases: tuple[tuple[str, Spec], ...]
    clocks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Labelled:
    """One run of a call: its label, its resolved spec, its clock."""

    label: str
    spec: Spec
    clock: str


_MODULES = (
    "demo",
    "incast",
    "incast_scaling",
    "fast08",
    "clocks",
    "bisection",
    "oversubscription",
    "hops",
    "polarisation",
    "failover",
    "pfc_unfairness",
    "victim",
    "pause_storm",
    "deadlock",
    "dcqcn_convergence",
    "headroom",
    "control_latency",
    "collectives",
    "launch",
    "iperf3",
    "cpu_overhead",
    "compression",
    "training_breakdown",
    "parallelism",
    "straggler",
    "overlap",
    "allreduce_scaling",
    "hierarchy",
    "federated",
    "own",
)


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


def _fitting(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults, without the sizes of their topology when another one is asked for."""
    if given.get("topology", defaults.get("topology")) == defaults.get("topology"):
        return dict(defaults)
    return {name: value for name, value in defaults.items() if "topology" not in keys()[name].metadata["needs"]}


def plan(experiment: Experiment, given: Mapping[str, Any]) -> Plan:
    """The runs of `experiment` with the user's `given` keys laid over its defaults.

    What a run takes over from the defaults or from the main run, and what does not apply to its topology or workload,
    is dropped.
    """
    main = parse({**_fitting(experiment.defaults, given), **given})
    main = without(main, {key.name for key in unfit(main)} - set(given))
    offered = experiment.cases(main)
    planned = ((case, parse(case.changes, main)) for case in offered)
    cases = tuple(
        (case.label, without(spec, {key.name for key in unfit(spec)}))
        for case, spec in planned
        if not set(given) & set(case.changes) and not {key.name for key in unfit(spec)} & {*given, *case.changes}
    )
    clocks = {case.label: case.clock for case in offered if case.clock is not None}
    return Plan(experiment, main, cases, clocks)
