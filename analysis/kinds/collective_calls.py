"""What a run of collectives measured: its calls, the table of its sizes, and the numbers beside them that the model
says for the same size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from analysis.kinds.collective_model import Setting, busbw_factor, seconds
from analysis.kinds.collective_setting import setting
from analysis.run import Run
from topologies.units import BadRequest

_CALL_KEYS = ("size_bytes", "count", "iteration", "start_ns", "end_ns", "wrong")
_ROOTED = ("broadcast", "reduce", "scatter", "gather")
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
_NO_ROOT = -1  # as nccl-tests prints it


@dataclass(frozen=True)
class Call:
    """One timed call: bytes of the whole buffer, numbers in it, from the word to begin to the last rank's end, and how
    many numbers differ from NumPy's result (None: they were not compared)."""

    size_bytes: int
    count: int
    start_ns: int
    end_ns: int
    wrong: int | None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True)
class SizeRow:
    """A line of nccl-tests' table: all timed calls of one size, their median time, and the model's; `nic_bytes` is what
    each host's NIC sent and received meanwhile, `nvlink_bytes` its NVLink, both None where it is not told."""

    size_bytes: int
    count: int
    calls: int
    seconds: float
    fastest_s: float
    slowest_s: float
    modelled_s: float | None
    wrong: int | None
    factor: float
    nic_bytes: Mapping[str, Mapping[str, int]] | None = None
    nvlink_bytes: Mapping[str, Mapping[str, int]] | None = None

    @property
    def algbw(self) -> float:
        """Bytes of the buffer a second."""
        return self.size_bytes / self.seconds

    @property
    def busbw(self) -> float:
        """Bytes a second that a link carried at the least (nccl-tests' PERFORMANCE.md)."""
        return self.algbw * self.factor

    @property
    def of_model(self) -> float | None:
        """Measured time over modelled; None without a model."""
        return self.seconds / self.modelled_s if self.modelled_s else None


def calls(run: Run) -> tuple[Call, ...]:
    """The timed calls, in order; those to warm up are left out."""
    entries = run.entries("calls", _CALL_KEYS, whole=("size_bytes", "count", "iteration", "start_ns", "end_ns"))
    return tuple(
        Call(*(entry[key] for key in ("size_bytes", "count", "start_ns", "end_ns", "wrong")))
        for entry in entries
        if not entry.get("warmup")
    )


def wrong(run: Run) -> int | None:
    """Numbers that differ from NumPy's result over all calls, those to warm up too; None when no call was compared."""
    found = [entry["wrong"] for entry in run.entries("calls", _CALL_KEYS)]
    return sum(found) if found and None not in found else None


def size_rows(run: Run) -> list[SizeRow]:
    """A row for each size that has a timed call, ascending."""
    grouped: dict[int, list[Call]] = {}
    for call in calls(run):
        grouped.setdefault(call.size_bytes, []).append(call)
    asked = model_setting(run)
    return [_row(run, asked, size_bytes, grouped[size_bytes]) for size_bytes in sorted(grouped)]


@lru_cache(maxsize=256)
def model_setting(run: Run) -> Setting | None:
    """What the model is asked for; None for a run whose files do not tell its fabric or its ranks."""
    try:
        return setting(run)
    except BadRequest:
        return None


def _row(run: Run, asked: Setting | None, size_bytes: int, found: list[Call]) -> SizeRow:
    times_s = [call.seconds for call in found]
    counts = [call.wrong for call in found]
    told = _told(run, size_bytes)
    return SizeRow(
        size_bytes=size_bytes,
        count=found[0].count,
        calls=len(found),
        seconds=median(times_s),
        fastest_s=min(times_s),
        slowest_s=max(times_s),
        modelled_s=None if asked is None else seconds(asked, size_bytes),
        wrong=None if None in counts else sum(count or 0 for count in counts),
        factor=busbw_factor(collective(run), ranks(run)),
        nic_bytes=told.get("nic_bytes"),
        nvlink_bytes=told.get("nvlink_bytes"),
    )


def _told(run: Run, size_bytes: int) -> dict[str, Any]:
    entries = run.entries("sizes", ("size_bytes", "calls")) if "sizes" in run.measured else []
    return next((entry for entry in entries if entry["size_bytes"] == size_bytes), {})


def busbw_model(asked: Setting, size_bytes: float) -> float:
    """The modelled bus bandwidth of a size in bytes a second."""
    return size_bytes / seconds(asked, size_bytes) * busbw_factor(asked.collective, asked.ranks)


def nic_bytes_per_call(run: Run, row: SizeRow, hosts: list[str]) -> float | None:
    """The most that one of the hosts sent or received on the wire in a call of a size, on average; None where it is not
    told."""
    counted = [row.nic_bytes[host] for host in hosts if row.nic_bytes and host in row.nic_bytes]
    most = max((max(each["sent"], each["received"]) for each in counted), default=None)
    return None if most is None else most / row.calls


def rank_hosts(run: Run) -> list[str]:
    """The ranks' hosts, in order; none where the run does not tell."""
    return list((run.measured.get("collective") or {}).get("ranks", []))


def helper_hosts(run: Run) -> list[str]:
    """Parameter servers or the aggregator."""
    return list((run.measured.get("collective") or {}).get("helpers", []))


def ranks(run: Run) -> int:
    """How many ranks took part."""
    given = run.spec.get("ranks")
    return len(rank_hosts(run)) or (given if isinstance(given, int) else 1)


def collective(run: Run) -> str:
    """What the ranks did."""
    return str(run.spec.get("collective") or "all_reduce")


def algorithm(run: Run) -> str:
    """By which algorithm."""
    return str(run.spec.get("algorithm"))


def reduction(run: Run) -> str:
    """nccl-tests' column redop."""
    return "sum" if collective(run) in _REDUCING else "none"


def root(run: Run) -> int:
    """nccl-tests' column root."""
    return 0 if collective(run) in _ROOTED else _NO_ROOT
