"""What the real clock is promised to show of the incast that virtual time shows, for `run_experiment bench`: the main
spec of the experiment `clocks` on both clocks, in the lab kernel, several seeds."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from analysis.fidelity import judge
from analysis.kinds.clock_pairs import REAL, VIRTUAL, Pair, busy_rate_bps
from analysis.run import Run
from analysis.verdicts import goodput_bps
from experiments import clocks, limits, rundir
from experiments.catalog import plan
from experiments.runner import Setting, Task, run_all
from lab.session import Stop


@dataclass(frozen=True)
class Compared:
    """One seed on both clocks: the busy port's rate on the real one over the configured (None: too little was
    captured), goodput there over virtual time's, both incast verdicts, what the fidelity guard says, and why, and its
    own share of the CPU."""

    seed: int
    rate_share: float | None
    goodput_ratio: float
    verdicts: tuple[str, str]
    fidelity: str
    guard_share: float

    @property
    def is_same(self) -> bool:
        """Whether both clocks show the same."""
        return self.verdicts[0] == self.verdicts[1]


def compare(setting: Setting, repeats: int) -> list[Compared]:
    """Seeds 1 to `repeats`, each on both clocks; raises RuntimeError when a run fails."""
    with tempfile.TemporaryDirectory() as scratch:
        tasks = {
            (seed, clock): _task(Path(scratch), seed, clock)
            for seed in range(1, repeats + 1)
            for clock in (VIRTUAL, REAL)
        }
        failures = run_all(list(tasks.values()), setting, Stop())
        if failures:
            raise RuntimeError(failures[0])
        folders = {key: task.folder for key, task in tasks.items()}
        return [
            _compared(seed, Pair(Run(folders[seed, VIRTUAL]), Run(folders[seed, REAL])))
            for seed in range(1, repeats + 1)
        ]


def _task(scratch: Path, seed: int, clock: str) -> Task:
    name = f"{clock}-{seed}"
    spec = limits.resolve(plan(clocks.EXPERIMENT, {"seed": seed}).main)
    return Task(name, spec, rundir.case_folder(scratch, name), clocks.EXPERIMENT.name, clock=clock)


def _compared(seed: int, pair: Pair) -> Compared:
    rate_bps, line_bps = busy_rate_bps(pair.real), pair.real.parameters.path.rate_bps
    virtual_bps, real_bps = (goodput_bps(run.rounds) or 0.0 for run in (pair.virtual, pair.real))
    share = None if rate_bps is None else rate_bps / line_bps
    fidelity = judge(pair.real)
    words = fidelity.words if fidelity else pair.guard
    return Compared(
        seed, share, real_bps / virtual_bps, pair.verdicts, words, pair.real.measured["fidelity"]["probe_share"]
    )
