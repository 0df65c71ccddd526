"""Wall-clock times of what happens inside the lab, where only virtual time passes: a program there prints a line at
each step, and the host notes when it came."""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path

from experiments import rundir
from experiments.runner import guest_environment
from lab.boot import run as boot
from lab.kernel import Kernel
from lab.session import Job


class Stamps:
    """A binary stream that keeps the wall-clock second at which each line written to it was complete."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._partial = b""

    def write(self, data: bytes) -> None:
        """Take what arrived: whole lines or not."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        now_s = time.monotonic()
        self.seconds.update((line.decode(errors="replace"), now_s) for line in lines)

    def flush(self) -> None:
        """Nothing is held back."""


def timed(
    kernel: Kernel, module: str, *arguments: str, memory_bytes: int, timeout_s: float, remark: str = "\n"
) -> dict[str, float]:
    """Line -> wall-clock second since the boot, of `python -m module arguments` in a lab. Raises RuntimeError with the
    last line of its standard error that has no `remark` in it when it fails."""
    stamps, errors = Stamps(), io.BytesIO()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        job = Job(
            argv=(sys.executable, "-m", module, *arguments),
            results=Path(scratch),
            env=guest_environment(),
            cwd=rundir.ROOT,
            memory_bytes=memory_bytes,
            watchdog_s=timeout_s,
        )
        outcome = boot(kernel.path, job, stdout=stamps, stderr=errors)
    if outcome.status:
        lines = errors.getvalue().decode(errors="replace").splitlines()
        said = [line for line in lines if line.strip() and remark not in line]
        raise RuntimeError(f"{module} {' '.join(arguments)}: {outcome.ended_as}: {''.join(said[-1:])}")
    return {line: second - began_s for line, second in stamps.seconds.items()}
