"""What the commands `claims` and `papers` share: a folder of runs that is theirs alone, and gone on with until all are
there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import rundir, screen, walking
from experiments.commands.interrupting import stopping
from experiments.commands.setting import setting_of
from experiments.launch import STALL_S

if TYPE_CHECKING:
    from experiments.runner import Setting

_WATCHDOG_S = 1800.0


def setting(wanted: Sequence[walking.Wanted]) -> Setting:
    """That of all runs: the virtual clock."""
    return setting_of([run for each in wanted for run in each.runs], "virtual", None, _WATCHDOG_S, STALL_S)


@contextmanager
def held(out: Path | None, command: str) -> Iterator[Path]:
    """The folder, this process's alone; raises BadRequest for one of something else, and while somebody else runs the
    command in it. Under sudo it belongs to the invoking user afterwards."""
    folder = walking.opened(out, command)
    lock = walking.lock(folder, command)
    try:
        yield folder
    finally:
        os.close(lock)
        rundir.hand_over(folder)


def run_missing(wanted: Sequence[walking.Wanted], folder: Path, out: Path, setting: Setting) -> dict[str, str] | None:
    """Do below `folder` what is not done yet; name of a run -> why it failed; None when stopped, which is told, as is
    how `out` is gone on with."""
    from analysis import text

    every, version = walking.steps(wanted, folder), walking.this_version()
    waiting = [step for step in every if not walking.is_done(step, version)]
    screen.say(f"{text.counted(len(every), 'run')}, {len(every) - len(waiting)} of them done already")
    walking.clear(wanted, waiting, folder)
    walking.measure_host(wanted, folder, screen.say)
    with stopping() as stop:
        failures = walking.run_steps(waiting, setting, stop, screen.say)
    for name, why in failures.items():
        screen.say(f"run_experiment: {name}: {why}")
    if not stop.requested:
        return failures
    screen.say(f"stopped: what is done is kept in {out}; the same command with --out {out} goes on")
    return None


def provenances(wanted: Sequence[walking.Wanted], folder: Path) -> list[dict[str, Any]]:
    """Where each run comes from, as far as it was made."""
    paths = [step.folder / "provenance.json" for step in walking.steps(wanted, folder)]
    return [json.loads(path.read_text()) for path in paths if path.is_file()]
