"""Workloads of flows: transfers in rounds, and flows that last."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict

from experiments.connections import connected, patience_s, silence_ns
from experiments.playing import Facts, Run, lead_ns, one_round, surroundings
from experiments.spec import known
from experiments.stage import Stage
from workloads import counters, patterns, rounds
from workloads.long_flows import LongFlow, LongFlows, Outcome
from workloads.patterns import Pair
from workloads.transport.base import Connection

ARRIVALS = "arrivals.events"  # a record, see workloads/long_flows.py

_SETTLE_NS = 10_000_000  # longer than a packet is under way, through full queues and usual pauses


def incast(run: Run) -> None:
    """N senders to one receiver."""
    _transfers(run, patterns.incast(run.stage.hosts, known(run.stage.spec.senders)))


def permutation(run: Run) -> None:
    """Every host to one other."""
    _transfers(run, patterns.permutation(run.stage.hosts))


def all_to_all(run: Run) -> None:
    """Every host to every other."""
    _transfers(run, patterns.all_to_all(run.stage.hosts))


def _transfers(run: Run, pairs: Sequence[Pair]) -> None:
    """Flows in barrier-synchronised rounds; which flow takes which uplink shows as they connect."""
    spec, facts = run.stage.spec, run.facts
    facts["rounds"], facts["transfers"] = [], []
    counter = _UplinkCounter(run.stage)
    asked = rounds.Rounds(spec.sru_bytes, spec.rounds, spec.jitter_ns, spec.seed)
    with connected(run.stage, pairs, counter.note) as connections:
        facts["link_flows"] = counter.flows

        def note(done: rounds.Round) -> None:
            _note_transfers(facts, connections, done)
            run.on_round(done)

        begin_ns = rounds.next_start_ns(asked, 0)
        try:
            with surroundings(run, begin_ns, connections):
                rounds.run(asked, connections, note, begin_ns, patience_s(spec))
        finally:
            facts["flows"] = [connection.describe() for connection in connections]


def long_flows(run: Run) -> None:
    """Flows of given hosts, each from its begin to its end."""
    traffic = known(run.stage.spec.traffic)
    pairs = [(flow.sender, flow.receiver) for flow in traffic]
    with connected(run.stage, pairs, steady=True) as connections:
        begin_ns = time.time_ns() + lead_ns(run.stage)
        asked = [
            LongFlow(connection, begin_ns + flow.begin_ns, begin_ns + known(flow.end_ns))
            for connection, flow in zip(connections, traffic)
        ]
        flows = LongFlows(asked, _SETTLE_NS + silence_ns(run.stage.spec))
        try:
            with surroundings(run, begin_ns, connections):
                flows.run()
        finally:
            flows.write(run.records / ARRIVALS)
            _account_long(run, begin_ns, connections, flows.outcomes())


def _account_long(run: Run, begin_ns: int, connections: Sequence[Connection], outcomes: Sequence[Outcome]) -> None:
    """All flows as one round, from the first begin to the last end, or arrival; one that is interrupted ends now."""
    run.facts["flows"] = [
        {**connection.describe(), **asdict(outcome)} for connection, outcome in zip(connections, outcomes)
    ]
    arrivals_ns = [outcome.last_arrival_ns for outcome in outcomes if outcome.last_arrival_ns is not None]
    end_ns = max(min(time.time_ns(), max(outcome.end_ns for outcome in outcomes)), *arrivals_ns, begin_ns)
    one_round(run, begin_ns, sum(outcome.delivered_bytes for outcome in outcomes), end_ns)


def _note_transfers(facts: Facts, connections: Sequence[Connection], done: rounds.Round) -> None:
    number, size_bytes = len(facts["rounds"]), done.bytes // len(connections)
    facts["rounds"].append({"start_ns": done.start_ns, "end_ns": done.end_ns, "bytes": done.bytes})
    facts["transfers"] += [
        {"flow": connection.name, "round": number, "start_ns": start_ns, "end_ns": end_ns, "bytes": size_bytes}
        for connection, (start_ns, end_ns) in zip(connections, done.spans_ns)
    ]


class _UplinkCounter:
    """Counts for each uplink the flows whose data will take it: a handshake's SYN and its ACK go that way, two packets
    in a fabric that is silent otherwise, and the answer, one packet, goes another."""

    def __init__(self, stage: Stage) -> None:
        self._ports = stage.up_ports()
        self.flows = dict.fromkeys(self._ports, 0)
        self._before = counters.read_transmitted() if self._ports else {}

    def note(self) -> None:
        """A connection has been made."""
        if not self._ports:
            return
        now = counters.read_transmitted()
        for name in self._ports:
            self.flows[name] += now[name] - self._before[name] >= 2
        self._before = now
