"""Single figures of a run, each read from the best file that tells it; None where no file does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.capture.packets import CE
from analysis.kinds import signals
from analysis.queues import Traffic, buffer_fill_exact_s, buffer_fill_s, statistics
from analysis.run import Run
from analysis.spec import CONTROLLER, INCAST, LOSSY
from analysis.transport.events import RTO
from analysis.transport.retransmits import CounterMatch, compare_with_kernel
from analysis.transport.roce import compare_with_soft_roce
from analysis.transport.spans import total_ns
from analysis.transport.stalls import stood_still
from analysis.verdicts import (
    COLLAPSE_SHARE,
    all_captured,
    goodput_bps,
    goodput_without_loss_bps,
    median_seconds,
    pfc_queues,
    tells_of_pfc,
    timeouts,
)

_LOSSLESS_RED, _LOSSY_RED = "5:", "7:"  # handles of a port's markers
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


def classmates(run: Run) -> list[tuple[str, Run]]:
    """The run and those of its peers whose data is in the same traffic class, and so in the same queue."""
    own = run.parameters.traffic_class
    return [(name, each) for name, each in peers(run) if each.parameters.traffic_class == own]


def slowdown(run: Run) -> float | None:
    """The median round over the ideal one."""
    return ratio(median_seconds(run.rounds), run.parameters.ideal_seconds)


def lost_share(run: Run) -> float | None:
    """Of the rounds' time, the share in which flows stood still and none of them moved
    (analysis.transport.stalls.stood_still); None where not every sender was captured."""
    if not all_captured(run):
        return None
    lost_ns = total_ns(stood_still(run.sent_flows, run.rounds, run.stalls))
    return lost_ns / sum(each.end_ns - each.start_ns for each in run.rounds)


def collapse_onset(run: Run) -> dict[str, int | None]:
    """For each scheme that the run or its cases tried with several numbers of senders, the least number from which on
    goodput stays at or below COLLAPSE_SHARE of the one without loss; None where it never does."""
    tried: dict[str, dict[int, Run]] = {}
    for each in (run, *run.cases.values()):
        if each.workload == INCAST and each.rounds:
            tried.setdefault(each.parameters.scheme, {}).setdefault(each.parameters.senders, each)
    return {scheme: _onset(points) for scheme, points in tried.items() if len(points) > 1}


def _onset(points: Mapping[int, Run]) -> int | None:
    """The least number of senders from which on all points have collapsed."""
    found = None
    for senders in sorted(points, reverse=True):
        goodput = goodput_bps(points[senders].rounds)
        if goodput is None or goodput > COLLAPSE_SHARE * goodput_without_loss_bps(points[senders].parameters):
            break
        found = senders
    return found


def data_packets(run: Run) -> int | None:
    """Packets with data that the senders' kernels sent, retransmissions included; of RoCE all that they sent."""
    if run.parameters.is_roce:
        return _roce_packets(run)
    counts = [entry.get("tcp_info", {}).get("data_segs_out") for entry in run.measured.get("flows", [])]
    return sum(counts) if counts and None not in counts else None


def _roce_packets(run: Run) -> int | None:
    """What soft-RoCE sent on the hosts that send, acknowledgements among it where these receive as well; on all hosts
    where the workload has no flows of its own."""
    if run.roce_counters is None:
        return None
    hosts = run.senders if "flows" in run.measured else run.roce_counters
    return sum(told.get("sent_pkts", 0) for host, told in run.roce_counters.items() if host in hosts)


def retransmits(run: Run) -> int | None:
    """Packets sent again: the kernel's count, or the sender captures' where there is none. Soft-RoCE counts all packets
    alike, so that the captures come first, and without them what was sent beyond need."""
    if run.parameters.is_roce:
        if all_captured(run):
            return sum(len(events) for events in run.retransmissions.values())
        return _roce_beyond_need(run)
    if run.tcp_counters is not None:
        return run.tcp_counters.get("RetransSegs", 0)
    return sum(len(events) for events in run.retransmissions.values()) if run.sent_flows and run.rounds else None


def _roce_beyond_need(run: Run) -> int | None:
    """Packets sent beyond one for each number of the sequence, which begins at 0; None for a run that broke off, and
    where senders send acknowledgements too."""
    sent, entries = _roce_packets(run), run.measured.get("flows", [])
    numbers = [entry.get("roce", {}).get("sender_psn") for entry in entries]
    if sent is None or None in numbers or run.workload != INCAST or not run.measured.get("complete"):
        return None
    return sent - sum(numbers)


def kernel_timeouts(run: Run) -> int | None:
    """Retransmission timeouts: the kernel's count, or the sender captures' where there is none; of RoCE the timeouts of
    queue pairs (verdicts.timeouts)."""
    if run.parameters.is_roce or run.tcp_counters is None:
        return timeouts(run)[0]
    return run.tcp_counters.get("TCPTimeouts", 0)


def counter_matches(run: Run) -> list[CounterMatch]:
    """The senders' kernel counters beside what their captures show; empty unless every sender has both. A SYN that was
    sent again was timed out."""
    if not all_captured(run):
        return []
    if run.parameters.is_roce:
        counters = run.roce_counters
        return [] if counters is None else compare_with_soft_roce(run.roce_flows, counters, run.senders)
    if run.tcp_counters is None:
        return []
    kinds = [event.kind for events in run.retransmissions.values() for event in events]
    kinds += [RTO] * sum(flow.syn_repeats for flow in run.tcp_flows)
    told: Counter[str] = Counter()
    for host in run.senders:
        told.update(run.measured["tcp"].get(host, {}))
    return compare_with_kernel(kinds, told)


def ecn_marks(measured: Mapping[str, Any]) -> int | None:
    """Packets marked CE by all ports and NICs; only the RED level counts marks. None without counters."""
    if "ports" not in measured:
        return None
    stacks = [*measured.get("ports", {}).values(), *measured.get("nics", {}).values()]
    return sum(
        qdisc.get("marked", 0) for stack in stacks for qdisc in stack.get("qdiscs", []) if qdisc.get("kind") == "red"
    )


def marking_bytes(run: Run) -> tuple[int | None, int | None]:
    """From which queue on the hot port marks, and from which it marks all, in bytes: as read back from the class of the
    run's data, or else as the spec has it; None where it does not mark."""
    spec = run.parameters
    handle = _LOSSY_RED if spec.traffic_class == LOSSY else _LOSSLESS_RED
    stack = run.measured.get("ports", {}).get(run.hot_port, {}).get("qdiscs", [])
    options: Mapping[str, int] = next((each.get("options", {}) for each in stack if each.get("handle") == handle), {})
    return options.get("kmin_bytes", spec.kmin_bytes), options.get("kmax_bytes", spec.kmax_bytes)


def cnps(run: Run) -> int | None:
    """Congestion notification packets sent; None for a run without DCQCN, and where no file tells."""
    return signals.cnps(run) if run.has_dcqcn else None


def pauses(run: Run) -> int | None:
    """How often a port paused its neighbour, by the agents' record or else by the queues' counters; None for a run
    without PFC, and where no file tells."""
    return _told_or_counted(run, signals.pauses(run), "xoffs") if run.parameters.pfc else None


def paused_s(run: Run) -> float | None:
    """Seconds for which ports and NICs were held by pauses while there was traffic, over all of them, by the agents'
    record or else by the queues' counters; None for a run without PFC, and where no file tells."""
    if not run.parameters.pfc:
        return None
    told = signals.paused_s(run)
    return told if told is not None or not tells_of_pfc(run) else _counted_held_s(run)


def _counted_held_s(run: Run) -> float:
    """By the queues' counters, which go on after the traffic: no queue is held for longer than that lasts."""
    start_ns, end_ns = run.traffic_ns or (0, 0)
    held_ns = (queue.get("held_ns", 0) for queue in pfc_queues(run.measured))
    return sum(min(each, end_ns - start_ns) if run.traffic_ns else each for each in held_ns) / 1e9


def _told_or_counted(run: Run, told: int | None, counter: str) -> int | None:
    if told is not None or not tells_of_pfc(run):
        return told
    return sum(queue.get(counter, 0) for queue in pfc_queues(run.measured))


def marks(run: Run) -> int | None:
    """Packets marked CE by queues. A controller's rules count nothing: of these, the marked ones that left the hot
    port, None where that was not captured."""
    if run.parameters.marking != CONTROLLER:
        return ecn_marks(run.measured)
    if not run.has_capture(run.hot_port):
        return None
    packets = run.packets(str(run.hot_port))
    return int(((packets.ecn == CE) & (packets.payload_bytes > 0)).sum())


def queue_bytes(run: Run) -> dict[str, int] | None:
    """The hot port's queue while it was busy: largest, median and 99th percentile."""
    series = run.queue(run.hot_port)
    found = statistics(series) if series is not None else None
    return {"max": found.max_bytes, "p50": found.p50_bytes, "p99": found.p99_bytes} if found else None


def fill_s(run: Run) -> float | None:
    """How long the first burst that filled the hot port's buffer took: exactly, from the captures of all
    senders and of the port, or else from the queue's samples; beyond one switch, where queues on the way hold packets
    up, from the samples alone. None with PFC, where pauses are to keep any buffer from filling."""
    if run.parameters.pfc:
        return None
    if (
        run.parameters.path.uplinks == 0
        and run.has_capture(run.hot_port)
        and run.sent_flows
        and len(run.sent_flows) == run.parameters.senders
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
    times = np.concatenate([flow.send_ns for flow in run.sent_flows]) + run.parameters.port_delay_ns
    lengths = np.concatenate([flow.send_wire_bytes for flow in run.sent_flows])
    return Traffic(times, lengths)


def _leaving(run: Run) -> Traffic:
    """All data that left the hot port."""
    packets = run.packets(str(run.hot_port))
    data = packets.payload_bytes > 0
    return Traffic(packets.time_ns[data], packets.wire_bytes[data])


def ratio(value: float | None, by: float | None) -> float | None:
    """One over the other; None when one is missing or the second zero."""
    return value / by if value is not None and by else None
