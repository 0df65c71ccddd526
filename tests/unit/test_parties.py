"""What an aggregator's pool is sized by, who serves, what crossed hosts' links, and datagrams by the batch."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import limits, parties
from experiments.drive_collective import used_channels
from experiments.spec import Spec, parse
from experiments.wire import grown, port_bytes
from topologies.profiles import ETHERNET_HEADER_BYTES
from workloads.collectives.in_network import HEADER_BYTES
from workloads.transport.batches import Datagram, Inbox, Outbox, SocketAddress


def resolved(**keys: Any) -> Spec:
    return limits.resolve(parse({"workload": "collective", **keys}))


def aggregated(**keys: Any) -> Spec:
    return resolved(algorithm="in_network", **keys)


# --- the pool


def test_a_pool_keeps_a_workers_line_busy_with_full_packets() -> None:
    spec = aggregated(ranks=4, rate="100Gbps", mtu="9000B")
    pool = parties.pool(spec)
    assert (pool.workers, pool.payload_bytes) == (4, 8960)  # 9000 less 36 of headers, in whole numbers of 8 bytes
    flying_bytes = spec.rate_bps * spec.rtt_ns // 8_000_000_000
    assert pool.slots * pool.payload_bytes > 2 * flying_bytes


@given(
    ranks=st.integers(2, 200),
    rate=st.sampled_from(["1Gbps", "10Gbps", "100Gbps", "400Gbps"]),
    mtu=st.sampled_from(["576B", "1500B", "9000B"]),
    buffer=st.sampled_from(["20KB", "100KB", "600KB", "32MB"]),
    helper=st.sampled_from(["auto", "10Gbps", "100Gbps", "3.2Tbps"]),
)
def test_what_all_workers_send_at_once_fits_into_the_port(
    ranks: int, rate: str, mtu: str, buffer: str, helper: str
) -> None:
    spec = aggregated(ranks=ranks, rate=rate, mtu=mtu, buffer=buffer, helper_rate=helper)
    pool = parties.pool(spec)
    frame_bytes = pool.payload_bytes + HEADER_BYTES + ETHERNET_HEADER_BYTES
    assert pool.slots >= 1
    assert 8 <= pool.payload_bytes <= spec.mtu_bytes - HEADER_BYTES
    assert pool.payload_bytes % 8 == 0
    if ranks * (8 + HEADER_BYTES + ETHERNET_HEADER_BYTES) > spec.buffer_bytes:
        return  # no packet is small enough
    assert spec.helper_rate_bps is not None
    passing = min(1.0, spec.helper_rate_bps / (ranks * spec.rate_bps))
    waiting_bytes = ranks * frame_bytes * (pool.slots * (1 - passing) + passing)
    assert pool.slots == 1 or waiting_bytes <= spec.buffer_bytes
    assert ranks * frame_bytes <= spec.buffer_bytes


def test_nobody_sends_again_what_waits_in_full_queues() -> None:
    spec = aggregated(ranks=4, rate="1Gbps", mtu="9000B", helper_rate="1Gbps", buffer="1MB")
    assert parties.pool(spec).timeout_ns > 8_000_000  # 1 MB at 1 Gb/s


# --- who serves


def test_an_aggregator_is_no_party_that_serves() -> None:
    assert parties.server_numbers(aggregated(ranks=3)) == ()
    spec = resolved(ranks=3, algorithm="parameter_server", shards=2)
    assert parties.server_numbers(spec) == (3, 4)
    assert parties.hosts_of(spec) == ["h1", "h2", "h3", "h4", "h5"]


@pytest.mark.parametrize(("cost", "count"), [("none", 0), ("tcp", 5), ("rdma", 5)])
def test_every_party_has_a_processor_where_messages_cost_something(cost: str, count: int) -> None:
    spec = resolved(ranks=3, algorithm="parameter_server", shards=2, host_cost=cost)
    assert list(parties.processors(spec, len(parties.hosts_of(spec)))) == list(range(count))


def test_connections_are_those_that_the_collective_uses() -> None:
    assert used_channels(resolved(ranks=3)) == [(0, 1, 0), (1, 2, 0), (2, 0, 0)]
    assert used_channels(aggregated(ranks=3)) == []
    assert len(used_channels(resolved(ranks=5, collective="all_to_all"))) == 20


# --- bytes on the wire

PROC_NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:    0       0    0    0    0     0          0         0     0       0    0    0    0     0       0          0
leaf1-eth1: 1500   1    0    0    0     0          0         0  9014       2    0    0    0     0       0          0
"""


def test_bytes_are_read_per_interface() -> None:
    assert port_bytes(PROC_NET_DEV) == {"lo": (0, 0), "leaf1-eth1": (1500, 9014)}


def test_what_has_crossed_between_two_readings() -> None:
    before = {"nic_bytes": {"h1": {"sent": 10, "received": 1}}}
    after = {"nic_bytes": {"h1": {"sent": 15, "received": 1}}}
    assert grown(before, after) == {"nic_bytes": {"h1": {"sent": 5, "received": 0}}}


# --- datagrams by the batch

HEADER = np.dtype([("number", np.uint32), ("from", np.uint32)])


def udp() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    return made


def test_datagrams_go_out_and_come_in_by_the_batch() -> None:
    data = np.arange(300, dtype=np.uint8)
    inbox, outbox = Inbox(4, HEADER, payload_bytes=100), Outbox(3, HEADER)
    with udp() as sender, udp() as first, udp() as second:
        names = [SocketAddress(*each.getsockname()) for each in (first, second)]
        outbox.send(
            sender.fileno(),
            [Datagram((n, 7), data.ctypes.data + n * 10, 10 + n, names[n % 2].name) for n in range(10)],
        )
        found: list[tuple[int, bytes]] = []
        fulls = []
        for _ in range(2):
            headers, sizes = inbox.take(first.fileno())
            fulls.append(inbox.is_full)
            assert {header[1] for header in headers} == {7}
            found += [(h[0], row[:n].tobytes()) for h, row, n in zip(headers, inbox.payloads, sizes)]
        assert found == [(n, data[n * 10 : n * 10 + 10 + n].tobytes()) for n in (0, 2, 4, 6, 8)]
        assert fulls == [True, False]
        assert inbox.take(first.fileno()) == ([], [])
        assert len(inbox.take(second.fileno())[0]) == 4


def test_a_connected_socket_needs_no_name_and_a_closed_one_is_told() -> None:
    data = np.ones(4, np.uint8)
    inbox, outbox = Inbox(2, HEADER, payload_bytes=8), Outbox(2, HEADER)
    with udp() as sender, udp() as receiver:
        sender.connect(receiver.getsockname())
        outbox.send(sender.fileno(), [Datagram((1, 2), data.ctypes.data, 4)])
        assert inbox.take(receiver.fileno()) == ([(1, 2)], [4])
        descriptor = receiver.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        inbox.take(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        outbox.send(descriptor, [Datagram((1, 2), data.ctypes.data, 4)])
