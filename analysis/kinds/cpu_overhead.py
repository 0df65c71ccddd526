"""What TCP costs a host's processor, and what an RDMA NIC spares it (a kind, see analysis/kinds): the same message
by either path in virtual time, whose processors follow a stated model, and what copies cost the machine that ran it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis import text
from analysis.columns import Column, Table
from analysis.figures import cpu_overhead as figures_of_cpu_overhead
from analysis.figures.style import Drawn
from analysis.kinds import collective
from analysis.kinds.collective_calls import SizeRow, calls, size_rows
from analysis.kinds.host_copies import copies_of, copies_section
from analysis.kinds.published import Compared, published_table
from analysis.pages.markup import Html
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, proven

CHEAPER, NO_CHEAPER = "RDMA spares time and processor", "RDMA spares nothing"
TOLERANCE = 0.25  # of the slides' figures, which name no machine
SLIDE = "slide 18"
LATENCY_S = {"tcp": 150e-6, "rdma": 1.5e-6}
BANDWIDTH = {"tcp": 12e9, "rdma": 48e9}  # bytes a second
PROCESSOR = {"tcp": 0.92, "rdma": 0.03}
GIGABYTE, GIGABYTE_S = 1e9, {"tcp": 8.3, "rdma": 0.9}
SMALL_BYTES = 4096
_REDUCE = "all_reduce"

RULE = (
    "RDMA is cheaper when the same message takes less time by its path, small and large, and keeps the processor less "
    "busy, and every number that came over is right. The processors of both follow the stated model "
    "(workloads/host_cost.py): it is the network that is measured, and what the model does to it."
)


def _share(value: float | None) -> str:
    return text.NOTHING if value is None else f"{value:.1%}"


COLUMNS = (
    Column("collective", "collective", is_number=False),
    Column("processor", "host_cost", is_number=False, essential=True),
    Column("4 KB in", "small_s", text.seconds, essential=True),
    Column("largest", "size_bytes", text.size),
    Column("algbw", "algbw_bps", text.rate, essential=True),
    Column("busiest processor", "busy", _share, essential=True),
    Column("1 GB in", "gigabyte_s", text.seconds),
    Column("wrong", "wrong", text.count),
)


def path_of(run: Run) -> str:
    """Whose processor's cost the run had: "tcp", "rdma" or "none"."""
    return str(run.spec.get("host_cost") or "none")


def is_reduce(run: Run) -> bool:
    """Whether the run is of the all-reduce, not of a single message."""
    return collective.collective(run) == _REDUCE


def small(run: Run) -> SizeRow | None:
    """The row of 4 KiB."""
    return next((row for row in size_rows(run) if row.size_bytes == SMALL_BYTES), None)


def busy_share(run: Run) -> float | None:
    """The part of the timed calls in which the busiest host's processor was busy; None where it cost nothing."""
    told, spent_ns = run.measured.get("cpu"), sum(call.end_ns - call.start_ns for call in calls(run))
    if not isinstance(told, dict) or not told or not spent_ns:
        return None
    return max(float(each["busy_ns"]) for each in told.values()) / spent_ns


def gigabyte_s(run: Run) -> float | None:
    """The time of 1 GB by the line through the measured sizes."""
    line = collective.size_line(size_rows(run))
    return None if line is None else line.seconds(GIGABYTE)


def pair(run: Run, of_reduce: bool) -> dict[str, Run]:
    """The run by TCP's path and the one by RDMA's, of a message or of the all-reduce, as far as they are there."""
    runs = [each for each in (run, *run.cases.values()) if each.workload == run.workload]
    return {path_of(each): each for each in runs if is_reduce(each) == of_reduce and path_of(each) != "none"}


def own_table(run: Run) -> Table:
    """nccl-tests' table of the run."""
    return collective.own_table(run)


def summarize(run: Run) -> dict[str, Any]:
    """What a collective tells, and the processor's part in it."""
    told = {"path": path_of(run), "busiest_processor": busy_share(run), "gigabyte_s": gigabyte_s(run)}
    return {**collective.summarize(run), "cpu_overhead": told, "host": copies_of(run)}


def verdict(run: Run) -> Verdict:
    """Whether RDMA's path is cheaper; of a run alone, whether its numbers are right."""
    found = pair(run, of_reduce=False)
    if len(found) < 2:
        return collective.verdict(run)
    pieces = (collective.all_right(run), *_cheaper(found["tcp"], found["rdma"]), processor(run))
    if any(piece.holds is None for piece in pieces if piece.applies):
        return Verdict("cpu_overhead", NOT_PROVEN, pieces)
    holds = all(piece.holds for piece in pieces if piece.applies)
    return proven(Verdict("cpu_overhead", CHEAPER if holds else NO_CHEAPER, pieces, good=holds))


def _cheaper(tcp: Run, rdma: Run) -> Iterator[Evidence]:
    small_s = [None if row is None else row.seconds for row in (small(tcp), small(rdma))]
    large_s = [None if row is None else row.seconds for row in (collective.largest(tcp), collective.largest(rdma))]
    yield _less("time of 4 KiB", "s", *small_s)
    yield _less("time of the largest message", "s", *large_s)
    yield _less("busiest processor", "% of the time", _percent(busy_share(tcp)), _percent(busy_share(rdma)))


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _less(name: str, unit: str, tcp: float | None, rdma: float | None) -> Evidence:
    known = tcp is not None and rdma is not None
    return Evidence(
        name=f"{name} by RDMA",
        configured=f"by TCP {tcp:.4g} {unit}" if tcp is not None else None,
        modelled=None,
        measured=rdma,
        unit=unit,
        tolerance="less than by TCP",
        holds=rdma < tcp if tcp is not None and rdma is not None else None,
        source="calls and cpu of measured.json" if known else "a run has no finished call",
    )


def headline(run: Run) -> str:
    """Latency, bandwidth and processor of both paths in a sentence."""
    found = pair(run, of_reduce=False)
    if len(found) < 2:
        return collective.headline(run)
    return "; ".join(f"{name}: {_told(found[name])}" for name in ("tcp", "rdma"))


def _told(run: Run) -> str:
    least, most = small(run), collective.largest(run)
    small_words = text.seconds(None if least is None else least.seconds)
    rate = text.rate(None if most is None else 8 * most.algbw)
    return f"4 KiB in {small_words}, {rate}, processor {_share(busy_share(run))} busy"


def beside(run: Run) -> str:
    """What each case has of latency, rate and processor."""
    return text.beside([f"{label}: {_told(case)}" for label, case in run.cases.items() if not is_reduce(case)])


def tiles(run: Run) -> list[tuple[str, str]]:
    """Latency, bandwidth and processor of both paths."""
    told: list[tuple[str, str]] = []
    for name, each in pair(run, of_reduce=False).items():
        least, most = small(each), collective.largest(each)
        told.append((f"4 KiB by {name}", text.seconds(None if least is None else least.seconds)))
        told.append((f"rate by {name}", text.rate(None if most is None else 8 * most.algbw)))
        told.append((f"processor, {name}", _share(busy_share(each))))
    return told


def figures(run: Run) -> list[Drawn]:
    """Time over size of all paths, and what copies cost this machine."""
    return collective.draw(run, paths=figures_of_cpu_overhead.paths, copies=figures_of_cpu_overhead.copies)


def claims(run: Run) -> list[Compared]:
    """The slides' figures beside those of both paths."""
    found = [*pair(run, of_reduce=False).items()]
    reduce = [*pair(run, of_reduce=True).items()]
    return [
        *(_latency(name, each) for name, each in found),
        *(_bandwidth(name, each) for name, each in found),
        *(_processor(name, each) for name, each in found),
        *(_gigabyte(name, each) for name, each in reduce),
    ]


def _compared(run: Run, what: str, published: str, measured: str, holds: bool | None, reason: str) -> Compared:
    return Compared(
        run.parameters.label, what, published, SLIDE, "", measured, f"within {TOLERANCE:.0%}", holds, reason
    )


def _close(measured: float | None, published: float) -> bool | None:
    return None if measured is None else abs(measured / published - 1) <= TOLERANCE


def _latency(name: str, run: Run) -> Compared:
    row = small(run)
    measured_s = None if row is None else row.seconds
    apart = "" if measured_s is None else text.seconds(abs(LATENCY_S[name] - measured_s))
    reason = f"{text.seconds(measured_s)} measured; " + (
        f"the other {apart} would have to be interrupt moderation and scheduling, which are not modelled"
        if measured_s is not None and measured_s < LATENCY_S[name]
        else f"{apart} less needs shorter links, or a switch that does not store and forward"
    )
    told = f"latency of 4 KB by {name}"
    return _compared(
        run, told, text.seconds(LATENCY_S[name]), text.seconds(measured_s), _close(measured_s, LATENCY_S[name]), reason
    )


def _bandwidth(name: str, run: Run) -> Compared:
    row = collective.largest(run)
    measured = None if row is None else row.algbw
    published = BANDWIDTH[name]
    cores = "" if measured is None else f"{text.digits(published / measured)} cores like the modelled one"
    reason = f"{_per_s(measured)} measured; " + (
        f"the slide's would need {cores}" if name == "tcp" else "a link of 400 Gb/s has 50 GB/s before headers"
    )
    return _compared(
        run, f"bandwidth by {name}", _per_s(published), _per_s(measured), _close(measured, published), reason
    )


def _per_s(value: float | None) -> str:
    return text.NOTHING if value is None else f"{text.size(value)}/s"


def _processor(name: str, run: Run) -> Compared:
    measured, published = busy_share(run), PROCESSOR[name]
    close = None if measured is None else abs(measured - published) <= 0.1
    told = f"processor busy by {name}, one core"
    compared = _compared(run, told, _share(published), _share(measured), close, f"{_share(measured)} is measured")
    return Compared(**{**vars(compared), "tolerance": "within 10 points"})


def _gigabyte(name: str, run: Run) -> Compared:
    measured_s, published_s = gigabyte_s(run), GIGABYTE_S[name]
    least_s = 8 * 2 * GIGABYTE * (1 - 1 / collective.ranks(run)) / run.parameters.path.rate_bps
    reason = (
        f"{text.seconds(measured_s)} by the line through the sizes; a ring at {text.rate(run.parameters.path.rate_bps)}"
        f" needs {text.seconds(least_s)} at the least, the slide's {text.seconds(published_s)} is"
        f" {text.rate(8 * 2 * GIGABYTE / published_s)} of bus bandwidth"
    )
    told = f"1 GB all-reduce by {name}, {text.counted(collective.ranks(run), 'rank')}"
    return _compared(
        run, told, text.seconds(published_s), text.seconds(measured_s), _close(measured_s, published_s), reason
    )


def sections(run: Run) -> Html:
    """The slides' figures, the machine's own copies, and what a collective's page has."""
    return Html(published_table(claims(run)) + copies_section(run) + collective.sections(run))


def row(run: Run) -> dict[str, Any]:
    """The run's latency, bandwidth and processor."""
    least, most = small(run), collective.largest(run)
    return {
        **collective.row(run),
        "host_cost": path_of(run),
        "small_s": None if least is None else least.seconds,
        "algbw_bps": None if most is None else 8 * most.algbw,
        "busy": busy_share(run),
        "gigabyte_s": gigabyte_s(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much faster or slower the largest message is."""
    return collective.against(main, row)
