"""A pause storm: a receiver that is stuck sends pause frames all the time, and what they stop (a kind, see
analysis/kinds; Guo et al., "RDMA over Commodity Ethernet at Scale", SIGCOMM 2016, section 4.3).

Innocent are the flows that neither begin nor end at a stuck host. They are compared with themselves: in all of the time
in which the host is stuck, as far as there is traffic, against the second half of the time before. A watchdog is judged
by what they keep from when it has had its time until the host is well again, beside what they keep over the whole
storm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from analysis import text
from analysis.columns import Column
from analysis.figures import long_flows as figures_of_long_flows
from analysis.figures import tree
from analysis.figures.style import Drawn
from analysis.kinds.arrivals import LongFlow, arrivals, long_flows, unjudged
from analysis.kinds.fairness import STEADY_SHARE
from analysis.kinds.long_flows import draw, flows_table
from analysis.kinds.long_flows import summarize as summarize
from analysis.kinds.shares import lossless, others, share_words
from analysis.kinds.watchdog import acts, setting, watched
from analysis.pages.markup import Html, table
from analysis.pause_log import clipped, total_s
from analysis.run import Run
from analysis.transport.spans import Span
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, total_discards, total_drops
from topologies.units import BadRequest, parse_duration_ns

STORM, CONTAINED, HARMLESS = "the storm stops innocent flows", "contained by the watchdog", "innocent flows go on"
STOPPED_SHARE, KEPT_SHARE = 0.1, 0.9  # of a flow's goodput before: below it is stopped, above it goes on
_STUCK = re.compile(r"(\w+)@([^-]+)(?:-(.+))?")
_SHOWN_PORTS = 16

RULE = (
    "Innocent flows are judged over all of the time in which the host is stuck, against the second half of the time "
    f"before. The storm stops them when the slowest keeps less than {STOPPED_SHARE:.0%} of its goodput. It is "
    f"contained when a watchdog acts, and all keep {KEPT_SHARE:.0%} or more from when it has had its time "
    "(pfc_watchdog) until the host is well again; what the time before costs shows in what they keep over the whole "
    "storm."
)

COLUMNS = (
    Column("watchdog", "watchdog", is_number=False, essential=True),
    Column("innocent before", "before_bps", text.rate),
    Column("while stuck", "during_bps", text.rate, essential=True),
    Column("slowest keeps", "kept_share", share_words, essential=True),
    Column("after the watchdog's time", "freed_share", share_words),
    Column("ports paused", "ports_paused", text.count, essential=True),
    Column("watchdog acts", "watchdog_acts", text.count),
    Column("drops, whole run", "drops", text.count, essential=True),
    Column("by watchdog", "watchdog_discards", text.count),
)


class Stuck(NamedTuple):
    """A host, and when its NIC did nothing but pause its link (ns)."""

    host: str
    span_ns: Span


def stuck(run: Run) -> tuple[Stuck, ...]:
    """The stuck hosts of the spec, as far as there is traffic while they are stuck; raises BadRequest for a text that
    is none."""
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
        found.append(Stuck(match[1], (start_ns, min(end_ns, last_ns))))
    return tuple(each for each in found if each.span_ns[0] < each.span_ns[1])


def innocent(run: Run) -> tuple[LongFlow, ...]:
    """The flows that have nothing to do with a stuck host, and send before and while one is stuck."""
    hosts = {each.host for each in stuck(run)}
    during = _during_ns(run)
    if during is None:
        return ()
    others = (flow for flow in long_flows(run) if not hosts & {flow.sender, flow.receiver})
    return tuple(flow for flow in others if flow.begin_ns <= _before_ns(run)[0] and during[1] <= flow.end_ns)


def _during_ns(run: Run) -> Span | None:
    """All of the time in which the first host is stuck."""
    return stuck(run)[0].span_ns if stuck(run) else None


def _after_ns(run: Run) -> Span | None:
    """From when the watchdog has had its time until the first host is well again; None without a watchdog, and where
    its time is longer."""
    during = _during_ns(run)
    if during is None or setting(run) == "off":
        return None
    start_ns = during[0] + parse_duration_ns(setting(run), "pfc_watchdog")
    return (start_ns, during[1]) if start_ns < during[1] else None


def _span_words(run: Run, span: Span | None) -> str:
    """A span from the first flow's begin on: "from 2 ms to 8 ms"."""
    if span is None or run.traffic_ns is None:
        return "at no time"
    return "from {} to {}".format(*(text.seconds((time_ns - run.traffic_ns[0]) / 1e9) for time_ns in span))


def _before_ns(run: Run) -> Span:
    """The second half of the time from the first flow's begin until the first host is stuck."""
    start_ns = stuck(run)[0].span_ns[0]
    begin_ns = min(flow.begin_ns for flow in long_flows(run))
    return start_ns - int((start_ns - begin_ns) * STEADY_SHARE), start_ns


class Kept(NamedTuple):
    """An innocent flow's goodput before a host is stuck, in all of the time in which it is, and of that in the time
    that the watchdog leaves (None: there is none), bits/s."""

    flow: str
    before_bps: float
    during_bps: float
    after_bps: float | None

    @property
    def share(self) -> float | None:
        """What it keeps of its goodput over the whole storm; None where it had none."""
        return self.during_bps / self.before_bps if self.before_bps else None

    @property
    def freed_share(self) -> float | None:
        """What it keeps after the watchdog has had its time; None where it had none, or there is no such time."""
        return self.after_bps / self.before_bps if self.before_bps and self.after_bps is not None else None


def kept(run: Run) -> list[Kept]:
    """What each innocent flow keeps; empty where the run does not tell."""
    during = _during_ns(run)
    if during is None or unjudged(run):
        return []
    before, after = _before_ns(run), _after_ns(run)
    told = [(flow.name, arrivals(run)[flow.name]) for flow in innocent(run)]
    return [
        Kept(name, each.rate_bps(*before), each.rate_bps(*during), each.rate_bps(*after) if after else None)
        for name, each in told
    ]


def _least(run: Run) -> Kept | None:
    """The innocent flow that keeps least over the whole storm."""
    return min((each for each in kept(run) if each.share is not None), key=lambda each: each.share or 0, default=None)


def _least_freed(run: Run) -> Kept | None:
    """The innocent flow that keeps least after the watchdog has had its time."""
    able = [each for each in kept(run) if each.freed_share is not None]
    return min(able, key=lambda each: each.freed_share or 0, default=None)


def verdict(run: Run) -> Verdict:
    """Whether innocent flows are stopped, saved by a watchdog, or go on without one."""
    going_on, freed = _going_on(run), _freed(run)
    deciding = (going_on, freed, lossless(run), processor(run))
    pieces = (going_on, freed, _spread(run), watched(run, _during_ns(run)), *deciding[2:])
    if not deciding[-1].holds or any(piece.applies and piece.holds is None for piece in deciding):
        return Verdict("pause storm", NOT_PROVEN, pieces)
    contained = bool(freed.holds and acts(run, _during_ns(run)))
    if going_on.holds and not contained:
        return Verdict("pause storm", HARMLESS, pieces, good=True)
    return Verdict("pause storm", _contained_words(run) if contained else _slowed_words(run), pieces, good=contained)


def _contained_words(run: Run) -> str:
    least = _least(run)
    return f"{CONTAINED} after {setting(run)}: {share_words(least.share if least else None)} of the whole storm kept"


def _slowed_words(run: Run) -> str:
    least = _least(run)
    share = least.share if least and least.share is not None else 0.0
    return STORM if share < STOPPED_SHARE else f"innocent flows slowed to {share_words(share)}"


def _freed(run: Run) -> Evidence:
    """What is kept after the watchdog has had its time."""
    least, applies = _least_freed(run), _after_ns(run) is not None
    share = least.freed_share if least else None
    return Evidence(
        name="slowest innocent flow after the watchdog's time",
        configured=f"pfc_watchdog {setting(run)}",
        modelled=least.before_bps if least else None,
        measured=least.after_bps if least else None,
        unit="b/s",
        tolerance=f"at least {KEPT_SHARE:.0%} of its goodput before, {_span_words(run, _after_ns(run))}"
        + (f"; here {least.flow}" if least else ""),
        holds=None if share is None else share >= KEPT_SHARE,
        source=("telemetry/arrivals.parquet" if share is not None else unjudged(run) or "no innocent flow")
        if applies
        else "not applicable: there is no watchdog, or its time is longer than the storm",
        applies=applies,
    )


def _going_on(run: Run) -> Evidence:
    least = _least(run)
    share = least.share if least else None
    return Evidence(
        name="slowest innocent flow, whole storm",
        configured=None,
        modelled=least.before_bps if least else None,
        measured=least.during_bps if least else None,
        unit="b/s",
        tolerance=f"at least {KEPT_SHARE:.0%} of its goodput before, {_span_words(run, _during_ns(run))}"
        + (f"; here {least.flow}" if least else ""),
        holds=None if share is None else share >= KEPT_SHARE,
        source="telemetry/arrivals.parquet"
        if share is not None
        else unjudged(run) or "no innocent flow, or none stuck",
    )


def _paused_ports(run: Run) -> dict[str, float]:
    """Ports paused while the first host was stuck, with seconds, the longest first."""
    if run.pauses is None or not stuck(run):
        return {}
    found = {port: total_s(spans) for port, spans in clipped(run.pauses.held, _during_ns(run)).items()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


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
        f"{text.rate(least.during_bps)} of {text.rate(least.before_bps)}, {_span_words(run, _during_ns(run))}"
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
        *([("after the watchdog's time", share_words(told["freed_share"]))] if _after_ns(run) else []),
        ("ports paused", text.count(told["ports_paused"])),
        ("watchdog acts", text.count(told["watchdog_acts"])),
        ("drops, whole run", text.count(told["drops"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """Goodput over time with the time in which the host is stuck, who paused whom, and when."""
    spans = [each.span_ns for each in stuck(run)]
    shade = figures_of_long_flows.Shade(spans[0], f"{stuck(run)[0].host} is stuck") if spans else None
    return draw(
        run,
        goodput=lambda each: figures_of_long_flows.goodput(each, shade, _kept_words(each)),
        tree=lambda each: tree.tree(each, spans[0] if spans else None),
        pauses=lambda each: figures_of_long_flows.pause_timeline(each, shade),
        rates=figures_of_long_flows.rates,
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
        [
            each.flow,
            *map(text.rate, (each.before_bps, each.during_bps, each.after_bps)),
            *map(share_words, (each.share, each.freed_share)),
        ]
        for each in kept(run)
    ]
    heads = ("flow", "before", "while stuck", "after the watchdog's time", "keeps", "keeps after it")
    told = f"<h2>Innocent flows</h2>\n{table(heads, rows, numbers=range(1, 6))}\n" if rows else ""
    ports = list(_paused_ports(run).items())[:_SHOWN_PORTS]
    held = table(("port", "paused while it is stuck"), [[port, text.seconds(value)] for port, value in ports], (1,))
    return Html(told + (f"<h2>Ports paused</h2>\n{held}\n" if ports else "") + flows_table(run))


def row(run: Run) -> dict[str, Any]:
    """What innocent flows get before and while the host is stuck, how far it spreads, and what the watchdog did."""
    found, least, freed = kept(run), _least(run), _least_freed(run)
    return {
        "watchdog": setting(run),
        "before_bps": sum(each.before_bps for each in found) if found else None,
        "during_bps": sum(each.during_bps for each in found) if found else None,
        "kept_share": least.share if least else None,
        "freed_share": freed.freed_share if freed else None,
        "ports_paused": len(_paused_ports(run)) if run.pauses is not None else None,
        "watchdog_acts": acts(run, _during_ns(run)),
        "drops": total_drops(run),
        "watchdog_discards": total_discards(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How what the slowest innocent flow keeps compares."""
    if main["kept_share"] is None or row["kept_share"] is None:
        return ""
    if not main["kept_share"]:
        return "goes on" if row["kept_share"] else "stopped too"
    return f"{text.digits(row['kept_share'] / main['kept_share'])}x as much kept"
