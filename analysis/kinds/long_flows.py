"""Long flows that share a fabric: what each gets, and what the queues, the marks and the pauses do meanwhile (a kind,
see analysis/kinds).

Kinds of single experiments (pfc_unfairness, victim, pause_storm, deadlock, dcqcn_convergence) take over what they do
not tell otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable

from matplotlib.figure import Figure

from analysis import text
from analysis.columns import Column
from analysis.figures import long_flows as figures_of_long_flows
from analysis.figures import tree
from analysis.figures.gantt import shares_gantt
from analysis.figures.heat import heat
from analysis.figures.style import Drawn, drawn
from analysis.kinds.arrivals import long_flows
from analysis.kinds.fairness import FAIR_INDEX
from analysis.kinds.shares import (
    FULL_SHARE,
    bottleneck_rates,
    equal,
    fairness,
    full,
    index_words,
    line_share,
    lossless,
    others,
    queue,
    share_words,
    steady,
    window_words,
)
from analysis.measures import cnps, marks, paused_s, pauses
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, proven, total_discards, total_drops

FAIR, UNFAIR, IDLE, LOSES = "fair and full", "unfair", "fair, but not full", "loses packets"
_SHOWN_FLOWS = 32
_WAY = Callable[[Run], tuple[Figure, str, str]]

RULE = (
    f"Flows share the bottleneck well when Jain's index of their goodput is {FAIR_INDEX:g} or more, they fill "
    f"{FULL_SHARE:.0%} of what it can carry, and the lossless class loses nothing. They are judged in the second half "
    "of the longest time in which most of them send."
)

COLUMNS = (
    Column("goodput", "goodput_bps", text.rate, essential=True),
    Column("slowest", "slowest_bps", text.rate, essential=True),
    Column("fastest", "fastest_bps", text.rate),
    Column("Jain", "jain", index_words, essential=True),
    Column("queue p99", "queue_p99_bytes", text.size),
    Column("marks", "ecn_marks", text.count),
    Column("CNPs", "cnps", text.count),
    Column("pauses", "pauses", text.count),
    Column("paused", "paused_s", text.seconds),
    Column("drops", "drops", text.count, essential=True),
    Column("by watchdog", "watchdog_discards", text.count),
)


def summarize(run: Run) -> dict[str, Any]:
    """What every flow got where flows are judged, their fairness, and the bottleneck's queue."""
    found, depth = steady(run), queue(run)
    return {
        "goodput_bps": sum(bottleneck_rates(run).values()) if found else None,
        "queue_bytes": {"max": depth.max_bytes, "p50": depth.p50_bytes, "p99": depth.p99_bytes} if depth else None,
        "long_flows": {
            "window_ns": [found.window.start_ns, found.window.end_ns] if found else None,
            "jain": fairness(run),
            "line_share": line_share(run),
            "flows": {
                flow.name: {
                    "goodput_bps": found.goodput_bps.get(flow.name) if found else None,
                    "undelivered_bytes": flow.undelivered_bytes,
                    "died": flow.died,
                }
                for flow in long_flows(run)
            },
        },
    }


def verdict(run: Run) -> Verdict:
    """Whether the flows share the bottleneck fairly, fill it, and lose nothing."""
    return judge("long flows", run, ((equal(run), UNFAIR), (full(run), IDLE), (lossless(run), LOSES)), FAIR)


def judge(name: str, run: Run, pieces: Sequence[tuple[Evidence, str]], good: str) -> Verdict:
    """The verdict of pieces that must all hold: the answer of the first that does not, or `good`; not proven where a
    piece before lacks, or the CPU did not keep up."""
    asked = [(piece, answer) for piece, answer in pieces if piece.applies and not piece.holds]
    answer = good if not asked else NOT_PROVEN if asked[0][0].holds is None else asked[0][1]
    evidence = (*(piece for piece, _ in pieces), processor(run))
    return proven(Verdict(name, answer, evidence, good=None if answer == NOT_PROVEN else answer == good))


def headline(run: Run) -> str:
    """How many flows share what, and what the slowest and the fastest of them get."""
    rates = bottleneck_rates(run)
    if not rates:
        return "no flow's goodput is known"
    line = text.rate(run.parameters.path.rate_bps)
    slowest, fastest = text.rate(min(rates.values())), text.rate(max(rates.values()))
    each = f"{slowest} each" if slowest == fastest else f"{slowest} to {fastest}"
    return (
        f"{text.counted(len(rates), 'flow')} through one link of {line} get {each}: Jain's index "
        f"{index_words(fairness(run))}, {share_words(line_share(run))} of what the link can carry"
    )


def beside(run: Run) -> str:
    """Goodput and fairness of each case."""
    told = [
        f"{label}: {text.rate(line['goodput_bps'])}, Jain's index {index_words(line['jain'])}"
        for label, case in others(run).items()
        for line in [row(case)]
    ]
    return text.beside(told)


def tiles(run: Run) -> list[tuple[str, str]]:
    """Goodput, fairness, and what the network did to keep the flows apart."""
    told = row(run)
    return [
        ("goodput of the bottleneck", text.rate(told["goodput_bps"])),
        ("Jain's index", index_words(told["jain"])),
        ("queue, 99th percentile", text.size(told["queue_p99_bytes"])),
        ("CNPs", text.count(told["cnps"])),
        ("pauses", text.count(told["pauses"])),
        ("drops", text.count(told["drops"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """Goodput and fairness over time, the cases, DCQCN's rates, the queue, the pauses, and use of the links."""
    return draw(
        run,
        goodput=figures_of_long_flows.goodput,
        cases=figures_of_long_flows.cases,
        fairness=figures_of_long_flows.fairness_over_time,
        rates=figures_of_long_flows.rates,
        queue=figures_of_long_flows.queue_over_time,
        pauses=figures_of_long_flows.pause_timeline,
        tree=tree.tree,
        gantt=shares_gantt,
        heat=heat,
    )


def draw(run: Run, **drawings: _WAY) -> list[Drawn]:
    """Each figure by its name, in the run's figures/ folder."""
    return [drawn(name, run.path / "figures", partial(way, run)) for name, way in drawings.items()]


def sections(run: Run) -> Html:
    """Every flow: what it got, and what became of it."""
    return flows_table(run)


def flows_table(run: Run) -> Html:
    """Every flow: from when to when it sent, its goodput where flows are judged, what never arrived."""
    flows = long_flows(run)
    if not flows:
        return Html("")
    begin_ns, found = min(flow.begin_ns for flow in flows), steady(run)
    heads = ("flow", "from", "to", "sends", "goodput", "never arrived", "")
    rows = [
        [
            flow.name,
            flow.sender,
            flow.receiver,
            " to ".join(text.seconds((time_ns - begin_ns) / 1e9) for time_ns in (flow.begin_ns, flow.end_ns)),
            text.rate(found.goodput_bps.get(flow.name)) if found else text.NOTHING,
            text.size(flow.undelivered_bytes) if flow.undelivered_bytes else text.NOTHING,
            f"died: {flow.died}" if flow.died else "",
        ]
        for flow in flows[:_SHOWN_FLOWS]
    ]
    rest = f", the first {_SHOWN_FLOWS} of {len(flows)}" if len(flows) > _SHOWN_FLOWS else ""
    told = f'<p class="soft">Goodput {window_words(run)}{rest}.</p>'
    return Html(f"<h2>Flows</h2>\n{told}\n{table(heads, rows, numbers=(4, 5), stacked=True)}")


def row(run: Run) -> dict[str, Any]:
    """What the flows through the bottleneck got, and what it took."""
    rates, depth = bottleneck_rates(run), queue(run)
    return {
        "goodput_bps": sum(rates.values()) if rates else None,
        "slowest_bps": min(rates.values(), default=None),
        "fastest_bps": max(rates.values(), default=None),
        "jain": fairness(run),
        "line_share": line_share(run),
        "queue_p99_bytes": depth.p99_bytes if depth else None,
        "ecn_marks": marks(run),
        "cnps": cnps(run),
        "pauses": pauses(run),
        "paused_s": paused_s(run),
        "drops": total_drops(run),
        "watchdog_discards": total_discards(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How the goodput through the bottleneck compares."""
    if not main["goodput_bps"] or row["goodput_bps"] is None:
        return ""
    return f"{text.digits(row['goodput_bps'] / main['goodput_bps'])}x the goodput"
