"""What RoCE, pauses and DCQCN are promised to do, measured for `run_experiment bench`: each gives plain numbers."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.kinds import shares
from analysis.run import Run
from experiments import dcqcn_convergence, limits, rundir
from experiments.bench_run import bench_run
from experiments.catalog import plan
from experiments.runner import Setting, Task, run_all
from experiments.spec import Spec, known
from lab.session import Stop

_SETTLED_NS = 100_000_000  # two flows of DCTCP have found their share by then
_DCTCP_K_PACKETS = 20
_ROCE_PACKETS = 100_000
_PAUSED_SENDERS = 8


@dataclass(frozen=True)
class RoceSpeed:
    """One queue pair: its share of the link's rate in data, and packets per second of wall time."""

    share: float
    packets_per_s: float


def roce_speed(setting: Setting) -> RoceSpeed:
    """A queue pair sends packets of 4 KB at 100 Gb/s: what arrives, and how long the machine takes for it."""
    size_bytes = _ROCE_PACKETS * 4096
    keys = {"transport": "roce", "senders": 1, "rate": "100Gbps", "mtu": "4200B", "delay": "1us", "rounds": 1}
    done = bench_run({**keys, "bytes": f"{size_bytes}B", "capture": "off", "telemetry": "off"}, setting)
    (took,) = done.measured["rounds"]
    share = size_bytes * 8e9 / (took["end_ns"] - took["start_ns"]) / done.spec.rate_bps
    return RoceSpeed(share, _ROCE_PACKETS / done.wall["rounds_s"])


def dctcp_queue_packets(setting: Setting) -> tuple[float, float, float]:
    """Median, 95th percentile and maximum of the queue, in packets, of two long DCTCP flows at 1 Gb/s with K = 20
    packets and a round trip of 100 us (SIGCOMM 2010, figure 1 and section 4.1)."""
    frame_bytes = Spec().frame_bytes
    keys = {"workload": "long_flows", "topology": "star", "hosts": 3, "rate": "1Gbps", "delay": "24us"}
    marks = {
        "queue": "dctcp",
        "kmin": f"{_DCTCP_K_PACKETS * frame_bytes}B",
        "kmax": f"{_DCTCP_K_PACKETS * frame_bytes}B",
    }
    traffic = {"traffic": "h2>h1@0us,h3>h1@37us", "duration": "500ms", "capture": "off"}
    done = bench_run({**keys, **marks, **traffic}, setting)
    settled = done.queue_packets[done.queue_times_ns > done.queue_times_ns[0] + _SETTLED_NS]
    median, most_of_the_time = np.percentile(settled, (50, 95))
    return float(median), float(most_of_the_time), float(settled.max())


def pause_reactions_ns(setting: Setting) -> tuple[list[int], Spec]:
    """From XOFF until each neighbour is held, over all pauses of an incast; and the spec that it was."""
    keys = {"transport": "roce", "pfc": "on", "rate": "100Gbps", "mtu": "4200B", "senders": _PAUSED_SENDERS}
    done = bench_run(
        {**keys, "buffer": "120KB", "bytes": "1MiB", "rounds": 1, "capture": "off", "telemetry": "off"}, setting
    )
    sent: dict[str, int] = {}
    found = []
    for time_ns, port, event in done.pauses:
        if event == "xoff_sent":
            sent[port.replace("leaf1-eth", "h") + "-eth0"] = time_ns
        elif event == "held" and port in sent:
            found.append(time_ns - sent.pop(port))
    return found, done.spec


@dataclass(frozen=True)
class Settled:
    """Flows of DCQCN in steady state: their share of what the line carries, Jain's index, the queue's 99th percentile,
    and how often a port paused; and Kmax."""

    share: float
    jain: float
    queue_p99_bytes: float
    pauses: int
    kmax_bytes: int


def dcqcn_ratios(setting: Setting) -> dict[str, Settled]:
    """Case -> how its flows fared, N to 1 at 40 and 100 Gb/s, by both sets of thresholds."""
    asked = plan(dcqcn_convergence.EXPERIMENT, {})
    with tempfile.TemporaryDirectory() as scratch:
        tasks = [
            Task(label, limits.resolve(spec), rundir.case_folder(Path(scratch), label), asked.experiment.name)
            for label, spec in asked.cases
        ]
        failures = run_all(tasks, setting, Stop())
        if failures:
            raise RuntimeError(failures[0])
        return {task.label: _settled(Run(task.folder)) for task in tasks}


def _settled(run: Run) -> Settled:
    share, jain, queue = shares.line_share(run), shares.fairness(run), shares.queue(run)
    pauses, kmax_bytes = shares.unpaused(run).measured, run.parameters.kmax_bytes
    return Settled(known(share), known(jain), known(queue).p99_bytes, int(pauses or 0), known(kmax_bytes))


def reaction_bound_ns(spec: Spec) -> int:
    """What a pause is promised to take: a microsecond, the link's delay, and a frame."""
    return 1_000 + spec.delay_ns + spec.frame_bytes * 8 * 10**9 // known(spec.rate_bps)
