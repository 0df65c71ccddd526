"""A pause storm: a receiver that is stuck sends pause frames all the time, and what they stop (a kind, see
analysis/kinds.py; Guo et al., "RDMA over Commodity Ethernet at Scale", SIGCOMM 2016, section 4.3).

Innocent are the flows that neither begin nor end at a stuck host. They are compared with themselves: while the host is
stuck, in the second half of that time, against the second half of the time before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from analysis import plots_long_flows as plots
from analysis import plots_tree, text
from analysis.arrivals import LongFlow, arrivals, long_flows, trouble
from analysis.columns import Column
from analysis.fairness import STEADY_SHARE
from analysis.long_flows import draw, flows_table
from analysis.long_flows import summarize as summarize
from analysis.markup import Html, table
from analysis.pause_log import Span, total_s
from analysis.run import Run
from analysis.shares import lossless, others, share_words
from analysis.style import Drawn
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, total_drops
from analysis.watchdog import acts, setting, watched
from topologies.units import BadRequest, parse_duration_ns

STORM, CONTAINED, HARMLESS = "the storm stops innocent flows", "contained by the watchdog", "innocent flows go on"
STOPPED_SHARE, KEPT_SHARE = 0.1, 0.9  # of a flow's goodput before: below it is stopped, above it goes on
_STUCK = re.compile(r"(\w+)@([^-]+)(?:-(.+))?")
_SHOWN_PORTS = 16

RULE = (
    f"The storm stops innocent flows when the slowest of them keeps less than {STOPPED_SHARE:.0%} of its goodput while "
    f"the host is stuck. It is contained when all keep {KEPT_SHARE:.0%} or more and a watchdog had to act for it."
)

COLUMNS = (
    Column("watchdog", "watchdog", is_number=False, essential=True),
    Column("innocent before", "before_bps", text.rate),
    Column("while stuck", "during_bps", text.rate, essential=True),
    Column("slowest keeps", "kept_share", share_words, essential=True),
    Column("ports paused", "ports_paused", text.count, essential=True),
    Column("watchdog acts", "watchdog_acts", text.count),
    Column("drops", "drops", text.count, essential=True),
)


class Stuck(NamedTuple):
    """A host, and when its NIC did nothing but pause its link (ns)."""

    host: str
    span_ns: Span


def stuck(run: Run) -> tuple[Stuck, ...]:
    """The stuck hosts of the spec; raises BadRequest for a text that is none."""
    asked = run.spec.get("stuck")
    flows = long_flows(run)
    if asked in (None, "none", "auto") or not flows:
        return ()
    begin_ns, last_ns = min(flow.begin_ns for flow in flows), max(flow.end_ns for flow in flows)
    found = []
    for word in str(asked).split(","):
        match = _STUCK.fullmatch(word)
        if match is None:
            raise BadRequest(f"stuck: {asked!r} is not understood; allowed: HOST@BEGIN-END")
        start_ns = begin_ns + parse_duration_ns(match[2], "stuck")
        end_ns = begin_ns + parse_duration_ns(match[3], "stuck") if match[3] else last_ns
        found.append(Stuck(match[1], (start_ns, end_ns)))
    return tuple(found)


def innocent(run: Run) -> tuple[LongFlow, ...]:
    """The flows that have nothing to do with a stuck host, and send before and while one is stuck."""
    hosts = {each.host for each in stuck(run)}
    during = _during_ns(run)
    if during is None:
        return ()
    others = (flow for flow in long_flows(run) if not hosts & {flow.sender, flow.receiver})
    return tuple(flow for flow in others if flow.begin_ns <= _before_ns(run)[0] and during[1] <= flow.end_ns)


def _during_ns(run: Run) -> Span | None:
    """The second half of the time in which the first host is stuck."""
    if not stuck(run):
        return None
    start_ns, end_ns = stuck(run)[0].span_ns
    return end_ns - int((end_ns - start_ns) * STEADY_SHARE), end_ns


def _before_ns(run: Run) -> Span:
    """The second half of the time from the first flow's begin until the first host is stuck."""
    start_ns = stuck(run)[0].span_ns[0]
    begin_ns = min(flow.begin_ns for flow in long_flows(run))
    return start_ns - int((start_ns - begin_ns) * STEADY_SHARE), start_ns


class Kept(NamedTuple):
    """An innocent flow's goodput before and while a host is stuck, bits/s."""

    flow: str
    before_bps: float
    during_bps: float

    @property
    def share(self) -> float | None:
        """What it keeps of its goodput; None where it had none."""
        return self.during_bps / self.before_bps if self.before_bps else None


def kept(run: Run) -> list[Kept]:
    """What each innocent flow keeps; empty where the run does not tell."""
    during = _during_ns(run)
    if during is None or trouble(run):
        return []
    found = arrivals(run)
    return [
        Kept(flow.name, found[flow.name].rate_bps(*_before_ns(run)), found[flow.name].rate_bps(*during))
        for flow in innocent(run)
    ]


def _least(run: Run) -> Kept | None:
    """The innocent flow that keeps least."""
    return min((each for each in kept(run) if each.share is not None), key=lambda each: each.share or 0, default=None)


def verdict(run: Run) -> Verdict:
    """Whether innocent flows are stopped, saved by a watchdog, or go on without one."""
    pieces = (_going_on(run), _spread(run), watched(run), lossless(run), processor(run))
    if pieces[0].holds is None or pieces[-1].holds is None:
        return Verdict("pause storm", NOT_PROVEN, pieces)
    least = _least(run)
    share = least.share if least and least.share is not None else 0.0
    words = f"innocent flows slowed to {share_words(share)}"
    answer = STORM if share < STOPPED_SHARE else words
    if pieces[0].holds:
        answer = CONTAINED if acts(run) else HARMLESS
    return Verdict("pause storm", answer, pieces, good=bool(pieces[0].holds))


def _going_on(run: Run) -> Evidence:
    least = _least(run)
    share = least.share if least else None
    return Evidence(
        name="slowest innocent flow",
        configured=None,
        modelled=least.before_bps if least else None,
        measured=least.during_bps if least else None,
        unit="b/s",
        tolerance=f"at least {KEPT_SHARE:.0%} of its goodput before" + (f"; here {least.flow}" if least else ""),
        holds=None if share is None else share >= KEPT_SHARE,
        source="telemetry/arrivals.parquet" if share is not None else trouble(run) or "no innocent flow, or none stuck",
    )


def _paused_ports(run: Run) -> dict[str, float]:
    """Ports paused while the first host was stuck, with seconds, the longest first."""
    if run.pauses is None or not stuck(run):
        return {}
    start_ns, end_ns = stuck(run)[0].span_ns
    found = {
        port: total_s(
            (max(begin, start_ns), min(end, end_ns)) for begin, end in spans if begin < end_ns and end > start_ns
        )
        for port, spans in run.pauses.held.items()
    }
    return dict(sorted(((port, value) for port, value in found.items() if value), key=lambda item: -item[1]))


def _spread(run: Run) -> Evidence:
    ports = _paused_ports(run)
    return Evidence(
        name="ports paused while it is stuck",
        configured=f"stuck {run.spec.get('stuck')}",
        modelled=None,
        measured=len(ports) if run.pauses is not None else None,
        unit="ports",
        tolerance="more than its own switch's port: the storm spreads",
        holds=len(ports) > len(stuck(run)) if run.pauses is not None else None,
        source="telemetry/pauses.parquet" if run.pauses is not None else "no pauses.parquet tells of pauses",
    )


def headline(run: Run) -> str:
    """Who is stuck, how far it spreads, and what innocent flows keep."""
    least = _least(run)
    if least is None:
        return "no innocent flow's goodput is known"
    hosts = ", ".join(each.host for each in stuck(run))
    ports = text.counted(len(_paused_ports(run)), "port")
    return (
        f"{hosts} is stuck, {ports} are paused: of {text.counted(len(kept(run)), 'innocent flow')}, {least.flow} keeps "
        f"{text.rate(least.during_bps)} of {text.rate(least.before_bps)}"
    )


def beside(run: Run) -> str:
    """What the slowest innocent flow keeps in each case."""
    told = [f"{label}: {share_words(row(case)['kept_share'])}" for label, case in others(run).items()]
    return f"What the slowest innocent flow keeps in the cases: {', '.join(told)}." if told else ""


def tiles(run: Run) -> list[tuple[str, str]]:
    """What innocent flows keep, how far the pauses spread, and what the watchdog did."""
    told = row(run)
    return [
        ("innocent, before", text.rate(told["before_bps"])),
        ("innocent, while stuck", text.rate(told["during_bps"])),
        ("the slowest keeps", share_words(told["kept_share"])),
        ("ports paused", text.count(told["ports_paused"])),
        ("watchdog acts", text.count(told["watchdog_acts"])),
        ("drops", text.count(told["drops"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """Goodput over time with the time in which the host is stuck, who paused whom, and when."""
    spans = [each.span_ns for each in stuck(run)]
    shade = plots.Shade(spans[0], f"{stuck(run)[0].host} is stuck") if spans else None
    return draw(
        run,
        goodput=lambda each: plots.goodput(each, shade, _kept_words(each)),
        tree=lambda each: plots_tree.tree(each, spans[0] if spans else None),
        pauses=lambda each: plots.pause_timeline(each, shade),
        rates=plots.rates,
    )


def _kept_words(run: Run) -> str:
    """What the slowest innocent flow keeps, as a figure's title; empty where that is not known."""
    least = _least(run)
    if least is None:
        return ""
    return f"While {stuck(run)[0].host} is stuck, {least.flow} keeps {share_words(least.share)} of its goodput"


def sections(run: Run) -> Html:
    """What each innocent flow keeps, the ports paused longest, and every flow."""
    rows = [
        [each.flow, text.rate(each.before_bps), text.rate(each.during_bps), share_words(each.share)]
        for each in kept(run)
    ]
    heads = ("flow", "before", "while stuck", "keeps")
    told = f"<h2>Innocent flows</h2>\n{table(heads, rows, numbers=(1, 2, 3))}\n" if rows else ""
    ports = list(_paused_ports(run).items())[:_SHOWN_PORTS]
    held = table(("port", "paused while it is stuck"), [[port, text.seconds(value)] for port, value in ports], (1,))
    return Html(told + (f"<h2>Ports paused</h2>\n{held}\n" if ports else "") + flows_table(run))


def row(run: Run) -> dict[str, Any]:
    """What innocent flows get before and while the host is stuck, how far it spreads, and what the watchdog did."""
    found, least = kept(run), _least(run)
    return {
        "watchdog": setting(run),
        "before_bps": sum(each.before_bps for each in found) if found else None,
        "during_bps": sum(each.during_bps for each in found) if found else None,
        "kept_share": least.share if least else None,
        "ports_paused": len(_paused_ports(run)) if run.pauses is not None else None,
        "watchdog_acts": acts(run),
        "drops": total_drops(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How what the slowest innocent flow keeps compares."""
    if main["kept_share"] is None or row["kept_share"] is None:
        return ""
    if not main["kept_share"]:
        return "goes on" if row["kept_share"] else "stopped too"
    return f"{text.digits(row['kept_share'] / main['kept_share'])}x as much kept"
