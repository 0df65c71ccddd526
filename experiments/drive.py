"""What the hosts do in a run: one function for each value of the key `workload`. Each drives the staged fabric and puts
what it saw into the run's facts as it goes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.agents import at_work
from experiments.connections import connected, patience_s, silence_ns
from experiments.failures import Failure, affected_wires
from experiments.spec import known
from experiments.stage import Stage
from topologies.describe import ends
from topologies.profiles import ETHERNET_HEADER_BYTES
from workloads import counters, datagrams, patterns, rounds
from workloads.faults import Fault, Faults
from workloads.long_flows import LongFlow, LongFlows, Outcome
from workloads.patterns import Pair
from workloads.transport.base import Connection

Facts = dict[str, Any]
OnRound = Callable[[rounds.Round], None]

ARRIVALS = "arrivals.events"  # a record, see workloads/long_flows.py

_LEAD_NS = 1_000_000  # from here to the workload's begin: everything is set up before the first packet
_SETTLE_NS = 10_000_000  # longer than a packet is under way, through full queues and usual pauses
_LEAST_WAIT_S = 0.02  # for a real clock, on which looking up costs time
_MOST_LINKS = 16  # a detour's
_FRAME_BITS = 8 * (datagrams.PROBE_BYTES + ETHERNET_HEADER_BYTES)


@dataclass(frozen=True)
class Run:
    """A run under way: what it plays on, its facts so far, who hears of each round, and the folder of its records."""

    stage: Stage
    facts: Facts
    on_round: OnRound
    records: Path


def drive(stage: Stage, facts: Facts, on_round: OnRound, records: Path | None = None) -> None:
    """Run the workload of the stage's spec; records of what happened are in the folder `records` afterwards (None:
    nobody wants them)."""
    with tempfile.TemporaryDirectory() as unwanted:
        _WORKLOADS[stage.spec.workload](Run(stage, facts, on_round, records or Path(unwanted)))


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
            with _surroundings(run, begin_ns, connections):
                rounds.run(asked, connections, note, begin_ns, patience_s(spec))
        finally:
            facts["flows"] = [connection.describe() for connection in connections]


def long_flows(run: Run) -> None:
    """Flows of given hosts, each from its begin to its end."""
    traffic = known(run.stage.spec.traffic)
    pairs = [(flow.sender, flow.receiver) for flow in traffic]
    with connected(run.stage, pairs, steady=True) as connections:
        begin_ns = time.time_ns() + _LEAD_NS
        asked = [
            LongFlow(connection, begin_ns + flow.begin_ns, begin_ns + known(flow.end_ns))
            for connection, flow in zip(connections, traffic)
        ]
        flows = LongFlows(asked, _SETTLE_NS + silence_ns(run.stage.spec))
        try:
            with _surroundings(run, begin_ns, connections):
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
    _one_round(run, begin_ns, sum(outcome.delivered_bytes for outcome in outcomes), end_ns)


@contextmanager
def _surroundings(run: Run, begin_ns: int, connections: Sequence[Connection]) -> Iterator[None]:
    """What goes on beside a workload that begins at `begin_ns`: agents act, and things fail."""
    names = {str(connection.describe()["destination"]): connection.name for connection in connections}
    with at_work(run.stage, begin_ns, run.records, run.facts, names), _Failures(run.stage, run.facts, begin_ns):
        yield


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


def pings(run: Run) -> None:
    """A small datagram between every two hosts, one after the other."""
    begin_ns = time.time_ns()
    pairs = patterns.all_to_all(run.stage.hosts)
    found = datagrams.probe(run.stage.fabric, pairs, _wait_s(run.stage))
    run.facts["probes"] = [{**asdict(each), "switches": each.switches} for each in found]
    _one_round(run, begin_ns, len(pairs) * datagrams.PROBE_BYTES)


def scatter(run: Run) -> None:
    """One datagram of each of many random flows; the ports' counters tell where they went."""
    stage, facts, spec = run.stage, run.facts, run.stage.spec
    flows = patterns.random_flows(stage.hosts, known(spec.flows), spec.seed)
    with datagrams.sockets(stage.fabric, stage.hosts) as warm:
        datagrams.warm_up(stage.fabric, warm)
    before, begin_ns = counters.read_transmitted(), time.time_ns()
    facts["sent"], facts["received"] = len(flows), datagrams.scatter(stage.fabric, flows)
    after = counters.read_transmitted()
    facts["port_packets"] = {name: after[name] - before[name] for name in stage.switch_ports}
    _one_round(run, begin_ns, len(flows) * datagrams.PROBE_BYTES)


def streams(run: Run) -> None:
    """A numbered datagram of every host to its partner at each interval, while things fail."""
    stage, facts, spec = run.stage, run.facts, run.stage.spec
    interval_ns, duration_ns = known(spec.interval_ns), known(spec.duration_ns)
    with datagrams.sockets(stage.fabric, stage.hosts) as warm:
        datagrams.warm_up(stage.fabric, warm)
    begin_ns = time.time_ns() + _LEAD_NS
    pairs = patterns.permutation(stage.hosts)
    count = duration_ns // interval_ns

    def account(found: list[datagrams.Stream]) -> None:
        facts["streams"] = [{"flow": f"{each.sender}>{each.receiver}", **asdict(each)} for each in found]
        sent = sum(each.sent for each in found)
        _one_round(run, begin_ns, sent * datagrams.PROBE_BYTES)

    with _Failures(stage, facts, begin_ns):
        datagrams.stream(stage.fabric, pairs, interval_ns, count, begin_ns, _wait_s(stage), account)


def _one_round(run: Run, begin_ns: int, size_bytes: int, end_ns: int | None = None) -> None:
    """The whole workload as one round, which ends at `end_ns` (None: now)."""
    done = rounds.Round(begin_ns, time.time_ns() if end_ns is None else end_ns, size_bytes)
    run.facts["rounds"] = [{"start_ns": done.start_ns, "end_ns": done.end_ns, "bytes": done.bytes}]
    run.on_round(done)


def _wait_s(stage: Stage) -> float:
    """Longer than a datagram takes any way through the fabric, detours included."""
    slowest_bps = min(wire.rate_bps for wire in stage.description.wires)
    return max(_LEAST_WAIT_S, 2 * stage.spec.rtt_ns / 1e9 + _MOST_LINKS * _FRAME_BITS / slowest_bps)


class _Failures(Faults):
    """The spec's schedule of failures, begun at `begin_ns`; what was done, and what the controller told, go into the
    facts."""

    def __init__(self, stage: Stage, facts: Facts, begin_ns: int) -> None:
        self._stage, self._facts = stage, facts
        schedule = [
            Fault(begin_ns + failure.time_ns, failure.target, failure.action, _interfaces(stage, failure))
            for failure in stage.spec.failures or ()
        ]
        super().__init__(stage.fabric, schedule, stage.controller.kill if stage.controller else None)

    def __exit__(self, *exc: object) -> None:
        try:
            super().__exit__(*exc)
        finally:
            self._account()

    def _account(self) -> None:
        controller = self._stage.controller
        if controller is None:
            return
        controller.news()
        self._facts["failures"] = [asdict(each) for each in self.done]
        self._facts["control_events"] = [each for each in controller.events if each["event"] in _CONTROL_EVENTS]
        controller.check()


_CONTROL_EVENTS = ("port_down", "port_up", "repaired", "host_moved", "lost_switch", "error")


def _interfaces(stage: Stage, failure: Failure) -> tuple[str, ...]:
    """Both ends, as far as they are switch ports, of every link that the failure takes."""
    wires = affected_wires(failure, stage.description)
    names = (end.interface for wire in wires for end in ends(wire))
    return tuple(name for name in names if name in stage.switch_ports)


_WORKLOADS: dict[str, Callable[[Run], None]] = {
    "incast": incast,
    "permutation": permutation,
    "all_to_all": all_to_all,
    "long_flows": long_flows,
    "pings": pings,
    "datagrams": scatter,
    "streams": streams,
}
