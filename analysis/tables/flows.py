"""Tables of what a run's flows did: rounds, flows, what was sent again, stalls, waits; its spec, what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.run import Run
from analysis.tables.layout import FLAG, FLOAT, INT, TEXT, TIME, TIME_OR_NONE, WHOLE, Layout, Row, frame_of_rows
from analysis.transport.events import RTO
from analysis.transport.roce import QP_TIMEOUT
from analysis.transport.sent import Sent
from analysis.transport.stalls import MEANINGS, waits

if TYPE_CHECKING:
    from pandas import DataFrame

_ROUNDS: Layout = {
    **{"round": INT, "start_ns": TIME, "end_ns": TIME, "seconds": FLOAT, "payload_bytes": INT, "goodput_bps": FLOAT},
}
_FLOW: Layout = {
    **{"flow": TEXT, "sender": TEXT, "receiver": TEXT, "source": TEXT, "destination": TEXT, "transport": TEXT},
    **{"begin_ns": TIME_OR_NONE, "end_ns": TIME_OR_NONE, "payload_bytes": WHOLE, "died": TEXT},
}
_CAPTURED: Layout = {
    **{"captured": FLAG, "packets": WHOLE, "wire_bytes": WHOLE, "captured_payload_bytes": WHOLE, "resent": WHOLE},
    **{"timeouts": WHOLE, "stalls": WHOLE, "stalled_s": FLOAT, "rtt_min_ns": WHOLE, "rtt_median_ns": FLOAT},
}
# What the kernel tells of a connection (TCP_INFO), without the prefix `tcp_` that a column has.
_TCP_INFO = (
    *("rto_us", "rtt_us", "rttvar_us", "min_rtt_us", "snd_mss", "snd_cwnd", "reordering", "lost", "total_retrans"),
    *("segs_out", "segs_in", "data_segs_out", "data_segs_in", "delivered", "delivered_ce", "bytes_sent"),
    *("bytes_acked", "bytes_retrans", "busy_us", "rwnd_limited_us", "sndbuf_limited_us"),
)
_ROCE_COUNTS = ("mtu_bytes", "window_bytes", "sender_psn", "receiver_psn")
_FLOWS: Layout = {
    **_FLOW,
    **_CAPTURED,
    **{f"tcp_{name}": WHOLE for name in _TCP_INFO},
    "roce_verb": TEXT,
    **{f"roce_{name}": WHOLE for name in _ROCE_COUNTS},
}
_RETRANSMISSIONS: Layout = {
    **{"flow": TEXT, "time_ns": TIME, "kind": TEXT, "spurious": FLAG, "start_byte": INT, "end_byte": INT},
    **{"payload_bytes": INT, "silent_ns": WHOLE, "age_ns": WHOLE, "earlier": WHOLE, "duplicates": WHOLE},
    **{"sacked": FLAG, "recovered_to_here": FLAG},
}
_STALLS: Layout = {
    **{"flow": TEXT, "start_ns": TIME, "end_ns": TIME, "seconds": FLOAT, "cause": TEXT, "meaning": TEXT},
}
_WAITS: Layout = {"flow": TEXT, "start_ns": TIME, "end_ns": TIME, "seconds": FLOAT}
_SPEC: Layout = {"key": TEXT, "value": TEXT}
_MISSING: Layout = {"reason": TEXT}


def _rounds(run: Run) -> DataFrame:
    rows = [
        {
            **{"round": number, "start_ns": each.start_ns, "end_ns": each.end_ns, "seconds": each.seconds},
            "payload_bytes": each.payload_bytes,
            "goodput_bps": each.goodput_bps if each.end_ns > each.start_ns else None,
        }
        for number, each in enumerate(run.rounds)
    ]
    return frame_of_rows(_ROUNDS, rows, run.origin_ns)


def _flows(run: Run) -> DataFrame:
    """One row for each flow of measured.json: what it was to do, what its sender's capture shows of it, and what the
    kernel told at its end."""
    entries = run.entries("flows", ("flow",)) if "flows" in run.measured else []
    seen = {flow.name: _seen(run, flow) for flow in run.sent_flows}
    moved = _moved(run)
    rows = [
        {
            **{name: entry.get(name) for name in _FLOW},
            "transport": run.parameters.transport,
            **moved.get(entry["flow"], _moved_alone(entry)),
            **seen.get(entry["flow"], {"captured": False}),
            **{f"tcp_{name}": count for name, count in entry.get("tcp_info", {}).items()},
            **{f"roce_{name}": value for name, value in entry.get("roce", {}).items()},
        }
        for entry in entries
    ]
    return frame_of_rows(_FLOWS, rows, run.origin_ns)


def _moved(run: Run) -> dict[str, Row]:
    """From its first block to its last and their payload, of each flow that sends in rounds."""
    found: dict[str, Row] = {}
    keys = ("flow", "start_ns", "end_ns", "bytes")
    for entry in run.entries("transfers", keys, keys[1:]) if "transfers" in run.measured else []:
        row = found.setdefault(entry["flow"], {"begin_ns": entry["start_ns"], "end_ns": 0, "payload_bytes": 0})
        row["begin_ns"] = min(row["begin_ns"], entry["start_ns"])
        row["end_ns"] = max(row["end_ns"], entry["end_ns"])
        row["payload_bytes"] += entry["bytes"]
    return found


def _moved_alone(entry: Mapping[str, Any]) -> Row:
    """The same of a flow that tells it by itself: a long one."""
    times = {name: entry.get(name) for name in ("begin_ns", "end_ns")}
    return {**times, "payload_bytes": entry.get("delivered_bytes")}


def _seen(run: Run, flow: Sent) -> Row:
    """What its sender's capture shows of a flow in the rounds; a queue pair's first message comes before them."""
    kinds = [event.kind for event in _resent(run).get(flow.name, ())]
    stalled_s = [stall.seconds for stall in run.stalls if stall.flow == flow.name]
    inside = _inside(run, flow)
    round_trips_ns = flow.rtt_ns()
    known = len(round_trips_ns) > 0
    return {
        **{"captured": True, "packets": int(inside.sum()), "wire_bytes": int(flow.send_wire_bytes[inside].sum())},
        "captured_payload_bytes": int(np.maximum(flow.send_end - flow.highest_before, 0)[inside].sum()),
        **{"resent": len(kinds), "timeouts": sum(kind in (RTO, QP_TIMEOUT) for kind in kinds)},
        **{"stalls": len(stalled_s), "stalled_s": sum(stalled_s)},
        "rtt_min_ns": int(round_trips_ns.min()) if known else None,
        "rtt_median_ns": float(np.median(round_trips_ns)) if known else None,
    }


def _inside(run: Run, flow: Sent) -> np.ndarray:
    """Which packets with data (n,) were sent in the rounds; all of a run without a finished one."""
    start_ns, end_ns = run.span_ns if run.rounds else (flow.send_ns.min(), flow.send_ns.max())
    return np.asarray((flow.send_ns >= start_ns) & (flow.send_ns <= end_ns))


def _resent(run: Run) -> Mapping[str, Sequence[Any]]:
    """What each flow sent again during the rounds; nothing of a run without a round."""
    return run.retransmissions if run.rounds else {}


def _retransmissions(run: Run) -> DataFrame:
    rows = [
        {
            **{name: getattr(event, name, None) for name in _RETRANSMISSIONS},
            **{"flow": flow, "start_byte": event.start, "end_byte": event.end},
            "payload_bytes": event.end - event.start,
        }
        for flow, events in _resent(run).items()
        for event in events
    ]
    return frame_of_rows(_RETRANSMISSIONS, sorted(rows, key=lambda row: row["time_ns"]), run.origin_ns)


def _stalls(run: Run) -> DataFrame:
    rows = [{**_span(run, each), "cause": each.cause, "meaning": MEANINGS.get(each.cause)} for each in run.stalls]
    return frame_of_rows(_STALLS, rows, run.origin_ns)


def _waits(run: Run) -> DataFrame:
    """Flows that had finished their block and waited at the barrier for the others."""
    found = waits(run.sent_flows, run.rounds) if run.rounds else []
    return frame_of_rows(_WAITS, [_span(run, each) for each in found], run.origin_ns)


def _span(run: Run, each: Any) -> Row:
    """A stall or a wait, which know seconds alone, with its times."""
    start_ns = run.rounds[0].start_ns + round(each.start_s * 1e9)
    end_ns = start_ns + round(each.seconds * 1e9)
    return {"flow": each.flow, "start_ns": start_ns, "end_ns": end_ns, "seconds": each.seconds}


def _spec(run: Run) -> DataFrame:
    return frame_of_rows(_SPEC, [{"key": key, "value": str(value)} for key, value in run.spec.items()])


def _missing(run: Run) -> DataFrame:
    """The evidence that the run lacks, so that nobody takes an empty table for a zero."""
    return frame_of_rows(_MISSING, [{"reason": reason} for reason in run.missing])


FLOWS: dict[str, Callable[[Run], DataFrame]] = {
    **{"flows": _flows, "rounds": _rounds, "retransmissions": _retransmissions, "stalls": _stalls, "waits": _waits},
    **{"spec": _spec, "missing": _missing},
}
