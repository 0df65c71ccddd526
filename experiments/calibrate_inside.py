"""The part of a calibration that happens where the fabric is: `python -m experiments.calibrate_inside FOLDER lab|host`.

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
from topologies.units import BadRequest

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
    """Exit status 0 at the end, 130 when interrupted; a step that fails is told, and ends it."""
    guest.prepare()
    try:
        for number in count():
            step = awaited(folder, number)
            if step is None:
                return 0
            guest.run(rundir.read_spec(step), step, ground_of(place, "real"))
            guest.tell("step", number=number)
    except KeyboardInterrupt:
        return 130
    except (OSError, RuntimeError, BadRequest) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
