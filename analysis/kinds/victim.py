"""The victim flow: congestion at another receiver spreads by pauses to a flow whose own way has room (a kind, see
analysis/kinds; Zhu et al., SIGCOMM 2015, figure 4).

The congested receiver is the one that most flows go to; victims are the flows to others.
"""

from __future__ import annotations

from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.congestion_tree import peers, way_back
from analysis.figures import long_flows as figures_of_long_flows
from analysis.figures import tree
from analysis.figures.gantt import shares_gantt
from analysis.figures.heat import heat
from analysis.figures.style import Drawn
from analysis.kinds import long_flows as generic
from analysis.kinds.arrivals import LongFlow, long_flows
from analysis.kinds.fairness import port_fair
from analysis.kinds.long_flows import draw, flows_table
from analysis.kinds.long_flows import summarize as summarize
from analysis.kinds.long_flows import tiles as tiles
from analysis.kinds.pfc_unfairness import compared_line
from analysis.kinds.published import DCQCN_PAPER, Compared, published_table
from analysis.kinds.shares import (
    alike,
    bottleneck,
    full,
    lossless,
    others,
    payload_bps,
    rates_of,
    share_words,
    steady,
    window_words,
)
from analysis.pages.markup import Html
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, buffer_drops, processor

VICTIM, SPARED, LOSES = "a victim of congestion elsewhere", "spared", "packets are lost instead"
SPARED_SHARE = 0.9  # of what the victim's own way leaves it
NEIGHBOUR_TOLERANCE = 0.2  # of what the flows beside it get: it is paused with them, but not in the same packets
_PUBLISHED_SHARES = {0: 10 / 40, 2: 4.5 / 40}  # by senders elsewhere: medians of 250 transfers, section 2.2
_FALL_TOLERANCE = 0.25  # of the published share: there hashes decide which uplinks are shared, here there is one

RULE = (
    f"A flow is spared when it gets {SPARED_SHARE:.0%} or more of what its own way leaves it: the rate of its links, "
    "less an equal share of the congested receiver's for each flow that it shares an uplink with. Otherwise it is a "
    "victim where PFC pauses and no packet is lost on its own way; where packets are lost there, or without PFC "
    "anywhere, these are what it suffers from."
)

COLUMNS = (
    Column("victim", "victim_bps", text.rate, essential=True),
    Column("of its way", "victim_share", share_words, essential=True),
    Column("elsewhere", "extra", text.count),
    *generic.COLUMNS,
)


def victims(run: Run) -> tuple[LongFlow, ...]:
    """The flows that do not go to the congested receiver."""
    crowd = {flow.name for flow in bottleneck(run)}
    return tuple(flow for flow in long_flows(run) if flow.name not in crowd)


def _racks(run: Run) -> dict[str, str]:
    """Host -> its switch; empty without a fabric.json."""
    flows = long_flows(run)
    if run.fabric is None:
        return {}
    return {
        host: way_back(run.fabric, host, other)[0]
        for flow in flows
        for host, other in ((flow.sender, flow.receiver), (flow.receiver, flow.sender))
    }


def beside_it(run: Run) -> list[LongFlow]:
    """The flows to the congested receiver from the victim's own switch."""
    racks, own = _racks(run), victims(run)
    return [flow for flow in bottleneck(run) if own and racks and racks[flow.sender] == racks[own[0].sender]]


def _victim_bps(run: Run) -> float | None:
    """What the slowest victim got."""
    found = steady(run)
    return min(rates_of(found, victims(run)).values(), default=None) if found else None


def _way_bps(run: Run) -> float | None:
    """What the victim's own way leaves it; None without a victim or a fabric.json."""
    if not victims(run) or run.fabric is None:
        return None
    crowd_bps = len(beside_it(run)) * payload_bps(run) / len(bottleneck(run))
    return min(payload_bps(run), payload_bps(run, run.parameters.uplink_bps) - crowd_bps)


def _paused_bps(run: Run) -> float | None:
    """What it gets when it is paused with the flows beside it: as much as they, with ports served alike."""
    near = beside_it(run)
    if not near or run.fabric is None:
        return None
    ways = {flow.name: way_back(run.fabric, flow.receiver, flow.sender) for flow in bottleneck(run)}
    shares = port_fair(ways)
    return payload_bps(run) * sum(shares[flow.name] for flow in near) / len(near)


def verdict(run: Run) -> Verdict:
    """Whether the victim gets what its own way leaves it, and if not, whether pauses or losses take it."""
    spared, clean = _spared(run), _clean(run)
    pieces = (spared, _as_neighbours(run), clean, full(run), lossless(run), processor(run))
    if not pieces[-1].holds or any(piece.holds is None for piece in pieces if piece.applies):
        return Verdict("victim", NOT_PROVEN, pieces)
    if spared.holds:
        return Verdict("victim", SPARED, pieces, good=True)
    if not clean.holds:
        return Verdict("victim", LOSES, pieces, good=False)
    return (
        Verdict("victim", VICTIM, pieces, good=False) if run.parameters.pfc else Verdict("victim", NOT_PROVEN, pieces)
    )


def _own_ports(run: Run) -> set[str]:
    """The ports that the victim's packets leave on their way; empty without a victim or a fabric.json."""
    if not victims(run) or run.fabric is None:
        return set()
    flow = victims(run)[0]
    way = [*reversed(way_back(run.fabric, flow.receiver, flow.sender)), flow.receiver]
    hops = set(zip(way, way[1:]))
    return {port for port, ends in peers(run.fabric).items() if tuple(ends) in hops}


def _clean(run: Run) -> Evidence:
    """Whether no packet was lost on the victim's own way; without PFC, anywhere."""
    drops, pfc = buffer_drops(run), run.parameters.pfc
    own = _own_ports(run)
    lost = None if drops is None else sum(count for port, count in drops.items() if not pfc or port in own)
    return Evidence(
        name="lost on its own way" if pfc else "lost without PFC",
        configured=f"pfc {'on' if pfc else 'off'}",
        modelled=0 if pfc else None,
        measured=lost,
        unit="packets",
        tolerance="none, else losses explain what it does not get",
        holds=None if lost is None else lost == 0,
        source="queue counters of measured.json" if lost is not None else "measured.json has no ports",
    )


def _spared(run: Run) -> Evidence:
    measured_bps, way_bps = _victim_bps(run), _way_bps(run)
    known = measured_bps is not None and way_bps is not None
    return Evidence(
        name="victim's goodput",
        configured=run.parameters.path.rate_bps,
        modelled=way_bps,
        measured=measured_bps,
        unit="b/s",
        tolerance=f"at least {SPARED_SHARE:.0%} of what its own way leaves, {window_words(run)}",
        holds=measured_bps >= SPARED_SHARE * way_bps if measured_bps is not None and way_bps is not None else None,
        source="telemetry/arrivals.parquet, fabric.json" if known else "no victim's goodput, or no fabric.json",
    )


def _as_neighbours(run: Run) -> Evidence:
    """Whether it gets what the flows from its own switch to the congested receiver do: it waits with them."""
    applies = run.parameters.pfc and not run.has_dcqcn
    measured_bps, paused_bps = _victim_bps(run), _paused_bps(run)
    holds = None
    if applies and measured_bps is not None and paused_bps is not None:
        holds = abs(measured_bps - paused_bps) <= NEIGHBOUR_TOLERANCE * paused_bps
    elsewhere = "telemetry/arrivals.parquet, fabric.json" if holds is not None else "no flow beside the victim"
    return Evidence(
        name="paused with its neighbours",
        configured=None,
        modelled=paused_bps if applies else None,
        measured=measured_bps,
        unit="b/s",
        tolerance=f"within {NEIGHBOUR_TOLERANCE:.0%} of what the flows beside it get when ports are served alike",
        holds=holds,
        source=elsewhere if applies else "not applicable: not PFC alone",
        applies=applies,
    )


def headline(run: Run) -> str:
    """What the victim gets, and what it could have."""
    measured_bps, way_bps = _victim_bps(run), _way_bps(run)
    if measured_bps is None or way_bps is None:
        return "no victim's goodput is known"
    extra = len(bottleneck(run)) - len(beside_it(run))
    elsewhere = f" and {text.counted(extra, 'sender')} elsewhere" if extra else ""
    return (
        f"{text.counted(len(beside_it(run)), 'neighbour')}{elsewhere} send to another receiver: the flow beside them "
        f"gets {text.rate(measured_bps)} where its own way has {text.rate(way_bps)} left"
    )


def beside(run: Run) -> str:
    """What the victim gets in each case."""
    told = [f"{label}: {text.rate(_victim_bps(case))}" for label, case in others(run).items()]
    return f"The victim's goodput in the cases: {', '.join(told)}." if told else ""


def figures(run: Run) -> list[Drawn]:
    """Goodput over time, the cases with the victim set off, and the tree of pauses that reaches it."""
    special = {label: [flow.name for flow in victims(each)] for label, each in alike(run).items()}
    return draw(
        run,
        goodput=figures_of_long_flows.goodput,
        cases=lambda each: figures_of_long_flows.cases(each, special, "the victim"),
        tree=tree.tree,
        pauses=figures_of_long_flows.pause_timeline,
        rates=figures_of_long_flows.rates,
        heat=heat,
        gantt=shares_gantt,
    )


def sections(run: Run) -> Html:
    """Beside the published figures, then every flow."""
    return Html(published_table(compared(run)) + flows_table(run))


def compared(run: Run) -> list[Compared]:
    """The published fall of the victim beside ours, over the run and its cases: with PFC alone from 10 to 4.5 of 40
    Gb/s, with DCQCN none."""
    told = [each for each in alike(run).values() if each.parameters.pfc]
    rows = []
    for each in told:
        extra, share = len(bottleneck(each)) - len(beside_it(each)), _line_share(each)
        if each.has_dcqcn:
            rows += [_compared_cure(each), compared_line(each)]
        elif extra in _PUBLISHED_SHARES:
            rows.append(_compared_fall(each, extra, share))
    return rows


def _line_share(run: Run) -> float | None:
    measured_bps = _victim_bps(run)
    return None if measured_bps is None else measured_bps / payload_bps(run)


def _compared_fall(run: Run, extra: int, share: float | None) -> Compared:
    """The victim's share of the line with so many senders elsewhere, one of those that the paper has in numbers."""
    published, paused_bps = _PUBLISHED_SHARES[extra], _paused_bps(run)
    modelled = share_words(None if paused_bps is None else paused_bps / payload_bps(run))
    return Compared(
        run.parameters.label,
        f"the victim's share of the line, {text.counted(extra, 'sender')} elsewhere",
        share_words(published),
        DCQCN_PAPER,
        modelled,
        share_words(share),
        f"within {_FALL_TOLERANCE:.0%} of it",
        None if share is None else abs(share - published) <= _FALL_TOLERANCE * published,
        f"{share_words(share)} is measured; paused as one, the victim gets what each of its"
        f" {text.counted(len(beside_it(run)), 'neighbour')} does, {modelled} here",
    )


def _compared_cure(run: Run) -> Compared:
    measured_bps, way_bps = _victim_bps(run), _way_bps(run)
    share = measured_bps / way_bps if measured_bps is not None and way_bps else None
    return Compared(
        run.parameters.label,
        "the victim's share of what its way leaves, with DCQCN",
        "cured",
        DCQCN_PAPER,
        "100 %",
        share_words(share),
        f"at least {SPARED_SHARE:.0%}",
        None if share is None else share >= SPARED_SHARE,
    )


def row(run: Run) -> dict[str, Any]:
    """What the victim gets, and of what its own way leaves, beside the flows that congest."""
    measured_bps, way_bps = _victim_bps(run), _way_bps(run)
    return {
        "victim_bps": measured_bps,
        "victim_share": measured_bps / way_bps if measured_bps is not None and way_bps else None,
        "extra": len(bottleneck(run)) - len(beside_it(run)),
        **generic.row(run),
    }


def against(main: Any, row: Any) -> str:
    """How the victim's goodput compares."""
    if not main["victim_bps"] or row["victim_bps"] is None:
        return ""
    return f"{text.digits(row['victim_bps'] / main['victim_bps'])}x the victim's goodput"
