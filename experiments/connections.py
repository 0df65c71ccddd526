"""The connections of a run's flows, over the transport and in the class that its spec asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from experiments import limits
from experiments.memory import largest_bytes, pairs, ring_bytes
from experiments.spec import CLUSTER, Spec, known
from experiments.stage import Stage
from topologies.qdisc import CONTROL_DSCP, LOSSLESS_DSCP
from topologies.rdma import MOST_UNACKED_PACKETS
from workloads.long_flows import BLOCK_BYTES
from workloads.patterns import Pair
from workloads.transport import roce, roce_stream, tcp
from workloads.transport.base import Connection, DataConnection

_UNSENT_BLOCKS = 2
_RING_SLOTS = 16
_ACK_TIMEOUT_UNIT_NS = 4_096
_USUAL_ACK_TIMEOUT, _MOST_ACK_TIMEOUT = 14, 31  # of five bits
_PACED_ACK_TIMEOUT = 19  # 2.1 s: 513 packets of 4 KB at DCQCN's least rate of 10 Mb/s take 1.7 s
_PATIENCE_TIMEOUTS = 64


def connected(
    stage: Stage, pairs: Sequence[Pair], on_connected: Callable[[], None] = lambda: None, steady: bool = False
) -> AbstractContextManager[Sequence[Connection]]:
    """A connection for each pair, in order; `on_connected` is called after each. `steady`: they will send for long."""
    spec = stage.spec
    if spec.transport == "roce":
        return roce.connected(stage.fabric, pairs, on_connected, queue_pairs(spec, steady))
    shape = _steady(spec) if steady else None
    return tcp.connected(stage.fabric, pairs, on_connected, _dscp(spec), shape)


def data_connected(
    stage: Stage, pairs: Sequence[Pair], on_connected: Callable[[], None] = lambda: None
) -> AbstractContextManager[Sequence[DataConnection]]:
    """A connection that carries real bytes for each pair, in order; `on_connected` is called after each."""
    spec = stage.spec
    if spec.transport == "roce":
        return roce_stream.connected(stage.fabric, pairs, on_connected, stream_queue_pairs(spec))
    return tcp.connected(stage.fabric, pairs, on_connected, _dscp(spec))


def stream_queue_pairs(spec: Spec) -> roce.QueuePairs:
    """What the queue pairs of a resolved spec are like whose bytes are read: with rings for many messages."""
    size_bytes = ring_bytes(spec)
    return replace(queue_pairs(spec, steady=False), message_bytes=size_bytes // _RING_SLOTS, queue_bytes=size_bytes)


def _dscp(spec: Spec) -> int:
    return LOSSLESS_DSCP if spec.traffic_class == "lossless" else 0


def _steady(spec: Spec) -> tcp.Steady:
    """As much of a host's link as payload can be."""
    payload_bps = spec.rate_bps * limits.segment_bytes(spec) // spec.frame_bytes
    return tcp.Steady(_UNSENT_BLOCKS * BLOCK_BYTES, payload_bps)


def queue_pairs(spec: Spec, steady: bool) -> roce.QueuePairs:
    """What the queue pairs of a resolved spec are like. Acknowledgements are control traffic, like CNPs. Long flows
    tell their receivers of each block, and take no more ahead than keeps them busy: what they have taken is still sent
    after their end."""
    verb, mtu_bytes, window_bytes = known(spec.verb), known(spec.roce_mtu_bytes), spec.window_bytes or None
    asked = roce.QueuePairs(verb, mtu_bytes, _dscp(spec), CONTROL_DSCP, window_bytes)
    asked = replace(asked, **_patience(spec))
    if not steady:
        return asked
    most_bytes = MOST_UNACKED_PACKETS * mtu_bytes
    flying_bytes = min(window_bytes or most_bytes, most_bytes)
    return replace(asked, message_bytes=BLOCK_BYTES, queue_bytes=flying_bytes + _UNSENT_BLOCKS * BLOCK_BYTES)


def _patience(spec: Spec) -> dict[str, Any]:
    """Nobody is to take for lost what waits behind all others' windows for the slowest link, or, where nothing is lost,
    in a NIC that is paced slowly. Where packets are lost, an incast of many queue pairs would soon have used up the few
    retries of one."""
    window_bytes = MOST_UNACKED_PACKETS * known(spec.roce_mtu_bytes)
    largest = largest_bytes(spec)
    if largest is not None:
        window_bytes = min(window_bytes, largest)
    elif spec.workload in CLUSTER:
        window_bytes = min(window_bytes, ring_bytes(spec))
    waits_ns = 2 * pairs(spec) * 8 * window_bytes * 10**9 // min(spec.link_rates_bps)
    timeout = max(_USUAL_ACK_TIMEOUT, (waits_ns // _ACK_TIMEOUT_UNIT_NS).bit_length())
    if spec.pfc == "off" or spec.allow_loss:
        return {"ack_timeout": min(timeout, _MOST_ACK_TIMEOUT), "retries": roce.ENDLESS_RETRIES}
    least = _PACED_ACK_TIMEOUT if spec.cc == "dcqcn" else _USUAL_ACK_TIMEOUT
    return {"ack_timeout": min(max(timeout, least), _MOST_ACK_TIMEOUT)}


def patience_s(spec: Spec) -> float | None:
    """After how long without news of any flow all are given up: many timeouts, and all flows' next messages one after
    the other. None where the transport tells by itself."""
    asked = queue_pairs(spec, steady=False) if spec.transport == "roce" else None
    if asked is None or asked.retries != roce.ENDLESS_RETRIES:
        return None
    next_bytes = largest_bytes(spec) or ring_bytes(spec)
    message_bits = 8 * min(asked.message_bytes, next_bytes) * pairs(spec)
    return _PATIENCE_TIMEOUTS * ack_timeout_ns(spec) / 1e9 + message_bits / spec.rate_bps


def silence_ns(spec: Spec) -> int:
    """How long a sender may be silent twice in a row before it sends again what was lost; 0 where nothing is lost."""
    if spec.pfc == "on":
        return 0
    if spec.transport == "tcp":
        return (1 + 2) * spec.rto_min_ns  # the second timeout is twice as long (RFC 6298)
    return 2 * ack_timeout_ns(spec)


def ack_timeout_ns(spec: Spec) -> int:
    """After how long a queue pair of a resolved spec sends again what is not acknowledged."""
    return _ACK_TIMEOUT_UNIT_NS << queue_pairs(spec, steady=False).ack_timeout
