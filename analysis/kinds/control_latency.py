"""What it costs to mark and to pause by a controller instead of in the switch (a kind, see analysis/kinds)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures import control
from analysis.figures.style import Drawn
from analysis.kinds.control_points import MARKS, PAUSES, Point, point, points
from analysis.kinds.incast import loud
from analysis.kinds.long_flows import LOSES, draw, flows_table, judge
from analysis.kinds.long_flows import against as against
from analysis.kinds.long_flows import summarize as summarize_flows
from analysis.kinds.shares import FULL_SHARE, full, line_share, lossless, share_words
from analysis.measures import cnps, marks, paused_s, pauses
from analysis.pages.markup import Html
from analysis.run import Run
from analysis.verdicts import Verdict

_SAME_SHARE = 0.01  # of the highest goodput: what differs by less is the same
WELL, IDLE = "lossless and full", "lossless, but not full"

RULE = (
    f"A control loop is fast enough when the lossless class loses nothing and the bottleneck carries {FULL_SHARE:.0%} "
    "of what full packets would."
)


def _latency(latency_ns: float | None) -> str:
    return "in the switch" if latency_ns is None else text.seconds(latency_ns / 1e9) if latency_ns else "0"


COLUMNS = (
    Column("controlled", "does", is_number=False),
    Column("latency", "latency_ns", _latency, essential=True),
    Column("goodput", "goodput_bps", text.rate, essential=True),
    Column("of the line", "line_share", share_words),
    Column("longest queue", "queue_max_bytes", text.size, essential=True),
    Column("lost", "lossless_drops", text.count, essential=True),
    Column("marks", "ecn_marks", text.count),
    Column("CNPs", "cnps", text.count),
    Column("pauses", "pfc_pauses", text.count),
    Column("paused", "pfc_paused_s", text.seconds),
)


def summarize(run: Run) -> dict[str, Any]:
    """What long flows tell, and what the loop did after which latency."""
    told = point(run)
    return {**summarize_flows(run), "control": {"does": told.does, "latency_ns": told.latency_ns}}


def verdict(run: Run) -> Verdict:
    """Whether the loop was fast enough for the lossless class and the link."""
    return judge("control latency", run, ((lossless(run), LOSES), (full(run), IDLE)), WELL)


def headline(run: Run) -> str:
    """What came of the run, and of the slowest loops beside it."""
    return "; ".join([f"{_words(point(run))}{_slowest(run)}", *trends(run)])


def trends(run: Run) -> list[str]:
    """Of each kind of loop, whether goodput falls with its latency, from the runs alone; nothing of fewer than two."""
    told = []
    for does in (MARKS, PAUSES):
        rates = [
            each.goodput_bps
            for each in points(run)
            if each.does == does and each.latency_ns is not None and each.goodput_bps is not None
        ]
        if len(rates) > 1:
            told.append(f"a controller {does}: {_trend(rates)}")
    return told


def _trend(rates: Sequence[float]) -> str:
    """How goodput goes with growing latency, in words."""
    steps = [after - before for before, after in zip(rates, rates[1:])]
    least = _SAME_SHARE * max(rates)
    if max(rates) - min(rates) <= least:
        return "goodput is the same whatever the latency"
    if max(steps) <= least and rates[0] - rates[-1] > least:
        return "the longer the latency, the less goodput"
    return "goodput does not follow the latency"


def _slowest(run: Run) -> str:
    """The slowest loop of each kind, in words; empty without cases."""
    slowest = {each.does: each for each in points(run) if each.latency_ns is not None and each != point(run)}
    return "".join(f"; {_words(each)}" for each in slowest.values())


def _words(told: Point) -> str:
    who = f"the switch {told.does}" if told.latency_ns is None else f"a controller {told.does}"
    after = "" if told.latency_ns is None else f" after {_latency(told.latency_ns)}"
    lost = "unknown losses" if told.lost is None else f"{text.counted(told.lost, 'packet')} lost"
    return f"{who}{after}: {text.rate(told.goodput_bps)}, longest queue {text.size(told.queue_bytes)}, {lost}"


def beside(run: Run) -> str:
    """Empty: the headline tells of the cases."""
    return ""


def tiles(run: Run) -> list[tuple[str, str]]:
    """Goodput, queue and losses of this run."""
    told = point(run)
    return [
        ("goodput of the bottleneck", text.rate(told.goodput_bps)),
        ("of what it can carry", share_words(line_share(run))),
        ("longest queue", text.size(told.queue_bytes)),
        ("packets lost", text.count(told.lost)),
        ("CNPs", text.count(cnps(run))),
        ("pauses", text.count(pauses(run))),
    ]


def figures(run: Run) -> list[Drawn]:
    """Goodput, the longest queue and losses against the loop's latency."""
    return draw(run, goodput=control.goodput, longest_queue=control.longest_queue, losses=control.losses)


def sections(run: Run) -> Html:
    """Which lossless classes lost packets, and every flow."""
    return Html(f"{loud(run)}{flows_table(run)}")


def row(run: Run) -> dict[str, Any]:
    """What the loop did after which latency, and what came of it."""
    told = point(run)
    return {
        "does": told.does,
        "latency_ns": told.latency_ns,
        "goodput_bps": told.goodput_bps,
        "line_share": line_share(run),
        "queue_max_bytes": told.queue_bytes,
        "lossless_drops": told.lost,
        "ecn_marks": marks(run),
        "cnps": cnps(run),
        "pfc_pauses": pauses(run),
        "pfc_paused_s": paused_s(run),
    }
