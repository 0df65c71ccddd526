"""Collectives in nccl-tests' terms: how long each size takes, what its links carried, whether the result is NumPy's,
and how far that is from the alpha-beta model (a kind, see analysis/kinds)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from analysis import text
from analysis.columns import Column, Table, words
from analysis.figures import collective as figures_of_collective
from analysis.figures.gantt import gantt
from analysis.figures.heat import heat
from analysis.figures.style import Drawn, drawn
from analysis.figures.tail import tail
from analysis.kinds.collective_calls import (
    SizeRow,
    algorithm,
    collective,
    helper_hosts,
    nic_bytes_per_call,
    rank_hosts,
    ranks,
    reduction,
    root,
    size_rows,
    wrong,
)
from analysis.kinds.collective_model import Line, fit
from analysis.measures import retransmits
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, proven, total_drops

AS_MODELLED, SLOWER, FASTER = "right, and as fast as modelled", "slower than modelled", "faster than modelled"
RIGHT, WRONG, LOSES = "right", "wrong numbers", "packets are lost"
MODEL_TOLERANCE = 0.10  # the promise of the model beside the measurement
MODEL_FROM_BYTES = 1_000_000  # below it delays of microseconds decide
_NO_CALLS = "measured.json has no finished call"
_NO_MODEL = "no model: fabric.json or the ranks are missing"

RULE = (
    "A collective is right when every number equals NumPy's result; it is as fast as modelled when, of all sizes from "
    f"{text.size(MODEL_FROM_BYTES)} up, none is more than {MODEL_TOLERANCE:.0%} off the alpha-beta model, which knows "
    "the configuration alone. Where packets are lost or links are worse than the fabric's, or processors cost time, "
    "the model of an idle fabric is not asked."
)


def gigabytes(value: float | None) -> str:
    """Bytes a second as nccl-tests tells them, in GB/s."""
    return text.NOTHING if value is None else f"{value / 1e9:.2f}"


def micros(value: float | None) -> str:
    """Seconds as nccl-tests tells them, in microseconds."""
    return text.NOTHING if value is None else f"{value * 1e6:,.1f}"


def times_model(value: float | None) -> str:
    """Measured over modelled time."""
    return text.NOTHING if value is None else f"{value:.3f}"


# nccl-tests' table, and the model beside it.
SIZE_COLUMNS = (
    Column("size (B)", "size_bytes", text.count, essential=True),
    Column("count", "count", text.count),
    Column("type", "dtype", is_number=False),
    Column("redop", "redop", is_number=False),
    Column("root", "root", words),
    Column("time (us)", "seconds", micros, essential=True),
    Column("slowest (us)", "slowest_s", micros),
    Column("algbw (GB/s)", "algbw", gigabytes, essential=True),
    Column("busbw (GB/s)", "busbw", gigabytes, essential=True),
    Column("#wrong", "wrong", text.count, essential=True),
    Column("model (us)", "modelled_s", micros, essential=True),
    Column("measured/model", "of_model", times_model, essential=True),
)

COLUMNS = (
    Column("collective", "collective", is_number=False),
    Column("algorithm", "algorithm", is_number=False, essential=True),
    Column("ranks", "ranks", text.count, essential=True),
    Column("size", "size_bytes", text.size, essential=True),
    Column("time", "seconds", text.seconds, essential=True),
    Column("slowest call", "slowest_s", text.seconds),
    Column("busbw", "busbw_bps", text.rate, essential=True),
    Column("model", "of_model", times_model, essential=True),
    Column("wrong", "wrong", text.count),
    Column("per NIC", "nic_bytes", text.size),
    Column("helper's NIC", "helper_bytes", text.size),
)


def own_table(run: Run) -> Table:
    """nccl-tests' table of the run: a row for each size."""
    title = f"{collective(run)}, {algorithm(run)}, {text.counted(ranks(run), 'rank')}"
    told = {"dtype": run.spec.get("dtype"), "redop": reduction(run), "root": root(run)}
    return Table(title, SIZE_COLUMNS, [{**told, **_size_facts(row)} for row in size_rows(run)])


def _size_facts(row: SizeRow) -> dict[str, Any]:
    return {
        "size_bytes": row.size_bytes,
        "count": row.count,
        "calls": row.calls,
        "seconds": row.seconds,
        "fastest_s": row.fastest_s,
        "slowest_s": row.slowest_s,
        "algbw": row.algbw,
        "busbw": row.busbw,
        "wrong": row.wrong,
        "modelled_s": row.modelled_s,
        "of_model": row.of_model,
    }


def summarize(run: Run) -> dict[str, Any]:
    """The table by sizes, the line through them, and the bytes of the NICs."""
    rows = size_rows(run)
    line = size_line(rows)
    seconds_s = sum(row.seconds * row.calls for row in rows)
    moved = sum(8 * row.size_bytes * row.calls for row in rows)
    return {
        "goodput_bps": moved / seconds_s if seconds_s else None,
        "collective": {
            "collective": collective(run),
            "algorithm": algorithm(run),
            "ranks": ranks(run),
            "dtype": run.spec.get("dtype"),
            "wrong": wrong(run),
            "sizes": [{**_size_facts(row), "nic_bytes_per_call": _most_nic_bytes(run, row)} for row in rows],
            "fit": None if line is None else {"alpha_s": line.alpha_s, "beta_s": line.beta_s, "error": line.error},
            "aggregator": run.measured.get("aggregator"),
            "cpu": run.measured.get("cpu"),
        },
    }


def size_line(rows: list[SizeRow]) -> Line | None:
    """The line through the measured times of all sizes; None for too few sizes."""
    return fit([row.size_bytes for row in rows], [row.seconds for row in rows])


def _most_nic_bytes(run: Run, row: SizeRow) -> float | None:
    return nic_bytes_per_call(run, row, rank_hosts(run))


def verdict(run: Run) -> Verdict:
    """Whether the result is right, and as fast as the model says."""
    return judged(run, "collective")


def judged(run: Run, name: str, *more: Evidence) -> Verdict:
    """The verdict on one run of a collective, with what else an experiment asks of it."""
    right, lost, modelled = _right(run), _lost(run), _modelled(run)
    pieces = (right, lost, modelled, *more, processor(run))
    return proven(Verdict(name, *_answer(run, pieces)), {WRONG})


def _answer(run: Run, pieces: tuple[Evidence, ...]) -> tuple[str, tuple[Evidence, ...], bool | None]:
    right, lost, modelled, *more, _ = pieces
    if right.holds is False:
        return WRONG, pieces, False
    if any(piece.holds is None for piece in pieces if piece.applies):
        return NOT_PROVEN, pieces, None
    if lost.applies and lost.holds is False:
        return LOSES, pieces, False
    if modelled.applies and modelled.holds is False:
        return (SLOWER if _worst(run) > 1 else FASTER), pieces, False
    failed = next((piece.name for piece in more if piece.applies and piece.holds is False), None)
    if failed:
        return f"not as expected: {failed}", pieces, False
    return (AS_MODELLED if modelled.applies else RIGHT), pieces, True


def all_right(run: Run) -> Evidence:
    """Numbers that differ from NumPy's, over the run and all its cases."""
    runs = [each for each in (run, *run.cases.values()) if each.workload == run.workload]
    counts = [wrong(each) for each in runs]
    known = None not in counts
    return Evidence(
        name="numbers that differ from NumPy's",
        configured=text.counted(len(runs), "run"),
        modelled=0,
        measured=sum(count or 0 for count in counts) if known else None,
        unit="numbers",
        tolerance="none, in all calls of all runs",
        holds=not any(counts) if known else None,
        source="calls of measured.json" if known else "a run has no finished call",
    )


def _right(run: Run) -> Evidence:
    """Every number of every call beside NumPy's."""
    found = wrong(run)
    return Evidence(
        name="numbers that differ from NumPy's",
        configured=f"{run.spec.get('dtype')}",
        modelled=0,
        measured=found,
        unit="numbers",
        tolerance="none, in all calls",
        holds=None if found is None else found == 0,
        source="calls of measured.json" if found is not None else _NO_CALLS,
    )


def _lost(run: Run) -> Evidence:
    """Whether the fabric stayed without loss, where no cable was to lose anything."""
    drops, again = total_drops(run), retransmits(run)
    known = drops is not None
    lossy = str(run.spec.get("lossy_link") or "none") != "none"
    told = "" if again is None else f"; {text.counted(again, 'packet')} sent again"
    return Evidence(
        name="packets dropped",
        configured=f"queue {run.spec.get('queue')}, buffer {run.spec.get('buffer')}",
        modelled=0,
        measured=drops,
        unit="packets",
        tolerance=f"none{told}",
        holds=drops == 0 and not again if known else None,
        source="not applicable: cables lose packets" if lossy else "queue counters" if known else "no counters",
        applies=not lossy,
    )


def _modelled(run: Run) -> Evidence:
    """The size from 1 MB up whose time is farthest from the model."""
    rows = [row for row in size_rows(run) if row.size_bytes >= MODEL_FROM_BYTES]
    worst = max((row for row in rows if row.of_model), key=_off, default=None)
    excuse = _unmodelled(run) or ("" if rows or not size_rows(run) else "no size from 1 MB up")
    missing = _NO_MODEL if rows else _NO_CALLS
    sizes = ", ".join(text.size(row.size_bytes) for row in rows)
    return Evidence(
        name="time beside the model",
        configured=None,
        modelled=None if worst is None else worst.modelled_s,
        measured=None if worst is None else worst.seconds,
        unit="s",
        tolerance=f"within {MODEL_TOLERANCE:.0%} of the alpha-beta model at every size from 1 MB up"
        + (f" ({sizes}); here {text.size(worst.size_bytes)}" if worst is not None else ""),
        holds=None if worst is None else _off(worst) <= MODEL_TOLERANCE,
        source=f"not applicable: {excuse}" if excuse else "calls of measured.json" if worst is not None else missing,
        applies=not excuse,
    )


def _off(row: SizeRow) -> float:
    """By which share the measured time is off the modelled one."""
    return abs((row.of_model or 0.0) - 1)


def _unmodelled(run: Run) -> str:
    """Why the model of an idle fabric does not tell this run's times; empty where it does."""
    reasons = {
        "slow_link": "links are slower than the fabric's",
        "lossy_link": "cables lose packets",
    }
    found = [told for key, told in reasons.items() if str(run.spec.get(key) or "none") != "none"]
    if run.spec.get("host_cost") not in (None, "auto", "none"):
        found.append("processors cost time")
    return "; ".join(found)


def _worst(run: Run) -> float:
    """Measured over modelled time of the size that is farthest from the model."""
    found = [row.of_model for row in size_rows(run) if row.size_bytes >= MODEL_FROM_BYTES and row.of_model]
    return max(found, key=lambda value: abs(value - 1))


def largest(run: Run) -> SizeRow | None:
    """The largest size that was called."""
    rows = size_rows(run)
    return rows[-1] if rows else None


def headline(run: Run) -> str:
    """The bus bandwidth of the largest size, of what line, and how far from the model."""
    row = largest(run)
    if row is None:
        return "no call was finished"
    beside_model = "" if row.of_model is None else f", {times_model(row.of_model)} of the modelled time"
    bits = text.rate(8 * row.busbw)
    share = 8 * row.busbw / run.parameters.path.rate_bps
    return (
        f"{collective(run)} by {algorithm(run)}, {text.counted(ranks(run), 'rank')}, {text.size(row.size_bytes)}: "
        f"{text.seconds(row.seconds)}, busbw {bits} ({share:.1%} of a host's link{_above(run, share)}){beside_model}"
        f"{_shared_uplinks(run)}"
    )


def _above(run: Run, share: float) -> str:
    """How busbw can be more than a link carries."""
    if share <= 1:
        return ""
    if algorithm(run) == "in_network":
        return ": nccl-tests counts what a ring would send, of which an aggregator saves half"
    return ": inside servers NVLink carries it" if run.given("topology") == "gpu_pod" else ""


def _shared_uplinks(run: Run) -> str:
    """What a model without collisions leaves out, where that is what makes it slower."""
    hashed = run.given("routing") == "ecmp" and verdict(run).verdict.startswith(SLOWER)
    return "; flows that ECMP's hash puts on one uplink share it (routing=d_mod_k keeps them apart)" if hashed else ""


def beside(run: Run) -> str:
    """The time of the same size in each case."""
    told = [
        f"{label}: {text.seconds(found['seconds'])} for {text.size(found['size_bytes'])}"
        for label, case in run.cases.items()
        if case.workload == run.workload
        for found in [row(case)]
    ]
    return text.beside(told)


def tiles(run: Run) -> list[tuple[str, str]]:
    """The largest size's time and bandwidths, what the NICs carried, and what is wrong."""
    told = largest(run)
    if told is None:
        return []
    return [
        (f"time of {text.size(told.size_bytes)}", text.seconds(told.seconds)),
        ("algbw", f"{gigabytes(told.algbw)} GB/s"),
        ("busbw", f"{gigabytes(told.busbw)} GB/s"),
        ("measured over modelled", times_model(told.of_model)),
        ("each rank's NIC, a call", text.size(_most_nic_bytes(run, told))),
        ("numbers wrong", text.count(wrong(run))),
    ]


def figures(run: Run) -> list[Drawn]:
    """Bandwidth and time over the size, and the cases beside each other."""
    return [*own_figures(run), *draw(run, algorithms=figures_of_collective.algorithms)]


def own_figures(run: Run) -> list[Drawn]:
    """Bandwidth and time over the size of the run itself, use of its links, and each rank's part in the calls."""
    return draw(
        run,
        busbw_size=figures_of_collective.busbw_size,
        time_size=figures_of_collective.time_size,
        heat=heat,
        gantt=gantt,
        tail=tail,
    )


def draw(run: Run, **drawings: Callable[[Run], tuple[Figure, str, str]]) -> list[Drawn]:
    """The named figures, drawn into the run's folder."""
    return [drawn(name, run.path / "figures", partial(each, run)) for name, each in drawings.items()]


def sections(run: Run) -> Html:
    """nccl-tests' table, and what the processors did where they cost time."""
    return Html(sizes_section(run) + _processors(run))


def sizes_section(run: Run) -> str:
    """nccl-tests' table as a section of the page."""
    own = own_table(run)
    if not own.rows:
        return ""
    numbers = [place for place, column in enumerate(own.columns) if column.is_number]
    filled = [[column.cell(row) for column in own.columns] for row in own.rows]
    shown = table([column.name for column in own.columns], filled, numbers=numbers, stacked=True)
    line = size_line(size_rows(run))
    fitted = (
        ""
        if line is None
        else f"Least squares through the measured times: {text.seconds(line.alpha_s)} + "
        f"{text.rate(8 / line.beta_s)} (off by {line.error:.1%} at most)."
    )
    return f'<h2>Sizes: {own.title}</h2>\n{shown}\n<p class="soft">{fitted}</p>\n'


def _processors(run: Run) -> str:
    """How long each host's processor was busy with its messages."""
    told = run.measured.get("cpu")
    if not isinstance(told, dict) or not told:
        return ""
    rows = [
        [host, text.seconds(each["busy_ns"] / 1e9), text.size(each["bytes"])]
        for host, each in sorted(told.items(), key=lambda item: text.natural(item[0]))
    ]
    return f"<h2>Processors</h2>\n{table(('host', 'busy', 'bytes'), rows, numbers=(1, 2))}\n"


def row(run: Run) -> dict[str, Any]:
    """The run's largest size in the comparison."""
    found = largest(run)
    return {
        "collective": collective(run),
        "algorithm": algorithm(run),
        "ranks": ranks(run),
        "size_bytes": None if found is None else found.size_bytes,
        "seconds": None if found is None else found.seconds,
        "slowest_s": None if found is None else found.slowest_s,
        "busbw_bps": None if found is None else 8 * found.busbw,
        "of_model": None if found is None else found.of_model,
        "wrong": wrong(run),
        "nic_bytes": None if found is None else _most_nic_bytes(run, found),
        "helper_bytes": None if found is None else nic_bytes_per_call(run, found, helper_hosts(run)),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much faster or slower the same collective of the same size is."""
    same = all(main[key] == row[key] for key in ("collective", "size_bytes", "ranks"))
    if not same or not main["seconds"] or not row["seconds"]:
        return ""
    times = row["seconds"] / main["seconds"]
    return f"{text.digits(times)}x slower" if times >= 1 else f"{text.digits(1 / times)}x faster"
