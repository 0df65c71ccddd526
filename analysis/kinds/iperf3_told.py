"""What iperf3 told of each test, in iperf3/client/SENDER.json and iperf3/server/SENDER.json as it wrote them; and what
the packets of the same test tell, from the captures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from analysis.run import Run
from analysis.transport.flows import flows_of
from analysis.transport.sent import Flow
from topologies.units import BadRequest

_TESTS = "iperf3_tests"
_NEEDED = ("sender", "receiver", "port", "begin_ns", "end_ns", "ends")


class Interval(NamedTuple):
    """What one end noted: from when to when (seconds since its own begin), and the rate in between."""

    start_s: float
    end_s: float
    bps: float


@dataclass(frozen=True)
class Told:
    """What iperf3 tells at the end of a test: bytes that the client has handed to its kernel and that the server has
    read, in so many seconds, segments that the client's kernel sent again, the mean of the round-trip times that it
    noted (None: of no interval), and what the client and the server noted in between."""

    sent_bytes: int
    sent_bps: float
    received_bytes: int
    received_bps: float
    received_s: float
    retransmits: int
    mean_rtt_s: float | None
    sent: tuple[Interval, ...]
    received: tuple[Interval, ...]


@dataclass(frozen=True)
class Seen:
    """What the packets tell of a test, in as many seconds from its first data on: payload that the receiver has
    acknowledged; data packets that were sent again and the median round trip (None: without the sender's capture);
    the longest time in which no data of it passed the receiver's port."""

    delivered_bytes: int
    delivered_bps: float
    resent: int | None
    median_rtt_s: float | None
    silence_s: float
    first_ns: int


@dataclass(frozen=True)
class SenderTest:
    """A sender's test; told and seen are None where the files are missing. timeouts: of the sender's kernel, those of
    the test's control connection among them (None: not counted)."""

    sender: str
    receiver: str
    failed: str
    told: Told | None
    seen: Seen | None
    timeouts: int | None


def sender_tests(run: Run) -> tuple[SenderTest, ...]:
    """All tests in order; raises BadRequest for a document of iperf3's that is damaged."""
    at_port = _at_port(run)
    return tuple(_sender_test(run, entry, at_port) for entry in run.entries(_TESTS, _NEEDED, whole=("port",)))


def _sender_test(run: Run, entry: dict[str, Any], at_port: dict[str, Flow]) -> SenderTest:
    sender = str(entry["sender"])
    told = _told(run, sender)
    flows = [name for name, source in _senders(run).items() if source == sender and name in at_port]
    seen = _seen(run, flows, at_port, told.received_s) if told and flows else None
    counted = run.measured.get("tcp")
    timeouts = counted.get(sender, {}).get("TCPTimeouts", 0) if counted is not None else None
    return SenderTest(sender, str(entry["receiver"]), _failure(entry["ends"]), told, seen, timeouts)


def _failure(ends: dict[str, Any]) -> str:
    """How the test failed: the first end that did, with its last line; empty when it did not."""
    for role, end in ends.items():
        if end["status"] != 0:
            how = end["signal"] or ("no end known" if end["status"] is None else f"status {end['status']}")
            return ": ".join([f"{role} {how}", *end["last_lines"][-1:]])
    return ""


def _senders(run: Run) -> dict[str, str]:
    """Flow -> its sender."""
    return {entry["flow"]: entry["sender"] for entry in run.entries("flows", ("flow", "sender"))}


# --- what iperf3 told


def _told(run: Run, sender: str) -> Told | None:
    """None where the client left no result."""
    document = _document(run, "client", sender)
    if document is None:
        return None
    with _named(run, "client", sender):
        found = _read(document)
    server = _document(run, "server", sender)
    with _named(run, "server", sender):
        return replace(found, received=_noted(server or {}))


def _document(run: Run, role: str, sender: str) -> dict[str, Any] | None:
    """What one end wrote; None where it did not come so far, or has written of an error alone."""
    if not (run.path / _name(role, sender)).is_file():
        return None
    document = run.document(_name(role, sender))
    return None if "error" in document else document


def _name(role: str, sender: str) -> str:
    return f"iperf3/{role}/{sender}.json"


@contextmanager
def _named(run: Run, role: str, sender: str) -> Iterator[None]:
    """Raises BadRequest, naming the document, where it is not such as iperf3 writes."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise BadRequest(f"{run.path / _name(role, sender)}: is not what iperf3 writes for TCP ({error!r})") from error


def _read(document: dict[str, Any]) -> Told:
    end = document["end"]
    round_trips_us = [float(each["sender"]["mean_rtt"]) for each in end["streams"] if each["sender"]["mean_rtt"]]
    return Told(
        int(end["sum_sent"]["bytes"]),
        float(end["sum_sent"]["bits_per_second"]),
        int(end["sum_received"]["bytes"]),
        float(end["sum_received"]["bits_per_second"]),
        float(end["sum_received"]["seconds"]),
        int(end["sum_sent"]["retransmits"]),
        sum(round_trips_us) / len(round_trips_us) / 1e6 if round_trips_us else None,
        sent=_noted(document),
        received=(),
    )


def _noted(document: dict[str, Any]) -> tuple[Interval, ...]:
    sums = [each["sum"] for each in document.get("intervals", [])]
    return tuple(Interval(*(float(each[name]) for name in ("start", "end", "bits_per_second"))) for each in sums)


# --- what the packets tell


def _at_port(run: Run) -> dict[str, Flow]:
    """Every flow as the capture at the receiver's port has it; nothing without that."""
    if not run.has_capture(run.hot_port):
        return {}
    names = {(entry["source"], entry["destination"]): entry["flow"] for entry in run.measured.get("flows", [])}
    found = flows_of(run.packets(str(run.hot_port)), names)
    return {flow.name: flow for flow in found if flow.name in names.values() and len(flow.send_ns)}


def _seen(run: Run, names: Sequence[str], at_port: dict[str, Flow], seconds: float) -> Seen:
    flows = [at_port[name] for name in names]
    first_ns = min(int(flow.send_ns[0]) for flow in flows)
    end_ns = first_ns + round(seconds * 1e9)
    delivered_bytes = sum(_acknowledged(flow, end_ns) for flow in flows)
    sent = [flow for flow in run.tcp_flows if flow.name in names]
    whole = len(sent) == len(names) and bool(run.rounds)
    round_trips_ns = np.concatenate([flow.rtt_ns() for flow in sent]) if whole else np.empty(0)
    return Seen(
        delivered_bytes,
        delivered_bytes * 8 / seconds if seconds else 0.0,
        sum(len(run.retransmissions[name]) for name in names) if whole else None,
        float(np.median(round_trips_ns)) / 1e9 if len(round_trips_ns) else None,
        _silence_s(flows, first_ns, end_ns),
        first_ns,
    )


def _acknowledged(flow: Flow, end_ns: int) -> int:
    """Payload of a flow that its receiver has acknowledged by `end_ns`."""
    told = flow.ack_bytes[flow.ack_ns <= end_ns]
    return int(told[-1]) if len(told) else 0


def _silence_s(flows: Sequence[Flow], first_ns: int, end_ns: int) -> float:
    """The longest time without data of any of the flows, from the first data to the end."""
    times_ns = np.sort(np.concatenate([flow.send_ns for flow in flows]))
    inside = times_ns[(times_ns >= first_ns) & (times_ns <= end_ns)]
    return float(np.diff([*inside, end_ns]).max(initial=0)) / 1e9


def passed(run: Run, sender: str) -> tuple[np.ndarray, np.ndarray]:
    """When data of a sender passed the receiver's port (k,), in seconds since the first, and its payload bytes (k,)."""
    flows = [flow for name, flow in _at_port(run).items() if _senders(run)[name] == sender]
    times_ns = np.concatenate([flow.send_ns for flow in flows])
    sizes = np.concatenate([flow.send_end - flow.send_start for flow in flows])
    return (times_ns - times_ns.min()) / 1e9, sizes
