"""PFC's unfairness: pauses serve ports alike, not flows, so that a flow alone behind its port gets more than those that
share one (a kind, see analysis/kinds; the parking lot of Zhu et al., SIGCOMM 2015, figure 3)."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.congestion_tree import way_back
from analysis.figures import long_flows as figures_of_long_flows
from analysis.figures import tree
from analysis.figures.style import Drawn
from analysis.kinds import long_flows as generic
from analysis.kinds.fairness import FAIR_INDEX, port_fair
from analysis.kinds.long_flows import against as against
from analysis.kinds.long_flows import draw, flows_table
from analysis.kinds.long_flows import summarize as summarize
from analysis.kinds.long_flows import tiles as tiles
from analysis.kinds.published import DCQCN_PAPER, FROM_MEMORY, Compared, published_table
from analysis.kinds.shares import (
    FULL_SHARE,
    alike,
    bottleneck,
    bottleneck_rates,
    equal,
    fairness,
    full,
    index_words,
    line_share,
    lossless,
    others,
    payload_bps,
    share_words,
    window_words,
)
from analysis.pages.markup import Html
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor

FAIR, UNFAIR, OTHERWISE = "fair to flows", "fair to ports, unfair to flows", "fair to neither flows nor ports"
PORT_TOLERANCE = 0.1  # of a port's share: pauses come and go in steps of the buffer, not of a packet
_LONE = "flow alone behind its port"
_SHARING = "flows that share a port"

RULE = (
    f"The bottleneck is shared fairly when Jain's index of its flows is {FAIR_INDEX:g} or more. It is fair to ports "
    f"and unfair to flows when every flow gets, within {PORT_TOLERANCE:.0%}, what serving the ports that feed the "
    "bottleneck alike would give it."
)

COLUMNS = (
    Column("sharing", "sharing", text.count, essential=True),
    Column("alone", "lone_bps", text.rate, essential=True),
    Column("sharing get", "sharing_bps", text.rate, essential=True),
    *generic.COLUMNS,
)


@lru_cache(maxsize=64)  # a report asks many times
def port_shares(run: Run) -> dict[str, float]:
    """The share of the bottleneck of each flow when ports are served alike; empty without a fabric.json."""
    flows = bottleneck(run)
    if run.fabric is None or not flows:
        return {}
    return port_fair({flow.name: way_back(run.fabric, flow.receiver, flow.sender) for flow in flows})


def lone(run: Run) -> Collection[str]:
    """The flows that come in by a port of the receiver's switch that no other flow uses."""
    if run.fabric is None:
        return ()
    entries = {flow.name: way_back(run.fabric, flow.receiver, flow.sender)[1] for flow in bottleneck(run)}
    return [name for name, entry in entries.items() if list(entries.values()).count(entry) == 1]


def _mean_bps(run: Run, alone: bool) -> float | None:
    """The mean goodput of the flows alone behind their ports, or of the others."""
    some = [bps for name, bps in bottleneck_rates(run).items() if (name in lone(run)) == alone]
    return sum(some) / len(some) if some else None


def verdict(run: Run) -> Verdict:
    """Whether the bottleneck is shared fairly among flows, among ports, or neither."""
    by_flow, by_port = equal(run), (_like_ports(run, True), _like_ports(run, False))
    pieces = (by_flow, *by_port, full(run), lossless(run), processor(run))
    if not pieces[-1].holds or any(piece.holds is None for piece in pieces if piece.applies):
        return Verdict("PFC unfairness", NOT_PROVEN, pieces)
    answer = FAIR if by_flow.holds else UNFAIR if all(piece.holds for piece in by_port) else OTHERWISE
    return Verdict("PFC unfairness", answer, pieces, good=answer == FAIR)


def _like_ports(run: Run, alone: bool) -> Evidence:
    """Whether flows get what serving ports alike gives them: the one farthest from it."""
    rates, model = bottleneck_rates(run), port_shares(run)
    names = [name for name in rates if name in model and (name in lone(run)) == alone]
    line_bps = payload_bps(run)
    worst = max(names, key=lambda name: abs(rates[name] / model[name] - line_bps), default=None)
    missing = "no fabric.json, or nothing arrived" if not rates or not model else "no such flow"
    return Evidence(
        name=_LONE if alone else _SHARING,
        configured=run.parameters.path.rate_bps,
        modelled=None if worst is None else model[worst] * line_bps,
        measured=None if worst is None else rates[worst],
        unit="b/s",
        tolerance=f"within {PORT_TOLERANCE:.0%} of its port's share: ports served alike, {window_words(run)}",
        holds=None if worst is None else _near(rates[worst], model[worst] * line_bps),
        source=missing if worst is None else "telemetry/arrivals.parquet, fabric.json",
    )


def _near(measured_bps: float, modelled_bps: float) -> bool:
    return abs(measured_bps - modelled_bps) <= PORT_TOLERANCE * modelled_bps


def headline(run: Run) -> str:
    """What the flow alone behind its port gets, and what those that share one do."""
    alone, shared = _mean_bps(run, True), _mean_bps(run, False)
    if alone is None or shared is None:
        return generic.headline(run)
    line = text.rate(run.parameters.path.rate_bps)
    count = len(bottleneck(run)) - len(lone(run))
    return (
        f"of {line}, the flow alone behind its port gets {text.rate(alone)}, each of the {count} that share a port "
        f"{text.rate(shared)}: Jain's index {index_words(fairness(run))}"
    )


def beside(run: Run) -> str:
    """What each case gives the flow alone and the others."""
    told = [
        f"{label}: {text.rate(line['lone_bps'])} alone, {text.rate(line['sharing_bps'])} each of {line['sharing']}"
        for label, case in others(run).items()
        for line in [row(case)]
    ]
    return text.beside(told)


def figures(run: Run) -> list[Drawn]:
    """Goodput over time, the cases with the lone flow set off, DCQCN's rates, and the pauses."""
    special = {label: lone(each) for label, each in alike(run).items()}
    return draw(
        run,
        goodput=figures_of_long_flows.goodput,
        cases=lambda each: figures_of_long_flows.cases(each, special, "alone behind its port"),
        fairness=figures_of_long_flows.fairness_over_time,
        rates=figures_of_long_flows.rates,
        pauses=figures_of_long_flows.pause_timeline,
        tree=tree.tree,
    )


def sections(run: Run) -> Html:
    """Beside the published figures, then every flow."""
    told = (line for each in alike(run).values() for line in compared(each))
    return Html(published_table(told) + flows_table(run))


def compared(run: Run) -> list[Compared]:
    """The published shares, or with DCQCN the equality and the use of the line, beside the run's."""
    if not run.parameters.pfc:
        return []
    if run.has_dcqcn:
        return [_compared_index(run), compared_line(run)]
    model, alone, shared = port_shares(run), _mean_bps(run, True), _mean_bps(run, False)
    rows = []
    for bps, what, published, names in (
        (alone, f"share of the {_LONE}", "half", lone(run)),
        (shared, f"share of each of the {_SHARING}", "an equal part of the rest", set(model) - set(lone(run))),
    ):
        share = None if bps is None else bps / payload_bps(run)
        modelled = next((model[name] for name in names if name in model), None)
        rows.append(
            Compared(
                run.parameters.label,
                what,
                published,
                DCQCN_PAPER,
                share_words(modelled),
                share_words(share),
                f"within {PORT_TOLERANCE:.0%} of it ({FROM_MEMORY})",
                None if share is None or modelled is None else _near(share, modelled),
            )
        )
    return rows


def _compared_index(run: Run) -> Compared:
    index = fairness(run)
    return Compared(
        run.parameters.label,
        "fairness with DCQCN, by Jain's index",
        "equal shares",
        DCQCN_PAPER,
        "1",
        index_words(index),
        f"at least {FAIR_INDEX:g}",
        None if index is None else index >= FAIR_INDEX,
    )


def compared_line(run: Run) -> Compared:
    """The published use of the line with DCQCN beside the run's."""
    share = line_share(run)
    return Compared(
        run.parameters.label,
        "use of the line with DCQCN",
        "more than 97 %",
        DCQCN_PAPER,
        "",
        share_words(share),
        f"at least {FULL_SHARE:.0%} ({FROM_MEMORY})",
        None if share is None else share >= FULL_SHARE,
    )


def row(run: Run) -> dict[str, Any]:
    """What the flow alone and each of the others get, and what it took."""
    return {
        "sharing": len(bottleneck(run)) - len(lone(run)),
        "lone_bps": _mean_bps(run, True),
        "sharing_bps": _mean_bps(run, False),
        **generic.row(run),
    }
