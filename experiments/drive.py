"""What the hosts do in a run: the function that drives each value of the key `workload`. Each drives the staged fabric
and puts what it saw into the run's facts as it goes. A module is loaded when its workload is asked for: in the lab
every import takes wall time."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from experiments.playing import Facts, OnRound, Run
from experiments.spec import OWN, word
from experiments.stage import Stage

# Workload -> module of this folder, and the function in it.
_PLAYED_BY = {
    "incast": ("drive_flows", "incast"),
    "permutation": ("drive_flows", "permutation"),
    "all_to_all": ("drive_flows", "all_to_all"),
    "long_flows": ("drive_flows", "long_flows"),
    "pings": ("drive_datagrams", "pings"),
    "datagrams": ("drive_datagrams", "scatter"),
    "streams": ("drive_datagrams", "streams"),
    "collective": ("drive_collective", "collective"),
    "training": ("drive_training", "training"),
    "federated": ("drive_federated", "federated"),
    "launch": ("drive_launch", "launch"),
    "iperf3": ("drive_iperf3", "iperf3"),
    OWN: ("drive_own", "own"),
}


def drive(stage: Stage, facts: Facts, on_round: OnRound, records: Path | None = None) -> None:
    """Run the workload of the stage's spec; records of what happened are in the folder `records` afterwards (None:
    nobody wants them)."""
    module, function = _PLAYED_BY[word(stage.spec.workload)]
    play: Callable[[Run], None] = getattr(importlib.import_module(f"experiments.{module}"), function)
    with tempfile.TemporaryDirectory() as unwanted:
        play(Run(stage, facts, on_round, records or Path(unwanted)))
