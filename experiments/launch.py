"""Any program on the fabric, one rank a host: `./run_experiment launch -n 8 -- python train.py`."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from experiments.catalog import Experiment
from experiments.keys.launch import MPIRUN
from experiments.spec import LAUNCH, Spec, refuse

STALL_S = 60.0  # of wall time without virtual progress: a rank may compute as long at a time

# The caller's environment goes into the lab beside the lab's own, each name with this before it.
_CALLERS = "FABRICLAB_CALLERS_"
_DIRECTORY = "FABRICLAB_DIRECTORY"


def words(spec: Spec) -> list[str]:
    """The program and its words; raises BadRequest when there is none, or when no shell could read it."""
    try:
        found = shlex.split(spec.command or "")
    except ValueError as error:
        refuse("command", f"{spec.command!r} is given ({error})", "words as a shell reads them")
    if not found:
        refuse("command", f"{spec.command or 'auto'} is given with workload={LAUNCH}", "a program and its words")
    return found


def check_program(spec: Spec) -> None:
    """Raise BadRequest when a launch's folder or program is not there, as far as that shows from outside the lab."""
    if spec.workload != LAUNCH:
        return
    program, directory = words(spec)[0], Path(spec.directory or ".").absolute()
    if not directory.is_dir():
        refuse("directory", f"{directory} is given, and is no folder", "a folder")
    if not _found(program, directory):
        refuse("command", f"{program} is no program in the PATH, nor from {directory}", "a program that is there")
    if spec.starter == MPIRUN and not shutil.which(MPIRUN):
        refuse("starter", f"{MPIRUN} is given, and is not installed", "ranks, or apt-get install openmpi-bin")


def _found(program: str, directory: Path) -> bool:
    if "/" not in program:
        return shutil.which(program) is not None
    path = directory / program
    return path.is_file() and os.access(path, os.X_OK)


def carried(environment: Mapping[str, str]) -> dict[str, str]:
    """What a launch's guest gets beside its own environment: the caller's, and where the caller stands."""
    return {**{_CALLERS + name: value for name, value in environment.items()}, _DIRECTORY: str(Path.cwd())}


def callers(environment: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment, out of the guest's."""
    named = ((name.partition(_CALLERS), value) for name, value in environment.items())
    return {name: value for (before, prefix, name), value in named if prefix and not before}


def directory(spec: Spec, environment: Mapping[str, str]) -> Path:
    """Where the program runs, seen from inside the lab."""
    return Path(environment.get(_DIRECTORY, "/"), spec.directory or "")


EXPERIMENT = Experiment(
    name=LAUNCH,
    question="What does this program do on this fabric, with one rank a host?",
    claim="slides 3, 6 to 9: any cluster program, unmodified",
    expects="every rank ends with status 0; what it sent shows at its link",
    defaults={"workload": LAUNCH, "topology": "leaf_spine", "capture": "off"},
)
