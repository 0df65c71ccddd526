"""The commands about this machine: `check`, `calibrate`, `clean`, `kernel` and `bench`."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import screen
from experiments.catalog import Labelled
from experiments.commands.interrupting import INTERRUPTED, stopping
from experiments.commands.setting import built_kernel, setting_of
from topologies.units import BadRequest, format_rate

if TYPE_CHECKING:
    from experiments.calibration import Calibration


def check(arguments: argparse.Namespace) -> int:
    """Everything that this machine has or lacks; exit status 1 when nothing can run."""
    from experiments.preflight import checks, runnable

    found = checks()
    screen.table(
        "what this machine can run",
        ["requirement", "needed by", "", "seen", "fix"],
        [[check.name, check.needed_by, check.mark, check.seen, "" if check.holds else check.fix] for check in found],
    )
    ways = runnable(found)
    print(f"runs here: {', '.join(ways) if ways else 'nothing yet'}")
    return 0 if ways else 1


def calibrate(arguments: argparse.Namespace) -> int:
    """Find what this machine carries, tell each step as it ends, and keep the answer; exit status 1 when it cannot be
    kept, 130 after an interruption."""
    from experiments import calibrate as calibrating
    from experiments import calibration
    from experiments.calibrate import Step
    from experiments.places import check_idle
    from experiments.runner import RunFailed

    if arguments.on is None:
        check_idle()  # else the lab would be measured, where runs on a free machine do not go
    hosts = arguments.hosts
    first = Labelled("first", calibrating.step_spec(hosts, calibrating.LADDER_BPS[0], has_delay=False), "real")
    setting = setting_of([first], first.clock, arguments.on, calibrating.WATCHDOG_S, None)
    file = calibration.path()
    calibration.load(file)  # one that is none is told before the work

    def tell(step: Step) -> None:
        screen.say(f"{format_rate(step.rate_bps)}: {step.verdict}{': ' if step.because else ''}{step.because}")

    # Swept by a later session (lab.session.control_folder) when this process is killed.
    prefix = f"fabriclab-lab-{os.getpid()}-"
    with stopping() as stop, tempfile.TemporaryDirectory(prefix=prefix) as folder:
        try:
            found = calibrating.calibrate(Path(folder), hosts, setting, stop, tell)
        except RunFailed:
            if not stop.requested:
                raise
            screen.say("run_experiment: calibrate: interrupted")
            return INTERRUPTED
    return _keep(found, file, arguments.json)


def _keep(found: Calibration, file: Path, as_json: bool) -> int:
    """Keep the answer and print it, which does not depend on that; exit status 1 when it cannot be kept."""
    from experiments import calibration

    try:
        calibration.store(file, found)
        lost = ""
    except (OSError, BadRequest) as error:
        lost = f"run_experiment: calibrate: not kept in {file}: {error}"
    carried = format_rate(found.rate_bps) if found.rate_bps else "none of the rates that were tried"
    kept = "" if lost else f"; kept in {file}"
    told = f"{found.hosts} hosts on the real clock ({found.machine.place}): {carried} faithfully{kept}"
    print(json.dumps(asdict(found), indent=1) if as_json else told)
    if lost:
        screen.say(lost)
    return 1 if lost else 0


def clean(arguments: argparse.Namespace) -> None:
    """Remove what a killed run has left, and tell it."""
    from lab import machine

    removed = machine.clean()
    print(f"removed: {', '.join(removed)}" if removed else "nothing is left of any run")


def kernel_build(arguments: argparse.Namespace) -> None:
    """Build the lab kernel, and describe it."""
    from lab.build import build_kernel
    from lab.kernel import describe
    from lab.progress import shown_progress
    from lab.source import BadSource

    try:
        with shown_progress() as progress:
            kernel = build_kernel(arguments.source, progress)
    except BadSource as error:
        raise BadRequest(f"--source: {error}") from None
    print(describe(kernel))


def kernel_info(arguments: argparse.Namespace) -> None:
    """Describe the lab kernel."""
    from lab.kernel import describe

    print(describe(built_kernel()))


def bench(arguments: argparse.Namespace) -> int:
    """Measure what the project promises; exit status 1 when a promise is not kept."""
    from experiments.bench import main

    return main(arguments.names, built_kernel())
