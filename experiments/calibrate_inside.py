"""The part of a calibration that happens where the fabric is: `python -m experiments.calibrate_inside FOLDER PLACE`,
"lab" or "machine".

Runs one spec after the other, each once its folder FOLDER/NUMBER is there with spec.yaml in it, until FOLDER/end is:
the lab takes seconds to boot, and needs ten more before Open vSwitch forwards.
"""

from __future__ import annotations

import sys
import time
from itertools import count
from pathlib import Path

from experiments import guest, rundir
from experiments.stage import ground_of

END = "end"
_POLL_S = 0.02


def awaited(folder: Path, number: int) -> Path | None:
    """The folder of step `number`, once it can be run; None when there is no other."""
    step = folder / str(number)
    while not (step / "spec.yaml").exists():
        if (folder / END).exists():
            return None
        time.sleep(_POLL_S)
    return step


def main(folder: Path, place: str) -> int:
    """All steps; exit status as of a run (see `guest.status_of`), a step that fails ends it."""
    return guest.status_of(lambda: _play(folder, place))


def _play(folder: Path, place: str) -> None:
    for number in count():
        step = awaited(folder, number)
        if step is None:
            return
        guest.run(rundir.read_spec(step), step, ground_of(place, "real"))
        guest.tell("step", number=number)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
