"""Tables of what only some workloads tell: blocks, collective calls, training steps, federated rounds, streams, ranks.

A mapping by host or a list inside of an entry of measured.json becomes a table of its own with a row for each, named
after both: `steps` and `step_ranks`, `fl_rounds` and `fl_clients`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from analysis.kinds.iperf3_told import sender_tests
from analysis.parquet import read_columns
from analysis.run import Run
from analysis.tables.layout import FLAG, FLOAT, INT, TEXT, TIME, TIME_OR_NONE, WHOLE, Layout, Row, frame, frame_of_rows

if TYPE_CHECKING:
    from pandas import DataFrame

_TRANSFERS: Layout = {
    **{"flow": TEXT, "round": INT, "start_ns": TIME, "end_ns": TIME, "seconds": FLOAT, "payload_bytes": INT},
}
_LINK_FLOWS: Layout = {"port": TEXT, "flows": INT}
_ARRIVALS: Layout = {"flow": TEXT, "time_ns": TIME, "payload_bytes": INT}
_CALLS: Layout = {
    **{"call": INT, "size_bytes": INT, "count": INT, "iteration": INT, "warmup": FLAG, "start_ns": TIME},
    **{"end_ns": TIME, "seconds": FLOAT, "wrong": WHOLE},
}
_CALL_RANKS: Layout = {"call": INT, "size_bytes": INT, "rank": INT, "host": TEXT, "end_ns": TIME, "seconds": FLOAT}
_SIZES: Layout = {"size_bytes": INT, "calls": INT}
_SIZE_LINKS: Layout = {"size_bytes": INT, "host": TEXT, "link": TEXT, "sent_bytes": INT, "received_bytes": INT}
_STEPS: Layout = {
    **{"step": INT, "start_ns": TIME, "end_ns": TIME, "seconds": FLOAT, "loss": FLOAT, "accuracy": FLOAT},
    "wrong": WHOLE,
}
_STEP_RANKS: Layout = {
    **{"step": INT, "rank": INT, "host": TEXT, "start_ns": TIME, "compute_ns": INT, "compute_end_ns": TIME},
    **{"end_ns": TIME, "late": FLAG},
}
_TRAFFIC: Layout = {"sender": TEXT, "receiver": TEXT, "payload_bytes": INT}
_HOST_BYTES: Layout = {"host": TEXT, "sent_bytes": INT, "received_bytes": INT}
_PROCESSORS: Layout = {"host": TEXT, "busy_ns": INT, "bytes": INT}
_FL_ROUNDS: Layout = {
    **{"round": INT, "start_ns": TIME, "end_ns": TIME_OR_NONE, "seconds": FLOAT, "loss": FLOAT, "accuracy": FLOAT},
    **{"bytes_up": WHOLE, "bytes_down": WHOLE, "dropped": INT},
}
_FL_CLIENTS: Layout = {
    **{"round": INT, "host": TEXT, "parent": TEXT, "broadcast_end_ns": TIME_OR_NONE, "computed_ns": WHOLE},
    **{"trained_ns": TIME_OR_NONE, "arrived_ns": TIME_OR_NONE, "dropped": FLAG},
}
_STREAMS: Layout = {
    **{"flow": TEXT, "sender": TEXT, "receiver": TEXT, "first_ns": TIME, "interval_ns": INT, "sent": INT},
    **{"lost": INT, "duplicates": INT, "reordered": INT, "longest_gap_ns": WHOLE},
}
_STREAM_LOSSES: Layout = {"flow": TEXT, "number": INT, "sent_ns": TIME}
_FAILURES: Layout = {"time_ns": TIME, "target": TEXT, "action": TEXT, "in_flight_packets": INT}
_IN_FLIGHT: Layout = {"time_ns": TIME, "target": TEXT, "port": TEXT, "packets": INT}
_EVENTS: Layout = {"time_ns": TIME_OR_NONE, "event": TEXT, "what": TEXT}
_RANKS: Layout = {
    **{"rank": INT, "host": TEXT, "begin_ns": TIME_OR_NONE, "end_ns": TIME_OR_NONE, "seconds": FLOAT},
    **{"status": WHOLE, "signal": TEXT, "last_lines": TEXT},
}
_TESTS: Layout = {
    **{"sender": TEXT, "receiver": TEXT, "port": INT, "begin_ns": TIME_OR_NONE, "end_ns": TIME_OR_NONE},
    **{"told_sent_bytes": WHOLE, "told_sent_bps": FLOAT, "told_received_bytes": WHOLE, "told_received_bps": FLOAT},
    **{"told_retransmits": WHOLE, "delivered_bytes": WHOLE, "delivered_bps": FLOAT, "retransmits": WHOLE},
    **{"silence_s": FLOAT, "timeouts": WHOLE, "failed": TEXT},
}
_INTERVALS: Layout = {"sender": TEXT, "role": TEXT, "interval": INT, "from_s": FLOAT, "to_s": FLOAT, "bps": FLOAT}
_PROBES: Layout = {"sender": TEXT, "receiver": TEXT, "switches": INT, "ttl": INT, "delay_ns": INT}
_PORT_PACKETS: Layout = {"port": TEXT, "packets": INT}
_CROSSINGS: Layout = {"port": TEXT, "time_ns": TIME, "above": FLAG}

Make = Callable[[Run], "DataFrame"]


def _transfers(run: Run) -> DataFrame:
    keys = ("flow", "round", "start_ns", "end_ns", "bytes")
    rows = [{**each, "payload_bytes": each["bytes"], **_seconds(each)} for each in run.entries("transfers", keys)]
    return frame_of_rows(_TRANSFERS, rows, run.origin_ns)


def _seconds(entry: Mapping[str, Any], start: str = "start_ns") -> Row:
    """How long an entry lasted; missing where it did not begin or end."""
    known = entry.get(start) is not None and entry.get("end_ns") is not None
    return {"seconds": (entry["end_ns"] - entry[start]) / 1e9 if known else None}


def _by_name(layout: Layout, key: str) -> Make:
    """A mapping of names to whole numbers."""
    name, count = layout
    return lambda run: frame_of_rows(layout, [{name: each, count: told} for each, told in run.measured[key].items()])


def _arrivals(run: Run) -> DataFrame:
    """Payload as receivers were told of it; nothing where the run has no such file."""
    path = run.path / "telemetry" / "arrivals.parquet"
    columns: Mapping[str, Any] = {"flow": [], "time_ns": [], "bytes": []}
    if path.is_file():
        columns = read_columns(path, ("flow",), ("time_ns", "bytes"), "arrivals")
    return frame(_ARRIVALS, {**columns, "payload_bytes": columns["bytes"]}, run.origin_ns)


def _calls(run: Run) -> DataFrame:
    entries = run.entries("calls", ("size_bytes", "start_ns", "end_ns"))
    rows = [{"call": number, **each, **_seconds(each)} for number, each in enumerate(entries)]
    return frame_of_rows(_CALLS, rows, run.origin_ns)


def _call_ranks(run: Run) -> DataFrame:
    """When each rank had its result."""
    rows = [
        {
            **{"call": call, "size_bytes": each["size_bytes"], "rank": rank, "host": host, "end_ns": end_ns},
            "seconds": (end_ns - each["start_ns"]) / 1e9,
        }
        for call, each in enumerate(run.entries("calls", ("size_bytes", "start_ns", "rank_end_ns")))
        for rank, (host, end_ns) in enumerate(zip(_members(run, "collective"), each["rank_end_ns"]))
    ]
    return frame_of_rows(_CALL_RANKS, rows, run.origin_ns)


def _members(run: Run, workload: str) -> list[str]:
    """The ranks' hosts in order."""
    return list(run.measured.get(workload, {}).get("ranks", ()))


def _sizes(run: Run) -> DataFrame:
    return frame_of_rows(_SIZES, run.entries("sizes", ("size_bytes", "calls")))


def _size_links(run: Run) -> DataFrame:
    """What every host's links carried during the timed calls of a size: its NIC's, and on a GPU pod NVLink."""
    rows = [
        {"size_bytes": each["size_bytes"], "link": link, **row}
        for each in run.entries("sizes", ("size_bytes",))
        for link in ("nic", "nvlink")
        for row in _host_rows(each.get(f"{link}_bytes", {}))
    ]
    return frame_of_rows(_SIZE_LINKS, rows)


def _host_rows(counted: Mapping[str, Mapping[str, int]]) -> list[Row]:
    return [
        {"host": host, "sent_bytes": each["sent"], "received_bytes": each["received"]} for host, each in counted.items()
    ]


def _steps(run: Run) -> DataFrame:
    rows = [{**each, **_seconds(each)} for each in run.entries("steps", ("step", "start_ns", "end_ns"))]
    return frame_of_rows(_STEPS, rows, run.origin_ns)


def _step_ranks(run: Run) -> DataFrame:
    hosts = _members(run, "training")
    rows = [
        {"step": each["step"], "rank": rank, "host": hosts[rank], **turn}
        for each in run.entries("steps", ("step", "ranks"))
        for rank, turn in enumerate(each["ranks"])
    ]
    return frame_of_rows(_STEP_RANKS, rows, run.origin_ns)


def _traffic(run: Run) -> DataFrame:
    pairs = [(*pair.split(">", 1), sent_bytes) for pair, sent_bytes in run.measured["traffic"].items()]
    return frame_of_rows(_TRAFFIC, [dict(zip(_TRAFFIC, pair)) for pair in pairs])


def _host_bytes(run: Run) -> DataFrame:
    return frame_of_rows(_HOST_BYTES, _host_rows(run.measured["nic_bytes"]))


def _processors(run: Run) -> DataFrame:
    return frame_of_rows(_PROCESSORS, [{"host": host, **each} for host, each in run.measured["cpu"].items()])


def _fl_rounds(run: Run) -> DataFrame:
    entries = run.entries("fl_rounds", ("round", "start_ns", "end_ns", "dropped"))
    rows = [{**each, **_seconds(each), "dropped": len(each["dropped"])} for each in entries]
    return frame_of_rows(_FL_ROUNDS, rows, run.origin_ns)


def _fl_clients(run: Run) -> DataFrame:
    """When each client had the model, had trained, and its update had arrived."""
    told = run.measured.get("federated", {})
    times = ("broadcast_end_ns", "computed_ns", "trained_ns", "arrived_ns")
    rows = [
        {
            **{"round": each["round"], "host": host, "parent": told["parent"].get(host)},
            **{name: each[name].get(host) for name in times},
            "dropped": host in each["dropped"],
        }
        for each in run.entries("fl_rounds", ("round", "dropped", *times))
        for host in told.get("clients", ())
    ]
    return frame_of_rows(_FL_CLIENTS, rows, run.origin_ns)


_STREAM_KEYS = ("flow", "first_ns", "interval_ns", "lost")


def _streams(run: Run) -> DataFrame:
    rows = [{**each, "lost": len(each["lost"])} for each in run.entries("streams", _STREAM_KEYS)]
    return frame_of_rows(_STREAMS, rows, run.origin_ns)


def _stream_losses(run: Run) -> DataFrame:
    rows = [
        {"flow": each["flow"], "number": number, "sent_ns": each["first_ns"] + number * each["interval_ns"]}
        for each in run.entries("streams", _STREAM_KEYS)
        for number in each["lost"]
    ]
    return frame_of_rows(_STREAM_LOSSES, rows, run.origin_ns)


_FAILURE_KEYS = ("time_ns", "target", "action")


def _failures(run: Run) -> DataFrame:
    rows = [
        {**each, "in_flight_packets": sum(each.get("in_flight", {}).values())}
        for each in run.entries("failures", _FAILURE_KEYS)
    ]
    return frame_of_rows(_FAILURES, rows, run.origin_ns)


def _in_flight(run: Run) -> DataFrame:
    """What was on its way on each port that died."""
    rows = [
        {**{name: each[name] for name in ("time_ns", "target")}, "port": port, "packets": packets}
        for each in run.entries("failures", _FAILURE_KEYS)
        for port, packets in each.get("in_flight", {}).items()
    ]
    return frame_of_rows(_IN_FLIGHT, rows, run.origin_ns)


def _events(run: Run) -> DataFrame:
    """What the controller heard and did; `what` is all that it told, as JSON."""
    import json

    rows = [{**each, "what": json.dumps(each)} for each in run.entries("control_events", ("event",))]
    return frame_of_rows(_EVENTS, rows, run.origin_ns)


def _ranks(run: Run) -> DataFrame:
    entries = run.entries("ranks", ("rank", "host"))
    rows = [
        {**each, **_seconds(each, "begin_ns"), "last_lines": "\n".join(map(str, each.get("last_lines", ())))}
        for each in entries
    ]
    return frame_of_rows(_RANKS, rows, run.origin_ns)


_TOLD = ("sent_bytes", "sent_bps", "received_bytes", "received_bps", "retransmits")


def _tests(run: Run) -> DataFrame:
    """What iperf3 told of each test, beside what the packets tell."""
    rows = []
    for entry, each in zip(run.measured["iperf3_tests"], sender_tests(run)):
        told, seen = each.told, each.seen
        rows.append(
            {
                **{name: entry[name] for name in ("sender", "receiver", "port", "begin_ns", "end_ns")},
                **{f"told_{name}": getattr(told, name, None) for name in _TOLD},
                **{name: getattr(seen, name, None) for name in ("delivered_bytes", "delivered_bps", "silence_s")},
                **{"retransmits": getattr(seen, "resent", None), "timeouts": each.timeouts, "failed": each.failed},
            }
        )
    return frame_of_rows(_TESTS, rows, run.origin_ns)


def _intervals(run: Run) -> DataFrame:
    """What iperf3's two ends noted in between, by their own seconds."""
    rows = [
        {"sender": each.sender, "role": role, "interval": number, "from_s": start_s, "to_s": end_s, "bps": bps}
        for each in sender_tests(run)
        if each.told
        for role, noted in (("client", each.told.sent), ("server", each.told.received))
        for number, (start_s, end_s, bps) in enumerate(noted)
    ]
    return frame_of_rows(_INTERVALS, rows)


def _probes(run: Run) -> DataFrame:
    return frame_of_rows(_PROBES, run.entries("probes", tuple(_PROBES)))


def _crossings(run: Run) -> DataFrame:
    """When the queue of a port went over the controller's threshold, or below."""
    rows = [dict(zip(("time_ns", "port", "above"), each)) for each in run.measured["mark_crossings"]]
    return frame_of_rows(_CROSSINGS, rows, run.origin_ns)


# Table -> the key of measured.json that it is made from, and how.
_TABLES: dict[str, tuple[str, Make]] = {
    "transfers": ("transfers", _transfers),
    "link_flows": ("link_flows", _by_name(_LINK_FLOWS, "link_flows")),
    "calls": ("calls", _calls),
    "call_ranks": ("calls", _call_ranks),
    "sizes": ("sizes", _sizes),
    "size_links": ("sizes", _size_links),
    "steps": ("steps", _steps),
    "step_ranks": ("steps", _step_ranks),
    "traffic": ("traffic", _traffic),
    "host_bytes": ("nic_bytes", _host_bytes),
    "processors": ("cpu", _processors),
    "fl_rounds": ("fl_rounds", _fl_rounds),
    "fl_clients": ("fl_rounds", _fl_clients),
    "streams": ("streams", _streams),
    "stream_losses": ("streams", _stream_losses),
    "failures": ("failures", _failures),
    "in_flight": ("failures", _in_flight),
    "control_events": ("control_events", _events),
    "ranks": ("ranks", _ranks),
    "iperf3_tests": ("iperf3_tests", _tests),
    "iperf3_intervals": ("iperf3_tests", _intervals),
    "probes": ("probes", _probes),
    "port_packets": ("port_packets", _by_name(_PORT_PACKETS, "port_packets")),
    "mark_crossings": ("mark_crossings", _crossings),
}


def workload_tables(run: Run) -> dict[str, Make]:
    """How to make the tables that the run has beyond those of every run."""
    arrivals = {"arrivals": _arrivals} if run.workload == "long_flows" else {}
    return {**{name: make for name, (key, make) in _TABLES.items() if key in run.measured}, **arrivals}
