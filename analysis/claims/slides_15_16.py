"""Slides 15 and 16: all wait for the slowest, what a link inside a server carries, what TCP costs a processor."""

from __future__ import annotations

from analysis import text
from analysis.claims.judging import UNTOLD, answer, near, shown, together, told, untold_row
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.claims.shared_runs import CPU_OVERHEAD, HIERARCHY
from analysis.kinds import collective, cpu_overhead, straggler
from analysis.kinds.hierarchy_points import Point, inside_rate, links_inside, points
from analysis.kinds.host_copies import Way, ways
from analysis.kinds.slides_hierarchy import SOLD, TOLERANCE, compared
from analysis.run import Run
from analysis.verdicts import Evidence

NEEDED_BYTES_PS = 500e9  # slide 15, of a transformer
# What slide 15 leaves open: a layer of a transformer whose tensors 8 GPUs share, as GPT-3's (Brown et al. 2020) has it.
_WIDTH, _GPUS, _FLOPS_PS = 12_288, 8, 400e12
_REDUCTIONS, _NUMBER_BYTES = 4, 2  # all-reduces of a layer's activations, forward and backward (Shoeybi et al. 2019)
_FLOPS_OF_TOKEN = 72  # x width^2: 24 forward (Narayanan et al. 2021), twice that backward
_BESIDE_FREE = "calls of the run and of cases/tcp-free"
_LEAST = 0.05  # of time, rate or processor: what counts as a cost
_ORDER = 3.0  # times this machine's time of a byte, or a third of it: the model of processors has its order


# --- slide 15: stragglers


def _stragglers(run: Run) -> Judged:
    """As the report judges it: every rank's step is as long as the slowest one's."""
    found = straggler.verdict(run)
    rows = tuple(_row(piece) for piece in found.evidence if piece.unit)
    slow = {each.label: each.slowdown for each in straggler.straggles(run)}
    words = ", ".join(f"{label} {text.times(value)}" for label, value in slow.items()) or UNTOLD
    verdict = REPRODUCED if found.verdict == straggler.REPRODUCED else NOT_REPRODUCED
    more = tuple(told(f"step of all, {label}", value, "x", "steps of measured.json") for label, value in slow.items())
    return Judged(
        verdict,
        f"{found.verdict}; the step of all ranks against that without a straggler: {words}",
        (*rows, *more),
        shown(run, "training_cases", "straggler_waits"),
    )


def _row(piece: Evidence) -> Row:
    modelled = piece.modelled if isinstance(piece.modelled, (int, float)) else None
    measured = piece.measured if isinstance(piece.measured, (int, float)) else None
    return Row(piece.name, None, modelled, measured, piece.unit, piece.tolerance, piece.holds, piece.source)


# --- slide 15: links inside a server


def _links(run: Run) -> Judged:
    """Both directions of each link, against the figure that it is sold by."""
    found = points(run)
    rows = tuple(_sold(point) for point in links_inside(found) if point.inside_bps in SOLD)
    verdict, because = together([each for each in compared(found) if "bandwidth; a transformer" in each.what])
    if verdict == REPRODUCED_IF:
        because = f"both directions are counted: {_all(_rates(found))}"
    return Judged(verdict, because, rows or _untold("both directions of a link"), shown(run, "inside"))


def _sold(point: Point) -> Row:
    name, sold = SOLD[point.inside_bps]
    rate, source = inside_rate(point), f"slope of {point.label}'s all-reduce"
    both = None if rate is None else 2 * rate
    return near(f"{name}, both directions", sold, both, "bytes/s", TOLERANCE, source, 2 * point.inside_bps / 8)


def reduced_share(both_bytes_ps: float) -> float:
    """What of its computing a GPU waits for all-reduces of a layer whose tensors 8 GPUs share, over a link of so many
    bytes a second, both directions counted; a token at a time, for its length cancels out."""
    moved = 2 * _REDUCTIONS * _NUMBER_BYTES * _WIDTH * 2 * (_GPUS - 1) / _GPUS
    computed_s = _FLOPS_OF_TOKEN * _WIDTH**2 / _GPUS / _FLOPS_PS
    return moved / both_bytes_ps / computed_s


def _need(run: Run) -> Judged:
    """Which links carry what is said to be needed, with one direction counted and with both."""
    rates = _rates(points(run))
    rows = tuple(_enough(name, rate, "NVLink" in name) for name, rate in rates.items())
    claimed = {"the needed": NEEDED_BYTES_PS / 2, **rates}
    waits = tuple(_waits(name, rate) for name, rate in claimed.items() if rate is not None)
    one_way = max((rate for rate in rates.values() if rate is not None), default=0.0)
    verdict, because = answer(rows, lambda: _all(rates), lambda: f"of {_per_s(NEEDED_BYTES_PS)} {_all(rates)}")
    if verdict == REPRODUCED and one_way < NEEDED_BYTES_PS:
        verdict, because = (
            REPRODUCED_IF,
            f"both directions are counted: {because}; each way NVLink has {_per_s(one_way)}",
        )
    return Judged(verdict, because, (*(rows or _untold("a link beside the need")), *waits), shown(run, "inside"))


def _rates(found: list[Point]) -> dict[str, float | None]:
    """Name of a link inside -> bytes a second each way."""
    return {SOLD[each.inside_bps][0]: inside_rate(each) for each in links_inside(found) if each.inside_bps in SOLD}


def _untold(quantity: str) -> tuple[Row]:
    return (untold_row(quantity, NEEDED_BYTES_PS, "bytes/s"),)


def _waits(name: str, rate: float) -> Row:
    share = 100 * reduced_share(2 * rate)
    return Row(f"all-reduces over computing, {name} bandwidth", None, share, None, "%", "", None, "arithmetic")


def _enough(name: str, rate: float | None, is_enough: bool) -> Row:
    """A link beside what is needed: NVLink is said to have it, PCIe not."""
    both = None if rate is None else 2 * rate
    holds = None if both is None else (both >= NEEDED_BYTES_PS) == is_enough
    tolerance = "at least what is needed" if is_enough else "less than what is needed"
    return Row(f"{name}, both directions, beside the need", NEEDED_BYTES_PS, None, both, "bytes/s", tolerance, holds,
               "slope of a server's own all-reduce")  # fmt: skip


def _per_s(value: float) -> str:
    return f"{text.size(value)}/s"


def _all(rates: dict[str, float | None]) -> str:
    return ", ".join(f"{name} has {_per_s(2 * rate)}" for name, rate in rates.items() if rate is not None)


# --- slide 16: what TCP costs


def _processor(run: Run) -> Judged:
    """TCP with a processor that costs what the model says, beside one that costs nothing; the model beside this
    machine."""
    free = next((case for case in run.cases.values() if cpu_overhead.path_of(case) == "none"), None)
    rows = (_slower(run, free), _narrower(run, free), _busier(run))
    real = _real_byte(run)
    verdict, because = answer((*rows, real), lambda: "", lambda: _not_so(rows, real))
    if verdict == REPRODUCED:
        verdict = REPRODUCED_IF
        because = (
            f"a processor costs what the model says, {_picoseconds(real.modelled)} a byte (this machine's own TCP: "
            f"{_picoseconds(real.measured)}): {_costs(rows)}"
        )
    return Judged(verdict, because, (*rows, real, *_copies(run)), shown(run, "paths", "copies"))


def _slower(run: Run, free: Run | None) -> Row:
    own, theirs = (None if each is None else cpu_overhead.small(each) for each in (run, free))
    ratio = own.seconds / theirs.seconds if own and theirs else None
    holds = None if ratio is None else ratio >= 1 + _LEAST
    tolerance = f"at least {1 + _LEAST:g}x"
    return Row("time of 4 KiB, beside a free processor", None, None, ratio, "x", tolerance, holds, _BESIDE_FREE)


def _narrower(run: Run, free: Run | None) -> Row:
    own, theirs = (None if each is None else collective.largest(each) for each in (run, free))
    ratio = own.algbw / theirs.algbw if own and theirs else None
    holds = None if ratio is None else ratio <= 1 - _LEAST
    tolerance = f"at most {1 - _LEAST:g}x"
    return Row("rate of the largest message, beside a free processor", None, None, ratio, "x", tolerance, holds,
               _BESIDE_FREE)  # fmt: skip


def _busier(run: Run) -> Row:
    share = cpu_overhead.busy_share(run)
    holds = None if share is None else share >= _LEAST
    busy = None if share is None else 100 * share
    return Row(
        "busiest processor", None, None, busy, "%", f"at least {_LEAST:.0%} of the time", holds, "cpu of measured.json"
    )


def _real_byte(run: Run) -> Row:
    """A byte's processor time at each end: as the run's processors had it, and as this machine's kernel charges it."""
    told_of = (run.measured.get("cpu") or {}).values()
    moved, busy_ns = sum(each["bytes"] for each in told_of), sum(each["busy_ns"] for each in told_of)
    modelled = busy_ns / moved if moved else None
    copying = _way(run, "copy")
    measured = None if copying is None else (copying.sender_s + copying.receiver_s) / 2 * 1e9
    known = modelled is not None and measured is not None and modelled > 0
    holds = 1 / _ORDER <= measured / modelled <= _ORDER if known and measured and modelled else None
    return Row("processor time of a byte at each end, this machine's TCP", None, modelled, measured, "ns",
               f"within {_ORDER:g} times of the model, either way", holds, "host.json")  # fmt: skip


def _way(run: Run, name: str) -> Way | None:
    return next((way for way in ways(run) if way.name == name), None)


def _copies(run: Run) -> tuple[Row, ...]:
    """What of it is the copies': the same bytes sent from the page cache and dropped unread."""
    copying, sparing = _way(run, "copy"), _way(run, "sendfile")
    if copying is None or sparing is None:
        return ()
    spared = 1 - (sparing.sender_s + sparing.receiver_s) / (copying.sender_s + copying.receiver_s)
    return (told("of this machine's processor time, what is spared without copies", 100 * spared, "%", "host.json"),)


def _picoseconds(value_ns: float | None) -> str:
    return text.NOTHING if value_ns is None else f"{1e3 * value_ns:,.0f} ps"


def _costs(rows: tuple[Row, Row, Row]) -> str:
    slower, narrower, busier = (row.measured or 0.0 for row in rows)
    return f"4 KiB take {slower:.2f}x the time, large ones have {narrower:.2f}x the rate, a core is {busier:.0f} % busy"


def _not_so(rows: tuple[Row, Row, Row], real: Row) -> str:
    return (
        f"{_costs(rows)}; a byte costs {_picoseconds(real.modelled)} by the model, {_picoseconds(real.measured)} here"
    )


_LINE = "T(S) = alpha + 2 (n-1)/n S / B on a ring of n; B from the slope over four sizes"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="stragglers",
        slides="15",
        says="Every GPU waits for the slowest.",
        figures="",
        trial=Trial("straggler", {"steps": "5"}, {}, quick_cases=("slow_host", "slow_link", "lossy_cable-newreno")),
        model="step = the slowest rank's computing and link; buckets travel behind backward",
        tolerance="the step within 10 % of the slowest one's time; of every rank at least 90 % of the longest step",
        judge=_stragglers,
        assumptions=("computing is a wait of a given length, 2 or 10 times longer on one of 16 hosts",),
    ),
    Claim(
        key="links_inside",
        slides="15, 17",
        says="PCIe 4 carries 64 GB/s, PCIe 5 128 GB/s, NVLink 4.0 900 GB/s.",
        figures="64, 128, 900 GB/s",
        trial=HIERARCHY,
        model=_LINE,
        tolerance="within 10 %",
        judge=_links,
        assumptions=("links of each way half of the sold figures; payload in packets of 9,000 bytes",),
    ),
    Claim(
        key="transformer_need",
        slides="15",
        says="A transformer needs about 500 GB/s a step: NVLink 4.0 has that, PCIe has not.",
        figures="500 GB/s",
        trial=HIERARCHY,
        model="of a layer: 4 all-reduces, 2 (n-1)/n x 2 bytes x width each way, beside 72 width^2 / n flop: n = 8,"
        " width 12,288, 400 Tflop/s a GPU",
        tolerance="NVLink at least 500 GB/s, each PCIe less",
        judge=_need,
        assumptions=("the lecture does not say which transformer, nor how long a step is",),
    ),
    Claim(
        key="tcp_costs_processor",
        slides="16",
        says="Copies and interrupts of TCP/IP cost processor, latency and throughput.",
        figures="",
        trial=CPU_OVERHEAD,
        model="1 us a message, 870 ns a packet, 93 ps a byte copied, 5 us to wake up (Cai et al., SIGCOMM 2021)",
        tolerance="each at least 5 % worse than with a processor that costs nothing",
        judge=_processor,
        assumptions=("in virtual time a processor costs what a model says; this machine's is measured beside it",),
    ),
)
