"""A deadlock of pauses: switches that wait for each other's buffers in a circle stop for ever (a kind, see
analysis/kinds; Hu et al., "Deadlocks in Datacenter Networks", HotNets 2016).

Judged in the last quarter of the flows' time, when whatever can still move would.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from analysis import text
from analysis.columns import Column, words
from analysis.congestion_tree import circle, held_at
from analysis.figures import long_flows as figures_of_long_flows
from analysis.figures import tree
from analysis.figures.style import Drawn
from analysis.kinds.arrivals import arrivals, long_flows, unjudged
from analysis.kinds.long_flows import draw, flows_table
from analysis.kinds.long_flows import summarize as summarize
from analysis.kinds.shares import lossless, others
from analysis.kinds.signals import noted
from analysis.kinds.watchdog import acts, setting, watched
from analysis.measures import paused_s
from analysis.pages.markup import Html, table
from analysis.pause_log import WATCHDOG_ON
from analysis.run import Run
from analysis.transport.spans import Span
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, total_discards, total_drops

DEADLOCK, BROKEN, FREE = "deadlock", "deadlock, broken by the watchdog", "no deadlock"
DEAD_SHARE = 0.01  # of one line: what moves less than this altogether does not move
_LAST = 0.25

RULE = (
    f"A deadlock is found when in the last quarter of the time nothing more arrives (under {DEAD_SHARE:.0%} of one "
    "line), and at its end every port of a circle of switches is paused by the next. It is broken when a watchdog had "
    "to act and data flows all the same."
)


def _unbroken(value: Any) -> str:
    """In words that stay in one line."""
    return words(value).replace(" ", "\u00a0")


COLUMNS = (
    Column("routing", "routing", is_number=False, essential=True),
    Column("watchdog", "watchdog", is_number=False),
    Column("goodput", "goodput_bps", text.rate),
    Column("at the end", "last_bps", text.rate, essential=True),
    Column("last arrival", "last_arrival_s", text.seconds, essential=True),
    Column("circle", "circle", _unbroken, is_number=False),
    Column("watchdog acts", "watchdog_acts", text.count, essential=True),
    Column("drops", "drops", text.count),
    Column("by watchdog", "watchdog_discards", text.count),
)


def _span_ns(run: Run) -> Span | None:
    """From the first flow's begin to the last one's end."""
    flows = long_flows(run)
    return (min(flow.begin_ns for flow in flows), max(flow.end_ns for flow in flows)) if flows else None


def _last_ns(run: Run) -> Span | None:
    """The last quarter of it."""
    span = _span_ns(run)
    return None if span is None else (span[1] - int((span[1] - span[0]) * _LAST), span[1])


def _goodput_bps(run: Run, span: Span | None) -> float | None:
    """All that arrived in a span; None where the run does not tell."""
    return None if span is None or unjudged(run) else sum(each.rate_bps(*span) for each in arrivals(run).values())


def last_arrival_s(run: Run) -> float | None:
    """When something arrived for the last time before the flows' end, from their begin; None where nothing did or the
    run does not tell."""
    span = _span_ns(run)
    if span is None or unjudged(run):
        return None
    times = [each.time_ns[each.time_ns < span[1]] for each in arrivals(run).values()]
    ends_ns = [int(some[-1]) - span[0] for some in times if len(some)]
    return max(ends_ns) / 1e9 if ends_ns else None


@lru_cache(maxsize=64)  # a report asks many times
def waiting(run: Run) -> tuple[str, ...]:
    """The switches that wait for each other in a circle at the end of the flows' time; empty when none do, or the run
    does not tell."""
    span = _span_ns(run)
    if span is None or run.pauses is None or run.fabric is None:
        return ()
    return tuple(circle(held_at(run.pauses.held, run.fabric, span[1] - 1)))


def verdict(run: Run) -> Verdict:
    """Whether the flows stopped for ever, were freed by a watchdog, or never stopped."""
    moving = _moving(run)
    pieces = (moving, _circular(run), watched(run), lossless(run), processor(run))
    if not pieces[-1].holds or any(piece.applies and piece.holds is None for piece in (moving, pieces[-2])):
        return Verdict("deadlock", NOT_PROVEN, pieces)
    flowing = BROKEN if acts(run) else FREE
    answer = flowing if moving.holds else DEADLOCK if waiting(run) else NOT_PROVEN
    return Verdict("deadlock", answer, pieces, good={DEADLOCK: False, FREE: True}.get(answer))


def _moving(run: Run) -> Evidence:
    last_bps = _goodput_bps(run, _last_ns(run))
    line_bps = run.parameters.path.rate_bps
    return Evidence(
        name="goodput in the last quarter",
        configured=line_bps,
        modelled=None,
        measured=last_bps,
        unit="b/s",
        tolerance=f"more than {DEAD_SHARE:.0%} of one line, over all flows",
        holds=None if last_bps is None else last_bps > DEAD_SHARE * line_bps,
        source="telemetry/arrivals.parquet" if last_bps is not None else unjudged(run),
    )


def _circular(run: Run) -> Evidence:
    applies, known = run.parameters.pfc, run.pauses is not None and run.fabric is not None
    way = waiting(run)
    return Evidence(
        name="no circle of paused switches",
        configured=f"routing {run.spec.get('routing')}",
        modelled=None,
        measured=(" > ".join((*way, way[0])) if way else "none") if known else None,
        unit="",
        tolerance="none at the end of the flows' time",
        holds=not way if applies and known else None,
        source=("telemetry/pauses.parquet, fabric.json" if known else "no pauses.parquet, or no fabric.json")
        if applies
        else "not applicable: pfc is off",
        applies=applies,
    )


def headline(run: Run) -> str:
    """When everything stopped and who waits for whom, or how much arrives to the end."""
    told = row(run)
    if told["last_bps"] is None:
        return "no flow's goodput is known"
    flows, last_s = text.counted(len(long_flows(run)), "flow"), told["last_arrival_s"]
    if told["last_bps"] > DEAD_SHARE * run.parameters.path.rate_bps:
        freed = f", the watchdog acting {text.counted(told['watchdog_acts'], 'time')}" if told["watchdog_acts"] else ""
        return f"{flows} get {text.rate(told['last_bps'])} together to the end{freed}"
    stopped = "nothing ever arrives" if last_s is None else f"nothing arrives any more after {text.seconds(last_s)}"
    way = waiting(run)
    return f"{flows}: {stopped}" + (f"; {', '.join(way)} wait for each other in a circle" if way else "")


def beside(run: Run) -> str:
    """What each case carries at the end."""
    told = [f"{label}: {text.rate(row(case)['last_bps'])} at the end" for label, case in others(run).items()]
    return text.beside(told)


def tiles(run: Run) -> list[tuple[str, str]]:
    """What arrives to the end, when it stopped, and what the pauses and the watchdog did."""
    told = row(run)
    return [
        ("goodput, whole time", text.rate(told["goodput_bps"])),
        ("goodput at the end", text.rate(told["last_bps"])),
        ("last arrival", text.seconds(told["last_arrival_s"])),
        ("ports paused, summed over ports", text.seconds(paused_s(run))),
        ("watchdog acts", text.count(told["watchdog_acts"])),
        ("drops", text.count(told["drops"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """Goodput over time, the circle on the fabric, and the pauses."""
    last = _last_ns(run)
    shade = figures_of_long_flows.Shade(last, "the last quarter") if last else None
    return draw(
        run,
        goodput=lambda each: figures_of_long_flows.goodput(each, shade, headline(each)),
        tree=lambda each: tree.tree(each, last),
        pauses=lambda each: figures_of_long_flows.pause_timeline(each, shade),
    )


def sections(run: Run) -> Html:
    """The ports where the watchdog acted, and every flow."""
    acts = sorted((noted(run, WATCHDOG_ON) or {}).items(), key=lambda item: (-item[1], text.natural(item[0])))
    shown = table(("port", "watchdog acts"), [[port, text.count(count)] for port, count in acts], numbers=(1,))
    return Html((f"<h2>The watchdog</h2>\n{shown}\n" if acts else "") + flows_table(run))


def row(run: Run) -> dict[str, Any]:
    """What arrives altogether and at the end, when it stopped, and what the watchdog did."""
    last_s = last_arrival_s(run)
    way = waiting(run)
    return {
        "routing": run.spec.get("routing"),
        "watchdog": setting(run),
        "goodput_bps": _goodput_bps(run, _span_ns(run)),
        "last_bps": _goodput_bps(run, _last_ns(run)),
        "last_arrival_s": last_s,
        "circle": " > ".join((*way, way[0])) if way else None,
        "watchdog_acts": acts(run),
        "drops": total_drops(run),
        "watchdog_discards": total_discards(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How the goodput at the end compares."""
    if main["last_bps"] is None or row["last_bps"] is None:
        return ""
    if not main["last_bps"]:
        return "flows to the end" if row["last_bps"] else "stopped too"
    return f"{text.digits(row['last_bps'] / main['last_bps'])}x the goodput at the end"
