"""Data parallelism (pure): every rank has a batch of its own and the whole model, and needs the sum of all
gradients."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from workloads.collectives.program import Program, Programs, World
from workloads.training.compressed import CompressedSums
from workloads.training.job import Job
from workloads.training.log import Log
from workloads.training.numbers import Gradients
from workloads.training.series import Series


class Sums(Protocol):
    """How sums come about, bucket by bucket: number k is bucket k modulo their count, of step k // their count."""

    series: Series

    def give(self, rank: int, number: int, gradient: np.ndarray) -> None:
        """A rank's gradient is ready to be sent."""

    def take(self, rank: int, number: int, into: np.ndarray) -> None:
        """The sum, once the rank's part of the series has ended."""


class PlainSums:
    """Each bucket by an all-reduce."""

    def __init__(self, job: Job) -> None:
        lengths = [bucket.stop - bucket.start for bucket in job.buckets]
        self._worlds = [self._world(job, length) for length in lengths]
        self.series = Series("all_reduce", job.algorithm, self._worlds, job.steps * len(lengths))

    @staticmethod
    def _world(job: Job, length: int) -> World:
        buffers = [np.zeros(length, np.float32) for _ in range(job.ranks)]
        return World(buffers, chunk_items=job.chunk_items, group=job.group, helpers=job.helpers)

    def _buffer(self, rank: int, number: int) -> np.ndarray:
        return self._worlds[number % len(self._worlds)].buffers[rank]

    def give(self, rank: int, number: int, gradient: np.ndarray) -> None:
        """A rank's gradient is ready to be sent."""
        self._buffer(rank, number)[:] = gradient
        self.series.begin(rank, number)

    def take(self, rank: int, number: int, into: np.ndarray) -> None:
        """The sum of all ranks' gradients."""
        into[:] = self._buffer(rank, number)


class DataParallel:
    """Steps of all ranks; see workloads/training/programs.py."""

    def __init__(self, job: Job, log: Log) -> None:
        self._job, self._log = job, log
        self._gradients = Gradients(job, log)
        self._sums: Sums = PlainSums(job) if job.compression == "none" else CompressedSums(job, log)

    def programs(self) -> Programs:
        """What every party does."""
        made = self._sums.series.programs()
        return {**made, **{rank: [self._steps(rank), *made[rank]] for rank in range(self._job.ranks)}}

    def _steps(self, rank: int) -> Program:
        gradient = np.empty(self._job.gradient_items, np.float32)
        for step in range(self._job.steps):
            self._log.begins(step, rank)
            self._gradients.fill(rank, step, gradient)
            yield from self._computes(rank, step, gradient)
            yield self._sums.series.ended(rank, self._numbers(step))
            self._update(rank, step, gradient)
            self._log.done(step, rank)

    def _numbers(self, step: int) -> range:
        """Of the step's buckets in the series."""
        count = len(self._job.buckets)
        return range(step * count, (step + 1) * count)

    def _computes(self, rank: int, step: int, gradient: np.ndarray) -> Program:
        """Forward and backward; each bucket is given when backward has come so far, or all when it has ended."""
        job, numbers = self._job, self._numbers(step)
        yield from job.computes(self._log, step, rank, job.forward_ns)
        for number, bucket, bucket_ns in zip(numbers, job.buckets, job.bucket_ns):
            yield from job.computes(self._log, step, rank, bucket_ns)
            if job.overlap:
                self._sums.give(rank, number, gradient[bucket])
        if not job.overlap:
            for number, bucket in zip(numbers, job.buckets):
                self._sums.give(rank, number, gradient[bucket])

    def _update(self, rank: int, step: int, gradient: np.ndarray) -> None:
        """The sums are taken in the gradient's place, checked where they are exact, and the model learns."""
        for number, bucket in zip(self._numbers(step), self._job.buckets):
            self._sums.take(rank, number, gradient[bucket])
        if self._job.compression == "none":
            self._gradients.check(step, gradient)
        self._gradients.apply(rank, step, gradient, self._job.ranks)
