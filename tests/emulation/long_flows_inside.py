"""The halves of the long flows' tests that run inside the lab: `python -m tests.emulation.long_flows_inside NAME
ARGUMENTS` (JSON)."""

from __future__ import annotations

import ctypes
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from experiments import limits
from experiments.spec import parse
from experiments.stage import staged
from workloads.capture import Capture, Point
from workloads.faults import Fault, Faults
from workloads.long_flows import BLOCK_BYTES, LongFlow, LongFlows
from workloads.transport import tcp

_PR_SET_TIMERSLACK = 29
MS = 1_000_000


def over_tcp(
    keys: Mapping[str, Any],
    traffic: Sequence[tuple[str, str, int, int]],
    settle_ms: int,
    dscp: int = 0,
    cut_ms: int | None = None,
    folder: str | None = None,
) -> dict[str, Any]:
    """Flows of (sender, receiver, begin, end in ms) on a fabric of `keys`; the port of h1 goes down `cut_ms` after the
    begin. With `folder` that port is captured there."""
    spec = limits.resolve(parse(keys))
    lab_folder = Path(tempfile.mkdtemp(dir="/dev/shm"))  # an ordinary user's own folder does not suit tcpdump
    with staged(spec) as stage:
        steady = tcp.Steady(2 * BLOCK_BYTES, spec.rate_bps * limits.segment_bytes(spec) // (spec.mtu_bytes + 14))
        hot = stage.port_towards("h1")
        with (
            Capture([Point(hot, hot)] if folder else [], lab_folder),
            tcp.connected(stage.fabric, [pair[:2] for pair in traffic], dscp=dscp, steady=steady) as made,
        ):
            begin_ns = time.time_ns() + MS
            asked = [LongFlow(each, begin_ns + a * MS, begin_ns + b * MS) for each, (_, _, a, b) in zip(made, traffic)]
            flows = LongFlows(asked, settle_ms * MS)
            schedule = [] if cut_ms is None else [Fault(begin_ns + cut_ms * MS, hot, "down", (hot,))]
            with Faults(stage.fabric, schedule):
                flows.run()
            ended_ns = time.time_ns()
        flows.write(Path("/dev/shm/arrivals"))
    for file in lab_folder.iterdir():
        shutil.copyfile(file, Path(folder or "", file.name))
    rows = np.fromfile("/dev/shm/arrivals", np.int64).reshape(-1, 3)
    return {
        "names": [connection.name for connection in made],
        "begin_ns": begin_ns,
        "ended_ms": (ended_ns - begin_ns) / MS,
        "outcomes": [{**asdict(each), "undelivered_bytes": each.undelivered_bytes} for each in flows.outcomes()],
        "arrivals": [((at_ns - begin_ns) / MS, flow, size) for at_ns, flow, size in rows.tolist()],
    }


NAMES: dict[str, Callable[..., Any]] = {each.__name__: each for each in (over_tcp,)}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(NAMES[sys.argv[1]](**json.loads(sys.argv[2]))))
