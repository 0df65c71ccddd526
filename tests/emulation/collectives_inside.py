"""The halves of the collectives' lab tests that run inside the lab: `python -m tests.emulation.collectives_inside NAME
ARGUMENTS`.

Each plays the workload of spec keys on a fabric of its own and gives back its facts; the test judges them on the host.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments import drive, limits
from experiments.spec import parse
from experiments.stage import Stage, staged

_PR_SET_TIMERSLACK = 29
_LEAST_S = 0.001


def played(keys: Mapping[str, Any], beside: Callable[[Stage], object] | None = None) -> dict[str, Any]:
    """The facts of a run; `told` are the rounds that it told of as they ended, `died` is what ended it early."""
    facts: dict[str, Any] = {}
    told: list[int] = []
    with staged(limits.resolve(parse({"workload": "collective", **keys}))) as where:
        if beside is not None:
            threading.Thread(target=beside, args=(where,), daemon=True).start()
        try:
            drive.drive(where, facts, lambda done: told.append(done.bytes))
            died = None
        except ConnectionError as error:
            died = str(error)
    retransmitted = sum(flow["tcp_info"]["total_retrans"] for flow in facts["flows"] if "tcp_info" in flow)
    return {**facts, "flows": len(facts["flows"]), "retransmitted": retransmitted, "told": told, "died": died}


def runs(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The facts of several runs, one after the other."""
    return [played(keys) for keys in cases]


def cut(keys: Mapping[str, Any], host: str, after_calls_s: float) -> dict[str, Any]:
    """The facts of a run in which the cable of `host` is pulled so long after its calls have begun."""

    def pull(where: Stage) -> None:
        time.sleep(_LEAST_S + after_calls_s)
        where.fabric.set_ports([where.port_towards(host)], up=False)

    return played(keys, pull)


NAMES: dict[str, Callable[..., Any]] = {each.__name__: each for each in (runs, cut)}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(NAMES[sys.argv[1]](**json.loads(sys.argv[2]))))
