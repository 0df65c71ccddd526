"""Tables of what switches and hosts noted in a run: queues, ports, counters, pauses, DCQCN, links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.run import Run
from analysis.tables.layout import FLAG, FLOAT, INT, TEXT, TIME, WHOLE, Layout, Row, frame, frame_of_rows
from analysis.transport.spans import Span
from analysis.verdicts import port_drops

if TYPE_CHECKING:
    from pandas import DataFrame

_QUEUE: Layout = {
    **{"port": TEXT, "time_ns": TIME, "queue_bytes": INT, "queue_packets": INT, "drops": INT, "marks": INT},
}
_PORTS: Layout = {
    **{"port": TEXT, "place": TEXT, "peer": TEXT, "peer_interface": TEXT, "tier": WHOLE, "peer_tier": WHOLE},
    **{"rate_bps": WHOLE, "hot": FLAG, "sent_packets": WHOLE, "sent_bytes": WHOLE, "drops": INT, "marks": INT},
    **{"watchdog_discards": INT, "captured": FLAG, "capture_lost_packets": WHOLE},
}
_QDISC_COUNTS = (
    *("bytes", "packets", "drops", "overlimits", "backlog_packets", "backlog_bytes", "early", "marked", "held_ns"),
    *("headroom_drops", "discards", "xoffs", "ingress_bytes", "headroom_bytes", "max_ingress_bytes"),
    "max_headroom_bytes",
)
_QDISCS: Layout = {
    **{"port": TEXT, "kind": TEXT, "handle": TEXT, "parent": TEXT},
    **dict.fromkeys(_QDISC_COUNTS, WHOLE),
}
_OPTIONS: Layout = {"port": TEXT, "kind": TEXT, "handle": TEXT, "option": TEXT, "value": TEXT}
_COUNTERS: Layout = {"host": TEXT, "counter": TEXT, "count": INT}
_PAUSES: Layout = {"port": TEXT, "time_ns": TIME, "event": TEXT, "value": WHOLE}
_PAUSE_SPANS: Layout = {"port": TEXT, "what": TEXT, "start_ns": TIME, "end_ns": TIME, "seconds": FLOAT}
_DCQCN: Layout = {
    **{"queue_pair": TEXT, "time_ns": TIME, "event": TEXT, "rate_bps": FLOAT, "alpha": FLOAT, "target_bps": FLOAT},
}
_LINKS: Layout = {"a": TEXT, "a_port": INT, "b": TEXT, "b_port": INT, "rate_bps": INT, "delay_ns": INT}


def _queue(run: Run) -> DataFrame:
    names = ("time_ns", "queue_bytes", "queue_packets", "drops", "marks")
    series = [run.queue(port) for port in run.sampled_ports]
    found = [each for each in series if each is not None]
    columns: dict[str, Any] = {
        name: np.concatenate([np.zeros(0, np.int64), *(getattr(each, name) for each in found)]) for name in names
    }
    columns["port"] = np.repeat(np.array([each.port for each in found], object), [len(each) for each in found])
    return frame(_QUEUE, columns, run.origin_ns)


def _stacks(run: Run) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The name, the place and the queues of each switch port and NIC."""
    for name, port in run.measured.get("ports", {}).items():
        yield name, "switch", port
    for host, nic in run.measured.get("nics", {}).items():
        yield f"{host}-eth0", "nic", nic


def _ports(run: Run) -> DataFrame:
    lost = run.measured.get("capture", {})
    rows = [_port(name, place, stack, lost.get(name)) for name, place, stack in _stacks(run)]
    return frame_of_rows(_PORTS, rows)


def _port(name: str, place: str, stack: Mapping[str, Any], lost: int | None) -> Row:
    queues = stack.get("qdiscs", [])
    root: Mapping[str, Any] = next((queue for queue in queues if queue.get("parent") == "root"), {})
    return {
        **{key: stack.get(key) for key in ("peer", "peer_interface", "tier", "peer_tier", "rate_bps", "hot")},
        **{"port": name, "place": place, "sent_packets": root.get("packets"), "sent_bytes": root.get("bytes")},
        "drops": port_drops({name: stack}).get(name, 0),
        "marks": sum(queue.get("marked", 0) for queue in queues),
        "watchdog_discards": sum(queue.get("discards", 0) for queue in queues),
        **{"captured": lost is not None, "capture_lost_packets": lost},
    }


def _qdiscs(run: Run) -> DataFrame:
    rows = [{"port": name, **queue} for name, _, stack in _stacks(run) for queue in stack.get("qdiscs", [])]
    return frame_of_rows(_QDISCS, rows)


def _options(run: Run) -> DataFrame:
    """The settings of every queue as read back: one row each, as every kind has its own."""
    rows = [
        {"port": name, **{key: queue.get(key) for key in ("kind", "handle")}, "option": option, "value": str(value)}
        for name, _, stack in _stacks(run)
        for queue in stack.get("qdiscs", [])
        for option, value in queue.get("options", {}).items()
    ]
    return frame_of_rows(_OPTIONS, rows)


def _counters(key: str) -> Callable[[Run], DataFrame]:
    """The kernel's counters of each host; one that did not move is not there."""

    def make(run: Run) -> DataFrame:
        rows = [
            {"host": host, "counter": counter, "count": count}
            for host, counters in run.measured.get(key, {}).items()
            for counter, count in counters.items()
        ]
        return frame_of_rows(_COUNTERS, rows)

    return make


def _pauses(run: Run) -> DataFrame:
    log = run.pauses
    columns = {name: getattr(log, name) if log else [] for name in _PAUSES}
    return frame(_PAUSES, columns, run.origin_ns)


def _pause_spans(run: Run) -> DataFrame:
    """When each port was `held` by its neighbour's pauses, and when it was itself `pausing` that one."""
    log = run.pauses
    told: dict[str, Mapping[str, list[Span]]] = {"held": log.held, "pausing": log.pausing} if log else {}
    rows = [
        {"port": port, "what": what, "start_ns": start_ns, "end_ns": end_ns, "seconds": (end_ns - start_ns) / 1e9}
        for what, spans in told.items()
        for port, found in spans.items()
        for start_ns, end_ns in found
    ]
    return frame_of_rows(_PAUSE_SPANS, rows, run.origin_ns)


def _dcqcn(run: Run) -> DataFrame:
    log = run.dcqcn
    return frame(_DCQCN, {name: getattr(log, name) if log else [] for name in _DCQCN}, run.origin_ns)


def _links(run: Run) -> DataFrame:
    return frame_of_rows(_LINKS, (run.fabric or {}).get("wires", []))


PORTS: dict[str, Callable[[Run], DataFrame]] = {
    **{"queue": _queue, "ports": _ports, "qdiscs": _qdiscs, "qdisc_options": _options, "links": _links},
    **{"tcp_counters": _counters("tcp"), "roce_counters": _counters("roce"), "pauses": _pauses},
    **{"pause_spans": _pause_spans, "dcqcn": _dcqcn},
}
