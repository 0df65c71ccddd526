"""Workloads of the user's own."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.connections import connected, patience_s
from experiments.own_workloads import asked_of, rehearsal
from experiments.playing import Run, surroundings
from experiments.spec import Spec
from topologies.plugins import Plug
from workloads import own_workload, rounds
from workloads.own_workload import Sent
from workloads.transport.base import Connection


def own(run: Run) -> None:
    """All rounds of the workload; its transfers are told as those of other flows."""
    spec, facts, plug = run.stage.spec, run.facts, run.stage.spec.workload
    if not isinstance(plug, Plug):
        raise ValueError(f"{plug} is no workload of the user's own")
    facts["rounds"], facts["transfers"] = [], []
    asked = asked_of(spec)
    workload, pairs = own_workload.made(plug, run.stage.hosts, asked)
    with connected(run.stage, pairs) as connections:

        def note(start_ns: int, sent: Sequence[Sent]) -> None:
            _note(run, connections, start_ns, sent)

        begin_ns = rounds.next_start_ns(asked, 0)
        by_pair = dict(zip(pairs, connections))
        try:
            with surroundings(run, begin_ns, connections):
                own_workload.play(plug, workload, asked, by_pair, note, begin_ns, _patience_s(spec))
        finally:
            facts["flows"] = [connection.describe() for connection in connections]


def _patience_s(spec: Spec) -> float | None:
    """What is computed for long before it is sent is not lost."""
    patience, found = patience_s(spec), rehearsal(spec)
    return None if patience is None or found is None else patience + found.longest_wait_ns / 1e9


def _note(run: Run, connections: Sequence[Connection], start_ns: int, sent: Sequence[Sent]) -> None:
    """A round has ended."""
    number = len(run.facts["rounds"])
    done = rounds.Round(start_ns, max(each.end_ns for each in sent), sum(each.size_bytes for each in sent))
    run.facts["rounds"].append({"start_ns": done.start_ns, "end_ns": done.end_ns, "bytes": done.bytes})
    run.facts["transfers"] += [
        {
            "flow": connections[each.connection].name,
            "round": number,
            "start_ns": each.start_ns,
            "end_ns": each.end_ns,
            "bytes": each.size_bytes,
        }
        for each in sent
    ]
    run.on_round(done)
