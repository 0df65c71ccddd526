"""The summary of a run: every figure that the report and scripts use, recomputed from the run directory
alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from analysis.queues import Traffic, buffer_fill_exact_s, buffer_fill_s, statistics
from analysis.retransmits import compare_with_kernel
from analysis.run import Run
from analysis.spec import Parameters
from analysis.verdicts import all_drops, goodput_bps, incast_verdict, median_seconds, timeouts


def summarize(run: Run) -> dict[str, Any]:
    """The summary as one JSON-ready mapping; equal files give equal summaries. None stands for what the run's
    files do not tell.

    Seconds, bits per second and bytes, as the keys say; `goodput_bps` is payload bits over the rounds' own
    seconds. Raises BadRequest when spec.yaml, measured.json or provenance.json is missing or damaged.
    """
    verdict = incast_verdict(run)
    measured, wall_s = run.measured, run.provenance.get("wall", {}).get("rounds_s")
    return {
        "experiment": run.spec.get("experiment"),
        "spec": run.spec,
        "seed": run.provenance.get("seed"),
        "clock": run.provenance.get("clock"),
        "complete": bool(measured.get("complete")),
        "goodput_bps": goodput_bps(run.rounds),
        "rounds": [{"seconds": each.seconds, "goodput_bps": each.goodput_bps} for each in run.rounds],
        "ideal_seconds": run.parameters.ideal_seconds,
        "slowdown": slowdown(run),
        "packets": data_packets(run),
        "drops": sum(all_drops(run).values()),
        "drops_by_port": all_drops(run),
        "retransmits": retransmits(run),
        "timeouts": kernel_timeouts(run),
        "kernel_counters": [{**asdict(match), "agrees": match.agrees} for match in counter_matches(run)],
        "stalls": [asdict(stall) for stall in run.stalls],
        "ecn_marks": ecn_marks(measured),
        "cnps": measured.get("cnps"),
        "pfc_pauses": measured.get("pfc_pauses"),
        "pfc_paused_s": measured.get("pfc_paused_s"),
        "queue_bytes": queue_bytes(run),
        "buffer_fill_s": fill_s(run),
        "verdict": verdict.verdict,
        "evidence": [asdict(piece) for piece in verdict.evidence],
        "missing": list(run.missing),
        "comparison": comparison(run),
        "virtual_s": measured.get("virtual_s"),
        "wall_s": wall_s,
        "packets_per_wall_s": _ratio(data_packets(run), wall_s),
        "kernel": run.provenance.get("kernel", {}).get("version"),
    }


def write_summary(run: Run) -> Path:
    """Write summary.json into the run directory and return its path."""
    path = run.path / "summary.json"
    path.write_text(json.dumps(summarize(run), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def comparison(run: Run) -> list[dict[str, Any]]:
    """One row per case, the run itself first."""
    return [_row(case) for case in (run, *run.cases.values())]


def _row(run: Run) -> dict[str, Any]:
    spec = run.parameters
    return {
        "label": spec.label,
        "scheme": spec.scheme,
        "senders": spec.senders,
        "queue": spec.queue,
        "rto_min": run.spec["rto_min"],
        "goodput_bps": goodput_bps(run.rounds),
        "median_round_seconds": median_seconds(run.rounds),
        "ideal_seconds": spec.ideal_seconds,
        "slowdown": slowdown(run),
        "timeouts": kernel_timeouts(run),
        "retransmits": retransmits(run),
        "drops": sum(all_drops(run).values()),
        "ecn_marks": ecn_marks(run.measured),
        "verdict": incast_verdict(run).verdict,
    }


def peers(run: Run) -> list[tuple[str, Run]]:
    """The run and its cases of as many senders, those left out that repeat another in all but label and seed.

    Each comes with a name for legends: its scheme, and its label where two share a scheme.
    """
    kinds: dict[Parameters, Run] = {}
    for each in (run, *run.cases.values()):
        if each.parameters.senders == run.parameters.senders:
            kinds.setdefault(replace(each.parameters, label=""), each)
    schemes = [kind.scheme for kind in kinds]
    return [
        (kind.scheme if schemes.count(kind.scheme) == 1 else f"{kind.scheme} ({each.parameters.label})", each)
        for kind, each in kinds.items()
    ]


def slowdown(run: Run) -> float | None:
    """The median round over the ideal one."""
    return _ratio(median_seconds(run.rounds), run.parameters.ideal_seconds)


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
    senders and of the port, or else from the queue's samples."""
    if run.has_capture(run.hot_port) and run.flows and len(run.flows) == run.parameters.senders:
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


def _ratio(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None
