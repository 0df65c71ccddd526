"""What is noted of training: when each rank computed, was done, came late; what was wrong and what was learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Turn:
    """A rank's part of a step, times of CLOCK_REALTIME: how long it computed, when it last did, when it was done; late:
    nobody waited for its gradient, or it had none since it was late with the one before."""

    start_ns: int
    compute_ns: int = 0
    compute_end_ns: int = 0
    end_ns: int | None = None
    late: bool = False


@dataclass
class Step:
    """One step of all ranks; `wrong`: numbers that differ from what they must be (None: nothing was checked); loss and
    accuracy of the model after it, on data that it was not trained on."""

    number: int
    turns: dict[int, Turn] = field(default_factory=dict)
    wrong: int | None = None
    loss: float | None = None
    accuracy: float | None = None

    @property
    def start_ns(self) -> int:
        """When the first rank began."""
        return min(turn.start_ns for turn in self.turns.values())

    @property
    def end_ns(self) -> int:
        """When the last rank was done that was not late; where all were, when the last was."""
        ended = [turn for turn in self.turns.values() if turn.end_ns is not None]
        counted = [turn for turn in ended if not turn.late] or ended
        return max((turn.end_ns for turn in counted if turn.end_ns is not None), default=self.start_ns)


class Log:
    """Notes of `ranks` ranks, by a clock `now` in ns; `on_step` hears of each step when all ranks are through with it,
    in order."""

    def __init__(self, ranks: int, now: Callable[[], int], on_step: Callable[[Step], object] = lambda step: None):
        self._ranks, self._now, self._on_step = ranks, now, on_step
        self._steps: dict[int, Step] = {}
        self._ended_ns: dict[int, int] = {}

    def step(self, number: int) -> Step:
        """A step under way."""
        return self._steps.setdefault(number, Step(number))

    def _turn(self, number: int, rank: int) -> Turn:
        turns = self.step(number).turns
        if rank not in turns:
            turns[rank] = Turn(self._ended_ns[rank] if rank in self._ended_ns else self._now())
        return turns[rank]

    def begins(self, number: int, rank: int) -> None:
        """The rank's step begins now."""
        self._turn(number, rank)

    def computed(self, number: int, rank: int, duration_ns: int) -> None:
        """The rank has just computed for so long."""
        turn = self._turn(number, rank)
        turn.compute_ns += duration_ns
        turn.compute_end_ns = self._now()

    def late(self, number: int, rank: int) -> None:
        """Nobody waited for any part of the rank's gradient of this step."""
        self._turn(number, rank).late = True

    def checked(self, number: int, wrong: int) -> None:
        """So many numbers more were found to be wrong."""
        step = self.step(number)
        step.wrong = (step.wrong or 0) + wrong

    def learned(self, number: int, loss: float, accuracy: float) -> None:
        """How good the model is after the step."""
        step = self.step(number)
        step.loss, step.accuracy = loss, accuracy

    def skipped(self, number: int, rank: int) -> None:
        """The rank had no gradient for this step: it was late with the one before."""
        turn = self._turn(number, rank)
        turn.late, turn.compute_end_ns = True, turn.start_ns
        self.done(number, rank)

    def done(self, number: int, rank: int) -> None:
        """The rank is through with the step now."""
        turn = self._turn(number, rank)
        turn.end_ns = self._ended_ns[rank] = self._now()
        step = self._steps[number]
        if len(step.turns) == self._ranks and all(each.end_ns is not None for each in step.turns.values()):
            del self._steps[number]
            self._on_step(step)
