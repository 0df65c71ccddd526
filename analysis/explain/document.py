"""An explanation as one JSON document with stable keys (docs/analyze.md tells each)."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from analysis.explain.model import Explanation, FlowStory, Hop, Point
from analysis.verdicts import Verdict

FORMAT = 1
_APART = ("series", "repeats", "blocks", "stalls")  # of a flow: the series are in the tables, the others written below


def document(explanation: Explanation) -> dict[str, Any]:
    """The document: numbers, texts, lists and mappings of them alone. Without the flows' series and the delay of each
    packet, which are in the tables."""
    return {
        "format": FORMAT,
        "findings": [asdict(each) for each in explanation.findings],
        "verdicts": [_verdict(each) for each in explanation.verdicts],
        "lost_share": explanation.lost_share,
        "onset_ns": explanation.onset_ns,
        "fill_s": explanation.fill_s,
        "points": [_point(each) for each in explanation.points],
        "flows": [_flow(each) for each in explanation.flows],
        "hops": [_hop(each) for each in explanation.hops],
        "pauses": [asdict(each) for each in explanation.pauses],
        "facts": facts_of(explanation),
    }


def facts_of(explanation: Explanation) -> dict[str, Any]:
    """The facts, and who paused whom as the last of them."""
    return {**explanation.facts, "pause_tree": asdict(explanation.pause_tree)}


def _point(point: Point) -> dict[str, Any]:
    return asdict(point)


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return asdict(verdict)


def _flow(flow: FlowStory) -> dict[str, Any]:
    told = {each.name: getattr(flow, each.name) for each in fields(FlowStory) if each.name not in _APART}
    return {
        **told,
        "kinds": dict(flow.kinds),
        "notes": list(flow.notes),
        "seconds": flow.seconds,
        "goodput_bps": flow.goodput_bps,
        "blocks": [{**asdict(each), "seconds": each.seconds} for each in flow.blocks],
        "stalls": [{**asdict(each), "seconds": each.seconds} for each in flow.stalls],
        "repeats": {each.name: getattr(flow.repeats, each.name).tolist() for each in fields(type(flow.repeats))},
    }


def _hop(hop: Hop) -> dict[str, Any]:
    apart = ("sent_ns", "delay_ns")
    told = {each.name: getattr(hop, each.name) for each in fields(Hop) if each.name not in apart}
    return {**told, "lost_number": hop.lost_number.tolist(), "lost_ns": hop.lost_ns.tolist()}
