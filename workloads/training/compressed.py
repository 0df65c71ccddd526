"""Gradients that travel compressed (pure).

A ring adds numbers up on their way; payloads of a compressor cannot be added, so that every rank sends its own to all
others, which decode them and add up, as in practice (all-gather; Lin et al., ICLR 2018): n - 1 payloads come to each
rank.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from workloads.collectives.problems import differing
from workloads.collectives.program import World, segments
from workloads.compression import Compressor, make
from workloads.training.job import ITEM_BYTES, Job
from workloads.training.log import Log
from workloads.training.series import Series

_COMPRESSION_STREAM = 6  # of the seed; workloads/digits.py and federated_updates.py have those below


def payload_share(job: Job) -> float:
    """How many bytes a rank's payloads of a step are for each byte of its gradient; 1.0 without compression."""
    payloads_bytes = sum(_compressor(job, bucket, 0).payload_bytes for bucket in range(len(job.buckets)))
    return payloads_bytes / (ITEM_BYTES * job.gradient_items)


def _compressor(job: Job, bucket: int, rank: int) -> Compressor:
    numbers = job.buckets[bucket]
    own_seed = int(np.random.SeedSequence([job.seed, _COMPRESSION_STREAM, rank, bucket]).generate_state(1)[0])
    return make(job.compression, job.kept, numbers.stop - numbers.start, own_seed)


class _Exchange:
    """One bucket of one step: what every rank sent, the sum of what that stands for, and how many have taken it."""

    def __init__(self) -> None:
        self.payloads: dict[int, np.ndarray] = {}
        self.total: np.ndarray | None = None
        self.taken = 0


class CompressedSums:
    """Sums of gradients by an all-gather of what stands for each bucket of them; number k is bucket k modulo their
    count."""

    def __init__(self, job: Job, log: Log) -> None:
        self._job, self._log = job, log
        ranks, buckets = range(job.ranks), range(len(job.buckets))
        self._compressors = [[_compressor(job, bucket, rank) for rank in ranks] for bucket in buckets]
        self._worlds = [self._world(each) for each in self._compressors]
        self._exchanges: defaultdict[int, _Exchange] = defaultdict(_Exchange)
        self.series = Series("all_gather", job.algorithm, self._worlds, job.steps * len(job.buckets))

    def _world(self, compressors: list[Compressor]) -> World:
        size_bytes = sum(each.payload_bytes for each in compressors)
        buffers = [np.zeros(size_bytes, np.uint8) for _ in range(self._job.ranks)]
        return World(buffers, chunk_items=self._job.chunk_items * ITEM_BYTES)

    def give(self, rank: int, number: int, gradient: np.ndarray) -> None:
        """A rank's gradient is ready to be sent."""
        bucket = number % len(self._worlds)
        payload = self._compressors[bucket][rank].encode(gradient)
        segments(self._worlds[bucket].buffers[rank], self._job.ranks)[rank][:] = payload
        self._exchanges[number].payloads[rank] = payload
        self.series.begin(rank, number)

    def take(self, rank: int, number: int, into: np.ndarray) -> None:
        """The sum of all ranks' gradients, as far as the payloads tell, once the rank has all of them; each byte that
        is not as it was sent is noted as wrong. What all ranks have got alike is decoded once."""
        bucket, exchange = number % len(self._worlds), self._exchanges[number]
        got = self._worlds[bucket].buffers[rank]
        wrong = differing(got, np.concatenate([exchange.payloads[sender] for sender in range(self._job.ranks)]))
        self._log.checked(number // len(self._worlds), wrong)
        if wrong:
            into[:] = self._decoded(bucket, got)
        else:
            if exchange.total is None:
                exchange.total = self._decoded(bucket, got)
            into[:] = exchange.total
        exchange.taken += 1
        if exchange.taken == self._job.ranks:
            del self._exchanges[number]

    def _decoded(self, bucket: int, got: np.ndarray) -> np.ndarray:
        return self._compressors[bucket][0].decode_sum(segments(got, self._job.ranks))
