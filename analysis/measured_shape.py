"""What measured.json holds under which key, so that a damaged one is told by the key's name, whoever would read it.

A shape is a kind of value; a list with the shape of its entries; a mapping with the shapes of keys that it may have,
or, under ANY, of all its values; or Maybe, where null may stand for "not known". Keys that are not named may hold
anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

ANY = "*"
_OF = " of "
WHOLE, NUMBER, TEXT, FLAG = "a whole number", "a number", "a text", "true or false"
_KINDS: dict[str, tuple[type, ...]] = {WHOLE: (int,), NUMBER: (int, float), TEXT: (str,), FLAG: (bool,)}


class Maybe(NamedTuple):
    """A shape in whose place null may stand."""

    shape: Any


_COUNTS = {ANY: WHOLE}
_SENT = {ANY: _COUNTS}  # host -> "sent", "received"
_QDISC = {
    **dict.fromkeys(("kind", "handle", "parent"), TEXT),
    **dict.fromkeys(("drops", "marked", "early", "xoffs", "held_ns", "bytes", "packets", "discarded"), WHOLE),
    "options": {},
}
_STACKS = {ANY: {"peer": TEXT, "hot": FLAG, "qdiscs": [_QDISC], "rate_bps": WHOLE}}
_FLOW = {
    **dict.fromkeys(("flow", "sender", "receiver", "source", "destination"), TEXT),
    **dict.fromkeys(("begin_ns", "end_ns", "last_arrival_ns"), Maybe(WHOLE)),
    **dict.fromkeys(("sent_bytes", "delivered_bytes"), WHOLE),
    "tcp_info": _COUNTS,
    "roce": {"sender_psn": WHOLE, "receiver_psn": WHOLE},
    "died": Maybe(TEXT),
}
_CALL = {
    **dict.fromkeys(("size_bytes", "count", "iteration", "start_ns", "end_ns"), WHOLE),
    "rank_end_ns": [WHOLE],
    "wrong": Maybe(WHOLE),
    "warmup": FLAG,
}
_TURN = {**dict.fromkeys(("start_ns", "compute_ns", "compute_end_ns", "end_ns"), WHOLE), "late": FLAG}
_STEP = {
    **dict.fromkeys(("step", "start_ns", "end_ns"), WHOLE),
    **dict.fromkeys(("loss", "accuracy"), Maybe(NUMBER)),
    "wrong": Maybe(WHOLE),
    "ranks": [_TURN],
}
_FL_ROUND = {
    **dict.fromkeys(("broadcast_end_ns", "computed_ns", "trained_ns", "arrived_ns"), _COUNTS),
    **dict.fromkeys(("accuracy", "loss"), Maybe(NUMBER)),
    **dict.fromkeys(("bytes_up", "bytes_down", "start_ns"), WHOLE),
    "end_ns": Maybe(WHOLE),
    "dropped": [TEXT],
}
_RANK = {
    **dict.fromkeys(("status", "begin_ns", "end_ns"), Maybe(WHOLE)),
    "signal": Maybe(TEXT),
    "rank": WHOLE,
    "host": TEXT,
    "last_lines": [TEXT],
}
_TEST = {
    **dict.fromkeys(("begin_ns", "end_ns"), Maybe(WHOLE)),
    **dict.fromkeys(("sender", "receiver"), TEXT),
    "port": WHOLE,
    "ends": {ANY: {"status": Maybe(WHOLE), "signal": Maybe(TEXT), "last_lines": [TEXT]}},
}
_STREAM = {
    **dict.fromkeys(("duplicates", "reordered", "longest_gap_ns", "first_ns", "interval_ns", "sent"), WHOLE),
    "flow": TEXT,
    "lost": [WHOLE],
}
_CONTROLLER = {
    "alive": FLAG,
    "died_ns": Maybe(WHOLE),
    **dict.fromkeys(("discovered_links", "expected_links"), Maybe(WHOLE)),
    "wrong_links": Maybe([]),
}
_PARTIES = {"ranks": [TEXT], "helpers": [TEXT]}
_SHAPE = {
    "format": WHOLE,
    "complete": FLAG,
    "workload": TEXT,
    "virtual_s": Maybe(NUMBER),
    "rounds": [dict.fromkeys(("start_ns", "end_ns", "bytes"), WHOLE)],
    "controller": Maybe(_CONTROLLER),
    "flows": [_FLOW],
    "transfers": [{"flow": TEXT, "round": WHOLE, "start_ns": WHOLE, "end_ns": WHOLE, "bytes": WHOLE}],
    **dict.fromkeys(("ports", "nics"), _STACKS),
    **dict.fromkeys(("tcp", "nic_bytes"), _SENT),
    "roce": Maybe(_SENT),
    **dict.fromkeys(("capture", "traffic"), _COUNTS),
    "link_flows": _COUNTS,
    "pause_ports": [TEXT],
    "queue_pairs": [TEXT],
    "collective": _PARTIES,
    "calls": [_CALL],
    "sizes": [{"size_bytes": WHOLE, "calls": WHOLE, "nic_bytes": _SENT, "nvlink_bytes": _SENT}],
    "training": {**_PARTIES, "buckets": WHOLE, "bytes_per_step": [WHOLE]},
    "steps": [_STEP],
    "compression": {"ratio": Maybe(NUMBER)},
    "federated": {
        "root": TEXT,
        "edges": [TEXT],
        "clients": [TEXT],
        "parent": {ANY: TEXT},
        **dict.fromkeys(("update_bytes", "sent_bytes"), WHOLE),
    },
    "fl_rounds": [_FL_ROUND],
    "launch": {"command": [TEXT], "ended": Maybe(TEXT), "starter": TEXT},
    "ranks": [_RANK],
    "iperf3": {"version": Maybe(TEXT), "wrapper": TEXT, "begin_ns": Maybe(WHOLE), "ended": TEXT},
    "iperf3_tests": [_TEST],
    "streams": [_STREAM],
    "failures": [{"time_ns": WHOLE, "target": TEXT, "action": TEXT, "in_flight": {}}],
    "control_events": [{"time_ns": WHOLE, "event": TEXT}],
    "cpu": {ANY: _COUNTS},
    "aggregator": {},
    "port_packets": _COUNTS,
    "fidelity": {"cpus": WHOLE, "probe_share": NUMBER},
}


def trouble(measured: dict[str, Any]) -> str:
    """The first key whose value is of another kind than it must be, what is given and what is allowed; empty when there
    is none."""
    return next(_troubles(measured, _SHAPE, ""), "")


def _troubles(value: Any, shape: Any, where: str) -> Iterator[str]:
    if isinstance(shape, Maybe):
        if value is None:
            return
        shape = shape.shape
    if isinstance(shape, str):
        if not _is_of(value, shape):
            yield _told(where, value, shape)
    elif not isinstance(value, type(shape)):
        yield _told(where, value, "a list" if isinstance(shape, list) else "a mapping")
    elif isinstance(shape, list):
        for entry in value if shape else ():
            yield from _troubles(entry, shape[0], _entry(where))
    else:
        for name in value:
            if ANY in shape or name in shape:
                yield from _troubles(value[name], shape.get(name, shape.get(ANY)), _inside(where, name))


def _entry(where: str) -> str:
    return f"an entry of {where if _OF in where else repr(where)}"


def _inside(where: str, name: str) -> str:
    if _OF in where:
        return f"{name} of {where}"
    return f"{where}.{name}" if where else name


def _is_of(value: Any, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == FLAG or not isinstance(value, bool))


def _told(where: str, value: Any, allowed: str) -> str:
    shown = repr(value)
    return f"{where}: {shown if len(shown) <= 40 else type(value).__name__} is given; allowed: {allowed}"
