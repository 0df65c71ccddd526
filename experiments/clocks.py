"""The same incast on both clocks, at a rate that a processor carries and at ten times that: what the real clock of this
machine shows of it, beside virtual time.

The stack and the buffer are of FAST 2008 (see experiments/fast08.py); blocks are half as long, so that a timeout is
most of a round at both rates.
"""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.fast08 import STACKS
from experiments.spec import Spec
from topologies.units import format_rate, parse_rate_bps

SLOW, FAST = "100Mbps", "1Gbps"


def both_clocks(spec: Spec) -> tuple[Case, ...]:
    """The main run on the real clock; then a faster link on both."""
    return (
        Case(label("real", format_rate(spec.rate_bps)), {}, "real"),
        Case(label("virtual", FAST), {"rate": FAST}, "virtual"),
        Case(label("real", FAST), {"rate": FAST}, "real"),
    )


def label(clock: str, rate: str) -> str:
    """The case of one clock and rate."""
    return f"{clock}-{format_rate(parse_rate_bps(rate, 'rate'))}".lower()


EXPERIMENT = Experiment(
    name="clocks",
    question="Where do virtual time and this machine's real clock agree, and where not?",
    claim="slide 14's collapse, as earlier emulators run it: on the clock of a machine that has to keep up",
    expects="at 100 Mb/s both clocks show the same collapse; at 1 Gb/s a machine that cannot keep up shows another"
    " network, and its run is marked unfaithful",
    defaults={
        "senders": 8,
        "rate": SLOW,
        "delay": "20us",
        "switch_delay": "10us",
        "buffer": "64KB",
        "bytes": "128KiB",
        "rounds": 20,
        **STACKS["newreno"],
    },
    cases=both_clocks,
)
