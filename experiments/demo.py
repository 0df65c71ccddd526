"""The demonstration: the 64-to-1 incast, its cures, and goodput against the number of senders, in one report."""

from __future__ import annotations

from experiments import incast, incast_scaling
from experiments.catalog import Case, Experiment
from experiments.spec import Spec


def everything(spec: Spec) -> tuple[Case, ...]:
    """The cures of `incast` and the points of `incast_scaling`."""
    return (*incast.cures(spec), *incast_scaling.points(spec))


EXPERIMENT = Experiment(
    name="demo",
    question="What is incast at 400 Gb/s, and what cures it?",
    claim=incast.EXPERIMENT.claim,
    expects=f"{incast.EXPERIMENT.expects}; {incast_scaling.EXPERIMENT.expects}",
    cases=everything,
)
