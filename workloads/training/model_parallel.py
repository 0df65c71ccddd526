"""Tensor and pipeline parallelism as programs (pure): all ranks share one batch, each has a part of the model.

Tensor (Megatron-LM; Shoeybi et al. 2019): every rank has a part of each layer, which is two blocks, attention and MLP.
Each block ends in an all-reduce of its activations in forward, and of their gradients in backward, and nobody can go on
without it.

Pipeline (GPipe; Huang et al., NeurIPS 2019): every rank has some of the layers. Micro-batches go from stage to stage,
and their gradients back when all have gone forward:

    stage 0   F0 F1 F2 F3                   B3 B2 B1 B0
    stage 1      F0 F1 F2 F3             B3 B2 B1 B0
    stage 2         F0 F1 F2 F3       B3 B2 B1 B0        (B takes twice as long as F)

GPipe computes activations anew in backward, to save memory (re-materialization); that is not modelled: here they are
kept, and B does without another F.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from workloads.collectives.problems import differing
from workloads.collectives.program import Await, Program, Programs, Receive, Send, Signal, World
from workloads.training.job import Job
from workloads.training.log import Log
from workloads.training.numbers import Numbers, Totals
from workloads.training.series import Series

_BLOCKS = 2  # of a layer


def tensor_parallel(job: Job, log: Log) -> Programs:
    """What every party does when each layer is divided among the ranks."""
    return _Tensor(job, log).programs()


def pipeline_parallel(job: Job, log: Log) -> Programs:
    """What every party does when the layers are divided among the ranks."""
    return _Pipeline(job, log).programs()


class _Tensor:
    def __init__(self, job: Job, log: Log) -> None:
        self._job, self._log = job, log
        self._blocks = _BLOCKS * job.layers
        self._activations = [np.zeros(job.activation_items, np.float32) for _ in range(job.ranks)]
        self._numbers = Numbers(job.activation_items, job.seed)
        self._totals = Totals(self._numbers, job.ranks)
        world = World(self._activations, chunk_items=job.chunk_items, group=job.group, helpers=job.helpers)
        self._series = Series("all_reduce", job.algorithm, [world], job.steps * 2 * self._blocks)

    def programs(self) -> Programs:
        made = self._series.programs()
        return {**made, **{rank: [self._steps(rank), *made[rank]] for rank in range(self._job.ranks)}}

    def _steps(self, rank: int) -> Program:
        job = self._job
        number = 0
        for step in range(job.steps):
            self._log.begins(step, rank)
            for way_ns in (job.forward_ns, job.backward_ns):
                for _ in range(self._blocks):
                    yield from job.computes(self._log, step, rank, way_ns / job.ranks / self._blocks)
                    yield from self._reduce(rank, step, number)
                    number += 1
            self._log.done(step, rank)

    def _reduce(self, rank: int, step: int, number: int) -> Program:
        activation = self._activations[rank]
        activation[:] = self._numbers.of(rank, number)
        self._series.begin(rank, number)
        yield self._series.ended(rank, [number])
        self._log.checked(step, differing(activation, self._totals.of(number)))


class _Pipeline:
    """Every stage adds 1 to each number of what passes through it, so that what comes out shows that all were passed.
    What is sent goes while the stage computes the next."""

    def __init__(self, job: Job, log: Log) -> None:
        self._job, self._log = job, log
        self._numbers = Numbers(job.activation_items, job.seed)
        shape = (job.ranks, job.micro_batches, job.activation_items)
        self._activations, self._gradients = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._forward: defaultdict[tuple[int, int, int], Signal] = defaultdict(Signal)
        self._backward: defaultdict[tuple[int, int, int], Signal] = defaultdict(Signal)

    def programs(self) -> Programs:
        return {rank: self._stage(rank) for rank in range(self._job.ranks)}

    def _stage(self, rank: int) -> list[Program]:
        """Its steps, and what it sends forward and back while it computes."""
        sends = []
        if rank + 1 < self._job.ranks:
            sends.append(self._sends(rank, rank + 1, self._activations, self._forward, self._order(1)))
        if rank:
            sends.append(self._sends(rank, rank - 1, self._gradients, self._backward, self._order(-1)))
        return [self._steps(rank), *sends]

    def _order(self, way: int) -> list[int]:
        """The micro-batches, last first on their way back."""
        return list(range(self._job.micro_batches))[::way]

    def _sends(
        self,
        rank: int,
        peer: int,
        held: np.ndarray,
        ready: defaultdict[tuple[int, int, int], Signal],
        order: list[int],
    ) -> Program:
        for step in range(self._job.steps):
            for batch in order:
                yield Await([ready[rank, step, batch]])
                yield Send(peer, held[rank, batch])

    def _steps(self, rank: int) -> Program:
        job = self._job
        share = self._layers(rank) / job.layers / job.micro_batches
        for step in range(job.steps):
            self._log.begins(step, rank)
            for batch in self._order(1):
                yield from self._take(rank, rank - 1, step, batch, self._activations[rank, batch])
                yield from job.computes(self._log, step, rank, job.forward_ns * share)
                self._pass_on(rank, step, batch, self._activations[rank, batch], job.ranks - 1)
                self._forward[rank, step, batch].set()
            for batch in self._order(-1):
                yield from self._take(rank, rank + 1, step, batch, self._gradients[rank, batch])
                yield from job.computes(self._log, step, rank, job.backward_ns * share)
                self._pass_on(rank, step, batch, self._gradients[rank, batch], 0)
                self._backward[rank, step, batch].set()
            self._log.done(step, rank)

    def _layers(self, rank: int) -> int:
        """How many layers the stage has: their numbers differ by one at most."""
        layers, more = divmod(self._job.layers, self._job.ranks)
        return layers + (rank < more)

    def _take(self, rank: int, peer: int, step: int, batch: int, into: np.ndarray) -> Program:
        """What the stage before has made of a micro-batch; the first and, on the way back, the last stage begin."""
        if 0 <= peer < self._job.ranks:
            yield Receive(peer, into)
        else:
            into[:] = self._numbers.of(batch, step)

    def _pass_on(self, rank: int, step: int, batch: int, passed: np.ndarray, last: int) -> None:
        """The stage's own part; the last one checks."""
        passed += 1
        if rank == last:
            expected = self._numbers.of(batch, step) + np.float32(self._job.ranks)
            self._log.checked(step, differing(passed, expected))
