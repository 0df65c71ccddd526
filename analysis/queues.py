"""The queue of a switch port over time: how full, for how long, and how fast a burst filled it.

Samples are taken about every microsecond while the port is busy (on the real clock every 250 us, or when the machine
comes to it) and not at all while it is idle: the last one of a busy time finds the queue empty. Each sample therefore
holds until the next one, and a silence longer than IDLE_GAP_NS after an empty one is idle time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.parquet import read_columns

IDLE_GAP_NS = 20_000
_SEEN_SHARE = 0.5  # a burst whose first sample finds the buffer fuller than this was met too late to time its filling
_COLUMNS = ("time_ns", "queue_bytes", "queue_packets", "drops", "marks")


@dataclass(frozen=True, eq=False)
class QueueSeries:
    """Samples (n,) of one port's queue in order of time: bytes and packets held, and drops and marks counted
    since the start."""

    port: str
    time_ns: np.ndarray
    queue_bytes: np.ndarray
    queue_packets: np.ndarray
    drops: np.ndarray
    marks: np.ndarray

    def __len__(self) -> int:
        return len(self.time_ns)

    def between(self, start_ns: int, end_ns: int) -> QueueSeries:
        """The samples with start_ns <= time_ns < end_ns."""
        first, last = np.searchsorted(self.time_ns, [start_ns, end_ns])
        return QueueSeries(self.port, *(getattr(self, name)[first:last] for name in _COLUMNS))

    @property
    def held_ns(self) -> np.ndarray:
        """How long each sample holds (n,): until the next one, an empty one for at most IDLE_GAP_NS; 0 for the last."""
        until_next = np.diff(self.time_ns, append=self.time_ns[-1:])
        return np.where(self.queue_bytes > 0, until_next, np.minimum(until_next, IDLE_GAP_NS))

    def silences(self, longer_than_ns: int = IDLE_GAP_NS) -> np.ndarray:
        """The places of the samples behind which the port was idle for so long."""
        return np.flatnonzero((np.diff(self.time_ns) > longer_than_ns) & (self.queue_bytes[:-1] == 0))

    @property
    def begins_burst(self) -> np.ndarray:
        """Which samples (n,) are the first of a burst: the sample before was empty."""
        was_empty = np.concatenate([[True], self.queue_bytes[:-1] == 0])[: len(self)]
        return was_empty & (self.queue_bytes > 0)


@dataclass(frozen=True)
class QueueStatistics:
    """A queue while it was busy (not empty), weighted by time: largest, median and 99th percentile in bytes,
    and seconds busy."""

    max_bytes: int
    p50_bytes: int
    p99_bytes: int
    busy_s: float


def read_queues(path: str | os.PathLike[str]) -> dict[str, QueueSeries]:
    """The series of every port in a queue.parquet, by port name; raises BadRequest naming the file and what
    is wrong with it."""
    columns = read_columns(path, ("port",), _COLUMNS, "queue samples")
    ports = columns.pop("port")
    return {port: _series(port, columns, ports == port) for port in sorted(set(ports.tolist()))}


def _series(port: str, columns: dict[str, np.ndarray], rows: np.ndarray) -> QueueSeries:
    return QueueSeries(port, *(columns[name][rows].astype(np.int64) for name in _COLUMNS))


def statistics(series: QueueSeries) -> QueueStatistics | None:
    """How full the queue was while busy; None when it never was."""
    busy = series.queue_bytes > 0
    if not busy.any():
        return None
    p50, p99, longest = percentiles(series.queue_bytes[busy], series.held_ns[busy], (0.5, 0.99, 1.0))
    return QueueStatistics(longest, p50, p99, float(series.held_ns[busy].sum() / 1e9))


def percentiles(depth: np.ndarray, held_ns: np.ndarray, levels: Sequence[float]) -> list[int]:
    """The depths (n,), in their own unit, that a queue did not exceed for these shares of the time for which each was
    held (n,); what was held for no time counts as a nanosecond."""
    order = np.argsort(depth, kind="stable")
    weight = np.maximum(held_ns[order], 1)
    share = np.cumsum(weight) / weight.sum()
    places = np.minimum(np.searchsorted(share, levels), len(depth) - 1)
    return [int(value) for value in depth[order][places]]


def longest_idle_ns(series: QueueSeries, start_ns: int, end_ns: int) -> int:
    """The longest time within [start_ns, end_ns) during which the queue stayed empty."""
    inside = series.between(start_ns, end_ns)
    begins, ends = inside.time_ns, inside.time_ns + inside.held_ns
    busy = inside.queue_bytes > 0
    return int(
        np.max(
            np.concatenate([begins[busy], [end_ns]]) - np.maximum(np.concatenate([[start_ns], ends[busy]]), start_ns)
        )
    )


def buffer_fill_s(series: QueueSeries, buffer_bytes: int, frame_bytes: int) -> float | None:
    """Seconds that the first burst to fill the buffer took, from samples; None when none did, or when
    sampling began too late to see it.

    From the last sample that found the queue empty (a burst that begins after silence: from its first sample)
    to the first one that finds it within one frame of full, or finds a drop.
    """
    dropped = np.diff(series.drops, prepend=series.drops[:1]) > 0
    full = np.flatnonzero((series.queue_bytes > buffer_bytes - frame_bytes) | dropped)
    if not len(full):
        return None
    first = int(np.flatnonzero(series.begins_burst[: full[0] + 1]).max(initial=0))
    silent = first == 0 or series.time_ns[first] - series.time_ns[first - 1] > IDLE_GAP_NS
    begin = first if silent else first - 1
    seen = begin < full[0] and series.queue_bytes[begin] < _SEEN_SHARE * buffer_bytes
    return float(series.time_ns[full[0]] - series.time_ns[begin]) / 1e9 if seen else None


class Traffic(NamedTuple):
    """Packets at one place, in order of time: times in ns and frame lengths in bytes, both (n,)."""

    time_ns: np.ndarray
    wire_bytes: np.ndarray


def buffer_fill_exact_s(arriving: Traffic, leaving: Traffic, buffer_bytes: int) -> float | None:
    """Seconds from the packet that found the queue empty to the first one that did not fit; None when all of
    them fit.

    arriving: what the senders' captures show, at the time it reaches the queue; leaving: what the port's own
    capture shows. Up to the first drop the queue is exactly what came less what went, so neither sampling nor
    drop counters are needed.
    """
    times = np.concatenate([arriving.time_ns, leaving.time_ns])
    change = np.concatenate([arriving.wire_bytes, -leaving.wire_bytes])
    order = np.lexsort((change, times))  # at equal times, first what leaves
    queue_bytes = np.cumsum(change[order])
    over = np.flatnonzero(queue_bytes > buffer_bytes)
    if not len(over):
        return None
    empty = np.flatnonzero(queue_bytes[: over[0]] <= 0)
    begin = int(empty[-1]) + 1 if len(empty) else 0
    return float(times[order[over[0]]] - times[order[begin]]) / 1e9
