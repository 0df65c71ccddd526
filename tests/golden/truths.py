"""What the analysis has to find in each golden capture, worked out from what others than the captures saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Facts = dict[str, Any]


def one_flow(cause: str | None, **more: Any) -> Callable[[Facts], Facts]:
    """The truth of a flow from h2 to h1: h2's counters are its alone."""

    def truth(told: Facts) -> Facts:
        kernel, received = told["kernel"].get("h2", {}), told["kernel"].get("h1", {})
        found = {
            "cause": cause,
            **_kinds(kernel),
            "dsacks": kernel.get("TCPDSACKRecv", 0),
            "lost": sum(told.get("taken", {}).values()) + sum(told.get("queue_drops", {}).values()),
            "delivered_bytes": told["tcp_info"]["bytes_acked"] - 1,  # the SYN counts as one
            "sent_bytes": told["tcp_info"]["bytes_sent"],
            "retrans_bytes": told["tcp_info"]["bytes_retrans"],
            "data_packets": told["tcp_info"]["data_segs_out"],
            "behind_the_hole": received.get("TCPOFOQueue", 0),
            "seconds": _seconds(told),
        }
        return {**found, **more}

    return truth


def _seconds(told: Facts) -> float | None:
    """From the program's last sending to its receiver's last byte."""
    sent = [each["at_ns"] for each in told["script"] if each["what"] == "send"]
    arrived = [each["at_ns"] for each in told["script"] if each["what"] == "arrived"]
    return (arrived[-1] - sent[-1]) / 1e9 if sent and arrived else None


def asked(told: Facts) -> Facts:
    """Requests that took as long as a delayed acknowledgement, and the others."""
    took_ns = [each["took_ns"] for each in told["script"] if each["what"] == "answered"]
    late = [each for each in took_ns if each >= 30_000_000]
    found = one_flow("delayed_ack")(told)
    return {**found, "requests": len(took_ns), "late": len(late), "late_seconds": [each / 1e9 for each in late]}


def deaf(told: Facts) -> Facts:
    read_ns = next(each["at_ns"] for each in told["script"] if each["what"] == "read")
    sent_ns = next(each["at_ns"] for each in told["script"] if each["what"] == "send")
    closed = {"advertised": told["kernel"]["h1"].get("TCPToZeroWindowAdv", 0), "deaf_s": (read_ns - sent_ns) / 1e9}
    return {**one_flow("zero_window")(told), **closed, "rwnd_limited_us": told["tcp_info"]["rwnd_limited_us"]}


def idle(told: Facts) -> Facts:
    sent = [each["at_ns"] for each in told["script"] if each["what"] == "send"]
    return {**one_flow(None)(told), "idle_seconds": [(after - before) / 1e9 for before, after in zip(sent, sent[1:])]}


_KINDS = {"resent": "RetransSegs", "rto": "TCPTimeouts", "fast": "TCPFastRetrans", "go_back_n": "TCPSlowStartRetrans"}


def _kinds(kernel: Mapping[str, int]) -> Facts:
    """What one host's kernel counts of what its one flow sent again."""
    found = {name: kernel.get(counter, 0) for name, counter in _KINDS.items()}
    found["probe"] = found["resent"] - found["rto"] - found["fast"] - found["go_back_n"]
    return found


def senders(told: Facts) -> Facts:
    """The truth of an incast: what each sender's kernel, the queues, and the program saw."""
    flows = {
        f"{flow['source']} > {flow['destination']}": {
            **_kinds(told["kernel"].get(flow["sender"], {})),
            "delivered_bytes": flow["tcp_info"]["bytes_acked"] - 1,
            "data_packets": flow["tcp_info"]["data_segs_out"],
            "delivered_ce": flow["tcp_info"]["delivered_ce"],
            "seconds": [(spans[place][1] - spans[place][0]) / 1e9 for spans in _spans(told)],
        }
        for place, flow in enumerate(told["flows"])
    }
    rounds_s = [(each["end_ns"] - each["start_ns"]) / 1e9 for each in told["rounds"]]
    return {"flows": flows, "drops": told["queue_drops"], "marked": told["marked"], "rounds_s": rounds_s}


def _spans(told: Facts) -> list[list[list[int]]]:
    return [each["spans_ns"] for each in told["rounds"]]


def queue_pairs(told: Facts) -> Facts:
    """The truth of a RoCE run: what each sender's soft-RoCE device counts (rxe_hw_counters.c), and telemetry."""
    flows = {}
    for flow in told["flows"]:
        device, needed = told["roce"][flow["sender"]], flow["roce"]["sender_psn"]
        flows[f"{flow['source']} > {flow['destination']}"] = {
            "packets": device["sent_pkts"],
            "resent": device["sent_pkts"] - needed,
            "naks_heard": device.get("rcvd_seq_err", 0),
            "went_back": device.get("completer_retry_err", 0),
            "cnps": _events(told, "dcqcn", "cnp_received", flow["flow"]),
        }
    naks = sum(device.get("out_of_seq_request", 0) for device in told["roce"].values())
    return {"flows": flows, "naks": naks, **_ports(told)}


def _events(told: Facts, record: str, event: str, who: str | None = None) -> int:
    return sum(each[1] == event and who in (None, each[0]) for each in told["events"].get(record, []))


def _ports(told: Facts) -> Facts:
    """What queues dropped and marked, and each port's pause frames by its telemetry."""
    qdiscs = {port: facts["qdiscs"] for port, facts in told["ports"].items()}
    frames: dict[str, Facts] = {}
    for port, event, *_ in told["events"].get("pauses", []):
        if event in ("xoff_sent", "refresh_sent", "xon_sent"):
            frames.setdefault(port, {"xoff_sent": 0, "refresh_sent": 0, "xon_sent": 0})[event] += 1
    return {
        "drops": {port: max(each.get("drops", 0) for each in stack) for port, stack in qdiscs.items()},
        "marked": {port: sum(each.get("marked", 0) for each in stack) for port, stack in qdiscs.items()},
        "pauses": frames,
        "held_s": _held(told["events"].get("pauses", [])),
        "rounds_s": [(each["end_ns"] - each["start_ns"]) / 1e9 for each in told["rounds"]],
    }


def _held(events: list[list[Any]]) -> dict[str, float]:
    """Port -> for how long its neighbour held it, in seconds."""
    held: dict[str, float] = {}
    since: dict[str, int] = {}
    for port, event, time_ns in events:
        if event == "held":
            since.setdefault(port, time_ns)
        elif event in ("released", "expired") and port in since:
            held[port] = held.get(port, 0.0) + (time_ns - since.pop(port)) / 1e9
    return held


def paused_flows(told: Facts) -> Facts:
    flows = {f"{flow['source']} > {flow['destination']}": flow["tcp_info"]["total_retrans"] for flow in told["flows"]}
    return {"resent": flows, **_ports(told)}
