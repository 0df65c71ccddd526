"""The tables of an explanation: everything found in captures, one row for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.explain.lost_time import lost_s, lost_stalls
from analysis.explain.model import Block, Explanation, FlowStory, Hop, Point
from analysis.tables.layout import FLAG, FLOAT, INT, TEXT, TIME, TIME_OR_NONE, WHOLE, Layout, Row, frame, frame_of_rows

if TYPE_CHECKING:
    from pandas import DataFrame

_POINTS: Layout = {
    **{"point": TEXT, "file": TEXT, "packets": INT, "tcp": INT, "roce": INT, "udp": INT, "pause": INT, "other": INT},
    **{"wire_bytes": INT, "first_ns": TIME, "last_ns": TIME, "truncated": FLAG, "foreign_link": INT},
    **{"cut_headers": INT, "empty": INT, "backwards": INT, "garbage_bytes": INT},
}
_NAMED: Layout = {"flow": TEXT, "point": TEXT}
_FLOWS: Layout = {
    **_NAMED,
    **{"source": TEXT, "destination": TEXT, "transport": TEXT, "position": TEXT, "position_confidence": TEXT},
    **{"both_ways": FLAG, "handshake": FLAG, "begin_ns": TIME, "end_ns": TIME, "seconds": FLOAT, "packets": INT},
    **{"wire_bytes": INT, "payload_bytes": INT, "delivered_bytes": INT, "goodput_bps": FLOAT},
    **{"rtt_min_ns": WHOLE, "rtt_median_ns": WHOLE, "rtt_p99_ns": WHOLE, "resent": INT, "spurious": INT},
    **{"upstream_losses": INT, "gaps": INT, "duplicate_acks": INT, "zero_windows": INT, "zero_window_ns": INT},
    **{"ect": INT, "ce": INT, "ece": INT, "cwr": INT, "cnps": INT, "min_rto_ns": WHOLE, "stalls": INT},
    **{"stalled_s": FLOAT, "notes": TEXT},
}
_KINDS: Layout = {**_NAMED, "kind": TEXT, "packets": INT}
_SERIES_COUNTS = ("sent_bytes", "delivered_bytes", "in_flight_bytes", "resent", "marked", "ece")
_SERIES: Layout = {
    **_NAMED,
    **{"time_ns": TIME, "bin_ns": INT, **dict.fromkeys(_SERIES_COUNTS, INT), "rtt_ns": FLOAT},
}
_BLOCKS: Layout = {
    **_NAMED,
    **{"block": INT, "asked_ns": TIME_OR_NONE, "begin_ns": TIME, "end_ns": TIME_OR_NONE, "seconds": FLOAT},
    **{"start_byte": INT, "end_byte": INT},
}
_STALLS: Layout = {
    **_NAMED,
    **{"start_ns": TIME, "end_ns": TIME, "seconds": FLOAT, "cause": TEXT, "confidence": TEXT, "reason": TEXT},
    **{"first_packet": INT, "last_packet": INT},
}
_REPEATS: Layout = {
    **_NAMED,
    **{"number": INT, "time_ns": TIME, "start_byte": INT, "end_byte": INT, "kind": TEXT, "spurious": FLAG},
}
_HOP: Layout = {"flow": TEXT, "first": TEXT, "second": TEXT}
_HOPS: Layout = {
    **_HOP,
    **{"paired": INT, "delay_min_ns": WHOLE, "delay_median_ns": WHOLE, "delay_max_ns": WHOLE, "lost": INT},
    **{"unpaired": INT, "same_clock": FLAG},
}
_LOSSES: Layout = {**_HOP, "number": INT, "time_ns": TIME}
_DELAYS: Layout = {**_HOP, "sent_ns": TIME, "delay_ns": INT}
_PAUSES: Layout = {
    **{"source": TEXT, "point": TEXT, "priority": WHOLE, "pauses": INT, "resumes": INT, "total_ns": INT},
    "longest_ns": INT,
}
_PAUSE_SPANS: Layout = {"source": TEXT, "point": TEXT, "priority": WHOLE, "start_ns": TIME, "end_ns": TIME}
_FINDINGS: Layout = {"text": TEXT, "confidence": TEXT, "because": TEXT}
_VERDICTS: Layout = {"question": TEXT, "verdict": TEXT, "good": FLAG}
_EVIDENCE: Layout = {
    **{"question": TEXT, "name": TEXT, "holds": FLAG, "applies": FLAG, "configured": TEXT, "modelled": TEXT},
    **{"measured": TEXT, "unit": TEXT, "tolerance": TEXT, "source": TEXT},
}


def tables_of(explanation: Explanation) -> dict[str, DataFrame]:
    """All that was found, by name; seconds count from the earliest packet of all captures."""
    origin_ns = min((point.first_ns for point in explanation.points if point.packets), default=None)
    flows = explanation.flows
    told: dict[str, tuple[Layout, list[Row]]] = {
        "points": (_POINTS, [_point(each) for each in explanation.points]),
        "flows": (_FLOWS, [_flow(flow) for flow in flows]),
        "resent_kinds": (_KINDS, [row for flow in flows for row in _kinds(flow)]),
        "blocks": (_BLOCKS, [{**_name(flow), **_block(block)} for flow in flows for block in flow.blocks]),
        "stalls": (_STALLS, [row for flow in flows for row in _stalls(flow)]),
        "hops": (_HOPS, [{**vars(hop), "lost": len(hop.lost_ns)} for hop in explanation.hops]),
        "pauses": (_PAUSES, [vars(story) for story in explanation.pauses]),
        "pause_spans": (_PAUSE_SPANS, list(_pause_spans(explanation))),
        "findings": (_FINDINGS, [vars(finding) for finding in explanation.findings]),
        "verdicts": (_VERDICTS, [{**vars(each), "question": each.name} for each in explanation.verdicts]),
        "evidence": (_EVIDENCE, list(_evidence(explanation))),
    }
    return {
        **{name: frame_of_rows(layout, rows, origin_ns) for name, (layout, rows) in told.items()},
        "series": _long(_SERIES, [_series(flow) for flow in flows if flow.series is not None], origin_ns),
        "repeats": _long(_REPEATS, [_repeats(flow) for flow in flows if flow.resent], origin_ns),
        "losses": _long(_LOSSES, [_losses(hop) for hop in explanation.hops if len(hop.lost_ns)], origin_ns),
        "delays": _long(_DELAYS, [_delays(hop) for hop in explanation.hops if len(hop.sent_ns)], origin_ns),
    }


def _long(layout: Layout, parts: list[Mapping[str, Any]], origin_ns: int | None) -> DataFrame:
    """Columns of several owners one below the other; a value that is one for all of an owner's rows is repeated."""
    columns: dict[str, Any] = {name: [] for name in layout}
    for part in parts:
        length = max(len(part[name]) for name in layout if isinstance(part[name], np.ndarray))
        for name in layout:
            values = part[name]
            columns[name].append(values if isinstance(values, np.ndarray) else np.full(length, values, object))
    return frame(layout, {name: np.concatenate(found) if found else [] for name, found in columns.items()}, origin_ns)


def _point(point: Point) -> Row:
    return {**asdict(point), **asdict(point.damage), "point": point.name}


def _name(flow: FlowStory) -> Row:
    return {"flow": flow.name, "point": flow.point}


def _flow(flow: FlowStory) -> Row:
    return {
        **vars(flow),
        **_name(flow),
        **{"seconds": flow.seconds, "goodput_bps": flow.goodput_bps, "resent": flow.resent},
        **{"stalls": len(lost_stalls(flow)), "stalled_s": lost_s(flow)},
        "notes": "\n".join(flow.notes),
    }


def _kinds(flow: FlowStory) -> Iterator[Row]:
    yield from ({**_name(flow), "kind": kind, "packets": packets} for kind, packets in flow.kinds.items())


def _block(block: Block) -> Row:
    return {
        **{"block": block.number, "asked_ns": block.asked_ns, "begin_ns": block.begin_ns, "end_ns": block.end_ns},
        **{"seconds": block.seconds, "start_byte": block.start, "end_byte": block.end},
    }


def _stalls(flow: FlowStory) -> Iterator[Row]:
    for stall in flow.stalls:
        told = {"seconds": stall.seconds, "first_packet": stall.first, "last_packet": stall.last}
        yield {**asdict(stall), **_name(flow), **told}


def _series(flow: FlowStory) -> Row:
    series = flow.series
    assert series is not None
    time_ns = series.begin_ns + series.bin_ns * np.arange(len(series.sent_bytes), dtype=np.int64)
    return {**vars(series), **_name(flow), "time_ns": time_ns}


def _repeats(flow: FlowStory) -> Row:
    found = flow.repeats
    positions = {"start_byte": found.start, "end_byte": found.end}
    return {**vars(found), **_name(flow), **positions, "spurious": found.spurious > 0}


def _losses(hop: Hop) -> Row:
    return {**vars(hop), "number": hop.lost_number, "time_ns": hop.lost_ns}


def _delays(hop: Hop) -> Row:
    return {**vars(hop), "sent_ns": hop.sent_ns, "delay_ns": hop.delay_ns}


def _pause_spans(explanation: Explanation) -> Iterator[Row]:
    for story in explanation.pauses:
        for start_ns, end_ns in story.spans:
            yield {**vars(story), "start_ns": start_ns, "end_ns": end_ns}


def _evidence(explanation: Explanation) -> Iterator[Row]:
    """Every piece; its values are numbers or words, so that they are text here."""
    for verdict in explanation.verdicts:
        for piece in verdict.evidence:
            values = {name: getattr(piece, name) for name in ("configured", "modelled", "measured")}
            words = {name: None if value is None else str(value) for name, value in values.items()}
            yield {**vars(piece), **words, "question": verdict.name}
