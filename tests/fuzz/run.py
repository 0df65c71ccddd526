"""Many damaged and strange captures against the invariants: `python -m tests.fuzz.run` (`make fuzz`).

Four of five inputs are mutations of the golden captures, the others are hypothesis's. All follow from the seed; every
input that breaks an invariant is kept, one of each kind, with the command that tries it again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np

from tests.fuzz import containers, generated, invariants, mutations

GOLDEN = Path(__file__).parents[1] / "golden"
COMPANION = GOLDEN / "tail_loss" / "pcap" / "h1-eth0.pcap.gz"  # of the same connection as many of the inputs
_BATCH = 250
_MADE_EVERY = 5  # of so many batches one is hypothesis's
_SEED_FRAMES = 40
_JOINED_EVERY = 8
_MEMORY_BYTES = 4 << 30
_NOTE_S = 5.0
_FAILED = Path(tempfile.gettempdir(), f"fabriclab-fuzz-{os.getuid()}")


@dataclass
class Outcome:
    """What came of some inputs: how many were taken how, and for each kind of failure its first input and count."""

    taken: Counter[str] = field(default_factory=Counter)
    failures: dict[str, tuple[Path, int]] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        """Take in what another process found."""
        self.taken.update(other.taken)
        for kind, (path, count) in other.failures.items():
            first, before = self.failures.get(kind, (path, 0))
            self.failures[kind] = (first, before + count)

    @property
    def inputs(self) -> int:
        """How many there were."""
        return sum(self.taken.values())


@lru_cache(maxsize=1)
def corpus() -> list[list[containers.Frame]]:
    """Pieces of all golden captures, of some dozen frames each: their begins, and what lies around every stall."""
    pieces = []
    for path in sorted(GOLDEN.glob("*/pcap/*.pcap.gz")):
        try:
            frames = containers.frames_of(path)
        except ValueError:
            continue  # of another link type: the mutations make those themselves
        gaps = [after.time_ns - before.time_ns for before, after in zip(frames, frames[1:])]
        longest = gaps.index(max(gaps)) if gaps else 0
        for begin in sorted({0, max(longest - _SEED_FRAMES // 2, 0)}):
            pieces.append(frames[begin : begin + _SEED_FRAMES])
    return pieces


class Fuzz:
    """The inputs of one process, one after the other; each lies in `current` while it is tried."""

    def __init__(self, folder: Path, failed: Path) -> None:
        self.current, self._failed, self.outcome = folder / "input", failed, Outcome()
        self._tried = 0

    def batch(self, seed: int, number: int, count: int) -> None:
        """Try the inputs of one batch."""
        if number % _MADE_EVERY == _MADE_EVERY - 1:
            self._made(seed, number, count)
            return
        for each in range(number * _BATCH, number * _BATCH + count):
            self.attempt(mutations.mutant(seed, each, corpus()), f"{seed}-{each}")

    def _made(self, seed: int, number: int, count: int) -> None:
        numbers = iter(range(number * _BATCH, (number + 1) * _BATCH))

        @hypothesis.seed(seed * 1_000_003 + number)
        @hypothesis.settings(
            max_examples=count,
            phases=[hypothesis.Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(generated.captures())
        def each(data: bytes) -> None:
            self.attempt(data, f"{seed}-{next(numbers, number)}")

        each()

    def attempt(self, data: bytes, name: str) -> None:
        """Try one input; keep it when it breaks something that none before it broke."""
        self.current.write_bytes(data)
        self._tried += 1
        try:
            taken = invariants.check(self.current, None if self._tried % _JOINED_EVERY else COMPANION)
        except (Exception, MemoryError) as error:
            self.outcome.taken["broken"] += 1
            self._keep(_kind(error), data, name)
        else:
            self.outcome.taken[taken] += 1

    def _keep(self, kind: str, data: bytes, name: str) -> None:
        path, count = self.outcome.failures.get(kind, (self._failed / f"{name}.capture", 0))
        if not count:
            self._failed.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.outcome.failures[kind] = (path, count + 1)


def _kind(error: BaseException) -> str:
    """What went wrong where, in one line: equal ones are one failure."""
    if isinstance(error, invariants.Broken):
        return error.what
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "analysis" in Path(each.filename).parts]
    at = f"{'/'.join(Path(frames[-1].filename).parts[-3:])}:{frames[-1].lineno}" if frames else "outside of analysis"
    message = re.sub(r"\d[\d.]*", "N", str(error))
    return f"{type(error).__name__} at {at}: {message}"[:200]


def _counts(total: int) -> Iterator[tuple[int, int]]:
    """(number, inputs) of every batch."""
    for number in range((total + _BATCH - 1) // _BATCH):
        yield number, min(_BATCH, total - number * _BATCH)


def _process(seed: int, batches: Sequence[tuple[int, int]], folder: Path, failed: Path, results: Any) -> None:
    """A process's share of the batches; what it finds goes to `results` after each."""
    strict()
    work = Fuzz(folder, failed)
    for number, count in batches:
        work.outcome = Outcome()
        work.batch(seed, number, count)
        results.put(work.outcome)


def strict() -> None:
    """What NumPy would warn of is an error, and so is what takes more memory than any small input may."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    warnings.simplefilter("error", RuntimeWarning)
    np.seterr(all="raise", under="ignore")


def fuzz(seed: int, total: int, processes: int, failed: Path, note: Callable[[Outcome], None]) -> Outcome:
    """Try `total` inputs in so many processes; `note` is told now and then what came of them so far."""
    found = Outcome()
    results: multiprocessing.Queue[Outcome] = multiprocessing.Queue()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as shared:
        folders = [Path(shared, str(number)) for number in range(processes)]
        running = []
        for number, folder in enumerate(folders):
            folder.mkdir()
            share = list(_counts(total))[number::processes]
            running.append(multiprocessing.Process(target=_process, args=(seed, share, folder, failed, results)))
            running[-1].start()
        left = len(list(_counts(total)))
        while left and any(each.is_alive() for each in running):
            while not results.empty():
                found.add(results.get())
                left -= 1
            note(found)
            time.sleep(0.05)
        for process, folder in zip(running, folders):
            process.join()
            if process.exitcode:
                found.add(_died(process.exitcode, folder, failed))
        while not results.empty():
            found.add(results.get())
    return found


def _died(status: int, folder: Path, failed: Path) -> Outcome:
    """A process that was ended by an input, not by the end of them."""
    failed.mkdir(parents=True, exist_ok=True)
    kept = failed / f"died-{folder.name}.capture"
    shutil.copyfile(folder / "input", kept)
    return Outcome(Counter(broken=1), {f"the process died of it ({status})": (kept, 1)})


class _Progress:
    """Says on stderr how far it is, every few seconds."""

    def __init__(self, total: int) -> None:
        self._total, self._begin_s, self._next_s = total, time.monotonic(), time.monotonic() + _NOTE_S

    def __call__(self, found: Outcome) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _NOTE_S
            rate = found.inputs / (now_s - self._begin_s)
            left_s = (self._total - found.inputs) / rate if rate else 0
            broken = f", {found.taken['broken']} broken" if found.taken["broken"] else ""
            line = f"fuzz: {found.inputs:,} of {self._total:,} inputs, {rate:.0f} a second, {left_s:.0f} s left{broken}"
            print(line, file=sys.stderr, flush=True)


def again(path: Path) -> int:
    """Try one kept input again, with its traceback."""
    strict()
    print(f"{path}: {invariants.check(path, COMPANION)}")
    return 0


def main(words: Sequence[str] | None = None) -> int:
    """The command line; exit status 1 when an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="inputs (default: 100,000)")
    parser.add_argument("--seed", type=int, default=1, help="all inputs follow from it (default: 1)")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="default: one a core")
    parser.add_argument("--failed", type=Path, default=_FAILED, metavar="DIR", help="kept inputs")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try this one file, with its traceback")
    asked = parser.parse_args(words)
    if asked.again:
        return again(asked.again)
    begin_s = time.monotonic()
    found = fuzz(asked.seed, asked.count, asked.processes, asked.failed, _Progress(asked.count))
    return _tell(found, time.monotonic() - begin_s)


def _tell(found: Outcome, seconds: float) -> int:
    taken = ", ".join(f"{count:,} {name}" for name, count in sorted(found.taken.items()))
    print(f"fuzz: {found.inputs:,} inputs in {seconds:.0f} s: {taken}")
    for kind, (path, count) in sorted(found.failures.items(), key=lambda each: -each[1][1]):
        print(f"  {count:,} times: {kind}\n    again: {sys.executable} -m tests.fuzz.run --again {path}")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
