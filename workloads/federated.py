"""Federated learning (McMahan et al., AISTATS 2017), flat or with edge aggregators between (Liu et al., ICC 2020), as
programs of workloads/collectives/program.py: a real small model is trained, its updates are padded to a large one's
length.

    flat                     hierarchical
          root                      root              a round: models go down, clients train, updates come up and are
        / / | \\ \\                 /     \\            averaged by their numbers of images
       clients               edge       edge
                            / | \\       / | \\        edges may train and average several times in a round

An aggregator goes on when `quorum` of those below it have answered. A later update is taken from the wire all the same,
and dropped; who is late is not waited for by the next round either: it goes on with the newest model there is, and
leaves out those that it has missed. Models are sent to all at the same time, and each update is received when it comes.
The last model reaches everybody and everybody answers it, so that nothing stays unread.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from workloads.collectives.program import Await, Program, Programs, Receive, Send, Signal, Step, Wait
from workloads.federated_plan import ROOT, Diary, Plan
from workloads.federated_updates import (
    Judge,
    Learner,
    Mean,
    computing_times_ns,
    learners,
    packed,
    parameters_of,
    unpacked,
)

_PIECE_BYTES = 64 << 10  # as much as a call hands over: a host's processor is busy with one while the next one comes
_ROUNDING = 1e-9  # of a quorum that is a whole number of children


class Federation:
    """The parties of a plan; `programs` once. `diary` is written as they run; `on_round` hears of each round's entry
    when the root has averaged."""

    def __init__(self, plan: Plan, clock: Callable[[], int], on_round: Callable[[dict[str, Any]], None]) -> None:
        self.plan, self.on_round = plan, on_round
        self.diary = Diary(plan.names, clock)
        self.judge = Judge(plan.seed)
        # Nobody reads padding: all parties share what is sent and where it is put.
        longest = max(plan.scheme.model.padding_bytes, plan.scheme.update.padding_bytes)
        self.sent_padding, self.taken_padding = np.zeros((2, longest), np.uint8)

    def programs(self) -> Programs:
        """What everybody does."""
        taught = zip(self.plan.clients, learners(len(self.plan.clients), self.plan.seed))
        clients = {party: _Client(self, party, learner).programs() for party, learner in taught}
        edges = {party: _Edge(self, party).programs() for party in self.plan.edges}
        return {ROOT: _Root(self).programs(), **edges, **clients}

    def send_update(self, party: int, step: int, samples: int, payload: np.ndarray) -> Program:
        """To the party's parent."""
        layout = self.plan.scheme.update
        self.diary.count("bytes_up", step // self.plan.trainings(party), layout.size_bytes)
        parent, padding = self.plan.parents[party], self.sent_padding[: layout.padding_bytes]
        yield from _send(parent, packed(step, samples, payload), padding)


def _send(peer: int, head: np.ndarray, padding: np.ndarray) -> Program:
    yield Send(peer, head)
    for piece in pieces(padding):
        yield Send(peer, piece)


def _receive(peer: int, head: np.ndarray, padding: np.ndarray) -> Program:
    yield Receive(peer, head)
    for piece in pieces(padding):
        yield Receive(peer, piece)


def pieces(padding: np.ndarray) -> list[np.ndarray]:
    """Padding as it is handed over."""
    return [padding[first : first + _PIECE_BYTES] for first in range(0, len(padding), _PIECE_BYTES)]


def _set(signals: Sequence[Signal]) -> None:
    for signal in signals:
        if not signal.is_set:
            signal.set()


class _Inbox:
    """What comes from a party's parent: `newest` is the newest step and model; `begun[step]` is set when it is that one
    or a later one."""

    def __init__(self, federation: Federation, party: int) -> None:
        self._federation, self._party = federation, party
        trainings = federation.plan.trainings(party)
        self.begun = [Signal() for _ in range(federation.plan.rounds * trainings)]
        self.newest = (-1, federation.judge.first)

    def listen(self) -> Program:
        """Take models up to the last one."""
        plan, diary = self._federation.plan, self._federation.diary
        layout, parent = plan.scheme.model, plan.parents[self._party]
        padding = self._federation.taken_padding[: layout.padding_bytes]
        while self.newest[0] + 1 < len(self.begun):
            head = layout.head()
            yield from _receive(parent, head, padding)
            step, _, content = unpacked(head)
            self.newest = step, parameters_of(content)
            if self._party not in plan.children:
                diary.note_first("broadcast_end_ns", step // plan.trainings(self._party), self._party)
            _set(self.begun[: step + 1])

    def after(self, step: int) -> Await:
        """A newer model than that of `step` is there."""
        return Await((self.begun[step + 1],))


class _Client:
    """Trains whatever model is the newest, and sends what it has learned."""

    def __init__(self, federation: Federation, party: int, learner: Learner) -> None:
        plan = federation.plan
        self._federation, self._party, self._learner = federation, party, learner
        self._inbox = _Inbox(federation, party)
        self._compressor = plan.scheme.compressor(party, plan.seed)
        slowdown = plan.slowdowns.get(plan.names[party], 1.0)
        number = plan.clients.index(party)
        self._times_ns = computing_times_ns(plan.compute_ns, plan.spread, slowdown, number, plan.seed)

    def programs(self) -> list[Program]:
        """Listening, and working."""
        return [self._inbox.listen(), self._work()]

    def _work(self) -> Program:
        plan, diary = self._federation.plan, self._federation.diary
        step = -1
        while step + 1 < len(self._inbox.begun):
            yield self._inbox.after(step)
            step, parameters = self._inbox.newest
            learned, duration_ns = self._learner.learned(parameters), next(self._times_ns)
            yield Wait(duration_ns)
            number = step // plan.trainings(self._party)
            diary.compute(number, self._party, duration_ns)
            diary.note("trained_ns", number, self._party)
            payload = self._compressor.encode(learned)
            yield from self._federation.send_update(self._party, step, self._learner.images, payload)


class _Aggregator(ABC):
    """Sends models to its children and averages what they send back."""

    def __init__(self, federation: Federation, party: int, steps: int) -> None:
        plan = federation.plan
        self._federation, self._party = federation, party
        self._children = plan.children[party]
        self._needed = max(1, math.ceil(plan.quorum * len(self._children) - _ROUNDING))
        self._decoder = plan.scheme.compressor(party, plan.seed)
        self._begun = [Signal() for _ in range(steps)]
        self._newest = (-1, federation.judge.first)
        self._got: dict[int, tuple[int, np.ndarray]] = {}
        self._heard: dict[int, Signal] = {}

    def programs(self) -> list[Program]:
        """The work, and beside it for each child one program that tells it of models and one that hears its answers."""
        links = [program for child in self._children for program in (self._tell(child), self._hear(child))]
        return [self._work(), *links]

    @abstractmethod
    def _work(self) -> Program:
        """What it does in all rounds."""

    def _round_of(self, step: int) -> int:
        return step // self._federation.plan.trainings(self._children[0])

    def _average(self, step: int, parameters: np.ndarray) -> Generator[Step, None, tuple[np.ndarray, int]]:
        """Let the children train, and wait for a quorum: the new parameters and how many images they saw."""
        self._got, self._heard = {}, {child: Signal() for child in self._children}
        self._newest = step, parameters
        _set(self._begun[: step + 1])
        yield Await(tuple(self._heard.values()), self._needed)
        self._heard = {}
        mean = Mean()
        for child in sorted(self._got):
            samples, payload = self._got[child]
            mean.add(samples, self._decoder.decode(payload))
        self._federation.diary.drop(self._round_of(step), [one for one in self._children if one not in self._got])
        return parameters + mean.difference(), mean.samples

    def _tell(self, child: int) -> Program:
        """Send the newest model again and again; one that the child's link had no time for is left out."""
        layout, diary = self._federation.plan.scheme.model, self._federation.diary
        padding = self._federation.sent_padding[: layout.padding_bytes]
        step = -1
        while step + 1 < len(self._begun):
            yield Await((self._begun[step + 1],))
            step, parameters = self._newest
            diary.count("bytes_down", self._round_of(step), layout.size_bytes)
            yield from _send(child, packed(step, 0, parameters), padding)

    def _hear(self, child: int) -> Program:
        """Take the child's updates, those too that come too late to count."""
        layout, diary = self._federation.plan.scheme.update, self._federation.diary
        padding = self._federation.taken_padding[: layout.padding_bytes]
        step = -1
        while step + 1 < len(self._begun):
            head = layout.head()
            yield from _receive(child, head, padding)
            step, samples, payload = unpacked(head)
            diary.note("arrived_ns", self._round_of(step), child)
            if step == self._newest[0] and child in self._heard:
                self._got[child] = samples, payload
                self._heard[child].set()


class _Root(_Aggregator):
    """Where the model of all is kept and tried."""

    def __init__(self, federation: Federation) -> None:
        super().__init__(federation, ROOT, federation.plan.rounds)

    def _work(self) -> Program:
        federation, parameters = self._federation, self._federation.judge.first
        for number in range(federation.plan.rounds):
            federation.diary.begin()
            parameters, _ = yield from self._average(number, parameters)
            federation.diary.end(number, *federation.judge.loss_and_accuracy(parameters))
            federation.on_round(federation.diary.rounds[number])


class _Edge(_Aggregator):
    """Averages for its own clients, once or more, and tells the root how far that went."""

    def __init__(self, federation: Federation, party: int) -> None:
        plan = federation.plan
        super().__init__(federation, party, plan.rounds * plan.edge_rounds)
        self._inbox = _Inbox(federation, party)
        self._compressor = plan.scheme.compressor(party, plan.seed)

    def programs(self) -> list[Program]:
        """An aggregator's, and listening to the root."""
        return [*super().programs(), self._inbox.listen()]

    def _work(self) -> Program:
        number, times = -1, self._federation.plan.edge_rounds
        while number + 1 < self._federation.plan.rounds:
            yield self._inbox.after(number)
            number, first = self._inbox.newest
            parameters, samples = first, 0
            for step in range(number * times, (number + 1) * times):
                parameters, samples = yield from self._average(step, parameters)
            payload = self._compressor.encode(parameters - first)
            yield from self._federation.send_update(self._party, number, samples, payload)
