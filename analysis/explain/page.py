"""The page of an explanation: what was found in captures, first what matters most, then all of it in tables."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TypeVar

from analysis import text
from analysis.explain.damage import damage_words
from analysis.explain.document import facts_of
from analysis.explain.figures import draw_all
from analysis.explain.lost_time import lost_s, lost_stalls
from analysis.explain.model import Explanation, Finding, FlowStory, Hop, PauseStory, Point
from analysis.explain.timelines import capture_charts
from analysis.files import write_whole
from analysis.pages import shell
from analysis.pages.evidence import evidence_table
from analysis.pages.markup import Cell, Html, definitions, table
from analysis.pages.shell import Page, badge, paragraph, section
from analysis.printable import printable
from analysis.verdicts import Verdict

MOST_ROWS = 100
_NO_FLOWS = "The captures hold no flow with data."
_NOTHING_FOUND = "Nothing stands out in these captures."
_REPEAT = "From the project's folder; the page is made of the captures alone:"
_Item = TypeVar("_Item")


def write_page(explanation: Explanation, folder: Path) -> Path:
    """Draw the figures into folder/figures, write report.html into the folder and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = draw_all(explanation, folder / "figures")
    charts = capture_charts(explanation)
    files = ", ".join(point.name for point in explanation.points)
    body = (
        Html(f"<p>{' '.join(badge(verdict.verdict, verdict.good) for verdict in explanation.verdicts)}</p>"),
        shell.tiles(tiles_of(explanation)),
        section("Findings", _findings(explanation.findings)),
        *(_verdict(verdict) for verdict in explanation.verdicts),
        section(
            "What happened",
            shell.timelines(charts, drawn),
            shell.figures(drawn),
            shell.skipped(drawn),
        ),
        section("Flows", _flows(explanation.flows)),
        section("Stalls", _stalls(explanation)),
        section("Sent again", _repeats(explanation.once)),
        section("Between capture points", _hops(explanation.hops)),
        section("Pauses", _pauses(explanation.pauses)),
        section("Captures", _captures(explanation.points)),
        section("Further facts", definitions(shell.flat(facts_of(explanation))) if explanation.facts else ""),
        section("How to reproduce", shell.commands((_REPEAT, _command(explanation, folder)))),
    )
    page = Page(f"captures: {files}", f"captures · {files}", _headline(explanation), body, charts)
    return write_whole(folder / "report.html", shell.render(page))


def _headline(explanation: Explanation) -> str:
    if explanation.findings:
        return explanation.findings[0].text
    return _NOTHING_FOUND if explanation.flows else _NO_FLOWS


def _command(explanation: Explanation, folder: Path) -> str:
    files = " ".join(shlex.quote(printable(point.file)) for point in explanation.points)
    return f"./run_experiment analyze {files} --out {shlex.quote(str(folder))}"


def tiles_of(explanation: Explanation) -> list[tuple[str, str]]:
    """The counts at the top, of each flow once however many points saw it: name, value in words."""
    flows, points = explanation.once, explanation.points
    told: list[tuple[str, str]] = [
        ("packets", text.count(sum(point.packets for point in points))),
        ("flows", text.count(len(flows))),
        ("stalls", text.count(sum(len(lost_stalls(flow)) for flow in flows))),
        ("sent again", text.count(sum(flow.resent for flow in flows))),
    ]
    if explanation.lost_share is not None:
        told.append(("of the time stood still", f"{explanation.lost_share:.1%}"))
    if explanation.fill_s is not None:
        told.append(("until the hot queue was full", text.seconds(explanation.fill_s)))
    return told


def _findings(found: Sequence[Finding]) -> Html:
    """All findings, the most important first, each with how sure it is and what it rests on."""
    items = "\n".join(
        f"<li>{escape(each.text)} {_sureness(each.confidence)}{_because(each.because)}</li>" for each in found
    )
    return Html(f'<ol class="list">\n{items}\n</ol>' if found else f"<p>{_NOTHING_FOUND}</p>")


def _because(words: str) -> str:
    return f'<br><span class="soft">{escape(words)}</span>' if words else ""


def _sureness(confidence: str) -> Html:
    return Html(f'<span class="sure {escape(confidence)}">{escape(confidence)}</span>')


def _verdict(verdict: Verdict) -> Html:
    if not verdict.evidence:
        return Html("")
    return section(f"Evidence: {verdict.name}", evidence_table(verdict))


def _limited(
    items: Sequence[_Item], row: Callable[[_Item], Sequence[Cell]], noun: str
) -> tuple[list[Sequence[Cell]], Html]:
    """Rows of the first items, and a note on how many there are beyond."""
    rest = len(items) - MOST_ROWS
    told = f"The first {MOST_ROWS} of {text.counted(len(items), noun)}; all of them are in tables/." if rest > 0 else ""
    return [row(item) for item in items[:MOST_ROWS]], paragraph(told, "soft")


def _flows(flows: Sequence[FlowStory]) -> Html:
    """A row for each flow at each point, those that stood still longest first."""
    if not flows:
        return paragraph(_NO_FLOWS)
    ordered = sorted(flows, key=lambda flow: (-lost_s(flow), -flow.payload_bytes))
    rows, note = _limited(ordered, _flow_row, "row")
    heads = (
        *("flow", "goodput", "stood still", "stalls", "sent again", "of them needless", "delivered", "lasted"),
        *("RTT min", "median", "p99", "marked CE", "CNPs", "zero windows", "seen at", "position", "notes"),
    )
    return Html(table(heads, rows, numbers=range(1, 14), whole=(0, 14, 15), stacked=True) + note)


def _flow_row(flow: FlowStory) -> list[Cell]:
    rtts = (flow.rtt_min_ns, flow.rtt_median_ns, flow.rtt_p99_ns)
    counted = (flow.ce, flow.cnps, flow.zero_windows)
    return [
        flow.name,
        text.rate(flow.goodput_bps),
        text.seconds(lost_s(flow)),
        text.count(len(lost_stalls(flow))),
        text.count(flow.resent),
        text.count(flow.spurious),
        text.size(flow.delivered_bytes),
        text.seconds(flow.seconds),
        *(text.seconds(None if rtt_ns is None else rtt_ns / 1e9) for rtt_ns in rtts),
        *(text.count(each) for each in counted),
        flow.point,
        f"{flow.position} ({flow.position_confidence})",
        "; ".join(flow.notes),
    ]


def _stalls(explanation: Explanation) -> Html:
    """How many stalls of each cause, then the longest ones with their reasons."""
    stalls = sorted(explanation.stalls, key=lambda stall: (stall.start_ns - stall.end_ns, stall.start_ns))
    if not stalls:
        return paragraph("No flow stalled, as far as the captures tell.")
    begin_ns = min(point.first_ns for point in explanation.points if point.packets)
    causes = dict.fromkeys(stall.cause for stall in stalls)
    totals = [
        [cause, text.count(len(spans)), text.seconds(sum(spans)), text.seconds(max(spans))]
        for cause in causes
        for spans in [[stall.seconds for stall in stalls if stall.cause == cause]]
    ]
    rows, note = _limited(
        stalls,
        lambda stall: [
            *(stall.flow, text.seconds((stall.start_ns - begin_ns) / 1e9), text.seconds(stall.seconds), stall.cause),
            *(_sureness(stall.confidence), stall.reason, text.count(stall.first), text.count(stall.last)),
        ],
        "stall",
    )
    heads = ("flow", "began", "lasted", "cause", "how sure", "because", "packet before", "packet after")
    return Html(
        table(("cause", "stalls", "flow seconds", "longest"), totals, numbers=(1, 2, 3))
        + paragraph(
            "Each stall, the longest first; the numbers are those of the packets around it in its capture:", "soft"
        )
        + table(heads, rows, numbers=(1, 2, 6, 7), whole=(0, 3, 4), stacked=True)
        + note
    )


def _repeats(flows: Sequence[FlowStory]) -> Html:
    """Packets sent again, by kind: over all flows, and for each flow that has any."""
    repeating = sorted((flow for flow in flows if flow.resent), key=lambda flow: -flow.resent)
    if not repeating:
        return paragraph("No packet was sent again, as far as the captures tell.")
    kinds = list(dict.fromkeys(kind for flow in repeating for kind, count in flow.kinds.items() if count))
    rows, note = _limited(
        repeating,
        lambda flow: [
            *(flow.name, text.count(flow.resent), text.count(flow.spurious)),
            *(text.count(flow.kinds.get(kind, 0)) for kind in kinds),
            *(text.count(flow.upstream_losses), flow.point),
        ],
        "flow",
    )
    heads = ("flow", "all", "needless", *kinds, "lost before the point", "seen at")
    whole = (0, len(heads) - 1)
    return Html(table(heads, rows, numbers=range(1, len(heads) - 1), whole=whole, stacked=True) + note)


def _hops(hops: Sequence[Hop]) -> Html:
    """What got from one point to another, and what did not."""
    ordered = sorted(hops, key=lambda hop: -len(hop.lost_number))
    rows, note = _limited(ordered, _hop_row, "pair of points")
    heads = (
        "flow",
        "from",
        "to",
        "lost between",
        "seen at both",
        "delay min",
        "median",
        "max",
        "only at the second",
        "",
    )
    return Html(table(heads, rows, numbers=range(3, 9), whole=(0, 1, 2), stacked=True) + note if rows else "")


def _hop_row(hop: Hop) -> list[Cell]:
    delays = (hop.delay_min_ns, hop.delay_median_ns, hop.delay_max_ns)
    return [
        hop.flow,
        hop.first,
        hop.second,
        text.count(len(hop.lost_number)),
        text.count(hop.paired),
        *(text.seconds(None if delay_ns is None else delay_ns / 1e9) for delay_ns in delays),
        text.count(hop.unpaired),
        "" if hop.same_clock else "two clocks: delays are not to be read as they are",
    ]


def _pauses(pauses: Sequence[PauseStory]) -> Html:
    """Who paused its neighbour, the longest first."""
    ordered = sorted(pauses, key=lambda story: -story.total_ns)
    rows, note = _limited(
        ordered,
        lambda story: [
            *(story.source, "all" if story.priority is None else text.count(story.priority)),
            *(text.seconds(story.total_ns / 1e9), text.seconds(story.longest_ns / 1e9)),
            *(text.count(story.pauses), text.count(story.resumes), story.point),
        ],
        "source",
    )
    heads = ("source", "priority", "paused in all", "longest", "pause frames", "resume frames", "seen at")
    return Html(table(heads, rows, numbers=range(1, 6), whole=(0, 6), stacked=True) + note if rows else "")


def _captures(points: Sequence[Point]) -> Html:
    """What each file holds, and what is wrong with it."""
    rows = [
        [
            *(point.name, text.count(point.packets), text.size(point.wire_bytes)),
            text.seconds((point.last_ns - point.first_ns) / 1e9),
            *(text.count(each) for each in (point.tcp, point.roce, point.udp, point.pause, point.other)),
            "; ".join(damage_words(point.damage)) or "sound",
            printable(point.file),
        ]
        for point in points
    ]
    heads = ("capture", "packets", "bytes", "time", "TCP", "RoCE", "UDP", "pause", "other", "state", "file")
    return table(heads, rows, numbers=range(1, 9), stacked=True)
