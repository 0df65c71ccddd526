"""One run for a bench, in a folder that is gone afterwards: what it has left behind."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from experiments import limits
from experiments.runner import Setting, Task, run_task
from experiments.spec import Spec, parse
from lab.session import Stop


@dataclass(frozen=True)
class Done:
    """What one run has left behind."""

    spec: Spec
    measured: dict[str, Any]
    wall: dict[str, float]
    queue_times_ns: Any
    queue_packets: Any
    pauses: list[tuple[int, str, str]]


def bench_run(keys: Mapping[str, Any], setting: Setting) -> Done:
    """Run the spec of `keys` once; raises RunFailed."""
    spec = limits.resolve(parse(keys, Spec()))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run_task(Task("bench", spec, folder, "bench"), setting, Stop())
        queue, pauses = (_columns(folder / "telemetry" / name) for name in ("queue.parquet", "pauses.parquet"))
        return Done(
            spec,
            json.loads((folder / "measured.json").read_text()),
            json.loads((folder / "provenance.json").read_text())["wall"],
            np.array(queue.get("time_ns", [])),
            np.array(queue.get("queue_packets", [])),
            list(zip(*(pauses.get(name, []) for name in ("time_ns", "port", "event")))),
        )


def _columns(file: Path) -> dict[str, list[Any]]:
    return pyarrow.parquet.read_table(file).to_pydict() if file.exists() else {}
