"""How long each piece of a run's work took to be complete: a flow's block, a rank's call, a step, an update."""

from __future__ import annotations

from typing import NamedTuple

from analysis.kinds.federated_rounds import upload_seconds
from analysis.kinds.training_steps import settled
from analysis.run import Run
from analysis.text import size

_SPAN = ("start_ns", "end_ns")


class Completions(NamedTuple):
    """What was completed, as a noun; what its time runs from and to; and the times."""

    noun: str
    meaning: str
    seconds: tuple[float, ...]


def completions(run: Run) -> Completions:
    """The completion times of what the run's workload is about, as its hosts noted them; none where the workload
    completes nothing, or did not."""
    if run.workload == "collective":
        return _calls(run)
    if run.workload == "training":
        meaning = "from the first rank's begin of a step to the last one's end, without the first step"
        return Completions("step", meaning, tuple(step.seconds for step in settled(run)))
    if run.workload == "federated":
        meaning = "from the end of a client's training until the update is at its aggregator"
        return Completions("update", meaning, tuple(upload_seconds(run)))
    return _blocks(run)


def _blocks(run: Run) -> Completions:
    entries = run.entries("transfers", _SPAN, whole=_SPAN) if "transfers" in run.measured else []
    meaning = "from a sender's start in a round, its jitter over, to the arrival of its block's last byte"
    return Completions("block", meaning, tuple((each["end_ns"] - each["start_ns"]) / 1e9 for each in entries))


def _calls(run: Run) -> Completions:
    """Each rank's part in the calls of the largest size."""
    entries = run.entries("calls", ("size_bytes", "start_ns"), whole=("size_bytes", "start_ns"))
    timed = [each for each in entries if not each.get("warmup") and each.get("rank_end_ns")]
    largest = max((each["size_bytes"] for each in timed), default=0)
    times_s = [
        (end_ns - each["start_ns"]) / 1e9
        for each in timed
        if each["size_bytes"] == largest
        for end_ns in each["rank_end_ns"]
    ]
    meaning = "from the word to begin a call of the largest size to the end of a rank's part in it"
    return Completions(f"rank's part of {size(largest)}", meaning, tuple(times_s))
