"""The steps of a training run as it measured them: how long each took, what part of it was computing, what was learned,
and who sent what to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from analysis.run import Run
from topologies.units import BadRequest

_STEP_KEYS = ("step", "start_ns", "end_ns", "ranks")
_TURN_KEYS = ("compute_ns", "compute_end_ns", "end_ns")


@dataclass(frozen=True)
class Turn:
    """A rank's part of a step: how long it computed, when it last did, when it had its result; late: nobody waited."""

    compute_ns: int
    compute_end_ns: int
    end_ns: int
    late: bool


@dataclass(frozen=True)
class TrainingStep:
    """A step of all ranks; loss and accuracy of the model after it, and numbers that were wrong: None where there is no
    model, or nothing to compare."""

    number: int
    start_ns: int
    end_ns: int
    turns: tuple[Turn, ...]
    loss: float | None
    accuracy: float | None
    wrong: int | None

    @property
    def seconds(self) -> float:
        """From the first rank's begin to the last one's end."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def compute_s(self) -> float:
        """What the rank computed that computed most, of those that were waited for."""
        return max((turn.compute_ns for turn in self.turns if not turn.late), default=0) / 1e9

    @property
    def waiting_s(self) -> float:
        """What of the step that rank did not compute: it waited for others and for what they sent."""
        return max(self.seconds - self.compute_s, 0.0)


def training_steps(run: Run) -> tuple[TrainingStep, ...]:
    """The steps that were finished, in order; raises BadRequest for damaged entries."""
    entries = run.entries("steps", _STEP_KEYS, whole=("step", "start_ns", "end_ns"))
    return tuple(_step(run, entry) for entry in entries)


def _step(run: Run, entry: Mapping[str, Any]) -> TrainingStep:
    try:
        turns = tuple(
            Turn(late=bool(turn.get("late")), **{key: int(turn[key]) for key in _TURN_KEYS}) for turn in entry["ranks"]
        )
    except (KeyError, TypeError, ValueError):
        allowed = f"a list of mappings with {', '.join(_TURN_KEYS)}"
        raise BadRequest(f"{run.path / 'measured.json'}: ranks of a step are damaged; allowed: {allowed}") from None
    learned = (entry.get(key) for key in ("loss", "accuracy", "wrong"))
    return TrainingStep(entry["step"], entry["start_ns"], entry["end_ns"], turns, *learned)


def settled(run: Run) -> tuple[TrainingStep, ...]:
    """The steps that times are told of: all but the first, in which transports open their windows, where there are
    more."""
    steps = training_steps(run)
    return steps[1:] or steps


def step_s(run: Run) -> float | None:
    """The median step; None without any."""
    return median(step.seconds for step in settled(run)) if settled(run) else None


def compute_s(run: Run) -> float | None:
    """What the slowest rank computes in a step, the median; None without a step."""
    return median(step.compute_s for step in settled(run)) if settled(run) else None


def waiting_s(run: Run) -> float | None:
    """What of a step is not computing, the median; None without a step."""
    return median(step.waiting_s for step in settled(run)) if settled(run) else None


def waiting_share(run: Run) -> float | None:
    """The part of all steps' time that is not computing: communication that nothing hides."""
    steps = settled(run)
    together_s = sum(step.seconds for step in steps)
    return sum(step.waiting_s for step in steps) / together_s if together_s else None


def wrong_numbers(run: Run) -> int | None:
    """Numbers of all steps that differ from what they must be; None where nothing was compared."""
    counts = [step.wrong for step in training_steps(run) if step.wrong is not None]
    return sum(counts) if counts else None


def rank_hosts(run: Run) -> list[str]:
    """The ranks' hosts, in order; none where the run does not tell."""
    return list((run.measured.get("training") or {}).get("ranks", []))


def helper_hosts(run: Run) -> list[str]:
    """Parameter servers, or the aggregator."""
    return list((run.measured.get("training") or {}).get("helpers", []))


def traffic_per_step(run: Run) -> dict[tuple[str, str], float]:
    """Payload bytes that each host sends to each other one in a step, those that send nothing left out; the whole
    run's over its steps."""
    told, steps = run.measured.get("traffic") or {}, len(training_steps(run))
    pairs = {tuple(pair.split(">")): sent_bytes for pair, sent_bytes in told.items()}
    return {(pair[0], pair[1]): sent_bytes / steps for pair, sent_bytes in pairs.items() if sent_bytes and steps}


def sent_per_step(run: Run) -> float | None:
    """Payload bytes that the rank which sends most sends in a step; None where the run does not tell."""
    told = (run.measured.get("training") or {}).get("bytes_per_step")
    return max(told) if told else None
