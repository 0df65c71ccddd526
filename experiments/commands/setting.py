"""What commands that run something share: the lab kernel, where there is one, and the setting of their runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments import screen
from experiments.catalog import Labelled
from experiments.iperf3 import check_iperf3_tool
from experiments.launch import check_program
from experiments.spec import Spec
from topologies.ground import LAB
from topologies.units import BadRequest

if TYPE_CHECKING:
    from experiments.runner import Setting
    from lab.kernel import Kernel


def found_kernel() -> Kernel | None:
    """The built lab kernel, if there is one."""
    from lab.kernel import find_kernel

    kernel = find_kernel()
    for warning in kernel.warnings if kernel else ():
        screen.say(f"warning: {warning}")
    return kernel


def built_kernel() -> Kernel:
    """The built lab kernel; raises RuntimeError with the command that builds it."""
    from experiments.places import check_virtual

    return check_virtual(found_kernel())


def check_programs(spec: Spec) -> None:
    """Raise BadRequest where a program that the hosts are to start is not there."""
    check_program(spec)
    check_iperf3_tool(spec)


def asked_by() -> tuple[str, ...]:
    """The command line of this call, as it is typed in the project's folder."""
    return ("./run_experiment", *sys.argv[1:])


def setting_of(
    runs: Sequence[Labelled], clock: str, on: str | None, watchdog_s: float, stall_s: float | None
) -> Setting:
    """What all runs of a call share, which are on `clock` but for those that have their own. Raises BadRequest for one
    that cannot run, or not `on` the place that is asked for."""
    from experiments import places
    from experiments.runner import Setting

    kernel = found_kernel()
    if any(run.clock == "virtual" for run in runs):
        places.check_virtual(kernel)
    place, told = LAB, ""
    real = [run.spec for run in runs if run.clock == "real"]
    if real:
        place, told = places.real_place(on, real, kernel)
    elif on:
        raise BadRequest(f"--on: {on} is given with the virtual clock; allowed: with --clock real")
    if told:
        screen.say(told)
    return Setting(kernel, clock, asked_by(), watchdog_s, stall_s, place)
