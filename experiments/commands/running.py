"""The commands that run something: `run`, `launch` and `shell`, from the request to what is left of it."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import limits, request, rundir, screen
from experiments.catalog import Labelled, Plan, plan
from experiments.commands.concluding import conclude, whole
from experiments.commands.describing import with_topology
from experiments.commands.interrupting import INTERRUPTED, stopping
from experiments.commands.setting import check_programs, setting_of
from experiments.spec import Spec, parse
from topologies.ground import MACHINE
from topologies.units import BadRequest, format_duration

if TYPE_CHECKING:
    from experiments.runner import Setting, Task


def run(arguments: argparse.Namespace) -> int:
    """An experiment: all its runs, then the report; exit status 1 when one failed."""
    wanted = request.requested(arguments.experiment)
    asked = plan(wanted.experiment, {**wanted.keys, **given_keys(arguments)})
    clock = _clock(arguments.clock, wanted.clock, asked)
    runs = _resolved(asked, clock, arguments.only)
    time_scale = _time_scale(arguments.scale, wanted.time_scale)
    if arguments.scale is not None:
        runs = _slowed_and_told(arguments, runs)
    for each in runs:
        check_programs(each.spec)
        limits.memory_bytes(each.spec)
    setting = setting_of(runs, clock, arguments.on, arguments.watchdog, arguments.stall)
    setting = replace(setting, time_scale=time_scale)
    _check_out(arguments.out, setting)
    folder = rundir.create(arguments.out, wanted.experiment.name)
    for each in runs:
        for warning in limits.warnings(each.spec):
            screen.say(f"warning: {each.label}: {warning}")
    _warn_of_the_real_clock(setting, {each.label: each.spec for each in runs if each.clock == "real"})
    if asked.experiment.on_host is not None:
        screen.say(f"{asked.experiment.name}: measuring on this machine, on the real clock")
        rundir.write_host(folder, asked.experiment.on_host())
    try:
        return _run_all(arguments, asked, runs, setting, folder)
    finally:
        rundir.hand_over(folder)


def launch(arguments: argparse.Namespace) -> int:
    """The experiment `launch` with the keys that the options stand for."""
    given = {
        "command": shlex.join(arguments.program),
        "directory": str(Path.cwd()),
        "topology": arguments.topology,
        "ranks": arguments.ranks,
        "timeout": arguments.timeout and format_duration(math.ceil(arguments.timeout * 1e9)),
        "capture": "all" if arguments.capture else None,
        "starter": "mpirun" if arguments.mpi else None,
    }
    twice = {name for name, value in given.items() if value} & set(request.from_words(arguments.set)) - {"directory"}
    if twice:
        raise BadRequest(f"{min(twice)}: given twice, with --set too; allowed: once")
    arguments.set = [*(f"{name}={value}" for name, value in given.items() if value), *arguments.set]
    return run(arguments)


def shell(arguments: argparse.Namespace) -> int:
    """The Mininet prompt on a fabric."""
    from experiments.runner import SHELL, SHELL_WATCHDOG_S, open_shell

    if not sys.stdin.isatty():
        raise BadRequest("shell: standard input is not a terminal; allowed: a terminal")
    spec = shell_spec(arguments.topology, given_keys(arguments))
    limits.memory_bytes(spec)
    clock = arguments.clock or request.CLOCKS[0]
    setting = setting_of([Labelled("main", spec, clock)], clock, arguments.on, SHELL_WATCHDOG_S, None)
    _check_out(arguments.out, setting)
    folder = rundir.create(arguments.out, SHELL)
    try:
        return open_shell(spec, setting, folder)
    finally:
        if not rundir.discard_if_unused(folder):
            rundir.hand_over(folder)


def given_keys(arguments: argparse.Namespace) -> dict[str, str]:
    """Spec keys that the command line sets, as text."""
    seed = {} if arguments.seed is None else {"seed": arguments.seed}
    return {**request.from_words(arguments.set), **seed}


def _time_scale(given: str | None, of_file: str | None) -> int | float | None:
    """How many times slower than asked time runs, if it does; a file may hold a spec that has been slowed down."""
    from experiments.slow_motion.spec import as_number, read_times

    if given is not None and of_file is not None:
        raise BadRequest(f"--scale: {given} is given with a spec that is {of_file} times slower already; allowed: one")
    text = given if given is not None else of_file
    return None if text is None else as_number(read_times(text))


def _slowed_and_told(arguments: argparse.Namespace, runs: list[Labelled]) -> list[Labelled]:
    """The runs in slower time; what that keeps and loses is told."""
    from experiments.slow_motion.runs import slowed_and_told
    from experiments.slow_motion.spec import read_times

    specs = dict(slowed_and_told(runs, read_times(arguments.scale), arguments.watchdog, screen.say))
    return [replace(each, spec=specs[each.label]) for each in runs if each.label in specs]


def _clock(given: str | None, in_file: str | None, asked: Plan) -> str:
    """The clock of the runs that have none of their own; raises BadRequest where an experiment is about clocks."""
    if given and asked.clocks:
        raise BadRequest(
            f"--clock: {given} is given with {asked.experiment.name}, which compares both; allowed: without --clock"
        )
    return given or in_file or request.CLOCKS[0]


def _resolved(asked: Plan, clock: str, only_main: bool) -> list[Labelled]:
    """The runs of a call, each with its clock: its own, or else `clock`."""
    specs = [("main", limits.resolve(asked.main)), *(() if only_main else _cases(asked))]
    return [Labelled(label, spec, asked.clocks.get(label, clock)) for label, spec in specs]


def _cases(asked: Plan) -> Iterator[tuple[str, Spec]]:
    """The comparison runs, resolved; one that cannot work with what the user has set is told and left out."""
    for label, spec in asked.cases:
        try:
            yield label, limits.resolve(spec)
        except BadRequest as error:
            screen.say(f"warning: {label}: left out: {error}")


def _run_all(arguments: argparse.Namespace, asked: Plan, runs: list[Labelled], setting: Setting, folder: Path) -> int:
    from experiments.runner import run_all

    tasks = [_task(asked, each, rundir.case_folder(folder, each.label)) for each in runs]
    with stopping() as stop, screen.progress([task.label for task in tasks]) as note:
        failures = run_all(tasks, setting, stop, note)
    for line in failures:
        screen.say(f"run_experiment: {line}")
    if rundir.has_rounds(folder):
        try:
            with whole(folder):
                conclude(folder, arguments.json, asked.experiment.question)
        except BadRequest as error:
            if not failures:
                raise
            screen.say(f"run_experiment: no report: {error}")  # of what a failed run has left
        except KeyboardInterrupt:
            screen.say(f"the measurement is complete, its report is not: `./run_experiment report {folder}` makes it")
            raise
    if stop.requested:
        return INTERRUPTED
    return 1 if failures else 0


def _task(asked: Plan, one: Labelled, folder: Path) -> Task:
    from experiments.runner import Task

    experiment = asked.experiment
    return Task(one.label, one.spec, folder, experiment.name, experiment.asks, one.clock)


def _check_out(out: Path | None, setting: Setting) -> None:
    """That a session on this machine's own kernel sees the run directory; raises BadRequest below a folder in whose
    place it has memory of its own."""
    from lab.ledger import FOLDER, NAMES

    folder = Path(os.path.realpath(out or "results"))
    hidden = next((each for each in (FOLDER, NAMES) if each in (folder, *folder.parents)), None)
    if setting.real_on == MACHINE and hidden is not None:
        raise BadRequest(
            f"out: {folder} is in {hidden}, where a run on this machine's own kernel has memory of its own; allowed: a"
            " folder elsewhere"
        )


def _warn_of_the_real_clock(setting: Setting, specs: Mapping[str, Spec]) -> None:
    """What calibration knows of runs on the real clock."""
    from experiments import calibration
    from experiments.calibrate import machine

    if not specs:
        return
    try:
        known = calibration.load(calibration.path())
    except BadRequest as error:
        screen.say(f"warning: {error}")  # a run needs none
        return
    for warning in calibration.warnings(specs, known, machine(setting)):
        screen.say(f"warning: {warning}")


def shell_spec(topology: str, given: dict[str, str]) -> Spec:
    """A fabric to look around in: the size that its topology has by itself, a star of five hosts."""
    few = {"senders": 4} if topology == "star" and not given.keys() & {"hosts", "workload"} else {}
    if "failure" in given:
        raise BadRequest("failure: given at the prompt; allowed: in runs (here: link A B down)")
    return limits.resolve(parse({**few, "capture": "off", **with_topology(topology, given)}))
