"""Single figures of a run, each read from the best file that tells it; None where no file does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.queues import Traffic, buffer_fill_exact_s, buffer_fill_s, statistics
from analysis.retransmits import compare_with_kernel
from analysis.run import Run
from analysis.verdicts import median_seconds, timeouts

_SAME_TRAFFIC = ("label", "seed", "capture", "telemetry")  # keys that change nothing of what is compared


def peers(run: Run) -> list[tuple[str, Run]]:
    """The run and its cases of the same workload with as many senders, those left out that repeat another in all but
    label and seed.

    Each comes with a name for legends: its scheme, and its label where two share a scheme.
    """
    kinds: dict[str, Run] = {}
    for each in (run, *run.cases.values()):
        if (each.workload, each.parameters.senders) == (run.workload, run.parameters.senders):
            asked = {key: value for key, value in each.spec.items() if key not in _SAME_TRAFFIC}
            kinds.setdefault(json.dumps(asked, sort_keys=True, default=str), each)
    schemes = [each.parameters.scheme for each in kinds.values()]
    return [
        (scheme if schemes.count(scheme) == 1 else f"{scheme} ({each.parameters.label})", each)
        for scheme, each in zip(schemes, kinds.values())
    ]


def slowdown(run: Run) -> float | None:
    """The median round over the ideal one."""
    return ratio(median_seconds(run.rounds), run.parameters.ideal_seconds)


def data_packets(run: Run) -> int | None:
    """Segments with data that the senders' kernels sent, retransmissions included."""
    counts = [entry.get("tcp_info", {}).get("data_segs_out") for entry in run.measured.get("flows", [])]
    return sum(counts) if counts and None not in counts else None


def retransmits(run: Run) -> int | None:
    """Segments sent again: the kernel's count, or the sender captures' where there is none."""
    if run.tcp_counters is not None:
        return run.tcp_counters.get("RetransSegs", 0)
    return sum(len(events) for events in run.retransmissions.values()) if run.flows and run.rounds else None


def kernel_timeouts(run: Run) -> int | None:
    """Retransmission timeouts: the kernel's count, or the sender captures' where there is none."""
    return run.tcp_counters.get("TCPTimeouts", 0) if run.tcp_counters is not None else timeouts(run)[0]


def counter_matches(run: Run) -> list[Any]:
    """The kernel's counters beside what the captures show; empty unless every sender has both."""
    if run.tcp_counters is None or not run.rounds or len(run.flows) != run.parameters.senders:
        return []
    return compare_with_kernel(
        (event.kind for events in run.retransmissions.values() for event in events), run.tcp_counters
    )


def ecn_marks(measured: Mapping[str, Any]) -> int:
    """Packets marked CE by all ports and NICs; only the RED level counts marks."""
    stacks = [*measured.get("ports", {}).values(), *measured.get("nics", {}).values()]
    return sum(
        qdisc.get("marked", 0) for stack in stacks for qdisc in stack.get("qdiscs", []) if qdisc.get("kind") == "red"
    )


def queue_bytes(run: Run) -> dict[str, int] | None:
    """The hot port's queue while it was busy: largest, median and 99th percentile."""
    series = run.queue(run.hot_port)
    found = statistics(series) if series is not None else None
    return {"max": found.max_bytes, "p50": found.p50_bytes, "p99": found.p99_bytes} if found else None


def fill_s(run: Run) -> float | None:
    """How long the first burst that filled the hot port's buffer took: exactly, from the captures of all
    senders and of the port, or else from the queue's samples; beyond one switch, where queues on the way hold packets
    up, from the samples alone."""
    if (
        run.parameters.path.uplinks == 0
        and run.has_capture(run.hot_port)
        and run.flows
        and len(run.flows) == run.parameters.senders
    ):
        return buffer_fill_exact_s(_arriving(run), _leaving(run), run.parameters.buffer_bytes)
    series = run.queue(run.hot_port)
    return (
        buffer_fill_s(series, run.parameters.buffer_bytes, run.parameters.path.frame_bytes)
        if series is not None
        else None
    )


def _arriving(run: Run) -> Traffic:
    """All data of the senders, at the time it reaches the hot port's queue."""
    times = np.concatenate([flow.send_ns for flow in run.flows]) + run.parameters.port_delay_ns
    lengths = np.concatenate([flow.send_wire_bytes for flow in run.flows])
    return Traffic(times, lengths)


def _leaving(run: Run) -> Traffic:
    """All data that left the hot port."""
    packets = run.packets(str(run.hot_port))
    data = packets.payload_bytes > 0
    return Traffic(packets.time_ns[data], packets.wire_bytes[data])


def ratio(value: float | None, by: float | None) -> float | None:
    """One over the other; None when one is missing or the second zero."""
    return value / by if value is not None and by else None
