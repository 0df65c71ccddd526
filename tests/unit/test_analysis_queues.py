"""Queue series: bursts, idle time, percentiles by time, and how fast a buffer fills."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from analysis.queues import (
    QueueSeries,
    Traffic,
    buffer_fill_exact_s,
    buffer_fill_s,
    longest_idle_ns,
    read_queues,
    statistics,
)
from topologies.units import BadRequest

FRAME = 1514


def series(times_us: list[float], depth: list[int], drops: list[int] | None = None) -> QueueSeries:
    columns = [np.array(values, np.int64) for values in (depth, depth, drops or [0] * len(depth), [0] * len(depth))]
    return QueueSeries("leaf1-eth1", (np.array(times_us) * 1000).astype(np.int64), *columns)


def test_percentiles_weigh_samples_by_how_long_they_hold() -> None:
    found = statistics(series([0, 1, 2, 12, 13], [0, 100, 400, 900, 0]))
    assert found is not None
    assert (found.max_bytes, found.p50_bytes, found.p99_bytes) == (900, 400, 900)
    assert found.busy_s == pytest.approx(12e-6)


def test_a_queue_that_never_held_anything_has_no_statistics() -> None:
    assert statistics(series([0, 1], [0, 0])) is None


def test_a_silence_means_that_the_queue_was_empty() -> None:
    busy = series([0, 1, 2, 100, 101], [500, 500, 0, 500, 0])
    assert longest_idle_ns(busy, 0, 200_000) == 99_000


def test_idle_time_reaches_to_both_ends_of_the_window() -> None:
    busy = series([50, 51], [500, 0])
    assert longest_idle_ns(busy, 0, 60_000) == 50_000
    assert longest_idle_ns(busy, 40_000, 160_000) == 109_000
    assert longest_idle_ns(series([], []), 0, 7_000) == 7_000


def test_a_buffer_fills_from_the_last_empty_sample_to_the_first_full_one() -> None:
    assert buffer_fill_s(
        series([0, 1, 2, 3, 4], [0, 200_000, 400_000, 599_000, 600_000]), 600_000, FRAME
    ) == pytest.approx(3e-6)


def test_a_drop_tells_that_the_buffer_was_full() -> None:
    assert buffer_fill_s(series([0, 1, 2], [0, 200_000, 400_000], [0, 0, 3]), 600_000, FRAME) == pytest.approx(2e-6)


def test_only_the_burst_that_fills_it_counts() -> None:
    two = series([0, 1, 2, 100, 101, 102], [0, 90_000, 0, 10, 300_000, 600_000])
    assert buffer_fill_s(two, 600_000, FRAME) == pytest.approx(2e-6)


@pytest.mark.parametrize(("depth", "drops"), [([0, 10_000], [0, 0]), ([598_030, 599_000], [400, 500])])
def test_a_buffer_never_seen_to_fill_has_no_time(depth: list[int], drops: list[int]) -> None:
    assert buffer_fill_s(series([0, 1], depth, drops), 600_000, FRAME) is None


def test_the_exact_filling_time_by_hand() -> None:
    """Four frames of 1500 B arrive 100 ns apart, one leaves at 150 ns: 4500 B are held after the fourth,
    which is too many for 4000 B."""
    arriving = Traffic(np.array([1000, 1100, 1200, 1300]), np.full(4, 1500))
    leaving = Traffic(np.array([1150]), np.full(1, 1500))
    assert buffer_fill_exact_s(arriving, leaving, 4000) == pytest.approx(300e-9)
    assert buffer_fill_exact_s(arriving, leaving, 4500) is None


def test_at_equal_times_what_leaves_makes_room() -> None:
    arriving = Traffic(np.array([0, 10, 20]), np.full(3, 1500))
    leaving = Traffic(np.array([20]), np.full(1, 1500))
    assert buffer_fill_exact_s(arriving, leaving, 3000) is None


def test_the_exact_filling_time_begins_when_the_queue_was_last_empty() -> None:
    arriving = Traffic(np.array([0, 5000, 5010, 5020]), np.full(4, 1500))
    leaving = Traffic(np.array([30]), np.full(1, 1500))
    assert buffer_fill_exact_s(arriving, leaving, 3000) == pytest.approx(20e-9)


def test_samples_are_read_per_port_in_order_of_time(tmp_path: Path) -> None:
    columns = {name: [3, 1, 2] for name in ("time_ns", "queue_bytes", "queue_packets", "drops", "marks")}
    pyarrow.parquet.write_table(pyarrow.table({**columns, "port": ["a", "a", "b"]}), tmp_path / "queue.parquet")
    queues = read_queues(tmp_path / "queue.parquet")
    assert queues["a"].time_ns.tolist() == [1, 3]
    assert queues["b"].queue_bytes.tolist() == [2]


@pytest.mark.parametrize("content", [b"", b"not parquet at all", None])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "queue.parquet").write_bytes(content)
    with pytest.raises(BadRequest, match=r"queue.parquet"):
        read_queues(tmp_path / "queue.parquet")


def test_a_file_without_the_columns_is_named(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"time_ns": [1]}), tmp_path / "queue.parquet")
    with pytest.raises(BadRequest, match=r"queue.parquet"):
        read_queues(tmp_path / "queue.parquet")
