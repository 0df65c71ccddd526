"""Training with parameter servers that do not wait for the slowest (pure).

    worker   gradient, bucket by bucket --->  server of a shard: adds up the first n - b of a version
    worker   <--- version, parameters         then there is a new version, for all who have sent

Synchronous training with backup workers (Chen, Pan, Monga, Bengio, Jozefowicz, "Revisiting Distributed Synchronous
SGD", 2016): of n workers' gradients the first n - b are summed; the others come too late and are dropped, and their
workers get the newest parameters and go on with these. Each shard of the parameters has a version of its own, as each
variable does in TensorFlow's accumulators. What stands for parameters here is the sum of all gradients so far: plain
gradient descent subtracts it, times the learning rate, from what it began with. In the paper b machines more than usual
work; here the number of workers stays, and n - b gradients make a step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from workloads.collectives.problems import differing
from workloads.collectives.program import Await, Program, Programs, Receive, Send, Signal, segments
from workloads.training.job import Job
from workloads.training.log import Log
from workloads.training.numbers import Gradients, Numbers

_VERSION = 1  # a number ahead of the parameters: their version, exact in float32 up to 2**24
Part = tuple[int, slice]  # bucket, which of the gradient's numbers


def shard_parts(job: Job) -> list[list[Part]]:
    """For each server the parts of the gradient that are its own: one of each bucket that is long enough."""
    shards = len(job.helpers)
    found: list[list[Part]] = [[] for _ in range(shards)]
    for bucket, numbers in enumerate(job.buckets):
        for mine, part in zip(found, segments(np.arange(numbers.start, numbers.stop), shards)):
            if len(part):
                mine.append((bucket, slice(int(part[0]), int(part[-1]) + 1)))
    return found


def _gathered(numbers: np.ndarray, parts: Sequence[Part]) -> np.ndarray:
    return np.concatenate([numbers[part] for _, part in parts])


def _scatter(message: np.ndarray, parts: Sequence[Part], into: np.ndarray) -> None:
    first = 0
    for _, part in parts:
        last = first + part.stop - part.start
        into[part] = message[first:last]
        first = last


class _Shard:
    """A server's part of the parameters: its version, the sum of all gradients that made it, and who sent those."""

    def __init__(self, parts: Sequence[Part], needed: int) -> None:
        self.parts, self._needed = parts, needed
        self.length = sum(part.stop - part.start for _, part in parts)
        self.message = np.zeros(_VERSION + self.length, np.float32)
        self.senders: list[list[int]] = []
        self._coming = np.zeros(self.length, np.float32)  # the sum so far for the next version, and whose
        self._coming_from: list[int] = []
        self._closed: defaultdict[int, Signal] = defaultdict(Signal)

    @property
    def version(self) -> int:
        """How many steps the parameters have made."""
        return len(self.senders)

    def follows(self, version: int) -> Await:
        """Done when there is a version after this one."""
        return Await([self._closed[version]])

    def accept(self, worker: int, gradient: np.ndarray) -> None:
        """A gradient of the present version; the last one that is needed makes the next version."""
        self._coming += gradient
        self._coming_from.append(worker)
        if len(self._coming_from) == self._needed:
            self._close()

    def _close(self) -> None:
        """The message is a new one: the old one may still be on its way."""
        self.message = self.message.copy()
        self.message[_VERSION:] += self._coming
        self._coming[:] = 0
        self.senders.append(self._coming_from)
        self._coming_from = []
        self.message[0] = self.version
        self._closed[self.version - 1].set()


class _Truth:
    """What a shard's parameters must be, from who was told to have sent and what that rank's numbers are."""

    def __init__(self, shard: _Shard, numbers: Numbers, model_items: int) -> None:
        self._shard, self._numbers = shard, numbers
        self._known = {0: np.zeros(shard.length, np.float32)}
        self._model_items = sum(
            min(max(model_items - part.start, 0), part.stop - part.start) for _, part in shard.parts
        )

    def wrong(self, parameters: np.ndarray, version: int, least: int) -> int:
        """How many of a version's parameters are wrong, a model's left out; nobody will ask for one before `least`."""
        expected = self._at(version)
        self._known = {kept: sums for kept, sums in self._known.items() if kept >= least}
        rest = slice(self._model_items, None)
        return differing(parameters[rest], expected[rest])

    def _at(self, version: int) -> np.ndarray:
        for step in range(max(self._known), version):
            added = self._numbers.total(self._shard.senders[step], step)
            self._known[step + 1] = self._known[step] + _gathered(added, self._shard.parts)
        return self._known[version]


class _Worker:
    """What a rank knows: each shard's version, the sum of all gradients (of a model's also that of its last step), and
    what it has told its other programs."""

    def __init__(self, job: Job, model_items: int) -> None:
        self.versions = [0] * len(job.helpers)
        self.gradient, self.total = (np.zeros(job.gradient_items, np.float32) for _ in range(2))
        self.before = np.zeros(model_items, np.float32)
        self.ready: defaultdict[tuple[int, int], Signal] = defaultdict(Signal)  # by turn, bucket
        self.got: defaultdict[tuple[int, int], Signal] = defaultdict(Signal)  # by turn, shard
        self.wrong = 0


class ServedTraining:
    """Steps of all ranks and their servers, the job's helpers."""

    def __init__(self, job: Job, log: Log) -> None:
        if job.gradient_items < len(job.helpers):
            raise ValueError(f"gradients of {job.gradient_items} numbers for {len(job.helpers)} parameter servers")
        self._job, self._log = job, log
        self._gradients = Gradients(job, log)
        self._needed = job.ranks - job.backup_workers
        self._shards = [_Shard(parts, self._needed) for parts in shard_parts(job)]
        numbers, model_items = self._gradients.numbers, self._gradients.model_items
        self._truths = [_Truth(shard, numbers, model_items) for shard in self._shards]
        self._workers = [_Worker(job, model_items) for _ in range(job.ranks)]

    def programs(self) -> Programs:
        """What every rank and every server does."""
        ranks, shards = range(self._job.ranks), range(len(self._shards))
        workers = {rank: [self._steps(rank), *(self._exchange(rank, shard) for shard in shards)] for rank in ranks}
        return {**workers, **{self._job.helpers[shard]: self._server(shard) for shard in shards}}

    def _server(self, shard: int) -> list[Program]:
        return [self._serve(self._shards[shard], rank) for rank in range(self._job.ranks)]

    def _serve(self, shard: _Shard, worker: int) -> Program:
        """One worker's gradients come, and it gets parameters for each, until these are the last."""
        gradient, seen = np.empty(shard.length, np.float32), 0
        while seen < self._job.steps:
            first = 0
            for _, part in shard.parts:
                last = first + part.stop - part.start
                yield Receive(worker, gradient[first:last])
                first = last
            if seen == shard.version:
                shard.accept(worker, gradient)
                yield shard.follows(seen)
            message, seen = shard.message, shard.version
            yield Send(worker, message)

    def _exchange(self, rank: int, shard: int) -> Program:
        """A worker sends a server its part of each bucket when it is ready, and takes over the parameters."""
        worker, its, server = self._workers[rank], self._shards[shard], self._job.helpers[shard]
        message, turn = np.empty(_VERSION + its.length, np.float32), 0
        while worker.versions[shard] < self._job.steps:
            for bucket, part in its.parts:
                yield Await([worker.ready[turn, bucket]])
                yield Send(server, worker.gradient[part])
            yield Receive(server, message)
            worker.versions[shard] = int(message[0])
            worker.wrong += self._wrong(rank, shard, message[_VERSION:])
            _scatter(message[_VERSION:], its.parts, worker.total)
            worker.got[turn, shard].set()
            turn += 1

    def _wrong(self, rank: int, shard: int, parameters: np.ndarray) -> int:
        """How many of a worker's parameters of this shard are wrong."""
        versions = [worker.versions[shard] for worker in self._workers]
        return self._truths[shard].wrong(parameters, versions[rank], min(versions))

    def _steps(self, rank: int) -> Program:
        """A worker's turns, each a step of the oldest parameters that it has; it may miss steps."""
        worker, turn = self._workers[rank], 0
        while min(worker.versions) < self._job.steps:
            step = min(worker.versions)
            open_shards = [shard for shard, version in enumerate(worker.versions) if version < self._job.steps]
            self._log.begins(step, rank)
            self._fill(rank)
            yield from self._computes(rank, step, turn)
            yield Await([worker.got[turn, shard] for shard in open_shards])
            self._update(rank, step)
            turn += 1

    def _fill(self, rank: int) -> None:
        """The gradient, of each shard's part that of its own version; a model's is made from all as they are."""
        worker, numbers = self._workers[rank], self._gradients.numbers
        self._gradients.fill(rank, min(worker.versions), worker.gradient)
        for shard, version in zip(self._shards, worker.versions):
            for _, part in shard.parts if version > min(worker.versions) else ():
                own = slice(max(part.start, self._gradients.model_items), part.stop)
                worker.gradient[own] = numbers.of(rank, version)[own]

    def _computes(self, rank: int, step: int, turn: int) -> Program:
        job, worker = self._job, self._workers[rank]
        yield from job.computes(self._log, step, rank, job.forward_ns)
        for bucket, bucket_ns in enumerate(job.bucket_ns):
            yield from job.computes(self._log, step, rank, bucket_ns)
            if job.overlap:
                worker.ready[turn, bucket].set()
        for bucket in range(len(job.buckets)) if not job.overlap else ():
            worker.ready[turn, bucket].set()

    def _update(self, rank: int, step: int) -> None:
        """The model makes all steps that the parameters have made since the worker's last; the worker is late with its
        own if no shard took its part, and misses the others."""
        worker, reached = self._workers[rank], min(self._workers[rank].versions)
        self._log.checked(step, worker.wrong)
        worker.wrong = 0
        now = worker.total[: self._gradients.model_items]
        self._gradients.apply(rank, reached - 1, now - worker.before, self._needed)
        worker.before[:] = now
        if not any(rank in shard.senders[step] for shard in self._shards):
            self._log.late(step, rank)
        self._log.done(step, rank)
        for missed in range(step + 1, reached):
            self._log.skipped(missed, rank)
