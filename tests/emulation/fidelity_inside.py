"""The guest's part of a run beside a program that never rests: `python -m tests.emulation.fidelity_inside RUN HOGS`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from experiments import guest


def main(folder: Path, hogs: int) -> int:
    """The run's exit status."""
    running = [_hog() for _ in range(hogs)]
    try:
        return guest.main(folder, "lab")
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _hog() -> int:
    """A process of ordinary priority that uses all the CPU time it is given."""
    pid = os.fork()
    while pid == 0:
        pass
    return pid


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
