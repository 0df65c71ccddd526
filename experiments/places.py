"""Where a run takes place: in the lab kernel, or on this machine's own.

The virtual clock is the lab kernel's alone. On the real clock a run takes place on this machine's own kernel where the
user is root and all is there, else in the lab kernel without time travel.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from typing import Any

from experiments.own_kernel import beyond, machine_obstacles
from experiments.spec import Spec, refuse
from lab import boot, machine
from lab.kernel import Kernel
from lab.session import Hear, Job, Outcome, Stop, unheard
from topologies import trial
from topologies.ground import LAB, MACHINE
from topologies.units import BadRequest

_VIRTUAL_INSTEAD = "or --clock virtual, which needs none of it"


def real_place(asked: str | None, specs: Sequence[Spec], kernel: Kernel | None) -> tuple[str, str]:
    """The place of runs of `specs` on the real clock, and a line that tells why it is not this machine's own kernel (or
    an empty one). Raises BadRequest when they cannot run where they are asked to, or anywhere."""
    if asked == LAB:
        return _lab(kernel, "--on: lab is given"), ""
    why = _against_machine(specs)
    if why is None:
        return MACHINE, ""
    if asked == MACHINE or kernel is None:
        instead = "--on lab, " if kernel is not None else ""
        raise BadRequest(f"{why}, {instead}{_VIRTUAL_INSTEAD}")
    return LAB, f"real clock: in the lab kernel ({why})"


def check_idle() -> None:
    """That nobody else keeps this machine's own kernel busy, for what measures the place where runs go without --on;
    raises BadRequest."""
    obstacles = machine_obstacles()
    if obstacles and all(each.is_passing for each in obstacles):
        what = " and ".join(each.what for each in obstacles)
        raise BadRequest(f"--on: not given, and {what}; allowed: after its end, or --on lab (the lab kernel's answer)")


def _against_machine(specs: Iterable[Spec]) -> str | None:
    """Why specs cannot run on this machine's own kernel, as key, what is and what is allowed; None when they can."""
    obstacles = machine_obstacles()
    if obstacles:
        what, fix = (" and ".join(words) for words in zip(*((each.what, each.fix) for each in obstacles)))
        return f"clock: real is given, and {what}; allowed: {fix}"
    ground = trial.here()
    found = (each for spec in specs for each in beyond(spec, ground))
    return next((f"{key}: {given}; allowed: {allowed}" for key, given, allowed in found), None)


def _lab(kernel: Kernel | None, given: str) -> str:
    if kernel is None:
        raise BadRequest(
            f"{given}, and there is no lab kernel; allowed: machine, or after ./run_experiment kernel build"
        )
    return LAB


def check_virtual(kernel: Kernel | None) -> Kernel:
    """The lab kernel, which the virtual clock needs; raises BadRequest where no machine of this kind runs one,
    RuntimeError with the command that builds it."""
    seen = f"{platform.system()} {platform.machine()}"
    if kernel is None and seen != "Linux x86_64":
        refuse(
            "clock",
            f"virtual is given on {seen}, and the lab kernel runs on Linux x86_64 alone",
            "sudo ... --clock real where this is Linux, or the VM (vagrant up, docs/vm.md)",
        )
    if kernel is None:
        raise RuntimeError(
            "there is no lab kernel yet: build it once with `./run_experiment kernel build` (about ten CPU-minutes)"
        )
    return kernel


def run_job(
    place: str,
    kernel: Kernel | None,
    job: Job,
    on_event: Hear = unheard,
    stop: Stop | None = None,
    **streams: Any,
) -> Outcome:
    """Run `job` there (see lab.boot.run and lab.machine.run); raises RuntimeError when it cannot be begun."""
    if place == MACHINE:
        return machine.run(job, on_event, stop=stop, **streams)
    return boot.run(check_virtual(kernel).path, job, on_event, stop=stop, **streams)
