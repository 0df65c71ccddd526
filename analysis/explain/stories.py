"""The flows of one capture point, each with its whole story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from analysis.capture.packets import CE, CWR, ECE, NOT_ECT, SYN, Damage, Packets
from analysis.explain import position
from analysis.explain.blocks import blocks_of
from analysis.explain.causes import stalls_of
from analysis.explain.connecting import opening_syns
from analysis.explain.conversations import MOST_TOLD, Counted, choose
from analysis.explain.gaps import Gaps, filled, lost_before
from analysis.explain.joining import Trace, trace_of
from analysis.explain.known import Known
from analysis.explain.model import (
    LIKELY,
    RECEIVER,
    ROCE_FLOW,
    SENDER,
    TCP_FLOW,
    UNSURE,
    Block,
    FlowStall,
    FlowStory,
    PauseStory,
    Point,
    Repeats,
    Series,
    least_sure,
)
from analysis.explain.pauses import holding, mac_words
from analysis.explain.series import Marks, series_of
from analysis.transport.events import RTO
from analysis.transport.flows import flows_of
from analysis.transport.queue_pairs import RoceFlow, flows_of_roce
from analysis.transport.recovery import Inferred, Recovery, infer_recovery
from analysis.transport.retransmits import Resent, Retransmission, retransmissions
from analysis.transport.roce import QP_TIMEOUT, resent
from analysis.transport.sent import Flow, RoundTrips, Sent
from analysis.transport.spans import Span

_LONGEST_FRAME_BYTES = 9_234  # a jumbo frame with tags: what is longer was put together, or not yet cut up, in a host


@dataclass(frozen=True)
class Told:
    """What a piece of a capture tells: its flows' stories, their traces for the joining of points, the conversations as
    counted, and the loss recovery that its senders are taken to have (None without TCP)."""

    stories: list[FlowStory] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    counted: Counted = field(default_factory=Counted)
    recovery: Inferred | None = None


@dataclass(frozen=True)
class _Scene:
    """What all flows of a piece share."""

    packets: Packets
    point: Point
    known: Known
    recovery: Recovery
    pauses: Sequence[PauseStory]
    asking: Mapping[tuple[str, str], np.ndarray]


def tell(
    packets: Packets, point: Point, known: Known, pauses: Sequence[PauseStory] = (), most: int = MOST_TOLD
) -> Told:
    """Everything that the flows in `packets`, a capture or a piece of it in which flows are whole, tell; pauses are
    those that the point saw."""
    chosen, counted = choose(packets, most)
    flows, pairs = flows_of(chosen, known.names), flows_of_roce(chosen, known.names)
    inferred = _recovery(flows, known) if flows else None
    scene = _Scene(
        packets=chosen,
        point=point,
        known=known,
        recovery=inferred.recovery if inferred else Recovery(0),
        pauses=pauses,
        asking=_asking(flows),
    )
    everyone: list[Sent] = [*flows, *pairs]
    found = [_story(flow, scene) for flow in everyone]
    traces = [trace_of(chosen, flow, story) for flow, story in zip(everyone, found)]
    return Told(found, traces, counted, inferred)


def _asking(flows: Sequence[Flow]) -> dict[tuple[str, str], np.ndarray]:
    """The places of the data packets from each source to each destination, of all their connections."""
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    for flow in flows:
        found.setdefault((flow.source, flow.destination), []).append(flow.send_order)
    return {ends: np.sort(np.concatenate(orders)) if len(orders) > 1 else orders[0] for ends, orders in found.items()}


def _recovery(flows: Sequence[Flow], known: Known) -> Inferred:
    if known.recovery is not None:
        return Inferred(known.recovery, True, f"told by {known.source}")
    return infer_recovery(flows)


@dataclass(frozen=True, eq=False)
class _Reading:
    """What the parts of a flow's story rest on: what was sent again, what is missing, which packets fill a gap that a
    loss left, the handshake (None: not captured), round trips, where the capture was taken, and blocks."""

    events: Sequence[Resent]
    gaps: Gaps
    lost: np.ndarray
    shake: position.Handshake | None
    trips: RoundTrips
    where: position.Position
    blocks: tuple[Block, ...]


def _read(flow: Sent, scene: _Scene) -> _Reading:
    packets, trips = scene.packets, flow.round_trips
    brings, gaps = _filled(flow)
    lost = lost_before(flow, packets, brings)
    shake = _handshake(flow, scene) if isinstance(flow, Flow) else None
    evidence = _evidence(flow, packets, shake, trips.length_ns, lost)
    where = position.position_of(evidence, _host_at(flow, scene))
    asked = scene.asking.get((flow.destination, flow.source), flow.send_order[:0])
    whole_ns = (evidence.onward_ns or 0) + (evidence.back_ns or 0)
    blocks = blocks_of(flow, brings, asked, packets.time_ns[asked], whole_ns, where.where)
    return _Reading(_events(flow, scene.recovery), gaps, lost, shake, trips, where, blocks)


def _story(flow: Sent, scene: _Scene) -> FlowStory:
    """One flow's story."""
    read = _read(flow, scene)
    return FlowStory(
        name=flow.name,
        source=flow.source,
        destination=flow.destination,
        transport=TCP_FLOW if isinstance(flow, Flow) else ROCE_FLOW,
        point=scene.point.name,
        position=read.where.where,
        position_confidence=read.where.confidence,
        handshake=read.shake is not None,
        **_times(flow, scene),
        **_amounts(flow, read.gaps),
        **_round_trip(read.trips.length_ns),
        **_losses(flow, read),
        **_answers(flow, scene.packets),
        **_marks(flow, scene.packets),
        series=_series(flow, scene.packets, read),
        blocks=read.blocks,
        stalls=_stalls(flow, scene, read),
        repeats=_repeats(read.events, flow, scene.packets),
        notes=tuple(_notes(flow, scene.packets, read.gaps, read.where, read.shake)),
    )


def _times(flow: Sent, scene: _Scene) -> dict[str, Any]:
    """From a flow's first packet to its last, either way, its SYNs included."""
    times = [each for each in (flow.send_ns, flow.ack_ns, _opening_ns(flow, scene)) if len(each)]
    return {
        "begin_ns": int(min(each.min() for each in times)),
        "end_ns": int(max(each.max() for each in times)),
    }


def _amounts(flow: Sent, gaps: Gaps) -> dict[str, Any]:
    """What passed."""
    return {
        "both_ways": bool(len(flow.ack_order)),
        "packets": len(flow.send_ns),
        "wire_bytes": int(flow.send_wire_bytes.sum()),
        "payload_bytes": int((flow.send_end - flow.send_start).sum()),
        "delivered_bytes": _delivered(flow, gaps),
    }


def _losses(flow: Sent, read: _Reading) -> dict[str, Any]:
    """What was sent again, and what is missing."""
    return {
        "kinds": dict(Counter(event.kind for event in read.events)),
        "spurious": sum(_is_spurious(event) for event in read.events),
        "upstream_losses": int(read.lost.sum()),
        "gaps": _missing_bytes(flow, read.gaps),
        "min_rto_ns": _shortest_timeout(read.events, flow),
    }


def _answers(flow: Sent, packets: Packets) -> dict[str, Any]:
    """What the receiver told beside what it got."""
    zero_windows, zero_window_ns = _zero_windows(flow, packets) if isinstance(flow, Flow) else (0, 0)
    return {
        "duplicate_acks": int(flow.ack_is_duplicate.sum()) if isinstance(flow, Flow) else 0,
        "zero_windows": zero_windows,
        "zero_window_ns": zero_window_ns,
        "cnps": len(flow.cnp_ns) if isinstance(flow, RoceFlow) else 0,
    }


def _marks(flow: Sent, packets: Packets) -> dict[str, Any]:
    """Marks of congestion, and TCP's answers to them."""
    ecn, is_tcp = packets.ecn[flow.send_order], isinstance(flow, Flow)
    return {
        "ect": int((ecn != NOT_ECT).sum()),
        "ce": int((ecn == CE).sum()),
        "ece": int(_has_ece(flow, packets).sum()),
        "cwr": int((packets.flags[flow.send_order] & CWR > 0).sum()) if is_tcp else 0,
    }


def _has_ece(flow: Sent, packets: Packets) -> np.ndarray:
    """Which acknowledgements (n,) echo a mark; none (0,) of a queue pair's."""
    return packets.flags[flow.ack_order] & ECE > 0 if isinstance(flow, Flow) else np.zeros(0, np.bool_)


def _series(flow: Sent, packets: Packets, read: _Reading) -> Series | None:
    again = np.zeros(len(flow.send_ns), np.bool_)
    again[[event.index for event in read.events]] = True
    marks = Marks(again, packets.ecn[flow.send_order] == CE, _has_ece(flow, packets))
    return series_of(flow, read.trips, marks)


def _stalls(flow: Sent, scene: _Scene, read: _Reading) -> tuple[FlowStall, ...]:
    where, held = read.where, _held(flow, scene, read.where.where)
    args = (read.events, read.blocks, scene.packets, where.where, held, scene.recovery, where.confidence)
    return _as_sure_as(where, scene.point.damage, stalls_of(flow, *args))


def _as_sure_as(where: position.Position, damage: Damage, stalls: Sequence[FlowStall]) -> tuple[FlowStall, ...]:
    """Stalls, whose rules rest on where the capture was taken and on its clock, are no surer than these."""
    if where.confidence != UNSURE and not (damage.backwards or damage.garbage_bytes or damage.untimed):
        return tuple(stalls)
    return tuple(replace(stall, confidence=least_sure(stall.confidence, LIKELY)) for stall in stalls)


def _filled(flow: Sent) -> tuple[np.ndarray, Gaps]:
    """Which packets filled a gap, and what is missing: of bytes, or of a queue pair's packet numbers."""
    if isinstance(flow, RoceFlow):
        return filled(flow.send_psn, flow.send_psn + 1)
    return filled(flow.send_start, flow.send_end)


def _missing_bytes(flow: Sent, gaps: Gaps) -> int:
    """Bytes never seen; of a queue pair's missing packets each counts as its longest."""
    longest = int((flow.send_end - flow.send_start).max(initial=0)) if isinstance(flow, RoceFlow) else 1
    return gaps.total * longest


def _events(flow: Sent, recovery: Recovery) -> Sequence[Resent]:
    return resent(flow) if isinstance(flow, RoceFlow) else retransmissions(_as_tcp(flow), recovery)


def _as_tcp(flow: Sent) -> Flow:
    assert isinstance(flow, Flow)  # the only other kind
    return flow


def _delivered(flow: Sent, gaps: Gaps) -> int:
    """Bytes acknowledged; without acknowledgements the new ones that passed."""
    sent = int(flow.send_end.max(initial=0))
    return min(int(flow.ack_bytes[-1]), sent) if len(flow.ack_bytes) else max(sent - _missing_bytes(flow, gaps), 0)


def _round_trip(length_ns: np.ndarray) -> dict[str, Any]:
    names = ("rtt_min_ns", "rtt_median_ns", "rtt_p99_ns")
    if not len(length_ns):
        return dict.fromkeys(names)
    ranks = [0, (len(length_ns) - 1) // 2, (len(length_ns) - 1) * 99 // 100]
    in_order = np.partition(length_ns, ranks)
    return {name: int(in_order[rank]) for name, rank in zip(names, ranks)}


def _is_spurious(event: Resent) -> bool:
    return isinstance(event, Retransmission) and event.spurious


def _shortest_timeout(events: Sequence[Resent], flow: Sent) -> int | None:
    """The least time that a timeout waited since its packet was last sent: of TCP the RTO, of RoCE the queue pair's."""
    waited = [event.age_ns for event in events if isinstance(event, Retransmission) and event.kind == RTO]
    waited += [event.time_ns - int(flow.send_ns[event.index - 1]) for event in events if event.kind == QP_TIMEOUT]
    return min(waited, default=None)


def _repeats(events: Sequence[Resent], flow: Sent, packets: Packets) -> Repeats:
    index = np.array([event.index for event in events], np.int64)
    return Repeats(
        number=packets.number[flow.send_order[index]],
        time_ns=flow.send_ns[index],
        start=flow.send_start[index],
        end=flow.send_end[index],
        kind=np.array([event.kind for event in events], "U16"),
        spurious=np.array([_is_spurious(event) for event in events], np.int8),
    )


def _zero_windows(flow: Sent, packets: Packets) -> tuple[int, int]:
    """How many acknowledgements told that the receiver had no room, and for how long it had none."""
    acks = flow.ack_order[packets.flags[flow.ack_order] & SYN == 0]
    closed, times = packets.window[acks] == 0, packets.time_ns[acks]
    if not closed.any():
        return 0, 0
    lasting = np.where(closed[:-1], np.maximum(np.diff(times), 0), 0)
    return int(closed.sum()), int(lasting.sum())


def _evidence(
    flow: Sent, packets: Packets, shake: position.Handshake | None, trips_ns: np.ndarray, lost: np.ndarray
) -> position.Evidence:
    onward, back = shake.parts if shake else (None, None)
    onward_ns = [each for each in (onward, int(trips_ns.min()) if len(trips_ns) else None) if each is not None]
    back_ns = [each for each in (back, position.back_ns(packets, flow)) if each is not None]
    return position.Evidence(
        onward_ns=min(onward_ns, default=None),
        back_ns=min(back_ns, default=None),
        resent=bool(flow.is_retransmission.any()),
        lost_before=bool(lost.any()),
    )


def _host_at(flow: Sent, scene: _Scene) -> str:
    """SENDER or RECEIVER where the run's names tell that the capture was taken at that host; else empty."""
    host = scene.point.name.partition("-eth")[0]
    ends = ((SENDER, flow.source), (RECEIVER, flow.destination))
    return next((end for end, at in ends if host and scene.known.hosts.get(at.rpartition(":")[0]) == host), "")


def _handshake(flow: Sent, scene: _Scene) -> position.Handshake | None:
    there, back = _own_syns(flow, scene.packets)
    return position.handshake(scene.packets, there, back)


def _own_syns(flow: Sent, packets: Packets) -> tuple[list[int], list[int]]:
    """The rows of the SYNs, or SYN/ACKs, that began this connection, of its own direction and of the other."""
    if not isinstance(flow, Flow):
        return [], []
    there, back = (rows[rows < flow.send_order[0]] for rows in (flow.rows, flow.back_rows))
    return opening_syns(packets, there), opening_syns(packets, back)


def _opening_ns(flow: Sent, scene: _Scene) -> np.ndarray:
    """The times of the SYNs and SYN/ACKs that began a flow's connection."""
    there, back = _own_syns(flow, scene.packets)
    return scene.packets.time_ns[[*there, *back]] if there or back else flow.send_ns[:0]


def _held(flow: Sent, scene: _Scene, where: str) -> list[Span]:
    """When pauses held the flow's data at this point: of all classes (which one is the flow's, a capture does not
    tell)."""
    if not scene.pauses:
        return []
    own, far = (
        {mac_words(each) for each in np.unique(scene.packets.src_mac[order]).tolist()}
        for order in (flow.send_order, flow.ack_order)
    )
    return holding(scene.pauses, own, far, is_sender=where == SENDER)


def _notes(
    flow: Sent, packets: Packets, gaps: Gaps, where: position.Position, shake: position.Handshake | None
) -> list[str]:
    """What could not be told of a flow, in sentences."""
    found = []
    if where.confidence == UNSURE:
        found.append(f"where on its path the capture was taken is not sure: {where.because}")
    if not len(flow.ack_order):
        found.append("only this direction was captured: what was delivered, and why it stood still, is not known")
    if isinstance(flow, Flow) and shake is None:
        found.append("the capture does not have its SYN: what came before is not known")
    missed = _missed(flow, gaps)
    if missed:
        found.append(f"{missed:,} bytes were acknowledged that this capture does not have: it missed packets")
    longest = int(flow.send_wire_bytes.max(initial=0))
    if longest > _LONGEST_FRAME_BYTES:
        found.append(f"packets of up to {longest:,} bytes: a host's offload; the wire carried them in pieces")
    return found


def _missed(flow: Sent, gaps: Gaps) -> int:
    """Bytes, or packets of a queue pair, that were acknowledged and never seen."""
    if isinstance(flow, RoceFlow) or not len(flow.ack_bytes):
        return 0
    acked = int(flow.ack_bytes[-1])
    return sum(max(min(end, acked) - start, 0) for start, end in gaps.spans)
