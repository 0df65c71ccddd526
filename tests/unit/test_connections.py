"""How a run's flows connect: the transport and class of its spec, and what long flows need beyond that."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import limits
from experiments.agents import pause_policy
from experiments.connections import patience_s, queue_pairs, silence_ns, stream_queue_pairs
from experiments.spec import Spec, known, parse
from topologies.qdisc import CONTROL_DSCP, LOSSLESS_DSCP
from workloads.long_flows import BLOCK_BYTES
from workloads.patterns import flow_names

ROCE = {"transport": "roce", "mtu": "4200B", "rate": "100Gbps", "senders": 4}
MS = 1_000_000


def resolved(**keys: Any) -> Spec:
    return limits.resolve(parse(keys))


# --- names of flows


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        ([], []),
        ([("h2", "h1"), ("h3", "h1")], ["h2", "h3"]),
        ([("h2", "h1"), ("h3", "h4")], ["h2>h1", "h3>h4"]),
        ([("h2", "h1"), ("h2", "h1"), ("h3", "h1"), ("h2", "h1")], ["h2", "h2#2", "h3", "h2#3"]),
        ([("h2", "h1"), ("h1", "h2"), ("h2", "h1")], ["h2>h1", "h1>h2", "h2>h1#2"]),
    ],
)
def test_flows_are_named_by_their_ends_and_no_two_alike(pairs: list[tuple[str, str]], names: list[str]) -> None:
    assert flow_names(pairs) == names
    assert len(set(names)) == len(names)


# --- queue pairs


def test_queue_pairs_are_as_the_spec_says() -> None:
    asked = queue_pairs(resolved(**ROCE, verb="send", roce_mtu="1024B", window="64KiB"), steady=False)
    assert (asked.verb, asked.mtu_bytes, asked.window_bytes) == ("send", 1024, 65_536)
    assert (asked.dscp, asked.ack_dscp) == (LOSSLESS_DSCP, CONTROL_DSCP)


def test_without_a_window_there_is_none_and_the_mtu_is_what_fits() -> None:
    asked = queue_pairs(resolved(**ROCE), steady=False)
    assert (asked.verb, asked.mtu_bytes, asked.window_bytes) == ("write", 4096, None)


def test_the_lossy_class_is_the_default_one() -> None:
    assert queue_pairs(resolved(**ROCE, traffic_class="lossy"), steady=False).dscp == 0


@pytest.mark.parametrize(
    ("keys", "flying_bytes"),
    [({}, 513 * 4096), ({"window": "256KiB"}, 256 << 10), ({"window": "9MB"}, 513 * 4096)],
)
def test_long_flows_take_no_more_ahead_than_keeps_them_busy(keys: dict[str, str], flying_bytes: int) -> None:
    asked = queue_pairs(resolved(**ROCE, **keys), steady=True)
    assert asked.message_bytes == BLOCK_BYTES
    assert asked.queue_bytes == flying_bytes + 2 * BLOCK_BYTES


# --- streams

COLLECTIVE = {"transport": "roce", "workload": "collective", "mtu": "4200B", "rate": "100Gbps"}


def test_streams_have_rings_of_sixteen_messages() -> None:
    asked = stream_queue_pairs(resolved(**COLLECTIVE, ranks=8, verb="send", window="64KiB"))
    assert (asked.verb, asked.window_bytes, asked.queue_bytes, asked.message_bytes) == (
        "send",
        65_536,
        4 << 20,
        1 << 18,
    )
    assert asked.piece_bytes == 65_536 // 4


@pytest.mark.parametrize(("ranks", "timeout"), [(8, 14), (48, 15)])
def test_streams_wait_as_long_as_all_rings_take(ranks: int, timeout: int) -> None:
    """Of 48 ranks 2,256 rings of 256 KiB, there and back on one link of 100 Gb/s: 95 ms; the usual is 67 ms."""
    spec = resolved(**COLLECTIVE, ranks=ranks, collective="all_to_all", pfc="on", buffer="20MB")
    assert stream_queue_pairs(spec).ack_timeout == timeout


def test_streams_are_given_up_when_nothing_comes_for_many_timeouts() -> None:
    lossy = resolved(**COLLECTIVE, ranks=8)
    assert 64 * 4096e-9 * (1 << 14) < known(patience_s(lossy)) < 5
    assert patience_s(resolved(**COLLECTIVE, ranks=8, pfc="on", buffer="20MB")) is None


# --- how long nothing may come


@pytest.mark.parametrize(
    ("keys", "silent_ns"),
    [
        ({}, 600 * MS),
        ({"rto_min": "1ms"}, 3 * MS),
        ({"transport": "roce"}, 2 * (4096 << 14)),
        ({"transport": "roce", "pfc": "on"}, 0),
    ],
)
def test_a_sender_may_be_silent_for_two_timeouts_where_it_may_lose(keys: dict[str, str], silent_ns: int) -> None:
    assert silence_ns(resolved(senders=4, **keys)) == silent_ns


# --- agents


def test_a_stuck_receiver_counts_from_the_begin_and_may_have_no_end() -> None:
    keys = {"transport": "roce", "pfc": "on", "workload": "long_flows", "hosts": 4, "duration": "20ms"}
    policy = pause_policy(resolved(**keys, stuck="h1@2ms-12ms,h2@5ms", pfc_watchdog="1ms"), begin_ns=1_000 * MS)
    first, second = policy.stuck
    assert (first.host, first.begin_ns, first.end_ns) == ("h1", 1_002 * MS, 1_012 * MS)
    assert (second.host, second.begin_ns) == ("h2", 1_005 * MS)
    assert second.end_ns > 10**18
    assert (policy.watchdog_ns, policy.control_latency_ns) == (MS, None)


def test_pauses_by_the_controller_are_told_after_its_latency() -> None:
    keys = {"transport": "roce", "pfc": "on", "topology": "leaf_spine", "rate": "10Gbps", "pfc_watchdog": "off"}
    policy = pause_policy(resolved(**keys, pause="controller", control_latency="10us", buffer="2MB"), begin_ns=0)
    assert (policy.control_latency_ns, policy.watchdog_ns, policy.stuck) == (10_000, None, ())
