"""Training steps as programs, carried out in memory: results, order, what travels, late workers."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from workloads.collectives.program import Wait
from workloads.collectives.rehearsal import Rehearsal, rehearse
from workloads.compression import CHUNK
from workloads.training import programs as training
from workloads.training.compressed import CompressedSums
from workloads.training.job import Job
from workloads.training.log import Log, Step
from workloads.training.numbers import Gradients, Numbers, Totals
from workloads.training.parameter_server import shard_parts

JOB = Job(ranks=4, steps=3, compute_ns=3_000_000, gradient_items=1000, bucket_items=300)
SERVED: dict[str, Any] = {"algorithm": "parameter_server", "helpers": (4,)}
MICRO_NS = 1_000


class Rehearsed:
    """A job carried out in memory: its steps, what was sent, and the rehearsal's own account."""

    def __init__(self, job: Job, order: random.Random | None = None, latency_ns: int = MICRO_NS) -> None:
        self.steps: list[Step] = []
        self.sent: Counter[tuple[int, int]] = Counter()
        log = Log(job.ranks, lambda: 0, self.steps.append)
        self.told: Rehearsal = rehearse(training.programs(job, log, self.sent), order, latency_ns)

    @property
    def wrong(self) -> int | None:
        found = [step.wrong for step in self.steps]
        return None if None in found else sum(each for each in found if each is not None)


@pytest.mark.parametrize("algorithm", ["ring", "tree", "halving_doubling", "hierarchical", "direct", "in_network"])
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("bucket_items", [None, 1, 300, 1000, 5000])
def test_every_rank_has_the_sum_in_every_step(algorithm: str, overlap: bool, bucket_items: int | None) -> None:
    items = 40 if bucket_items == 1 else JOB.gradient_items
    job = replace(JOB, algorithm=algorithm, overlap=overlap, bucket_items=bucket_items, gradient_items=items)
    job = replace(job, group=2, helpers=(4,), chunk_items=64)
    for seed in range(3):
        done = Rehearsed(job, random.Random(seed))
        assert [step.number for step in done.steps] == [0, 1, 2]
        assert done.wrong == 0


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("algorithm", ["ring", "tree", "halving_doubling", "direct"])
def test_any_number_of_ranks_will_do(algorithm: str, ranks: int) -> None:
    job = replace(JOB, algorithm=algorithm, ranks=ranks, slowness=(1, 3, *[1] * (ranks - 2)), chunk_items=64)
    for seed in range(3):
        assert Rehearsed(job, random.Random(seed)).wrong == 0


def test_a_wrong_sum_is_counted() -> None:
    numbers = Numbers(100, 1)
    log = Log(1, lambda: 0)
    gradients = Gradients(replace(JOB, ranks=1, gradient_items=100), log)
    found = numbers.of(0, 0).copy()
    found[[3, 50]] += 1
    gradients.check(0, found)
    assert log.step(0).wrong == 2


def test_numbers_differ_between_ranks_and_steps_and_are_the_seeds() -> None:
    numbers = Numbers(1000, 1)
    seen = [numbers.of(rank, step).tobytes() for rank in range(16) for step in range(4)]
    assert len(set(seen)) == len(seen)
    assert np.array_equal(numbers.of(3, 2), Numbers(1000, 1).of(3, 2))
    assert not np.array_equal(numbers.of(3, 2), Numbers(1000, 2).of(3, 2))


def test_a_sum_is_made_once_for_all_ranks_and_then_forgotten() -> None:
    numbers = Numbers(10, 1)
    totals = Totals(numbers, 3)
    first, second, third = (totals.of(5) for _ in range(3))
    assert first is second is third
    assert totals.of(5) is not first
    assert np.array_equal(first, sum(numbers.of(rank, 5) for rank in range(3)))


def test_buckets_share_backward_by_their_size() -> None:
    job = replace(JOB, gradient_items=1000, bucket_items=300, compute_ns=3_000)
    assert [bucket.stop - bucket.start for bucket in job.buckets] == [300, 300, 300, 100]
    assert (job.forward_ns, job.bucket_ns) == (1_000, [600, 600, 600, 200])


def test_overlap_hides_communication_behind_backward() -> None:
    """Six messages of 100 us after each of four buckets, or all of them at the end: the last bucket's is the rest."""
    latency_ns = 100_000
    job = replace(JOB, steps=1, compute_ns=12_000_000, gradient_items=1200)
    hidden, exposed = (Rehearsed(replace(job, overlap=on), None, latency_ns).told.end_ns for on in (True, False))
    messages_ns = 2 * (job.ranks - 1) * latency_ns
    assert hidden == job.compute_ns + messages_ns
    assert exposed == job.compute_ns + len(job.buckets) * messages_ns


def test_a_slow_rank_slows_all_down() -> None:
    job = replace(JOB, slowness=(1, 1, 2.5, 1))
    alone = Rehearsed(JOB).told.end_ns
    assert Rehearsed(job).told.end_ns == pytest.approx(alone + 1.5 * JOB.compute_ns * JOB.steps, rel=0.01)


def test_what_is_sent_is_counted_for_each_pair() -> None:
    done = Rehearsed(JOB)
    told = {(sender, receiver): sent for (sender, receiver, _), sent in done.told.sent_bytes.items()}
    assert done.sent == told
    ring_bytes = 2 * 3 / 4 * 4 * JOB.gradient_items * JOB.steps
    assert set(done.sent) == {(0, 1), (1, 2), (2, 3), (3, 0)}
    assert all(sent == pytest.approx(ring_bytes, rel=0.01) for sent in done.sent.values())


def test_an_aggregator_gets_and_sends_each_gradient_once() -> None:
    done = Rehearsed(replace(JOB, algorithm="in_network", helpers=(4,)))
    assert done.sent == {pair: 4 * 1000 * 3 for rank in range(4) for pair in ((rank, 4), (4, rank))}


# --- compression


@pytest.mark.parametrize("compression", ["topk", "int8", "sign"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_payloads_come_to_every_rank_as_they_were_sent(compression: str, ranks: int) -> None:
    job = replace(JOB, compression=compression, kept=0.1, ranks=ranks)
    done = Rehearsed(job, random.Random(2))
    assert done.wrong == 0
    whole = Rehearsed(replace(job, compression="none"), random.Random(2))
    assert sum(done.sent.values()) < sum(whole.sent.values())


def test_a_payload_that_changes_on_its_way_is_counted() -> None:
    job = replace(JOB, ranks=1, compression="int8", bucket_items=None)
    log = Log(1, lambda: 0)
    sums = CompressedSums(job, log)
    sums.give(0, 0, np.ones(1000, np.float32))
    sums._worlds[0].buffers[0][17] ^= 1
    sums.take(0, 0, np.empty(1000, np.float32))
    assert log.step(0).wrong == 1


def test_every_bucket_of_every_rank_and_seed_is_rounded_on_its_own() -> None:
    third = np.full(CHUNK, 1 / 3, np.float32)
    third[0] = 127  # so that a step is 1, and a third of all are rounded up
    job = replace(JOB, ranks=3, compression="int8", gradient_items=3 * CHUNK, bucket_items=CHUNK)
    payloads = set()
    for seed in range(4):
        made = CompressedSums(replace(job, seed=seed), Log(3, lambda: 0))._compressors
        payloads |= {compressor.encode(third).tobytes() for of_bucket in made for compressor in of_bucket}
    assert len(payloads) == 4 * 3 * 3


# --- parameter servers


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("backup_workers", [0, 1, 3])
@pytest.mark.parametrize("slow", [1, 1.2, 2.5, 7])
@pytest.mark.parametrize("overlap", [True, False])
def test_parameters_are_the_sum_of_what_was_accepted(
    shards: int, backup_workers: int, slow: float, overlap: bool
) -> None:
    job = replace(JOB, algorithm="parameter_server", helpers=tuple(range(4, 4 + shards)), steps=5, overlap=overlap)
    job = replace(job, backup_workers=backup_workers, slowness=(1, 1, slow, 1))
    for seed in range(4):
        done = Rehearsed(job, random.Random(seed))
        assert [step.number for step in done.steps] == list(range(5))
        assert done.wrong == 0


def test_nobody_is_late_where_all_are_waited_for() -> None:
    done = Rehearsed(replace(JOB, **SERVED, slowness=(1, 1, 3, 1)))
    assert not any(turn.late for step in done.steps for turn in step.turns.values())
    assert done.told.end_ns >= 3 * 3 * JOB.compute_ns


def test_a_backup_worker_takes_the_slow_rank_out_of_the_way() -> None:
    """The slow rank computes for two and a half steps of the others: it is late with every one that it begins, and
    misses the one after. What it has begun it ends."""
    job = replace(JOB, **SERVED, steps=6, backup_workers=1, slowness=(1, 1, 2.5, 1))
    done = Rehearsed(job)
    assert [step.turns[2].late for step in done.steps] == [True] * 6
    assert [step.turns[2].compute_ns > 0 for step in done.steps] == [True, False] * 3
    assert not any(turn.late for step in done.steps for rank, turn in step.turns.items() if rank != 2)
    assert done.told.end_ns == pytest.approx(7.5 * JOB.compute_ns, rel=0.01)


@pytest.mark.parametrize("backup_workers", [1, 2])
def test_who_has_a_part_in_a_step_is_not_late(backup_workers: int) -> None:
    """Each of four servers may drop another rank's part."""
    job = replace(JOB, algorithm="parameter_server", helpers=(4, 5, 6, 7), backup_workers=backup_workers)
    for seed in range(20):
        for step in Rehearsed(job, random.Random(seed)).steps:
            assert sum(not turn.late for turn in step.turns.values()) >= job.ranks - backup_workers


def test_every_shard_has_its_part_of_every_bucket() -> None:
    job = replace(JOB, **{**SERVED, "helpers": (4, 5)}, gradient_items=7, bucket_items=3)
    first, second = shard_parts(job)
    assert first == [(0, slice(0, 2)), (1, slice(3, 5)), (2, slice(6, 7))]
    assert second == [(0, slice(2, 3)), (1, slice(5, 6))]


def test_more_servers_than_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="2 numbers for 3"):
        Rehearsed(replace(JOB, algorithm="parameter_server", helpers=(4, 5, 6), gradient_items=2))


# --- a real model


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"compression": "topk", "kept": 0.2},
        {**SERVED},
        {**SERVED, "backup_workers": 1, "slowness": (1, 1, 1, 2.2)},
    ],
)
def test_a_model_learns(changes: dict[str, Any]) -> None:
    job = replace(JOB, model="digits", steps=40, gradient_items=6000, bucket_items=2000, **changes)
    done = Rehearsed(job)
    losses = [step.loss for step in done.steps if step.loss is not None]
    assert len(losses) >= 39
    assert losses[-1] < 0.6 * losses[0]
    assert done.steps[-1].accuracy is not None and done.steps[-1].accuracy > 0.7
    assert done.wrong == 0


def test_a_model_needs_room_for_its_gradient() -> None:
    with pytest.raises(ValueError, match="gradients of 84 numbers; the smallest model's are 85"):
        Rehearsed(replace(JOB, model="digits", gradient_items=84))


# --- tensor and pipeline parallelism


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("algorithm", ["ring", "in_network"])
def test_tensor_parallelism_reduces_twice_each_way_in_each_layer(ranks: int, algorithm: str) -> None:
    job = replace(JOB, parallelism="tensor", ranks=ranks, layers=3, activation_items=50, algorithm=algorithm)
    done = Rehearsed(replace(job, helpers=(ranks,)), random.Random(1), 0)
    assert done.wrong == 0
    assert done.told.end_ns == pytest.approx(JOB.steps * JOB.compute_ns / ranks, rel=0.01)
    if algorithm == "in_network":
        assert done.sent[0, ranks] == 4 * 50 * (4 * 3) * JOB.steps


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_pipeline_parallelism_takes_its_bubble(ranks: int, micro_batches: int) -> None:
    """GPipe: of m micro-batches and n stages, a step takes (m + n - 1) / m of a stage's computing."""
    job = replace(JOB, parallelism="pipeline", ranks=ranks, layers=2 * ranks, micro_batches=micro_batches)
    done = Rehearsed(replace(job, activation_items=50), random.Random(1), 0)
    assert done.wrong == 0
    stage_ns = JOB.compute_ns / ranks
    expected_ns = JOB.steps * stage_ns * (micro_batches + ranks - 1) / micro_batches
    assert done.told.end_ns == pytest.approx(expected_ns, rel=0.01)
    there_and_back = {pair for rank in range(ranks - 1) for pair in ((rank, rank + 1), (rank + 1, rank))}
    assert done.sent == dict.fromkeys(there_and_back, 4 * 50 * micro_batches * JOB.steps)


def test_stages_have_as_many_layers_as_each_other_or_one_more() -> None:
    job = replace(JOB, parallelism="pipeline", ranks=3, layers=8, steps=1, activation_items=4)
    computed = [turn.compute_ns for turn in Rehearsed(job).steps[0].turns.values()]
    assert sorted(computed) == pytest.approx([JOB.compute_ns * layers / 8 for layers in (2, 3, 3)], rel=1e-5)


# --- the log


def test_a_step_is_told_when_all_ranks_are_through_with_it() -> None:
    told: list[Step] = []
    clock = iter(range(100, 1000, 100))
    log = Log(2, lambda: next(clock), told.append)
    log.begins(0, 0)  # at 100
    log.begins(0, 1)  # at 200
    log.computed(0, 0, 50)  # at 300
    log.done(0, 1)  # at 400
    log.late(0, 1)
    assert told == []
    log.done(0, 0)  # at 500
    (step,) = told
    assert (step.start_ns, step.end_ns) == (100, 500)
    assert (step.turns[0].compute_ns, step.turns[0].compute_end_ns, step.turns[0].end_ns) == (50, 300, 500)
    assert step.turns[1].late and step.wrong is None


def test_a_late_rank_does_not_end_a_step() -> None:
    told: list[Step] = []
    clock = iter(range(100, 2000, 100))
    log = Log(2, lambda: next(clock), told.append)
    for rank in (0, 1):
        log.begins(0, rank)
    log.done(0, 0)  # at 300
    log.late(0, 1)
    log.done(0, 1)  # at 400
    log.skipped(1, 1)
    log.begins(1, 0)
    log.done(1, 0)
    assert [step.end_ns for step in told] == [300, 600]
    assert (told[1].turns[1].late, told[1].turns[1].compute_ns, told[1].turns[1].start_ns) == (True, 0, 400)


def test_a_step_with_which_all_are_late_ends_with_the_last() -> None:
    told: list[Step] = []
    clock = iter(range(100, 2000, 100))
    log = Log(2, lambda: next(clock), told.append)
    for rank in (0, 1):
        log.begins(0, rank)
    for rank in (0, 1):
        log.late(0, rank)
        log.done(0, rank)
    assert (told[0].start_ns, told[0].end_ns) == (100, 400)


def test_a_program_computes_before_it_sends() -> None:
    job = replace(JOB, ranks=2, steps=1)
    first = next(iter(training.programs(job, Log(2, lambda: 0), Counter())[0][0]))
    assert first == Wait(job.forward_ns)
