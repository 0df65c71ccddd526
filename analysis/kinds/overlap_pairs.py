"""Training steps with overlap beside the same steps without it: what is hidden, and what is saved."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.kinds.shares import alike
from analysis.kinds.training_model import most_saved
from analysis.kinds.training_setting import modelled
from analysis.kinds.training_steps import compute_s, step_s, training_steps
from analysis.run import Run

_SAME = ("compute", "gradient", "ranks", "algorithm", "rate", "topology")
_NONE = ("none", "None", "auto")


@dataclass(frozen=True)
class Pair:
    """A run with overlap, its label, and one without overlap and compression that computes and reduces as much."""

    label: str
    on: Run
    off: Run

    @property
    def is_compressed(self) -> bool:
        """Whether the run with overlap sends less, too."""
        return str(self.on.spec.get("compression")) not in _NONE

    @property
    def on_s(self) -> float:
        """The median step with overlap."""
        return step_s(self.on) or 0.0

    @property
    def off_s(self) -> float:
        """The median step without."""
        return step_s(self.off) or 0.0

    @property
    def compute_s(self) -> float:
        """What the slowest rank computes in a step."""
        return compute_s(self.off) or 0.0

    @property
    def travel_s(self) -> float:
        """How long gradients travel where nothing hides it."""
        return self.off_s - self.compute_s

    @property
    def exposed_s(self) -> float:
        """What is left of that with overlap."""
        return self.on_s - (compute_s(self.on) or 0.0)

    @property
    def hidden(self) -> float:
        """The part of communication that is not seen with overlap, nor what compression does not send."""
        return 1 - self.exposed_s / self.travel_s if self.travel_s > 0 else 0.0

    @property
    def saved(self) -> float:
        """The part of a step that is saved."""
        return 1 - self.on_s / self.off_s

    @property
    def most_saved(self) -> float:
        """What overlap alone could save at the most, by the measured communication."""
        return most_saved(self.compute_s, self.travel_s)

    @property
    def modelled_hidden(self) -> float | None:
        """The part of communication that is hidden by the model; None where it has nothing to say."""
        on, off = modelled(self.on), modelled(self.off)
        return 1 - on.exposed_s / off.exposed_s if on and off and off.exposed_s > 0 else None

    @property
    def modelled_saved(self) -> float | None:
        """The part of a step that is saved by the model."""
        on, off = modelled(self.on), modelled(self.off)
        return 1 - on.seconds / off.seconds if on and off else None


def pairs(run: Run) -> list[Pair]:
    """The run, then its cases, each with overlap beside one without it."""
    runs = {label: each for label, each in alike(run).items() if training_steps(each)}
    plain = [each for each in runs.values() if not _overlaps(each) and str(each.spec.get("compression")) in _NONE]
    found = []
    for label, each in runs.items():
        off = next((other for other in plain if _is_same(each, other)), None)
        if _overlaps(each) and off is not None:
            found.append(Pair(label, each, off))
    return found


def pair_of(run: Run) -> Pair | None:
    """The run's own pair; None without one."""
    return next((pair for pair in pairs(run) if pair.on is run), None)


def _overlaps(run: Run) -> bool:
    return run.spec.get("overlap") is True


def _is_same(run: Run, other: Run) -> bool:
    return all(run.spec.get(key) == other.spec.get(key) for key in _SAME)
