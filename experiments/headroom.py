"""What is lost when a lossless class has less headroom than the formula asks for."""

from __future__ import annotations

from experiments import limits
from experiments.catalog import Case, Experiment
from experiments.lossless import needed_headroom_bytes
from experiments.spec import Spec
from topologies.units import format_bytes

PERCENT = (25, 50, 75, 90, 125)  # of the formula's; the main run has all of it


def shares(spec: Spec) -> tuple[Case, ...]:
    """The same incast with less headroom than the formula asks for, and with more."""
    needed_bytes = needed_headroom_bytes(limits.resolve(spec))
    return tuple(
        Case(f"headroom-{part:03}", {"headroom": format_bytes(needed_bytes * part // 100), "allow_loss": "on"})
        for part in PERCENT
    )


EXPERIMENT = Experiment(
    name="headroom",
    question="How much room above XOFF does a lossless class need to be lossless?",
    claim="slide 14: PFC loses nothing; the formula: rate x 2 x one-way delay, two frames, and the reaction",
    expects="nothing is lost from the formula's headroom on; three quarters of it and less lose packets",
    # 2 us are 400 m of fibre: what is on its way is most of the headroom.
    defaults={
        "senders": 8,
        "rate": "100Gbps",
        "delay": "2us",
        "transport": "roce",
        "mtu": "4300B",
        "pfc": "on",
        "xoff": "60KB",  # everybody is paused long before its data is sent
        "bytes": "1MiB",
        "capture": "off",
    },
    cases=shares,
)
