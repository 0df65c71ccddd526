"""A folder of runs that belong together: each done once, side by side, and kept, so that the same command goes on where
it was ended."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Protocol, TypeVar

from experiments import limits, rundir, screen, source
from experiments.catalog import Experiment, Labelled
from lab.kernel import find_kernel
from topologies.units import BadRequest, in_one_line

if TYPE_CHECKING:
    from analysis.claims.model import Claim
    from experiments.runner import Setting
    from lab.session import Outcome, Stop

MAIN = "main"
Version = tuple[str, str, Optional[str]]  # of fabriclab, of its code, of the lab kernel's configuration


@dataclass(frozen=True)
class Wanted:
    """A run with its cases that claims share: its folder's name, the experiment, the keys laid over its own, and the
    resolved spec of every run, the main one first."""

    name: str
    experiment: Experiment
    keys: Mapping[str, str]
    runs: tuple[Labelled, ...]
    claims: tuple[Claim, ...]

    @property
    def command(self) -> str:
        """What repeats it alone; of an experiment's cases those that it does not need are run as well."""
        keys = [word for key, value in self.keys.items() for word in ("--set", f"{key}={value}")]
        only = ["--only"] if len(self.runs) == 1 else []
        return shlex.join(["./run_experiment", self.experiment.name, *keys, *only])


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


_Named = TypeVar("_Named", bound=_Keyed)


def chosen(known: Sequence[_Named], keys: Sequence[str] | None) -> tuple[_Named, ...]:
    """Those of these keys, in their own order, all without keys; raises BadRequest for a key that none has."""
    names = [each.key for each in known]
    for key in keys or ():
        if key not in names:
            raise BadRequest(f"--only: {key!r} is unknown; allowed: {', '.join(names)}")
    return tuple(each for each in known if not keys or each.key in keys)


def opened(out: Path | None, command: str) -> Path:
    """The folder of a walk: a new or an empty one, or that of an earlier walk; raises BadRequest for another."""
    if out is None or not out.is_dir() or not any(out.iterdir()):
        return rundir.create(out, command)
    if not (out / f"{command}.lock").is_file():
        raise BadRequest(f"--out: {out} is not empty; allowed: a new or an empty folder, or one that `{command}` wrote")
    return out.resolve()


def lock(folder: Path, command: str) -> int:
    """Keep others from running the command in the same folder until this process ends; raises BadRequest where somebody
    does. Returns the open file."""
    taken = f"--out: `{command}` runs in {folder} already; allowed: another folder, or when it ends"
    return rundir.lock(folder / f"{command}.lock", taken)


@dataclass(frozen=True)
class Step:
    """One run of those that are wanted, and its folder."""

    wanted: Wanted
    run: Labelled
    folder: Path

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return self.wanted.name if self.run.label == MAIN else f"{self.wanted.name}/{self.run.label}"

    @property
    def weight(self) -> int:
        """How long it looks, beside others."""
        return limits.weight(self.run.spec)


def steps(wanted: Sequence[Wanted], folder: Path) -> list[Step]:
    """All runs, with their folders below `folder`."""
    return [
        Step(each, run, folder / each.name / ("" if run.label == MAIN else f"cases/{run.label}"))
        for each in wanted
        for run in each.runs
    ]


def is_done(step: Step, version: Version) -> bool:
    """Whether the run is there, whole, of the same spec and by this version."""
    try:
        facts = json.loads((step.folder / "provenance.json").read_text())
        whole = (facts["ended_as"], facts["exit_status"]) == ("done", 0)
        same = (facts["fabriclab"], facts["code"], facts["kernel"]["config_hash"]) == version
        json.loads((step.folder / "measured.json").read_text())
        return whole and same and rundir.read_spec(step.folder) == step.run.spec
    except (OSError, ValueError, KeyError, TypeError):  # BadRequest among them
        return False


def this_version() -> Version:
    """That of a run which would be made now."""
    kernel = find_kernel()
    return rundir.version(), source.code(), kernel.config_hash if kernel else None


def clear(wanted: Sequence[Wanted], waiting: Sequence[Step], folder: Path) -> None:
    """Remove what earlier runs left of those that are to run, and cases that are not wanted any more."""
    for each in wanted:
        labels = {run.label for run in each.runs}
        for case in (folder / each.name / "cases").glob("*"):
            if case.name not in labels:
                shutil.rmtree(case)
    for step in waiting:
        for path in step.folder.glob("*"):
            if path.name not in ("cases", "host.json"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        step.folder.mkdir(parents=True, exist_ok=True)


def needs_report(folder: Path) -> bool:
    """Whether a run's report is missing, or older than the run or one of its cases."""
    report, parts = folder / "report.html", [folder, *folder.glob("cases/*")]
    made_ns = report.stat().st_mtime_ns if report.is_file() else 0
    return any((part / "provenance.json").stat().st_mtime_ns > made_ns for part in parts)


def measure_host(wanted: Sequence[Wanted], folder: Path, say: Callable[[str], None]) -> None:
    """What experiments measure on this machine itself, on the real clock: once each, before anything else runs."""
    found: dict[str, dict[str, Any]] = {}
    for each in wanted:
        place, experiment = folder / each.name, each.experiment
        if experiment.on_host is None or (place / "host.json").is_file():
            continue
        if experiment.name not in found:
            say(f"{experiment.name}: measuring on this machine, on the real clock")
            found[experiment.name] = experiment.on_host()
        place.mkdir(parents=True, exist_ok=True)
        rundir.write_host(place, found[experiment.name])


class Progress:
    """How far the runs are, and how long the rest will take: by the seconds that those done took, for their weight."""

    def __init__(self, waiting: Sequence[Step], cores: int, say: Callable[[str], None]) -> None:
        self._left, self._cores, self._say = list(waiting), cores, say
        self._done, self._spent_s, self._weight = 0, 0.0, 0
        self._all = len(waiting)

    def ended(self, step: Step, wall_s: float, failure: str | None) -> None:
        """A run has ended: tell it."""
        self._left.remove(step)
        self._done, self._spent_s, self._weight = self._done + 1, self._spent_s + wall_s, self._weight + step.weight
        left = f", {screen.left(self.left_s)}" if self._left else ""
        told = "done" if failure is None else "FAILED"
        self._say(f"[{self._done}/{self._all}] {step.name}: {told} in {wall_s:.1f} s{left}")

    @property
    def left_s(self) -> float:
        """Wall seconds of what is left, on all cores."""
        return self._spent_s / max(self._weight, 1) * sum(step.weight for step in self._left) / self._cores


def run_steps(waiting: Sequence[Step], setting: Setting, stop: Stop, say: Callable[[str], None]) -> dict[str, str]:
    """Run all, as many at a time as there are cores, the longest-looking first; returns run's name -> why it failed.
    After a stop none is begun any more."""
    from experiments.runner import side_by_side

    cores = len(os.sched_getaffinity(0))
    progress, failures = Progress(waiting, cores, say), {}
    order = sorted(waiting, key=lambda step: -step.weight)
    for step, future in side_by_side(lambda step: _run(step, setting, stop), order, cores):
        wall_s, failure = future.result()
        if stop.requested and failure is not None:
            continue
        progress.ended(step, wall_s, failure)
        if failure is not None:
            failures[step.name] = failure
    return failures


def _run(step: Step, setting: Setting, stop: Stop) -> tuple[float, str | None]:
    """Wall seconds of a run, and why it failed, if it did."""
    from experiments.runner import RunFailed, Task, run_task

    began_s = time.monotonic()
    if stop.requested:
        return 0.0, "not begun"
    experiment = step.wanted.experiment
    task = Task(step.run.label, step.run.spec, step.folder, experiment.name, experiment.asks, step.run.clock)
    try:
        outcome: Outcome = run_task(task, setting, stop)
        return outcome.wall_s, None
    except (RunFailed, OSError) as error:
        return time.monotonic() - began_s, in_one_line(error)
