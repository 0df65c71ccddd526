"""The workload `training`: steps of computing and communication, one after the other without a barrier."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from experiments.cluster import helper_hosts, rank_hosts
from experiments.parties import Parties, gathered
from experiments.playing import Run, lead_ns, surroundings
from experiments.spec import Spec, known
from experiments.wire import Wire, grown
from workloads.collectives.program import Channel
from workloads.collectives.rehearsal import channels
from workloads.rounds import Round
from workloads.training import programs as steps
from workloads.training.compressed import payload_share
from workloads.training.job import ITEM_BYTES, Job
from workloads.training.log import Log, Step

_JITTER_NS = 1_000  # within which all parties begin
_REHEARSED_ITEMS = 4  # for every party


def training(run: Run) -> None:
    """All steps; the facts of each are there as soon as all ranks are through with it."""
    job = job_of(run.stage.spec)
    with gathered(run.stage, used_channels(job)) as parties:
        account = _Account(run, parties, job)
        log = Log(job.ranks, parties.loop.woken_ns, account.note)
        programs = steps.programs(job, log, account.sent)
        dice, begin_ns = random.Random(f"{job.seed}/begins"), time.time_ns() + lead_ns(run.stage)
        begins_ns = {party: begin_ns + dice.randint(0, _JITTER_NS) for party in programs}
        try:
            with surroundings(run, begin_ns, parties.connections):
                parties.executor.run(programs, begins_ns)
        finally:
            account.close()


def job_of(spec: Spec) -> Job:
    """What a resolved spec trains. Gradients and activations are whole float32 numbers, rounded up."""
    hosts = [*rank_hosts(spec), *helper_hosts(spec)]
    ranks, slow = known(spec.ranks), dict(spec.slow_hosts or ())
    return Job(
        ranks=ranks,
        steps=known(spec.steps),
        compute_ns=known(spec.compute_ns),
        gradient_items=_items(known(spec.gradient_bytes)),
        bucket_items=_items(spec.bucket_bytes) if spec.bucket_bytes else None,
        overlap=known(spec.overlap),
        algorithm=known(spec.algorithm),
        chunk_items=_items(known(spec.chunk_bytes)),
        group=spec.group or 1,
        helpers=tuple(range(ranks, len(hosts))),
        slowness=tuple(slow.get(host, 1.0) for host in hosts[:ranks]),
        backup_workers=spec.backup_workers or 0,
        compression=known(spec.compression),
        kept=spec.kept or 1.0,
        model=known(spec.model),
        parallelism=known(spec.parallelism),
        layers=known(spec.layers),
        micro_batches=known(spec.micro_batches),
        activation_items=_items(known(spec.activation_bytes)),
        seed=spec.seed,
    )


def _items(size_bytes: int) -> int:
    return -(-size_bytes // ITEM_BYTES)


def used_channels(job: Job) -> list[Channel]:
    """Between whom the job needs connections: a rehearsal of one step with a few numbers tells."""
    few = _REHEARSED_ITEMS * (job.ranks + len(job.helpers))
    small = replace(job, steps=1, gradient_items=few, activation_items=few, bucket_items=None, chunk_items=1)
    small = replace(small, layers=job.ranks, micro_batches=1, model="none", slowness=())
    return channels(steps.programs(small, Log(job.ranks, lambda: 0), Counter()))


class _Account:
    """The facts of training, as it goes on and at its end."""

    def __init__(self, run: Run, parties: Parties, job: Job) -> None:
        self._run, self._parties, self._job = run, parties, job
        self._wire = Wire(run.stage)
        self._before = self._wire.read()
        self.sent: Counter[tuple[int, int]] = Counter()
        self._sent_in_steps = self.sent.copy()  # up to the end of the last step that is over
        ranks, helpers = parties.hosts[: job.ranks], parties.hosts[job.ranks :]
        told = {"ranks": list(ranks), "helpers": list(helpers), "buckets": len(job.buckets)}
        run.facts.update(training=told, rounds=[], steps=[])

    def note(self, step: Step) -> None:
        """A step is over; its round's bytes are what all parties have sent since the last."""
        told_bytes, self._sent_in_steps = sum(self._sent_in_steps.values()), self.sent.copy()
        done = Round(step.start_ns, step.end_ns, sum(self.sent.values()) - told_bytes)
        self._run.facts["steps"].append(_told(step))
        self._run.facts["rounds"].append({"start_ns": done.start_ns, "end_ns": done.end_ns, "bytes": done.bytes})
        self._run.on_round(done)

    def close(self) -> None:
        """What is known of the whole run, whether it is whole or not; bytes per step are those of steps that are over,
        of none where there is none."""
        facts, job, hosts = self._run.facts, self._job, self._parties.hosts
        done = len(facts["steps"])
        facts["training"]["bytes_per_step"] = [self._sent_by(rank) // done for rank in range(job.ranks) if done]
        facts["traffic"] = {f"{hosts[a]}>{hosts[b]}": sent for (a, b), sent in sorted(self.sent.items())}
        facts.update(grown(self._before, self._wire.read()))
        facts["compression"] = {"ratio": payload_share(job)}
        facts["flows"] = [connection.describe() for connection in self._parties.connections]
        if self._parties.processors:
            facts["cpu"] = self._parties.cpu()
        if self._parties.aggregator is not None:
            facts["aggregator"] = self._parties.aggregator.facts()

    def _sent_by(self, rank: int) -> int:
        return sum(sent for (sender, _), sent in self._sent_in_steps.items() if sender == rank)


def _told(step: Step) -> dict[str, Any]:
    return {
        "step": step.number,
        "start_ns": step.start_ns,
        "end_ns": step.end_ns,
        "ranks": [asdict(turn) for _, turn in sorted(step.turns.items())],
        "loss": step.loss,
        "accuracy": step.accuracy,
        "wrong": step.wrong,
    }
