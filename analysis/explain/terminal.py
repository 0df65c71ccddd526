"""An explanation as a person reads it on a terminal: findings first, then what they rest on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Union

from analysis.columns import Column, Table
from analysis.explain.damage import damage_words
from analysis.explain.lost_time import lost_s, lost_stalls
from analysis.explain.model import CERTAIN, SURENESS, Explanation, Finding, FlowStory, Hop, PauseStory, Point
from analysis.printable import printable
from analysis.text import NOTHING, count, counted, rate, seconds
from analysis.verdicts import Evidence, Verdict

Part = Union[str, Table]  # a paragraph, or a table

_MOST_ROWS = 12
_HOLDS = {True: "yes", False: "no", None: "not known"}


def shown(explanation: Explanation) -> list[Part]:
    """The whole text, in the order of reading."""
    found: list[Part] = [_title(explanation), *_findings(explanation)]
    found += [_evidence(each) for each in explanation.verdicts if each.evidence]
    found += [_points(explanation)]
    tables = (_flows, _stalls, _repeats, _hops, _pauses)
    found += [each for make in tables for each in [make(explanation)] if each is not None]
    return [_harmless(part) for part in (*found, *_notes(explanation))]


def _harmless(part: Part) -> Part:
    """A part in which nothing but the line ends of a paragraph moves a terminal's cursor."""
    if isinstance(part, str):
        return "\n".join(map(printable, part.split("\n")))
    return Table(printable(part.title), part.columns, [_harmless_row(row) for row in part.rows])


def _harmless_row(row: dict[str, Any]) -> dict[str, Any]:
    return {key: printable(value) if isinstance(value, str) else value for key, value in row.items()}


def _title(explanation: Explanation) -> str:
    packets = sum(point.packets for point in explanation.points)
    flows = len(explanation.once)
    told = [
        counted(len(explanation.points), "capture"),
        counted(packets, "packet"),
        counted(flows, "flow") + " with data",
    ]
    return ", ".join(told)


def _findings(explanation: Explanation) -> list[str]:
    """The sentences, the less sure ones with how sure they are."""
    if not explanation.findings:
        return ["Nothing stands out."]
    return [_finding(f"{number}. ", each) for number, each in enumerate(explanation.findings, start=1)]


def _finding(number: str, found: Finding) -> str:
    told = number + found.text + ("" if found.confidence == CERTAIN else f" ({found.confidence})")
    return f"{told}\n{' ' * len(number)}{found.because}" if found.because else told


def _evidence(verdict: Verdict) -> Table:
    columns = (
        Column("evidence", "name", is_number=False, essential=True),
        Column("measured", "measured", is_number=False, essential=True),
        Column("holds", "holds", is_number=False, essential=True),
        Column("told by", "source", is_number=False, essential=True),
    )
    rows = [
        {
            "name": piece.name,
            "measured": _value(piece),
            "holds": _HOLDS[piece.holds] if piece.applies else "does not apply",
            "source": piece.source,
        }
        for piece in verdict.evidence
    ]
    return Table(f"{verdict.name}: {verdict.verdict}", columns, rows)


def _value(piece: Evidence) -> str:
    """What was measured, in words with its unit."""
    if isinstance(piece.measured, (int, float)) and not isinstance(piece.measured, bool):
        forms = {"s": seconds, "b/s": rate}
        told = forms.get(piece.unit, count)(piece.measured)
        return str(told) if piece.unit in forms else f"{told} {piece.unit}".rstrip()
    return NOTHING if piece.measured is None else str(piece.measured)


def _points(explanation: Explanation) -> Table:
    columns = (
        Column("capture", "name", is_number=False, essential=True),
        Column("packets", "packets", essential=True),
        Column("lasts", "lasts", essential=True),
        Column("flows", "flows", essential=True),
        Column("at its flows'", "position", is_number=False),
        Column("what is wrong with it", "damage", is_number=False, essential=True),
    )
    by_point: dict[str, list[FlowStory]] = defaultdict(list)
    for flow in explanation.flows:
        by_point[flow.point].append(flow)
    largest = sorted(explanation.points, key=lambda point: -point.packets)
    rows = [_point(point, by_point[point.name]) for point in largest[:_MOST_ROWS]]
    return Table(_of(largest, "captures, the largest first"), columns, rows)


def _point(point: Point, flows: Sequence[FlowStory]) -> dict[str, Any]:
    positions = Counter(flow.position for flow in flows)
    return {
        "name": point.name,
        "packets": count(point.packets),
        "lasts": seconds((point.last_ns - point.first_ns) / 1e9),
        "flows": count(len(flows)),
        "position": ", ".join(f"{where} ({often})" for where, often in positions.most_common()),
        "damage": "; ".join(damage_words(point.damage)) or "nothing",
    }


def _of(items: Sequence[Any], noun: str) -> str:
    """A table's title, which says when not all are shown."""
    return noun if len(items) <= _MOST_ROWS else f"{noun} ({_MOST_ROWS} of {len(items):,})"


def _flows(explanation: Explanation) -> Table | None:
    """The flows that stood still longest, or sent most again."""
    flows = sorted(explanation.once, key=lambda flow: (-lost_s(flow), -flow.resent, -flow.payload_bytes))
    columns = (
        Column("flow", "name", is_number=False, essential=True),
        Column("seen at", "point", is_number=False),
        Column("delivered", "goodput", essential=True),
        Column("round trip", "rtt"),
        Column("sent again", "resent", essential=True),
        Column("stood still", "stalled", essential=True),
        Column("most of it", "cause", is_number=False, essential=True),
    )
    rows = [_flow(flow) for flow in flows[:_MOST_ROWS]]
    return Table(_of(flows, "flows, the worst first"), columns, rows) if rows else None


def _flow(flow: FlowStory) -> dict[str, Any]:
    by_cause: dict[str, float] = defaultdict(float)
    for stall in lost_stalls(flow):
        by_cause[stall.cause] += stall.seconds
    return {
        "name": flow.name,
        "point": flow.point,
        "goodput": rate(flow.goodput_bps),
        "rtt": seconds(None if flow.rtt_median_ns is None else flow.rtt_median_ns / 1e9),
        "resent": count(flow.resent),
        "stalled": seconds(sum(by_cause.values())) if by_cause else NOTHING,
        "cause": max(by_cause, key=lambda cause: by_cause[cause]) if by_cause else NOTHING,
    }


def _stalls(explanation: Explanation) -> Table | None:
    """Stalls by cause, those that took the most time first."""
    columns = (
        Column("cause of stalls", "cause", is_number=False, essential=True),
        Column("stalls", "stalls", essential=True),
        Column("flows", "flows"),
        Column("in all", "total", essential=True),
        Column("longest", "longest", essential=True),
        Column("how sure", "sure", is_number=False, essential=True),
    )
    by_cause: dict[str, list[Any]] = defaultdict(list)
    for stall in explanation.stalls:
        by_cause[stall.cause].append(stall)
    rows = [
        {
            "cause": cause,
            "stalls": count(len(found)),
            "flows": count(len({stall.flow for stall in found})),
            "total": seconds(sum(stall.seconds for stall in found)),
            "longest": seconds(max(stall.seconds for stall in found)),
            "sure": _how_sure(stall.confidence for stall in found),
        }
        for cause, found in sorted(by_cause.items(), key=lambda item: -sum(stall.seconds for stall in item[1]))
    ]
    return Table("stalls by cause", columns, rows) if rows else None


def _how_sure(told: Iterable[str]) -> str:
    """One word where all are alike, else each with its number, the surest first."""
    often = Counter(told)
    ordered = sorted(often, key=lambda each: -SURENESS.index(each))
    return ordered[0] if len(ordered) == 1 else ", ".join(f"{often[each]:,} {each}" for each in ordered)


def _repeats(explanation: Explanation) -> Table | None:
    """Packets sent again by kind."""
    columns = (
        Column("sent again", "kind", is_number=False, essential=True),
        Column("packets", "packets", essential=True),
        Column("flows", "flows", essential=True),
    )
    flows = explanation.once
    packets = sum((Counter(flow.kinds) for flow in flows), Counter())
    rows = [
        {"kind": kind, "packets": count(number), "flows": count(sum(kind in flow.kinds for flow in flows))}
        for kind, number in packets.most_common()
    ]
    spurious = [flow.spurious for flow in flows if flow.spurious]
    rows += (
        [{"kind": "needless (of these)", "packets": count(sum(spurious)), "flows": count(len(spurious))}]
        if spurious
        else []
    )
    return Table("sent again, by kind", columns, rows) if rows else None


def _hops(explanation: Explanation) -> Table | None:
    """What was lost between points, over all flows, and how long the way took; the ways to one point in one row."""
    columns = (
        Column("from", "first", is_number=False, essential=True),
        Column("to", "second", is_number=False, essential=True),
        Column("at both", "paired", essential=True),
        Column("lost", "lost", essential=True),
        Column("least", "least"),
        Column("median", "median", essential=True),
        Column("longest", "longest", essential=True),
        Column("clocks", "clocks", is_number=False, essential=True),
    )
    by_end: dict[str, list[Hop]] = defaultdict(list)
    for hop in explanation.hops:
        by_end[hop.second].append(hop)
    ordered = sorted(by_end.values(), key=lambda found: -sum(len(hop.lost_ns) for hop in found))
    rows = [_hop(found) for found in ordered[:_MOST_ROWS]]
    return Table(_of(ordered, "packets between captures, and their delay one way"), columns, rows) if rows else None


def _hop(found: Sequence[Hop]) -> dict[str, Any]:
    firsts = list(dict.fromkeys(hop.first for hop in found))
    agree = all(hop.same_clock for hop in found)
    medians = sorted(hop.delay_median_ns for hop in found if hop.delay_median_ns is not None)
    least = min((hop.delay_min_ns for hop in found if hop.delay_min_ns is not None), default=None)
    longest = max((hop.delay_max_ns for hop in found if hop.delay_max_ns is not None), default=None)
    told = {"least": least, "median": medians[len(medians) // 2] if medians else None, "longest": longest}
    return {
        "first": firsts[0] if len(firsts) == 1 else f"{firsts[0]} and {counted(len(firsts) - 1, 'other')}",
        "second": found[0].second,
        "paired": count(sum(hop.paired for hop in found)),
        "lost": count(sum(len(hop.lost_ns) for hop in found)),
        "clocks": "agree" if agree else "differ",
        **{name: seconds(value / 1e9) if agree and value is not None else NOTHING for name, value in told.items()},
    }


def _pauses(explanation: Explanation) -> Table | None:
    """Pause frames by who sent them, the longest in all first."""
    columns = (
        Column("paused by", "source", is_number=False, essential=True),
        Column("seen at", "point", is_number=False, essential=True),
        Column("class", "priority"),
        Column("pauses", "pauses", essential=True),
        Column("in all", "total", essential=True),
        Column("longest", "longest", essential=True),
    )
    ordered = sorted(explanation.pauses, key=lambda story: -story.total_ns)
    rows = [_pause(story) for story in ordered[:_MOST_ROWS]]
    return Table(_of(ordered, "pauses"), columns, rows) if rows else None


def _pause(story: PauseStory) -> dict[str, Any]:
    return {
        "source": story.source,
        "point": story.point,
        "priority": "all" if story.priority is None else str(story.priority),
        "pauses": count(story.pauses),
        "total": seconds(story.total_ns / 1e9),
        "longest": seconds(story.longest_ns / 1e9),
    }


def _notes(explanation: Explanation) -> list[str]:
    """What was taken as known, what was not told, and why."""
    facts = explanation.facts
    told = [str(facts["known"])] if facts.get("known") else []
    told += _assumed(facts.get("recovery", {}))
    told += [_untold(name, counts) for name, counts in facts.get("conversations", {}).items() if counts["untold"]]
    told += [
        f"{name}: {counted(number, 'UDP conversation')} counted, not explained"
        for name, number in facts.get("udp_conversations", {}).items()
        if number
    ]
    told += [_clocks(each) for each in facts.get("clocks", ())]
    often = Counter(note for flow in explanation.once for note in flow.notes)
    told += [f"{counted(number, 'flow')}: {note}" for note, number in often.most_common(_MOST_ROWS)]
    told += facts.get("notes", ())
    return ["", "Notes"] + [f"- {each}" for each in told] if told else []


def _assumed(recovery: dict[str, dict[str, Any]]) -> list[str]:
    """What senders' loss recovery was taken to be, where nothing tells it for certain."""
    inferred = Counter(
        (found["rto_min_ns"], found["because"]) for found in recovery.values() if not found["is_certain"]
    )
    return [f"RTOmin is taken to be {seconds(rto_min_ns / 1e9)}: {because}" for rto_min_ns, because in inferred]


def _untold(name: str, counts: dict[str, int]) -> str:
    told = counts["with_data"] - counts["untold"]
    return (
        f"{name}: of {counts['with_data']:,} conversations with data the {told:,} with the most of it are told; "
        f"the others carry {counts['untold_bytes']:,} bytes"
    )


def _clocks(found: dict[str, Any]) -> str:
    within = "" if found["uncertain_ns"] is None else f", to within {seconds(found['uncertain_ns'] / 1e9)}"
    ahead = "ahead of" if found["offset_ns"] >= 0 else "behind"
    offset = seconds(abs(found["offset_ns"]) / 1e9)
    return f"the clock of {found['second']} is {ahead} that of {found['first']} by about {offset}{within}"
