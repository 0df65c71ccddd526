"""Slide 14: incast: how soon a switch's buffer is full, how long TCP waits, and what it costs a link."""

from __future__ import annotations

from functools import partial

from analysis import text
from analysis.claims.judging import UNTOLD, near, shown, told, untold
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.cost_model import buffer_fill_seconds, line_rate_fill_seconds
from analysis.measures import fill_s, kernel_timeouts
from analysis.run import Run
from analysis.transport.recovery import LINUX_RTO_MIN_NS
from analysis.verdicts import (
    SHORTEST_IDLE,
    goodput_bps,
    goodput_without_loss_bps,
    median_seconds,
    total_drops,
)

FILL_S, FILL_SHARE = 12e-6, 0.25
WAIT_S, FALL = (0.2, 0.5), (3.0, 10.0)
_COUNTERS, _ROUNDS = "queue counters of measured.json", "rounds of measured.json"
_TRANSFERS, _SPAN = "transfers of measured.json", ("start_ns", "end_ns")
LINUX_S = LINUX_RTO_MIN_NS / 1e9

# 100 senders to one by TCP, and its cures: one run for all claims that ask it.
INCAST = Trial(
    "incast",
    {"senders": "100", "capture": "off", "rounds": "2"},
    {"senders": "100", "capture": "off"},
    quick_cases=("rto_1ms", "tcp_pfc", "roce", "roce_pfc", "roce_dcqcn", "roce_pfc_dcqcn"),
)


# --- the buffer


def _fills(assumption: str, run: Run) -> Judged:
    """How long the first burst that filled the hot port's buffer took, and whether packets were dropped then."""
    spec, measured = run.parameters, fill_s(run)
    least_s = buffer_fill_seconds(spec.buffer_bytes, spec.senders, spec.path.rate_bps)
    dropped = total_drops(run)
    rows = (
        near("buffer full after", FILL_S, measured, "s", FILL_SHARE, "telemetry/queue.parquet", least_s),
        Row("packets dropped then", None, None, dropped, "packets", "at least 1",
            None if dropped is None else dropped > 0, _COUNTERS),
        told("one line rate into it, nothing leaves", None, "s", "arithmetic: buffer / C",
             line_rate_fill_seconds(spec.buffer_bytes, spec.path.rate_bps)),
    )  # fmt: skip
    if measured is None:
        return Judged(NOT_REPRODUCED, f"{UNTOLD}: no burst filled the buffer", rows, shown(run, "queue"))
    words = (
        f"{spec.senders} senders fill {text.size(spec.buffer_bytes)} in {text.seconds(measured)}, all of them at line"
        f" rate at once in {text.seconds(least_s)} by arithmetic; {dropped:,} packets are dropped"
    )
    holds = all(row.holds for row in rows[:2])
    because = f"{assumption}: {words}" if holds else words
    return Judged(REPRODUCED_IF if holds else NOT_REPRODUCED, because, rows, shown(run, "queue"))


# --- the wait


def _waits(run: Run) -> Judged:
    """How long blocks took that met a timeout, and whether that is the timeout's doing."""
    late_s, fired, short = _late_s(run), kernel_timeouts(run), run.cases.get("rto_1ms")
    if not late_s or fired is None:
        return untold("shortest wait", WAIT_S[0], "s")
    rto_s, (low, high) = run.parameters.rto_min_ns / 1e9, WAIT_S
    rows = [
        Row(f"{name} block that waited", bound, rto_s, value, "s", "200 to 500 ms", low <= value <= high, _TRANSFERS)
        for name, bound, value in (("shortest", low, late_s[0]), ("longest", high, late_s[-1]))
    ]
    rows.append(Row("timeouts", None, None, fired, "", "at least 1", fired > 0, "kernel counters of measured.json"))
    without_s = None if short is None else median_seconds(short.rounds)
    rows.append(told("a round, with a least timeout of 1 ms", without_s, "s", _ROUNDS))
    count = f"{len(late_s)} of {len(run.entries('transfers', _SPAN))} blocks"
    words = f"{count} take {text.seconds(late_s[0])} to {text.seconds(late_s[-1])}, after {fired} timeouts"
    figures = shown(run, "timeline", "tail")
    if not all(row.holds for row in rows[:3]):
        return Judged(NOT_REPRODUCED, words, tuple(rows), figures)
    if without_s is None or without_s >= low:
        return Judged(REPRODUCED, words, tuple(rows), figures)
    because = f"the least timeout is Linux's {text.seconds(rto_s)}: {words}; with 1 ms a round takes "
    return Judged(REPRODUCED_IF, because + text.seconds(without_s), tuple(rows), figures)


def _late_s(run: Run) -> list[float]:
    """Seconds of the blocks that took longer than half of the least timeout, the shortest first: others that lost
    packets were mended without one."""
    spans_s = ((each["end_ns"] - each["start_ns"]) / 1e9 for each in run.entries("transfers", _SPAN))
    return sorted(value for value in spans_s if value > SHORTEST_IDLE * run.parameters.rto_min_ns / 1e9)


# --- throughput


def _fall(run: Run) -> float | None:
    """Goodput without loss over the measured one."""
    measured = goodput_bps(run.rounds)
    return goodput_without_loss_bps(run.parameters) / measured if measured else None


def _fall_row(run: Run, what: str) -> Row:
    """Modelled: one timeout a round."""
    measured, (low, high) = _fall(run), FALL
    modelled = 1 + run.parameters.rto_min_ns / 1e9 / run.parameters.ideal_seconds
    holds = None if measured is None else low <= measured <= high
    return Row(what, low, modelled, measured, "x", "3 to 10 times", holds, _ROUNDS)


def _throughput(run: Run) -> Judged:
    """How many times less the link carries than without loss."""
    spec = run.parameters
    row = _fall_row(run, f"goodput falls, {spec.senders} senders at {text.rate(spec.path.rate_bps)}")
    if row.measured is None:
        return Judged(NOT_REPRODUCED, UNTOLD, (row,))
    low_s, high_s = (LINUX_S / (times - 1) for times in reversed(FALL))
    moved = text.size(spec.senders * spec.sender_bytes)
    words = (
        f"{text.times(row.measured)}: a round of {moved} would take {text.seconds(spec.ideal_seconds)} and takes"
        f" {text.seconds(median_seconds(run.rounds))}; one timeout a round makes it 3 to 10 times where rounds take"
        f" {text.seconds(low_s)} to {text.seconds(high_s)}"
    )
    return Judged(REPRODUCED if row.holds else NOT_REPRODUCED, words, (row,), shown(run, "goodput_rounds"))


def _slow_link(run: Run) -> Judged:
    """FAST 2008's links of 1 Gb/s: today's stack from 16 senders on, the stack of then beside it."""
    runs = sorted((run, *run.cases.values()), key=lambda each: each.parameters.senders)
    now = [each for each in runs if each.parameters.rack]
    rows = tuple(_fall_row(each, f"goodput falls, {each.parameters.senders} senders, CUBIC with SACK") for each in now)
    of_then = {
        f"{each.parameters.senders} senders, NewReno without SACK": _fall(each)
        for each in runs
        if not each.parameters.rack
    }
    before = tuple(told(f"goodput falls, {who}", times, "x", _ROUNDS) for who, times in of_then.items())
    values = [row.measured for row in rows if row.measured is not None]
    if not values:
        return untold("goodput falls", FALL[0], "x")
    words = f"goodput falls {text.times(min(values))} to {text.times(max(values))}"
    words += "".join(f", {text.times(times)} with {who}" for who, times in of_then.items())
    if not all(row.holds for row in rows):
        return Judged(NOT_REPRODUCED, words, (*rows, *before), shown(run, "goodput_rounds"))
    ideal_s = [each.parameters.ideal_seconds for each in now]
    because = (
        f"rounds take {text.seconds(min(ideal_s))} to {text.seconds(max(ideal_s))} without loss, as"
        f" {text.size(runs[0].parameters.sender_bytes)} of each sender over {text.rate(run.parameters.path.rate_bps)}"
        f" do: {words}"
    )
    return Judged(REPRODUCED_IF, because, (*rows, *before), shown(run, "goodput_rounds"))


_AT_ONCE = {"transport": "roce", "capture": "off", "jitter": "100ns", "rounds": "1"}
_WHOLE_SWITCH = {**_AT_ONCE, "senders": "100", "bytes": "1MiB", "mtu": "4300B", "buffer": "60MB"}
_TWO = {**_AT_ONCE, "senders": "2", "bytes": "2MiB", "mtu": "4300B"}
_FILLS_WITHIN = f"within {FILL_SHARE:.0%}: the slide says about; and packets are dropped"
_WAITS_AND_FALLS = "one timeout of 200 ms in a round, and a round's own time T: 1 + 200 ms / T"


def _filling(key: str, who: str, assumption: str, trial: Trial, model: str, *more: str) -> Claim:
    return Claim(
        key=key,
        slides="14",
        says=f"A switch buffer fills in about 12 us, then packets are dropped ({who}).",
        figures="100 senders at 400 Gb/s, 12 us",
        trial=trial,
        model=model,
        tolerance=_FILLS_WITHIN,
        judge=partial(_fills, assumption),
        assumptions=("the slide names no buffer: 600 KB a port, or a whole switch's memory", *more),
    )


CLAIMS: tuple[Claim, ...] = (
    _filling(
        "incast_fill",
        "100 TCP senders, 600 KB",
        "a port has 600 KB, and 100 TCP senders start within 100 us of each other",
        INCAST,
        "between buffer / ((N-1) C), all at once, and as long as starts take to meet",
        "how starts cluster decides: other seeds give 12 to 18 us",
    ),
    _filling(
        "incast_fill_at_once",
        "100 senders at line rate, 60 MB",
        "the port may use 60 MB, a whole switch's memory, and all senders begin at line rate at once, as NICs with"
        " RDMA do",
        Trial("incast", _WHOLE_SWITCH, _WHOLE_SWITCH, only=True),
        "buffer / ((N-1) C)",
    ),
    _filling(
        "incast_fill_two",
        "two senders at line rate, 600 KB",
        "a port has 600 KB, and one line rate more comes in than leaves, as of two senders",
        Trial("incast", _TWO, _TWO, only=True),
        "buffer / C",
    ),
    Claim(
        key="incast_wait",
        slides="14",
        says="After the drops TCP waits for 200 to 500 ms.",
        figures="200 to 500 ms",
        trial=INCAST,
        model="the least timeout of Linux, 200 ms, and twice as much when what is sent again is lost too",
        tolerance="every block that took longer than half of the least timeout",
        judge=_waits,
        assumptions=("100 senders, 256 KiB each",),
    ),
    Claim(
        key="incast_throughput",
        slides="14",
        says="Throughput falls 3 to 10 times.",
        figures="3 to 10 times, 100 senders at 400 Gb/s",
        trial=INCAST,
        model=_WAITS_AND_FALLS,
        tolerance="in the range",
        judge=_throughput,
        assumptions=("256 KiB from each sender a round",),
    ),
    Claim(
        key="incast_throughput_long",
        slides="14",
        says="Throughput falls 3 to 10 times, also where a round moves a gigabyte.",
        figures="3 to 10 times, 100 senders at 400 Gb/s",
        trial=Trial(
            "incast",
            {"senders": "100", "capture": "off", "rounds": "1", "bytes": "6MB"},
            {"senders": "100", "capture": "off", "rounds": "1", "bytes": "12MB"},
            only=True,
        ),
        model=_WAITS_AND_FALLS,
        tolerance="in the range",
        judge=_throughput,
        assumptions=("6 or 12 MB from each sender a round",),
    ),
    Claim(
        key="incast_throughput_1g",
        slides="14",
        says="Throughput falls 3 to 10 times over links of 1 Gb/s, those of the papers that named incast.",
        figures="3 to 10 times",
        trial=Trial("fast08", {"rounds": "8"}, {}, cases=("modern-64kb-n16", "modern-64kb-n32", "modern-64kb-n64")),
        model=_WAITS_AND_FALLS,
        tolerance="in the range, for today's TCP from 16 senders on",
        judge=_slow_link,
        assumptions=("a buffer of 64 KB, 256 KB from each sender (Phanishayee et al., FAST 2008)",),
    ),
)
