"""Incast and its two cheapest remedies: what happens when 64 hosts answer one at the same time."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec


def cures(spec: Spec) -> tuple[Case, ...]:
    """The same incast with a timeout of one tick instead of 200 ms, and with DCTCP's marking instead of tail drop."""
    return (Case("rto_1ms", {"rto_min": "1ms"}), Case("dctcp", {"queue": "dctcp"}))


EXPERIMENT = Experiment(
    name="incast",
    question="What does a synchronised burst of N senders do to one receiver behind a shallow buffer?",
    claim="slide 14: the buffer fills in about 12 us, TCP waits 200 to 500 ms, throughput collapses",
    expects="rounds of a fraction of a millisecond take 200 ms; a 1 ms timeout leaves a few ms, DCTCP cures",
    cases=cures,
)
