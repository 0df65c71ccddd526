"""Slide 23: what comes next: sums in the switch, SmartNICs that take the host's work, links of 800 Gb/s."""

from __future__ import annotations

from analysis import text
from analysis.claims.judging import UNTOLD, answer, shown, told, untold, untold_row
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.claims.shared_runs import CPU_OVERHEAD
from analysis.kinds import collective, cpu_overhead
from analysis.kinds.collective_calls import SizeRow, algorithm, nic_bytes_per_call, rank_hosts, wrong
from analysis.run import Run

LINE_BPS = 800e9
_LINE_SHARE = 0.85  # of the line, by a ring: what run_experiment collectives expects of it
_BYTES_SHARE = 0.10  # headers and acknowledgements beside the data
_SENT = "nic_bytes of measured.json"


# --- in-network computing


def _in_network(run: Run) -> Judged:
    """What a rank's link carries when a switch adds, beside a ring's, and the time of the same call."""
    added = next((each for each in run.cases.values() if algorithm(each) == "in_network"), None)
    own, theirs = collective.largest(run), None if added is None else collective.largest(added)
    if own is None or theirs is None or added is None:
        return untold("bytes over a rank's link, of the data", 1.0, "x")
    ranks = collective.ranks(run)
    rows = (
        _carried("ring", _moved(run, own), 2 * (ranks - 1) / ranks),
        _carried("sums in the switch", _moved(added, theirs), 1.0),
        _numbers(added),
    )
    quicker = told("time of the ring over that in the switch", own.seconds / theirs.seconds, "x", "calls")
    verdict, because = answer(rows, lambda: _words(rows, ranks), lambda: _words(rows, ranks))
    if verdict == REPRODUCED and (rows[1].measured or 0.0) >= (rows[0].measured or 0.0):
        verdict = NOT_REPRODUCED
    return Judged(verdict, because, (*rows, quicker), shown(run, "algorithms"))


def _moved(run: Run, row: SizeRow) -> float | None:
    """What the busiest rank's link carried one way in a call, as a share of the data."""
    moved = nic_bytes_per_call(run, row, rank_hosts(run))
    return None if moved is None else moved / row.size_bytes


def _carried(way: str, measured: float | None, modelled: float) -> Row:
    holds = None if measured is None else abs(measured / modelled - 1) <= _BYTES_SHARE
    name = f"bytes over a rank's link, of the data: {way}"
    return Row(name, None, modelled, measured, "x", f"within {_BYTES_SHARE:.0%} of the model", holds, _SENT)


def _numbers(run: Run) -> Row:
    count = wrong(run)
    holds = None if count is None else count == 0
    return Row("numbers that differ from NumPy's", None, 0, count, "numbers", "none", holds, "calls of measured.json")


def _words(rows: tuple[Row, ...], ranks: int) -> str:
    ring, added, differ = (row.measured or 0.0 for row in rows)
    return (
        f"a rank's link carries {added:.2f} times the data each way, against {ring:.2f} of a ring of {ranks}; "
        f"{differ:.0f} sums are wrong"
    )


# --- SmartNICs


def _smart_nic(run: Run) -> Judged:
    """As the report judges it: time and processor of the path that NICs do, against that of the host's own."""
    pair = cpu_overhead.pair(run, of_reduce=False)
    rows = tuple(row for name in ("tcp", "rdma") if name in pair for row in _path(name, pair[name]))
    if len(pair) < 2 or any(row.measured is None for row in rows):
        return Judged(NOT_REPRODUCED, UNTOLD, rows or (untold_row("busiest processor", None, "%"),))
    found, words = cpu_overhead.verdict(run).verdict, cpu_overhead.headline(run)
    if found != cpu_overhead.CHEAPER:
        return Judged(NOT_REPRODUCED, f"{found}: {words}", rows, shown(run, "paths"))
    because = f"the NIC moves the data by itself, as an RDMA NIC does and the model of its host has it: {words}"
    return Judged(REPRODUCED_IF, because, rows, shown(run, "paths"))


def _path(name: str, run: Run) -> tuple[Row, ...]:
    least, most, busy = cpu_overhead.small(run), collective.largest(run), cpu_overhead.busy_share(run)
    who = {"tcp": "the host does it", "rdma": "the NIC does it"}[name]
    return (
        told(f"busiest processor, {who}", None if busy is None else 100 * busy, "%", "cpu of measured.json"),
        told(f"4 KiB, {who}", None if least is None else least.seconds, "s", "calls of measured.json"),
        told(f"rate of the largest message, {who}", None if most is None else 8 * most.algbw, "bits/s", "calls"),
    )


# --- 800 Gb/s


def _fast_links(run: Run) -> Judged:
    """The bus bandwidth of a ring, which is what its links carry of data."""
    row, rate_bps = collective.largest(run), float(run.parameters.path.rate_bps)
    measured = None if row is None else 8 * row.busbw
    holds = None if measured is None else measured >= _LINE_SHARE * LINE_BPS
    model = None if row is None or row.of_model is None else 8 * row.busbw * row.of_model
    tolerance = f"at least {_LINE_SHARE:.0%} of the line"
    rows = (
        Row("a ring's bus bandwidth", LINE_BPS, model, measured, "bits/s", tolerance, holds, "calls of measured.json"),
        told("the line", rate_bps, "bits/s", "spec.yaml"),
    )
    verdict, because = answer(rows[:1], lambda: _of_line(measured), lambda: _of_line(measured))
    return Judged(verdict, because, rows, shown(run, "busbw_size"))


def _of_line(measured: float | None) -> str:
    return f"{text.rate(measured)} of {text.rate(LINE_BPS)} by a ring's largest size"


_FAST = {"rate": "800Gbps", "ranks": "4"}

CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="in_network_computing",
        slides="23",
        says="A switch that adds partial gradients up makes less data move.",
        figures="less data",
        trial=Trial(
            "collectives",
            {"sizes": "1MiB,2MiB,4MiB", "iterations": "1", "warmup": "0"},
            {"sizes": "1MiB,4MiB,16MiB"},
            cases=("in_network",),
        ),
        model="over a rank's link, each way: a ring 2 (n-1)/n S, sums in the switch S",
        tolerance="within 10 % of the model, headers and acknowledgements beside it, and less than a ring's",
        judge=_in_network,
        assumptions=("the adding switch is a host whose link is as fast as all ranks' together (SwitchML, NSDI 2021)",),
    ),
    Claim(
        key="smart_nic_offload",
        slides="23",
        says="SmartNICs take communication off the host's processor.",
        figures="",
        trial=CPU_OVERHEAD,
        model="the host: 1 us a message, 870 ns a packet, 93 ps a byte; the NIC leaves 300 ns a message",
        tolerance="less time, small and large, and a less busy processor",
        judge=_smart_nic,
        assumptions=("processors cost what a model says; the NIC itself is never the bottleneck",),
    ),
    Claim(
        key="links_800g",
        slides="23",
        says="Links of 800 Gb/s come next.",
        figures="800 Gb/s",
        trial=Trial(
            "collectives",
            {**_FAST, "sizes": "4MiB,8MiB,16MiB,32MiB", "iterations": "1"},
            {**_FAST, "sizes": "8MiB,16MiB,32MiB,64MiB"},
            only=True,
        ),
        model="2 (n-1)/n S bytes over each link; payload is 98.9 % of a packet of 9,000 bytes",
        tolerance="at least 85 % of the line",
        judge=_fast_links,
        assumptions=(
            "a link is what the emulation makes it: exact at any rate; no processor and no PCIe slot limits it",
        ),
    ),
)
