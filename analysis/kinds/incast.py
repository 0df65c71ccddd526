"""Incast: what many senders at once do to one receiver behind a shallow buffer (a kind, see analysis/kinds).

The verdict is analysis/verdicts.py's, the figures are those of analysis/figures/incast.py; here they are told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any, Callable

from analysis import text
from analysis.columns import Column
from analysis.congestion_tree import held_links
from analysis.cost_model import buffer_fill_seconds, goodput_one_timeout_bps, line_rate_fill_seconds
from analysis.figures.incast import draw_all
from analysis.figures.style import Drawn
from analysis.measures import (
    cnps,
    collapse_onset,
    counter_matches,
    fill_s,
    kernel_timeouts,
    lost_share,
    marks,
    paused_s,
    pauses,
    peers,
    queue_bytes,
    retransmits,
    slowdown,
)
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.transport.roce import QP_TIMEOUT_NS
from analysis.transport.stalls import MEANINGS, Stall
from analysis.verdicts import (
    COLLAPSE,
    NO_COLLAPSE,
    NOT_PROVEN,
    Verdict,
    goodput_bps,
    incast_verdict,
    lossless_drops,
    median_seconds,
    total_discards,
    total_drops,
)

RULE = "Slow rounds are called incast collapse only when every piece of evidence is there."
_SHOWN_STALLS = 12
_SHOWN_LINKS = 12
_FAR = 2  # a slowest round beyond so many medians is told beside the median
_EQUAL = 1.05  # rounds within 5 % of each other count as equally long


def _digits(value: float | None) -> str:
    return text.NOTHING if value is None else text.digits(value)


COLUMNS = (
    Column("transport", "transport", is_number=False),
    Column("cure", "cure", is_number=False),
    Column("goodput", "goodput_bps", text.rate, essential=True),
    Column("median round", "median_round_seconds", text.seconds, essential=True),
    Column("x ideal", "slowdown", _digits, essential=True),
    Column("timeouts", "timeouts", text.count, essential=True),
    Column("resent", "retransmits", text.count),
    Column("drops", "drops", text.count),
    Column("by watchdog", "watchdog_discards", text.count),
    Column("marks", "ecn_marks", text.count),
    Column("CNPs", "cnps", text.count),
    Column("pauses", "pfc_pauses", text.count),
    Column("paused", "pfc_paused_s", text.seconds),
    Column("queue max", "queue_max_bytes", text.size),
    Column("p99", "queue_p99_bytes", text.size),
    Column("senders", "senders", on_page=False),
)


def summarize(run: Run) -> dict[str, Any]:
    """Goodput against the round without loss, time lost, where collapse begins among the cases, the hot port's queue,
    and the kernel's counters beside the captures."""
    return {
        "goodput_bps": goodput_bps(run.rounds),
        "ideal_seconds": run.parameters.ideal_seconds,
        "slowdown": slowdown(run),
        "kernel_counters": [{**asdict(match), "agrees": match.agrees} for match in counter_matches(run)],
        "queue_bytes": queue_bytes(run),
        "buffer_fill_s": fill_s(run),
        "lost_share": lost_share(run),
        "collapse_onset": collapse_onset(run),
    }


def verdict(run: Run) -> Verdict:
    """Whether the run shows incast collapse."""
    return incast_verdict(run)


def headline(run: Run) -> str:
    """The finding in one sentence, with its numbers; a lossless class that was none comes first."""
    return "; ".join(filter(None, [lossy_words(run), _finding(run)]))


def lossy_words(run: Run) -> str:
    """That a lossless class lost packets, in words; empty when it did not."""
    lost = lossless_drops(run)
    return f"lossless class lost {text.counted(lost, 'packet')}: headroom too small" if lost else ""


def _finding(run: Run) -> str:
    spec, median = run.parameters, median_seconds(run.rounds)
    rate, buffer = text.rate(spec.path.rate_bps), text.size(spec.buffer_bytes)
    where = f"{spec.senders} senders to 1 at {rate} with a {buffer} buffer"
    if median is None:
        return f"{where}: no round was finished"
    factor = text.digits(median / spec.ideal_seconds)
    ideal = text.seconds(spec.ideal_seconds)
    slowest = max(each.seconds for each in run.rounds)
    worst = f"; the slowest took {text.seconds(slowest)}" if slowest > _FAR * median else ""
    return f"{where}: rounds take {text.seconds(median)} where {ideal} would do, {factor} times as long{worst}"


def beside(run: Run) -> str:
    """What the cases with as many senders did to the round time and to the verdict, as one sentence; empty
    without any."""
    base_s, base_verdict = median_seconds(run.rounds), incast_verdict(run).verdict
    told = [
        f"{each.parameters.label}: {text.seconds(median_s)}, {_outcome(base_verdict, incast_verdict(each).verdict)}"
        f" ({faster(base_s, median_s)})"
        for _, each in peers(run)[1:]
        for median_s in [median_seconds(each.rounds)]
        if base_s and median_s
    ]
    return f"The same rounds with {'; '.join(told)}." if told else ""


def _outcome(before: str, now: str) -> str:
    """A case's verdict in words: a cure takes a collapse away."""
    if (before, now) == (COLLAPSE, NO_COLLAPSE):
        return "cured"
    if (before, now) == (COLLAPSE, COLLAPSE):
        return "still a collapse"
    return "collapse not proven" if now == NOT_PROVEN else now


def tiles(run: Run) -> list[tuple[str, str]]:
    """Goodput, the round beside the one without loss, what was lost, and what senders were told."""
    told: list[tuple[str, float | None, Callable[[float | None], str]]] = [
        ("of them by a watchdog", total_discards(run) or None, text.count),
        ("pauses", pauses(run), text.count),
        ("paused, all ports", paused_s(run), text.seconds),
        ("congestion notifications", cnps(run), text.count),
    ]
    share, onset = lost_share(run), collapse_onset(run).get(run.parameters.scheme)
    return [
        ("goodput", text.rate(goodput_bps(run.rounds))),
        ("median round", text.seconds(median_seconds(run.rounds))),
        ("round without loss", text.seconds(run.parameters.ideal_seconds)),
        ("timeouts", text.count(kernel_timeouts(run))),
        ("retransmissions", text.count(retransmits(run))),
        ("drops", text.count(total_drops(run))),
        *([("time lost standing still", f"{share:.1%}")] if share is not None else []),
        *([("collapses from", text.counted(onset, "sender"))] if onset is not None else []),
        *((name, words(value)) for name, value, words in told if value is not None),
    ]


def figures(run: Run) -> list[Drawn]:
    """The hot port's queue, goodput, and what single flows did."""
    return draw_all(run)


def row(run: Run) -> dict[str, Any]:
    """The scheme, how fast the rounds were, what was lost, and what senders were told."""
    spec, queue = run.parameters, queue_bytes(run) or {}
    return {
        "scheme": spec.scheme,
        "senders": spec.senders,
        "transport": spec.transport,
        "cure": spec.cure,
        "queue": spec.queue,
        "rto_min": run.spec.get("rto_min"),
        "goodput_bps": goodput_bps(run.rounds),
        "median_round_seconds": median_seconds(run.rounds),
        "ideal_seconds": spec.ideal_seconds,
        "slowdown": slowdown(run),
        "timeouts": kernel_timeouts(run),
        "retransmits": retransmits(run),
        "drops": total_drops(run),
        "watchdog_discards": total_discards(run),
        "lossless_drops": lossless_drops(run),
        "ecn_marks": marks(run),
        "cnps": cnps(run),
        "pfc_pauses": pauses(run),
        "pfc_paused_s": paused_s(run),
        "queue_max_bytes": queue.get("max"),
        "queue_p99_bytes": queue.get("p99"),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much shorter the median round is than the main run's of as many senders: "53x faster"."""
    if main["senders"] != row["senders"]:
        return ""
    return faster(main["median_round_seconds"], row["median_round_seconds"])


def faster(base_s: float | None, seconds: float | None) -> str:
    """How much shorter a median round is than the main run's: "53x faster"; empty when one is missing."""
    if not base_s or not seconds:
        return ""
    factor = max(base_s, seconds) / min(base_s, seconds)
    if factor < _EQUAL:
        return "as long"
    return f"{factor:{',.0f' if factor >= 9.95 else '.2g'}}x {'faster' if seconds < base_s else 'slower'}"


def sections(run: Run) -> Html:
    """The models beside the measurement, who paused whom, the stalls, and the kernel's counters beside the captures."""
    seen_twice = "The same events seen twice: by the senders' kernels, and in the senders' captures."
    return Html(
        f"{loud(run)}{_pauses(run)}<h2>Model beside measurement</h2>\n{_models(run)}\n"
        f"<h2>Stalls</h2>\n{_stalls(run.stalls)}\n"
        f'<h2>Counters</h2>\n<p class="soft">{seen_twice}</p>\n{_counters(run)}'
    )


def loud(run: Run) -> str:
    """The lossless classes that lost packets, of the run and of its cases."""
    lost = [(each.parameters.label, lossy_words(each)) for each in (run, *run.cases.values())]
    lines = "; ".join(f"{label}: {words}" for label, words in lost if words)
    return f'<p class="bad">{escape(lines)}.</p>\n' if lines else ""


def _pauses(run: Run) -> str:
    """Who paused whom, the longest held first; nothing without pauses, or where no file tells."""
    if run.pauses is None or run.fabric is None or not run.rounds:
        return ""
    links = held_links(run.pauses.held, run.fabric, *run.span_ns)
    rows = [
        [link.port, link.receiver, text.count(link.times), text.seconds(link.held_ns / 1e9)]
        for link in links[:_SHOWN_LINKS]
    ]
    more = f"<p>And {len(links) - len(rows)} more.</p>" if len(links) > len(rows) else ""
    heads = ("port held", "paused by", "pauses", "held for")
    return f"<h2>Pauses</h2>\n{table(heads, rows, numbers=(2, 3))}{more}\n" if rows else ""


def _models(run: Run) -> Html:
    """What the arithmetic of cost_model says, beside what was measured."""
    spec = run.parameters
    block_bytes = spec.senders * spec.sender_bytes
    without_loss_bps = block_bytes * 8 / spec.ideal_seconds
    timeout_ns, timer = (QP_TIMEOUT_NS, "timeout") if spec.is_roce else (spec.rto_min_ns, "RTOmin")
    one_timeout_bps = goodput_one_timeout_bps(block_bytes, without_loss_bps, timeout_ns)
    lossless = (
        "every wire bit once through the receiver's link, or, if longer, the last of N starts in the jitter J, "
        "J N / (N + 1), and its block; with one one-way delay"
    )
    one_timeout, late = f"one timeout per round: B / (B/C + {timer})", kernel_timeouts(run) != 0
    rows = [
        ["round", text.seconds(spec.ideal_seconds), text.seconds(median_seconds(run.rounds)), lossless],
        *([["goodput", text.rate(one_timeout_bps), text.rate(goodput_bps(run.rounds)), one_timeout]] if late else []),
        *_fill_models(run),
    ]
    return table(("quantity", "modelled", "measured", "model"), rows, numbers=(1, 2), stacked=True)


def _fill_models(run: Run) -> list[list[str]]:
    """The least time in which the buffer fills, and the lecture's figure, beside the measured time; nothing with PFC,
    which keeps it from filling."""
    if run.parameters.pfc:
        return []
    spec, name, measured = run.parameters, "buffer full after", text.seconds(fill_s(run))
    senders = spec.senders - spec.nvlink_senders
    least_s = buffer_fill_seconds(spec.buffer_bytes, senders, spec.path.rate_bps)
    least = (
        f"at the least: all {senders} senders at line rate at once, buffer / ((N - 1) C). Starts spread over the "
        f"jitter of {text.seconds(spec.jitter_ns / 1e9)} and slow start make it longer; by how much hangs on how the "
        "starts cluster, which no simple model tells"
    )
    one_rate_s = line_rate_fill_seconds(spec.buffer_bytes, spec.path.rate_bps)
    one_rate = "one line rate into it, nothing leaves: buffer / C (the lecture's 12 µs: 600 KB at 400 Gb/s)"
    return [
        [name, "never" if math.isinf(least_s) else text.seconds(least_s), measured, least],
        [name, text.seconds(one_rate_s), measured, one_rate],
    ]


def _stalls(stalls: Sequence[Stall]) -> Html:
    """How many stalls of each cause, then the longest ones."""
    if not stalls:
        return Html("<p>No flow stalled, as far as the sender captures tell.</p>")
    causes = {cause: [stall.seconds for stall in stalls if stall.cause == cause] for cause in MEANINGS}
    totals = [
        [cause, MEANINGS[cause], text.count(len(spans)), text.seconds(sum(spans))]
        for cause, spans in causes.items()
        if spans
    ]
    longest = sorted(stalls, key=lambda stall: (-stall.seconds, stall.start_s))[:_SHOWN_STALLS]
    rows = [[stall.flow, text.seconds(stall.start_s), text.seconds(stall.seconds), stall.cause] for stall in longest]
    return Html(
        table(("cause", "meaning", "stalls", "flow seconds"), totals, numbers=(2, 3), stacked=True)
        + f"<p>The longest {len(rows)} of {text.counted(len(stalls), 'stall')}:</p>"
        + table(("flow", "began", "lasted", "cause"), rows, numbers=(1, 2))
    )


def _counters(run: Run) -> Html:
    matches = counter_matches(run)
    if not matches:
        return Html("<p>Not compared: kernel counters or some sender captures are missing.</p>")
    rows = [
        [
            each.counter,
            each.meaning,
            text.count(each.kernel),
            text.count(each.captured),
            "✓ yes" if each.agrees else "✗ no",
        ]
        for each in matches
    ]
    return table(("kernel counter", "meaning", "kernel", "captures", "agree"), rows, numbers=(2, 3), stacked=True)
