"""Long flows: when each was to send, and what of it arrived when."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from analysis.parquet import read_columns
from analysis.run import UNFINISHED, Run
from topologies.units import BadRequest

_KEYS = ("flow", "sender", "receiver", "begin_ns", "end_ns")
_WHOLE = ("begin_ns", "end_ns", "sent_bytes", "delivered_bytes")
_MOST_BINS = 100
_LONGEST_GAPS = 2  # median gaps between two blocks: what is longer is a silence
_BLOCKS_PER_BIN = 4  # a bin that holds fewer of a flow shows when its blocks were told of, not its rate


@dataclass(frozen=True)
class LongFlow:
    """A flow as it was to send, from and to (ns); `died`: why its transport gave it up (None: it did not)."""

    name: str
    sender: str
    receiver: str
    begin_ns: int
    end_ns: int
    undelivered_bytes: int
    died: str | None


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Payload of one flow as its receiver got it, in order of time: times in ns and sizes in bytes, both (n,).

    A receiver is told of a block when the last of its packets has come. They came one after the other, so that a
    block's bytes are taken to arrive evenly since the block before (the first block's since `begin_ns`), but for a
    longer silence, which was one.
    """

    begin_ns: int
    time_ns: np.ndarray
    size_bytes: np.ndarray

    def rate_bps(self, start_ns: int, end_ns: int) -> float:
        """Goodput of [start_ns, end_ns)."""
        return float(self.rates_bps(np.array([start_ns, end_ns]))[0])

    def rates_bps(self, edges_ns: np.ndarray) -> np.ndarray:
        """Goodput (n-1,) between each two of the edges (n,)."""
        if not len(self.time_ns):
            return np.zeros(len(edges_ns) - 1)
        told_ns, total_bytes = self.time_ns - self.begin_ns, np.cumsum(self.size_bytes)
        gaps_ns = np.diff(told_ns, prepend=0)
        from_ns = told_ns - np.minimum(gaps_ns, _LONGEST_GAPS * np.median(gaps_ns))
        times_ns = np.column_stack([from_ns, told_ns]).ravel()
        bytes_so_far = np.column_stack([total_bytes - self.size_bytes, total_bytes]).ravel()
        return np.diff(np.interp(edges_ns - self.begin_ns, times_ns, bytes_so_far)) * 8e9 / np.diff(edges_ns)


@lru_cache(maxsize=64)  # a report asks many times
def long_flows(run: Run) -> tuple[LongFlow, ...]:
    """The flows of the run in the order of its spec; none of a run that broke off before they were told."""
    return tuple(_flow(entry) for entry in run.entries("flows", _KEYS, _WHOLE))


def _flow(entry: Mapping[str, Any]) -> LongFlow:
    missing_bytes = entry.get("sent_bytes", 0) - entry.get("delivered_bytes", 0)
    return LongFlow(
        entry["flow"],
        entry["sender"],
        entry["receiver"],
        entry["begin_ns"],
        entry["end_ns"],
        missing_bytes,
        entry.get("died"),
    )


def read_arrivals(path: str | os.PathLike[str], begins_ns: Mapping[str, int]) -> dict[str, Arrivals]:
    """The arrivals in an arrivals.parquet of each of these flows, which began at these times, perhaps nothing; raises
    BadRequest naming the file and what is wrong with it."""
    columns = read_columns(path, ("flow",), ("time_ns", "bytes"), "arrivals")
    rows = {flow: columns["flow"] == flow for flow in begins_ns}
    return {
        flow: Arrivals(begins_ns[flow], columns["time_ns"][some], columns["bytes"][some]) for flow, some in rows.items()
    }


@lru_cache(maxsize=64)
def arrivals(run: Run) -> dict[str, Arrivals]:
    """What arrived of each of the run's flows, nothing of some perhaps; raises BadRequest where no file tells."""
    begins_ns = {flow.name: flow.begin_ns for flow in long_flows(run)}
    return read_arrivals(run.path / "telemetry" / "arrivals.parquet", begins_ns)


def trouble(run: Run) -> str:
    """Why the run does not tell what its flows got; empty when it does."""
    try:
        return "" if arrivals(run) else "measured.json has no flows"
    except BadRequest as error:
        return str(error)


def unjudged(run: Run) -> str:
    """Why the run's flows cannot be judged: their arrivals are not told, or not all of them, for it broke off; empty
    when they can."""
    return trouble(run) or ("" if run.measured.get("complete") else UNFINISHED)


def bin_edges_ns(run: Run) -> np.ndarray:
    """The edges of equal bins over the time of all flows, wide enough that each holds several of the blocks in which
    the slowest flow would get its data if all were equally fast."""
    flows, found = long_flows(run), arrivals(run)
    begin_ns, end_ns = min(flow.begin_ns for flow in flows), max(flow.end_ns for flow in flows)
    block_bytes = max((int(np.median(each.size_bytes)) for each in found.values() if len(each.size_bytes)), default=0)
    fair_bps = run.parameters.path.rate_bps / len(flows)
    least_ns = max(int(_BLOCKS_PER_BIN * block_bytes * 8e9 / fair_bps), 1)
    bins = max(min((end_ns - begin_ns) // least_ns, _MOST_BINS), 1)
    return even_edges_ns(begin_ns, end_ns, bins)


def even_edges_ns(begin_ns: int, end_ns: int, bins: int) -> np.ndarray:
    """The edges (bins + 1,) of equal bins of a span, to the nanosecond (a time as a float is only good to 256)."""
    return begin_ns + np.linspace(0, end_ns - begin_ns, bins + 1).astype(np.int64)
