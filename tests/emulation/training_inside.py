"""The halves of training's lab tests that run inside the lab: `python -m tests.emulation.training_inside ARGUMENTS`."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Mapping
from typing import Any

from experiments import limits
from experiments.drive import drive
from experiments.spec import parse
from experiments.stage import staged

_PR_SET_TIMERSLACK = 29


def trained(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a training run of these spec keys."""
    facts: dict[str, Any] = {}
    with staged(limits.resolve(parse({"workload": "training", **keys}))) as stage:
        drive(stage, facts, lambda done: None)
    return facts


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(trained(json.loads(sys.argv[1]))))
