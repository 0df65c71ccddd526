"""Goodput against the number of senders: where the collapse begins, and what moves it."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

SENDERS = (1, 2, 4, 8, 16, 32, 64)
SCHEMES = {"droptail": {}, "rto_1ms": {"rto_min": "1ms"}, "dctcp": {"queue": "dctcp"}}


def points(spec: Spec) -> tuple[Case, ...]:
    """Every scheme at every number of senders, without captures: counters and queue samples tell enough."""
    return tuple(
        Case(f"{scheme}-n{senders}", {"senders": senders, "capture": "off", **changes})
        for scheme, changes in SCHEMES.items()
        for senders in SENDERS
    )


EXPERIMENT = Experiment(
    name="incast_scaling",
    question="At how many senders does goodput collapse, with tail drop, with a 1 ms timeout, with DCTCP?",
    claim="slide 14: throughput falls 3 to 10 times",
    expects="tail drop collapses once the windows exceed the buffer; a 1 ms timeout softens it, DCTCP prevents it",
    cases=points,
)
