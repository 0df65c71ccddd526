"""Who takes part in collectives, and what carries their programs out on a staged fabric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from controller.loop import Loop
from experiments import limits
from experiments.cluster import helper_hosts, rank_hosts
from experiments.connections import data_connected, patience_s
from experiments.spec import Spec, known
from experiments.stage import Stage
from topologies.profiles import ETHERNET_HEADER_BYTES
from workloads.collectives.executor import Executor
from workloads.collectives.in_network import HEADER_BYTES, TICK_NS, InNetwork, in_network
from workloads.collectives.in_network_state import Pool
from workloads.collectives.program import Channel
from workloads.host_cost import COSTS, Processor
from workloads.transport.base import DataConnection

_OVERHEAD_BYTES = HEADER_BYTES + ETHERNET_HEADER_BYTES
_NUMBER_BYTES = 8  # of the largest type: no number is cut in two
_ROUND_TRIPS = 2
_RESEND_NS = 1_000_000  # SwitchML's; here beyond what full queues take to empty

CpuUse = dict[str, dict[str, int]]  # host -> "busy_ns", and "bytes" of the messages that kept it busy


@dataclass(frozen=True)
class Parties:
    """The hosts of all parties by number, their connections, and what runs their programs; `processors` of those whose
    messages cost something, `aggregator` where there is one."""

    hosts: Sequence[str]
    connections: Sequence[DataConnection]
    loop: Loop
    executor: Executor
    processors: dict[int, Processor]
    aggregator: InNetwork | None

    def cpu(self) -> CpuUse:
        """What messages have cost each host so far."""
        charged = self.executor.charged_bytes
        return {
            self.hosts[party]: {"busy_ns": processor.busy_ns, "bytes": charged[party]}
            for party, processor in self.processors.items()
        }


def hosts_of(spec: Spec) -> list[str]:
    """The host of each party: ranks, then helpers."""
    return [*rank_hosts(spec), *helper_hosts(spec)]


def server_numbers(spec: Spec) -> tuple[int, ...]:
    """The parties that serve (see World.helpers): parameter servers; an aggregator is none."""
    return () if spec.algorithm == "in_network" else tuple(range(known(spec.ranks), len(hosts_of(spec))))


def processors(spec: Spec, parties: int) -> dict[int, Processor]:
    """A processor for each of `parties`, none where messages cost nothing."""
    if spec.host_cost in (None, "none"):
        return {}
    packet_bytes = spec.roce_mtu_bytes or limits.segment_bytes(spec)
    cost = COSTS[known(spec.host_cost)]
    return {party: Processor(cost, packet_bytes) for party in range(parties)}


@contextmanager
def gathered(stage: Stage, channels: Sequence[Channel]) -> Iterator[Parties]:
    """All parties of the stage's spec, connected by `channels`."""
    spec, hosts = stage.spec, hosts_of(stage.spec)
    pairs = [(hosts[sender], hosts[receiver]) for sender, receiver, _ in channels]
    with ExitStack() as stack:
        loop = stack.enter_context(Loop())
        connections = stack.enter_context(data_connected(stage, pairs))
        aggregator = stack.enter_context(_aggregator(stage, loop)) if spec.algorithm == "in_network" else None
        charged = processors(spec, len(hosts))
        by_channel = dict(zip(channels, connections))
        executor = Executor(by_channel, loop, patience_s(spec), charged, aggregator)
        yield Parties(hosts, connections, loop, stack.enter_context(executor), charged, aggregator)


def _aggregator(stage: Stage, loop: Loop) -> AbstractContextManager[InNetwork]:
    (aggregator,) = helper_hosts(stage.spec)
    return in_network(stage.fabric, rank_hosts(stage.spec), aggregator, pool(stage.spec), loop)


def pool(spec: Spec) -> Pool:
    """What an aggregator of the spec's ranks is like: packets as large as the MTU, or so large that one from every
    worker at once fits into the buffer of the aggregator's port; slots for twice what is under way while a chunk goes
    there and back, so that a worker's line is busy though answers come in bunches.

    Where the aggregator's link is slower than all workers' together, a share of what they send at the same time has to
    wait at its port, and no more slots are used than keep that within the buffer. All answers that a worker waits for
    fit into the buffer of its own port.
    """
    ranks, helper_bps = known(spec.ranks), known(spec.helper_rate_bps)
    frame_bytes = min(spec.frame_bytes, spec.buffer_bytes // ranks)
    payload_bytes = max(frame_bytes - _OVERHEAD_BYTES, 0) // _NUMBER_BYTES * _NUMBER_BYTES or _NUMBER_BYTES
    frame_bytes = payload_bytes + _OVERHEAD_BYTES
    loop_ns = spec.rtt_ns + 2 * TICK_NS + 2 * _line_ns(frame_bytes, spec.rate_bps)
    slots = _ROUND_TRIPS * -(-loop_ns // _line_ns(frame_bytes, spec.rate_bps))
    meeting_bytes, passing = ranks * frame_bytes, min(helper_bps / (ranks * spec.rate_bps), 1)
    if passing < 1:
        slots = min(slots, int((spec.buffer_bytes / meeting_bytes - passing) / (1 - passing)))
    slots = max(min(slots, spec.buffer_bytes // frame_bytes), 1)
    queued_ns = _line_ns(slots * frame_bytes, min(spec.link_rates_bps)) + _line_ns(spec.buffer_bytes, helper_bps)
    return Pool(ranks, slots, payload_bytes, _RESEND_NS + 2 * (loop_ns + queued_ns))


def _line_ns(size_bytes: int, rate_bps: int) -> int:
    return size_bytes * 8 * 10**9 // rate_bps
