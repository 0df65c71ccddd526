"""Workloads of single datagrams: probes, random flows, numbered streams."""

from __future__ import annotations

import time
from dataclasses import asdict

from experiments.playing import Failures, Run, lead_ns, one_round
from experiments.spec import known
from experiments.stage import Stage
from topologies.profiles import ETHERNET_HEADER_BYTES
from workloads import counters, datagrams, patterns

_LEAST_WAIT_S = 0.02  # for a real clock, on which looking up costs time
_MOST_LINKS = 16  # a detour's
_FRAME_BITS = 8 * (datagrams.PROBE_BYTES + ETHERNET_HEADER_BYTES)


def pings(run: Run) -> None:
    """A small datagram between every two hosts, one after the other."""
    begin_ns = time.time_ns()
    pairs = patterns.all_to_all(run.stage.hosts)
    found = datagrams.probe(run.stage.fabric, pairs, wait_s(run.stage))
    run.facts["probes"] = [{**asdict(each), "switches": each.switches} for each in found]
    one_round(run, begin_ns, len(pairs) * datagrams.PROBE_BYTES)


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
    one_round(run, begin_ns, len(flows) * datagrams.PROBE_BYTES)


def streams(run: Run) -> None:
    """A numbered datagram of every host to its partner at each interval, while things fail."""
    stage, facts, spec = run.stage, run.facts, run.stage.spec
    interval_ns, duration_ns = known(spec.interval_ns), known(spec.duration_ns)
    with datagrams.sockets(stage.fabric, stage.hosts) as warm:
        datagrams.warm_up(stage.fabric, warm)
    begin_ns = time.time_ns() + lead_ns(run.stage)
    pairs = patterns.permutation(stage.hosts)
    count = duration_ns // interval_ns

    def account(found: list[datagrams.Stream]) -> None:
        facts["streams"] = [{"flow": f"{each.sender}>{each.receiver}", **asdict(each)} for each in found]
        sent = sum(each.sent for each in found)
        one_round(run, begin_ns, sent * datagrams.PROBE_BYTES)

    with Failures(stage, facts, begin_ns):
        datagrams.stream(stage.fabric, pairs, interval_ns, count, begin_ns, wait_s(stage), account)


def wait_s(stage: Stage) -> float:
    """Longer than a datagram takes any way through the fabric, detours included."""
    slowest_bps = min(wire.rate_bps for wire in stage.description.wires)
    return max(_LEAST_WAIT_S, 2 * stage.spec.rtt_ns / 1e9 + _MOST_LINKS * _FRAME_BITS / slowest_bps)
