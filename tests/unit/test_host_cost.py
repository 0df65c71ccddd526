"""A host's processor: what a message costs it, and when it is through with one after another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workloads.host_cost import COSTS, HostCost, Processor

COST = HostCost(message_ns=100, packet_ns=10, byte_ps=500, wake_ns=1000)


def test_a_message_costs_by_message_packet_and_byte() -> None:
    assert COST.busy_ns(0, 1000) == 100
    assert COST.busy_ns(1, 1000) == 100 + 10
    assert COST.busy_ns(2500, 1000) == 100 + 3 * 10 + 1250


def test_messages_wait_for_each_other() -> None:
    processor = Processor(COST, 1000)
    assert processor.charge(0, 1000) == 610
    assert processor.charge(0, 1000) == 1220
    assert processor.charge(5000, 1000) == 5610
    assert processor.busy_ns == 3 * 610


def test_a_wake_up_takes_time_in_which_the_processor_is_free() -> None:
    processor = Processor(COST, 1000)
    assert processor.charge(0, 1000, woken=True) == 1610
    assert processor.busy_ns == 610


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=30))
def test_it_is_never_busier_than_time_passes(messages: list[tuple[int, int]]) -> None:
    processor, now_ns, done_ns = Processor(COST, 1500), 0, 0
    for gap_ns, size_bytes in messages:
        now_ns += gap_ns
        before_ns, done_ns = done_ns, processor.charge(now_ns, size_bytes)
        assert done_ns >= max(now_ns, before_ns) + COST.busy_ns(size_bytes, 1500)
    assert processor.busy_ns <= done_ns


def test_a_core_carries_what_was_published() -> None:
    """42 Gb/s of jumbo frames by TCP (Cai et al. 2021), far more by RDMA."""
    size_bytes, payload_bytes = 64 << 20, 8948
    tcp_bps = 8e9 * size_bytes / COSTS["tcp"].busy_ns(size_bytes, payload_bytes)
    assert 41e9 < tcp_bps < 43e9
    assert 8e9 * size_bytes / COSTS["rdma"].busy_ns(size_bytes, 4096) > 100 * tcp_bps
