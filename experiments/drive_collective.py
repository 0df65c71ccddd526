"""The workload `collective`: calls of one collective for each size, timed, and each result compared with NumPy's."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.cluster import helper_hosts, rank_hosts
from experiments.parties import CpuUse, Parties, gathered, server_numbers
from experiments.playing import Run, lead_ns, surroundings
from experiments.spec import Spec, known
from experiments.wire import Wire, grown
from workloads.collectives.catalog import programs
from workloads.collectives.problems import Problem
from workloads.collectives.program import Channel, Programs, World
from workloads.collectives.rehearsal import channels
from workloads.rounds import Round

_JITTER_NS = 1_000  # within which all ranks begin
# Between calls the network falls silent, and then for a seeded part of a timer tick, so that not all calls meet the
# hosts' timers in one phase (see workloads/rounds.py).
_PAUSE_NS, _TICK_NS = 100_000, 1_000_000
_REHEARSED_ITEMS = 2  # for every party


def collective(run: Run) -> None:
    """All calls of all sizes; the facts of each are there as soon as it has ended."""
    spec, facts = run.stage.spec, run.facts
    with gathered(run.stage, used_channels(spec)) as parties:
        flows = len(parties.connections)
        facts["collective"] = {"ranks": rank_hosts(spec), "helpers": helper_hosts(spec), "flows": flows}
        facts.update(rounds=[], calls=[], sizes=[])
        begin_ns = time.time_ns() + lead_ns(run.stage)
        calls = _Calls(run, parties, begin_ns)
        try:
            with surroundings(run, begin_ns, parties.connections):
                for size_bytes in known(spec.sizes_bytes):
                    calls.of_size(size_bytes)
        finally:
            facts["flows"] = [connection.describe() for connection in parties.connections]


def used_channels(spec: Spec) -> list[Channel]:
    """Between whom the spec's collective needs connections: a rehearsal with a few numbers tells."""
    problem = Problem(known(spec.collective), known(spec.ranks), 0, known(spec.dtype))
    problem = replace(problem, count=_REHEARSED_ITEMS * (problem.ranks + len(helper_hosts(spec))))
    return channels(_programs(spec, _world(spec, problem, chunk_items=1)))


def _world(spec: Spec, problem: Problem, chunk_items: int) -> World:
    return problem.world(chunk_items, spec.group or 1, server_numbers(spec))


def _programs(spec: Spec, world: World) -> Programs:
    return programs(known(spec.collective), known(spec.algorithm), world)


class _Calls:
    """The calls of a run, one after the other, the first at `begin_ns`."""

    def __init__(self, run: Run, parties: Parties, begin_ns: int) -> None:
        self._run, self._parties, self._spec = run, parties, run.stage.spec
        self._wire = Wire(run.stage)
        self._begin_ns, self._made = begin_ns, 0

    def of_size(self, size_bytes: int) -> None:
        """Calls to warm up, then those that count."""
        spec, itemsize = self._spec, np.dtype(known(self._spec.dtype)).itemsize
        problem = Problem(known(spec.collective), known(spec.ranks), size_bytes // itemsize, known(spec.dtype))
        world = _world(spec, problem, max(1, known(spec.chunk_bytes) // itemsize))
        for iteration in range(known(spec.warmup)):
            self._call(problem, world, size_bytes, iteration, warmup=True)
        size: dict[str, Any] = {"size_bytes": size_bytes, "calls": 0}
        self._run.facts["sizes"].append(size)
        before = self._wire.read()
        for iteration in range(known(spec.iterations)):
            before_call = self._parties.cpu()
            done = self._call(problem, world, size_bytes, iteration, warmup=False)
            size.update(grown(before, self._wire.read()), calls=iteration + 1)
            self._account(done, before_call)

    def _call(self, problem: Problem, world: World, size_bytes: int, iteration: int, warmup: bool) -> Round:
        """One call with fresh numbers, and its facts beside those of the others."""
        dice = random.Random(f"{self._spec.seed}/{self._made}")
        problem = replace(problem, seed=dice.getrandbits(32))
        problem.fill(world)
        start_ns = self._start_ns(dice)
        asked = _programs(self._spec, world)
        begins_ns = {party: start_ns + dice.randint(0, _JITTER_NS) for party in asked}
        ended = self._parties.executor.run(asked, begins_ns)
        self._made += 1
        ends_ns = [ended[rank] for rank in range(problem.ranks)]
        self._run.facts["calls"].append(
            {
                "size_bytes": size_bytes,
                "count": problem.count,
                "iteration": iteration,
                "warmup": warmup,
                "start_ns": start_ns,
                "end_ns": max(ended.values()),
                "rank_end_ns": ends_ns,
                "wrong": problem.wrong(world),
            }
        )
        return Round(start_ns, max(ended.values()), size_bytes)

    def _start_ns(self, dice: random.Random) -> int:
        """When the next call begins."""
        return max(self._begin_ns, time.time_ns() + _PAUSE_NS + dice.randrange(_TICK_NS))

    def _account(self, done: Round, before: CpuUse) -> None:
        """The facts of a call that counts, beside its own."""
        facts, parties = self._run.facts, self._parties
        facts["rounds"].append({"start_ns": done.start_ns, "end_ns": done.end_ns, "bytes": done.bytes})
        for host, use in parties.cpu().items():
            sums = facts.setdefault("cpu", {}).setdefault(host, dict.fromkeys(use, 0))
            sums.update({name: sums[name] + value - before[host][name] for name, value in use.items()})
        if parties.aggregator is not None:
            facts["aggregator"] = parties.aggregator.facts()
        self._run.on_round(done)
