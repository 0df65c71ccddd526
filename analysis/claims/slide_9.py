"""Slide 9: six collectives and their patterns, and ZeRO's third stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analysis import text
from analysis.claims.judging import UNTOLD, alike, answer, shown, within
from analysis.claims.model import Claim, Judged, Row, Trial
from analysis.kinds import allreduce_scaling, collective
from analysis.kinds.collective_calls import SizeRow, nic_bytes_per_call, rank_hosts, size_rows
from analysis.kinds.collective_calls import collective as collective_of
from analysis.kinds.collective_calls import wrong as wrong_numbers
from analysis.run import Run

_WITHIN = allreduce_scaling.BYTES_TOLERANCE  # headers and acknowledgements
_NIC = "nic_bytes of measured.json"


@dataclass(frozen=True)
class _Pattern:
    """What the pattern of a collective means for links, as shares of the data with N ranks: what the root sends and
    receives, and what each of the others must receive or send at the least; None where its algorithm decides."""

    words: str
    root_sends: Callable[[int], float] | None
    root_receives: Callable[[int], float] | None
    others_receive: Callable[[int], float] | None
    others_send: Callable[[int], float] | None


def _whole(ranks: int) -> float:
    return 1.0


def _nothing(ranks: int) -> float:
    return 0.0


def _own(ranks: int) -> float:
    return 1 / ranks


def _rest(ranks: int) -> float:
    return (ranks - 1) / ranks


def _twice(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


_PATTERNS = {
    "broadcast": _Pattern("1 to all", _whole, _nothing, _whole, None),
    "scatter": _Pattern("1 to each", _rest, _nothing, _own, _nothing),
    "gather": _Pattern("all to 1", _nothing, _rest, _nothing, _own),
    "reduce": _Pattern("all to 1, added up", _nothing, _whole, None, _whole),
    "all_reduce": _Pattern("all to all, added up", _twice, _twice, _twice, _twice),
    "all_gather": _Pattern("each to all", _rest, _rest, _rest, _rest),
}
_ACKS = 0.02  # of the data: what comes back


def _runs(run: Run) -> dict[str, Run]:
    """Collective -> its run over TCP: the run itself, and the cases of other collectives."""
    found = {collective_of(run): run}
    for case in run.cases.values():
        if not case.parameters.is_roce:
            found.setdefault(collective_of(case), case)
    return found


def _patterns(run: Run) -> Judged:
    """What the root's and the others' NICs carried, beside what the pattern means; and that every number is right."""
    found = _runs(run)
    rows = [row for name, pattern in _PATTERNS.items() if name in found for row in _pattern_rows(name, pattern, found)]
    rows += [_right_row(name, found.get(name)) for name in _PATTERNS]
    rows += _roce_rows(run)
    verdict, because = answer(
        rows,
        lambda: (
            "each link carried what the pattern means, and no number was wrong: "
            + "; ".join(f"{name} {pattern.words}" for name, pattern in _PATTERNS.items())
        ),
        lambda: "otherwise: " + "; ".join(row.quantity for row in rows if row.tolerance and not row.holds),
    )
    return Judged(verdict, because, tuple(rows), shown(run, "algorithms"))


def _pattern_rows(name: str, pattern: _Pattern, found: Mapping[str, Run]) -> list[Row]:
    run = found[name]
    row, (root, *others) = collective.largest(run), rank_hosts(run) or [""]
    if row is None or row.nic_bytes is None or not others:
        return [Row(f"{name} ({pattern.words})", None, None, None, "bytes", "as the pattern means", None, UNTOLD)]
    asked = (
        ("root sends", pattern.root_sends, [root], "sent"),
        ("root receives", pattern.root_receives, [root], "received"),
        ("each other receives", pattern.others_receive, others, "received"),
        ("each other sends", pattern.others_send, others, "sent"),
    )
    return [
        _carried(f"{name} ({pattern.words}), {what}", share(len(others) + 1), row, hosts, way)
        for what, share, hosts, way in asked
        if share is not None
    ]


def _carried(what: str, share: float, row: SizeRow, hosts: list[str], way: str) -> Row:
    """What the NIC carried in a call, of those hosts the one that is farthest from the pattern."""
    expected = share * row.size_bytes
    assert row.nic_bytes is not None
    carried = [row.nic_bytes[host][way] / row.calls for host in hosts if host in row.nic_bytes]
    worst = max(carried, key=lambda value: abs(value - expected), default=None)
    room = _WITHIN * expected or _ACKS * row.size_bytes
    holds = None if worst is None else abs(worst - expected) <= room
    tolerance = f"{within(_WITHIN)}, for headers" if expected else f"under {_ACKS:.0%} of the data: acknowledgements"
    return Row(what, expected, expected, worst, "bytes", tolerance, holds, _NIC)


def _right_row(name: str, run: Run | None) -> Row:
    wrong = None if run is None else wrong_numbers(run)
    return Row(
        f"{name}, numbers that differ from NumPy's",
        0,
        0,
        wrong,
        "numbers",
        "none",
        None if wrong is None else wrong == 0,
        "calls of measured.json",
    )


def _roce_rows(run: Run) -> list[Row]:
    """The ring over RoCE: right, and as fast as over TCP within a tenth."""
    roce = next((case for case in run.cases.values() if case.parameters.is_roce), None)
    if roce is None:
        return []
    sizes = {row.size_bytes: row.seconds for row in size_rows(run)}
    row = next((each for each in reversed(size_rows(roce)) if each.size_bytes in sizes), None)
    times = None if row is None else row.seconds / sizes[row.size_bytes]
    return [
        _right_row("all_reduce over RoCE", roce),
        Row(
            "all_reduce over RoCE, its time over TCP's",
            None,
            1,
            times,
            "x",
            within(collective.MODEL_TOLERANCE),
            None if times is None else alike(times, 1, collective.MODEL_TOLERANCE),
            "calls of measured.json",
        ),
    ]


_ZERO_TIMES, _ZERO_WITHIN = 1.5, 0.05  # Rajbhandari et al., ZeRO, SC 2020, section 7: 3 of the model against 2


def _zero3(run: Run) -> Judged:
    """Two all-gathers and a reduce-scatter for each all-reduce, by the bytes that ranks' NICs carried."""
    found = _runs(run)
    carried = {
        name: _share_carried(found[name]) for name in ("all_gather", "reduce_scatter", "all_reduce") if name in found
    }
    gather, scatter, reduce = (carried.get(name) for name in ("all_gather", "reduce_scatter", "all_reduce"))
    times = None if gather is None or scatter is None or not reduce else (2 * gather + scatter) / reduce
    ranks = len(rank_hosts(run))
    rows = (
        Row(
            "all-gather, a rank sends of the parameters",
            None,
            _rest(max(ranks, 1)),
            gather,
            "of the data",
            within(_WITHIN),
            alike(gather, _rest(max(ranks, 1)), _WITHIN),
            _NIC,
        ),
        Row(
            "ZeRO-3's bytes over data parallelism's",
            _ZERO_TIMES,
            _ZERO_TIMES,
            times,
            "x",
            within(_ZERO_WITHIN),
            alike(times, _ZERO_TIMES, _ZERO_WITHIN),
            _NIC,
        ),
        _right_row("all_gather", found.get("all_gather")),
    )
    verdict, because = answer(
        rows,
        lambda: (
            f"two all-gathers and a reduce-scatter carry {text.times(times)} the bytes of an all-reduce, and every "
            "rank has all parts"
        ),
        lambda: f"{text.times(times)} the bytes of an all-reduce",
    )
    return Judged(verdict, because, rows, shown(run, "algorithms"))


def _share_carried(run: Run) -> float | None:
    row = collective.largest(run)
    carried = None if row is None else nic_bytes_per_call(run, row, rank_hosts(run))
    return None if row is None or carried is None else carried / row.size_bytes


_COLLECTIVES = Trial(
    "collectives",
    {"sizes": "256KiB,512KiB,1MiB,2MiB", "iterations": "1", "warmup": "0", "ranks": "8"},
    {},
    cases=("broadcast", "reduce", "scatter", "gather", "all_gather", "reduce_scatter", "ring-roce"),
)
_STAR = "one switch: what a rank's link carries is the collective's doing alone"

CLAIMS = (
    Claim(
        key="collective_patterns",
        slides="9",
        says="Six collectives have a pattern each: broadcast 1 to all, scatter 1 to each, gather and reduce all to 1, "
        "all-reduce and all-gather all to all.",
        figures="1 to all, 1 to each, all to 1",
        trial=_COLLECTIVES,
        model="bytes over the root's link and the others', from the pattern alone; all-reduce 2 (N-1)/N by a ring",
        tolerance=f"bytes {within(_WITHIN)}, no wrong number, and RoCE as fast as TCP",
        judge=_patterns,
        assumptions=(_STAR, "broadcast and reduce by a double tree, scatter and gather directly, the others by a ring"),
    ),
    Claim(
        key="zero3_all_gather",
        slides="9",
        says="All-gather is what ZeRO's third stage lives on.",
        figures="all-gather (ZeRO stage 3)",
        trial=_COLLECTIVES,
        model="(N-1)/N of the parameters from each rank; twice a step, and a reduce-scatter: 3 against 2 (N-1)/N",
        tolerance=f"bytes {within(_WITHIN)}, the {_ZERO_TIMES:g}-fold of ZeRO's paper {within(_ZERO_WITHIN)}",
        judge=_zero3,
        assumptions=(_STAR, "a step is two all-gathers of the parameters and a reduce-scatter of the gradients"),
    ),
)
