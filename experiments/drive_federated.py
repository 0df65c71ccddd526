"""The workload `federated`: rounds of federated learning between the root, edge aggregators and clients."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from controller.loop import Loop
from experiments.cluster import aggregators, scaled_update_bytes
from experiments.connections import data_connected, patience_s
from experiments.parties import Parties
from experiments.parties import processors as processors_of
from experiments.playing import Run, lead_ns, surroundings
from experiments.spec import Spec, known
from workloads.collectives.executor import Executor
from workloads.federated import Federation
from workloads.federated_plan import Plan
from workloads.federated_updates import ALPHA, BATCH, EPOCHS, LEARNING_RATE, PARAMETERS, Scheme
from workloads.rounds import Round
from workloads.transport.base import DataConnection


def federated(run: Run) -> None:
    """All rounds; the facts of each are there as soon as the root has averaged."""
    spec, facts = run.stage.spec, run.facts
    plan = plan_of(spec)
    facts["federated"] = _told(plan)
    processors = processors_of(spec, len(plan.names))
    with Loop() as loop, _connected(run, plan) as connections:
        federation = Federation(plan, loop.woken_ns, lambda entry: _note(run, entry))
        facts.update(rounds=[], fl_rounds=federation.diary.rounds)
        programs, by_channel = federation.programs(), dict(zip(plan.channels(), connections))
        begin_ns = time.time_ns() + lead_ns(run.stage)
        with Executor(by_channel, loop, patience_s(spec), processors) as executor:
            try:
                with surroundings(run, begin_ns, connections):
                    executor.run(programs, dict.fromkeys(programs, begin_ns))
            finally:
                facts["flows"] = [connection.describe() for connection in connections]
                if processors:
                    facts["cpu"] = Parties(plan.names, connections, loop, executor, processors, None).cpu()


def plan_of(spec: Spec) -> Plan:
    """The plan of a resolved spec."""
    below = aggregators(spec)
    root, *edges = below
    clients = [host for hosts in below.values() for host in hosts if host not in below]
    names = [root, *edges, *clients]
    number = {name: party for party, name in enumerate(names)}
    return Plan(
        names=names,
        children={number[host]: tuple(number[child] for child in children) for host, children in below.items()},
        rounds=spec.rounds,
        scheme=Scheme(scaled_update_bytes(spec), known(spec.compression), spec.kept or 1.0),
        seed=spec.seed,
        quorum=known(spec.quorum),
        edge_rounds=spec.edge_rounds or 1,
        compute_ns=known(spec.compute_ns),
        spread=known(spec.spread),
        slowdowns=dict(spec.slow_hosts or ()),
    )


def _told(plan: Plan) -> dict[str, Any]:
    """Who takes part, what is sent, and what is learned how."""
    return {
        "root": plan.names[0],
        "edges": [plan.names[party] for party in plan.edges],
        "clients": [plan.names[party] for party in plan.clients],
        "parent": {plan.names[child]: plan.names[parent] for child, parent in plan.parents.items()},
        "update_bytes": plan.scheme.model.size_bytes,
        "sent_bytes": plan.scheme.update.size_bytes,
        "parameters": PARAMETERS,
        "alpha": ALPHA,
        "epochs": EPOCHS,
        "batch": BATCH,
        "learning_rate": LEARNING_RATE,
    }


def _connected(run: Run, plan: Plan) -> AbstractContextManager[Sequence[DataConnection]]:
    pairs = [(plan.names[sender], plan.names[receiver]) for sender, receiver, _ in plan.channels()]
    return data_connected(run.stage, pairs)


def _note(run: Run, entry: dict[str, Any]) -> None:
    """A round has ended."""
    done = Round(entry["start_ns"], entry["end_ns"], entry["bytes_up"] + entry["bytes_down"])
    run.facts["rounds"].append({"start_ns": done.start_ns, "end_ns": done.end_ns, "bytes": done.bytes})
    run.on_round(done)
