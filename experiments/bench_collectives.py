"""What collectives, federated rounds and launched programs are promised to do, measured for `run_experiment bench`."""

from __future__ import annotations

import re
import shlex
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.kinds.collective_calls import size_rows
from analysis.run import Run
from experiments import federated, limits, rundir
from experiments.bench_run import Done, bench_run
from experiments.catalog import find
from experiments.runner import Setting, Task, run_task
from experiments.spec import Spec, parse
from lab.session import Stop

_LINE_BPS = 100 * 10**9
_RING = {"workload": "collective", "rate": "100Gbps", "mtu": "9000B", "capture": "off", "telemetry": "off"}
_MODELLED_SIZES = "1MiB,4MiB,16MiB,64MiB"
_GLOO_RANKS = 4
_PYTHON = "/usr/bin/python3"  # whose PyTorch is the distribution's


@dataclass(frozen=True)
class RingSpeed:
    """The bus bandwidth of the largest size as a share of the line, and the time over the modelled one of each size."""

    share: float
    of_model: tuple[float, ...]


def ring_speed(setting: Setting) -> RingSpeed:
    """All-reduce by ring on 16 hosts at 100 Gb/s, 1 to 64 MiB over TCP."""
    spec = limits.resolve(parse({**_RING, "ranks": 16, "sizes": _MODELLED_SIZES}, Spec()))
    with tempfile.TemporaryDirectory() as scratch:
        folder = rundir.case_folder(Path(scratch), "main")
        run_task(Task("main", spec, folder, "collectives"), setting, Stop())
        rows = size_rows(Run(folder))
    return RingSpeed(8 * rows[-1].busbw / _LINE_BPS, tuple(row.of_model or 0.0 for row in rows))


def in_network_ratio(setting: Setting) -> float:
    """Bytes on a worker's link by the aggregator over those by a ring: 64 ranks, 1 MiB, MTU 1500 B."""
    keys = {**_RING, "ranks": 64, "sizes": "1MiB", "mtu": "1500B", "iterations": 1}
    counted = [_worker_bytes(bench_run({**keys, "algorithm": name}, setting)) for name in ("in_network", "ring")]
    return counted[0] / counted[1]


def _worker_bytes(done: Done) -> float:
    """The median worker's bytes, both ways."""
    ranks, (size,) = done.measured["collective"]["ranks"], done.measured["sizes"]
    return statistics.median(sum(size["nic_bytes"][host].values()) for host in ranks)


def many_ranks_wall_s(setting: Setting) -> float:
    """Wall time of an all-reduce of 64 ranks x 16 MiB, from boot to end, with its call to warm up."""
    return _total_s(bench_run({**_RING, "ranks": 64, "sizes": "16MiB", "iterations": 1}, setting))


def many_clients_wall_s(setting: Setting) -> float:
    """Wall time of a round of 200 federated clients, from boot to end."""
    case = next(each for each in federated.variants(Spec()) if each.label == "clients_200")
    keys: Mapping[str, Any] = {**find("federated").defaults, **case.changes, "rounds": 1}
    return _total_s(bench_run(keys, setting))


def _total_s(done: Done) -> float:
    return float(done.wall["total_s"])


def has_torch() -> bool:
    """Whether the distribution's Python has PyTorch."""
    return subprocess.run([_PYTHON, "-c", "import torch"], capture_output=True).returncode == 0


def gloo_busbw_bps(setting: Setting) -> float:
    """Bus bandwidth of PyTorch's own all-reduce over gloo, 4 ranks, 16 MiB at 100 Gb/s, as the example tells it."""
    words = [_PYTHON, str(rundir.ROOT / "examples" / "gloo_allreduce.py")]
    keys = {"workload": "launch", "ranks": _GLOO_RANKS, "rate": "100Gbps", "command": shlex.join(words)}
    spec = limits.resolve(parse({**keys, "directory": str(rundir.ROOT), "telemetry": "off", "capture": "off"}, Spec()))
    with tempfile.TemporaryDirectory() as scratch:
        folder = rundir.case_folder(Path(scratch), "main")
        run_task(Task("main", spec, folder, "launch"), setting, Stop())
        return _told_busbw_bps((folder / "ranks" / "0.out").read_text())


def _told_busbw_bps(output: str) -> float:
    """What rank 0 wrote in its last line, "... busbw 93.10 Gb/s"; raises RuntimeError when it did not."""
    found = re.search(r"busbw ([0-9.]+) Gb/s\s*$", output)
    if found is None:
        raise RuntimeError(f"gloo_allreduce.py told no busbw: {output.strip()[-200:]!r}")
    return float(found[1]) * 1e9
