"""Runs specs, in lab kernels of one core each or on this machine's own, and completes their run directories."""

from __future__ import annotations

import io
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, TypeVar

from controller.policy import FRAMEWORK_VARIABLE, FRAMEWORKS
from experiments import fabrics, limits, records, rundir
from experiments.launch import STALL_S, carried
from experiments.own_kernel import SEARCH_PATH
from experiments.places import run_job
from experiments.spec import LAUNCH, Spec
from lab import machine
from lab.kernel import Kernel
from lab.session import Job, Outcome, Stop
from topologies.ground import LAB, MACHINE
from topologies.units import BadRequest, format_bytes

VIRTUAL = "virtual"
WATCHDOG_S = 900.0
SHELL = "shell"
SHELL_WATCHDOG_S = 24 * 3600.0

# Mininet imports distutils; setuptools' stand-in for it takes longer than all else that a run imports.
_STDLIB_DISTUTILS = {"SETUPTOOLS_USE_DISTUTILS": "stdlib"} if sys.version_info < (3, 12) else {}

# An error of execve: its file is the name of a program, without a folder.
_HARMLESS = "*** Error setting resource limits. Mininet's performance may be affected."  # Mininet's own, of any run
_KILLED = 128 + 9  # SIGKILL, as a shell counts it
_MISSING_TOOL = re.compile(r"\[Errno (2|13)\] .*: '[\w.-]+'$")

_STALLED = (
    "no virtual progress in {:g} s of wall time: the program computes for longer, or polls without resting, which stops"
    " virtual time (docs/launch.md); --stall SECONDS allows more"
)

_FIRST = {LAB: "the lab kernel", MACHINE: "the run's first process"}
_TOLD_TOOLS = ("openvswitch", "openflow_framework")  # the lab tells their versions

OnEvent = Callable[[str, dict[str, Any]], None]
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Task:
    """One spec to run: its label, its resolved spec, its folder (existing), the experiment it belongs to, what that
    asks (question, claim, expected), and its clock (None: the setting's)."""

    label: str
    spec: Spec
    folder: Path
    experiment: str
    asked: Mapping[str, str] = field(default_factory=dict)
    clock: str | None = None


@dataclass(frozen=True)
class Setting:
    """What all tasks of a call share: the lab kernel (None: there is none), the clock ("virtual" or "real"), the
    command line that asked, the wall-clock limits of a run, and of a launched program that makes no virtual progress,
    the place of runs on the real clock ("lab" or "machine"), and how many times slower than asked time runs (None: it
    does not)."""

    kernel: Kernel | None
    clock: str
    command: tuple[str, ...]
    watchdog_s: float = WATCHDOG_S
    stall_s: float | None = STALL_S
    real_on: str = LAB
    time_scale: float | None = None

    def clock_of(self, task: Task) -> str:
        """The clock of a task."""
        return task.clock or self.clock

    def place_of(self, task: Task) -> str:
        """Where a task runs: the virtual clock is the lab kernel's."""
        return LAB if self.clock_of(task) == VIRTUAL else self.real_on


class RunFailed(RuntimeError):
    """A run did not finish; the message is one line, the run directory holds what there is."""


def guest_environment(place: str = LAB) -> dict[str, str]:
    """The whole environment where a fabric is: nothing of the caller's leaks into a run."""
    return {
        "PATH": SEARCH_PATH,
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": "/dev/shm" if place == LAB else str(machine.SCRATCH),
        "SHELL": "/bin/bash",
        **_STDLIB_DISTUTILS,
        **_chosen_framework(),
    }


def _chosen_framework() -> dict[str, str]:
    """The one setting of the caller's that a run heeds: which OpenFlow framework the controller is to run on."""
    asked = os.environ.get(FRAMEWORK_VARIABLE)
    if asked is not None and asked not in FRAMEWORKS:
        raise BadRequest(f"{FRAMEWORK_VARIABLE}: {asked!r} is unknown; allowed: {', '.join(FRAMEWORKS)}")
    return {} if asked is None else {FRAMEWORK_VARIABLE: asked}


def run_task(task: Task, setting: Setting, stop: Stop, on_event: OnEvent = lambda label, event: None) -> Outcome:
    """Run, convert telemetry, write provenance; raises RunFailed after keeping what was measured."""
    if stop.requested:
        raise RunFailed(f"{task.label}: not begun")
    clock = setting.clock_of(task)
    slower = {} if setting.time_scale is None else {rundir.TIME_SCALE: setting.time_scale}
    rundir.write_spec(task.folder, task.spec, experiment=task.experiment, label=task.label, clock=clock, **slower)
    rundir.write_fabric(task.folder, fabrics.document(task.spec))
    times_s: dict[str, float] = {}
    tools: dict[str, str] = {}

    def note(event: dict[str, Any], wall_s: float) -> None:
        if event["event"] in ("booted", "phase"):
            times_s[event.get("name", "booted")] = wall_s
        tools.update({name: event[name] for name in _TOLD_TOOLS if name in event})
        on_event(task.label, event)

    started, errors = rundir.now(), io.BytesIO()
    streams, place = {"stdout": errors, "stderr": errors}, setting.place_of(task)
    outcome = run_job(place, setting.kernel, _job(task, setting), note, stop, **streams)
    if outcome.status == 0:
        # Whole, also when a stop or the watchdog came at the very end; unless code of the user's own has ended it.
        is_whole = (task.folder / "measured.json").is_file()
        outcome = replace(outcome, ended_as="done" if is_whole else "failed")
    told = {"tools": tools, "started": started, "wall": _wall(times_s, outcome)}
    try:
        rundir.write_provenance(task.folder, {**_provenance(task, setting, outcome), **told})
        records.convert(task.folder)
    except OSError as error:  # a full disk, which does not say where it is
        raise RunFailed(f"{task.label}: {task.folder} cannot hold the results: {error}") from error
    if outcome.ended_as != "done":
        raise RunFailed(_explain(task, setting, outcome, errors.getvalue().decode(errors="replace")))
    return outcome


def _provenance(task: Task, setting: Setting, outcome: Outcome) -> dict[str, Any]:
    """What a run was made by, and how it ended."""
    return {
        "kernel": kernel_facts(setting.kernel, setting.place_of(task)),
        "seed": task.spec.seed,
        "clock": setting.clock_of(task),
        "place": setting.place_of(task),
        "command": list(setting.command),
        "ended": rundir.now(),
        "ended_as": outcome.ended_as,
        "exit_status": outcome.status,
        **({"asked": dict(task.asked)} if task.asked else {}),
        **_own(task.spec),
    }


def _own(spec: Spec) -> dict[str, Any]:
    """Where code of the user's own was read, and its hash; its text is in the run directory."""
    found = {key: {"file": plug.file, "name": plug.name, "sha256": plug.sha256} for key, plug in spec.own.items()}
    return {"own": found} if found else {}


def kernel_facts(kernel: Kernel | None, place: str) -> dict[str, Any]:
    """The kernel of a run: of this machine's own nothing is known but its version."""
    if place == MACHINE or kernel is None:
        return {"version": platform.release(), "config_hash": None, "warnings": []}
    return {"version": kernel.version, "config_hash": kernel.config_hash, "warnings": list(kernel.warnings)}


def _job(task: Task, setting: Setting) -> Job:
    place = setting.place_of(task)
    return Job(
        argv=(sys.executable, "-m", "experiments.guest", str(task.folder), place),
        results=task.folder,
        env=guest_environment(place) | (carried(os.environ) if task.spec.workload == LAUNCH else {}),
        cwd=rundir.ROOT,
        memory_bytes=limits.memory_bytes(task.spec),
        seed=task.spec.seed,
        clock=setting.clock_of(task),
        watchdog_s=setting.watchdog_s,
        stall_s=setting.stall_s,
    )


def _wall(times_s: dict[str, float], outcome: Outcome) -> dict[str, float]:
    """Wall-clock seconds of each phase, as far as the run came."""
    spans = {"boot_s": (None, "booted"), "setup_s": ("booted", "built"), "rounds_s": ("rounds", "measured")}
    found = {
        name: round(times_s[end] - (times_s[begin] if begin else 0.0), 4)
        for name, (begin, end) in spans.items()
        if end in times_s and (begin is None or begin in times_s)
    }
    return {**found, "total_s": round(outcome.wall_s, 4)}


def _explain(task: Task, setting: Setting, outcome: Outcome, errors: str) -> str:
    place, lines = setting.place_of(task), [line for line in (*outcome.log, *errors.splitlines()) if line.strip()]
    last = last_word(lines)
    is_told = last and not (place == MACHINE and outcome.status == _KILLED)  # who is killed has said nothing of it
    reason = {
        "watchdog": f"no end after {setting.watchdog_s:g} s of wall time",
        "stalled": _STALLED.format(setting.stall_s or 0.0),
        "interrupted": "interrupted",
        "died": f"{_FIRST[place]} died: {last or 'without a word'}",
    }.get(outcome.ended_as, last if is_told else _status(task, place, outcome))
    if lines:
        (task.folder / "errors.log").write_text("\n".join(lines) + "\n")
    kept = f" (what was measured is in {task.folder})" if rundir.has_rounds(task.folder) else ""
    hint = "; `./run_experiment check` lists what is missing" if _MISSING_TOOL.search(reason) else ""
    return f"{task.label}: {reason}{hint}{kept}"


def last_word(lines: Sequence[str]) -> str:
    """The last line that says something, empty without one."""
    return next((line for line in reversed(lines) if line.strip() not in ("", _HARMLESS)), "")


def _status(task: Task, place: str, outcome: Outcome) -> str:
    """What an exit status without a word says: nothing but the lab's own kernel kills in there."""
    if outcome.status == 0:
        return "it ended before anything was measured (exit status 0)"
    if outcome.status != _KILLED:
        return f"exit status {outcome.status}"
    if place == MACHINE:
        return f"the run was killed (exit status {_KILLED})"
    given = format_bytes(limits.memory_bytes(task.spec))
    return f"the lab's {given} of memory were not enough, and its kernel ended the run (exit status {_KILLED})"


def run_all(
    tasks: Sequence[Task], setting: Setting, stop: Stop, on_event: OnEvent = lambda label, event: None
) -> list[str]:
    """All tasks; returns the failures as lines. On the virtual clock as many at a time as there are cores, the
    longest-looking first; then those on the real clock, one after the other and alone: they share no processor.

    After a stop no further task is begun, and each running one keeps what it has.
    """
    order = sorted(tasks, key=lambda task: -limits.weight(task.spec))
    virtual = [task for task in order if setting.clock_of(task) == VIRTUAL]
    real = [task for task in tasks if setting.clock_of(task) != VIRTUAL]
    cores = len(os.sched_getaffinity(0))
    return [
        failure
        for some, at_once in ((virtual, cores), (real, 1))
        for failure in _run_some(some, at_once, setting, stop, on_event)
    ]


def _run_some(tasks: Sequence[Task], at_once: int, setting: Setting, stop: Stop, on_event: OnEvent) -> list[str]:
    ends = side_by_side(lambda task: run_task(task, setting, stop, on_event), tasks, at_once)
    return [str(error) for error in (future.exception() for _, future in ends) if error is not None]


def side_by_side(
    work: Callable[[_Item], _Result], items: Sequence[_Item], at_once: int
) -> Iterator[tuple[_Item, Future[_Result]]]:
    """Each item with what became of the work on it, as they end, so many at a time and in their order; of those that
    end together the first is the first."""
    with ThreadPoolExecutor(at_once) as pool:
        futures = {pool.submit(work, item): item for item in items}
        left = set(futures)
        while left:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            yield from ((item, future) for future, item in futures.items() if future in done)


def open_shell(spec: Spec, setting: Setting, folder: Path) -> int:
    """The Mininet prompt on the fabric of `spec`, on our terminal; `folder` is writable from inside. Returns
    its exit status."""
    task = Task("main", spec, folder, SHELL)
    rundir.write_spec(folder, spec, experiment=task.experiment, label=task.label, clock=setting.clock)
    place = setting.place_of(task)
    terminal = {"TERM": os.environ.get("TERM", "dumb")}
    job = Job(
        argv=(sys.executable, "-m", "experiments.prompt", str(folder), place),
        results=folder,
        env={**guest_environment(place), **terminal},
        cwd=rundir.ROOT,
        memory_bytes=limits.memory_bytes(spec),
        seed=spec.seed,
        clock=setting.clock,
        watchdog_s=setting.watchdog_s,
        interactive=True,
    )
    return run_job(place, setting.kernel, job).status
