"""What commands that run something share: the lab kernel, where there is one, and the setting of their runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from experiments import screen
from experiments.spec import Spec
from lab.kernel import Kernel
from topologies.ground import LAB
from topologies.units import BadRequest


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


def setting_of(arguments: argparse.Namespace, runs: Sequence[tuple[str, Spec]]) -> Any:
    """What all runs of a call share; each is given by its clock and spec. Raises BadRequest for one that cannot run."""
    from experiments import places
    from experiments.runner import Setting

    kernel = found_kernel()
    if any(clock == "virtual" for clock, _ in runs):
        places.check_virtual(kernel)
    place, told = LAB, ""
    real = [spec for clock, spec in runs if clock == "real"]
    if real:
        place, told = places.real_place(arguments.on, real, kernel)
    elif arguments.on:
        raise BadRequest(f"--on: {arguments.on} is given with the virtual clock; allowed: with --clock real")
    if told:
        screen.say(told)
    command = ("./run_experiment", *sys.argv[1:])
    return Setting(kernel, arguments.clock, command, arguments.watchdog, arguments.stall, place)
