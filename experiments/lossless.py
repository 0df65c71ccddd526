"""Thresholds and headroom of the lossless class: derives what a spec leaves open, and refuses what would lose.

    one ingress port:   0 ---- xon ------ xoff ------------------ xoff + headroom <= buffer
                           resume    pause    what still comes in

Counted at the egress, one queue is fed by all other ports of its switch, and each has headroom in its buffer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from controller.pause import (
    CONTROLLER_NS,
    QUANTUM_BITS,
    SharedBuffer,
    headroom_bytes,
    least_quanta,
    pause_ns,
    reaction_ns,
)
from controller.pfc_frame import MOST_QUANTA
from experiments.shape import lay_out
from experiments.spec import Spec, known, refuse
from experiments.traffic import check_stuck
from topologies.describe import describe
from topologies.profiles import Lossless
from topologies.units import format_bytes, format_duration, format_rate

MOST_POOL_BYTES = 1 << 31
_XON_FRAMES = 2  # below XOFF (DCQCN, SIGCOMM 2015, section 4)
_SWITCH_BUFFER_BYTES, _SWITCH_PORTS = 12_000_000, 32  # of the switch that DCQCN's authors had


def with_thresholds(spec: Spec) -> Spec:
    """The spec with every key of PFC that applies; raises BadRequest for what cannot be lossless, or could lose without
    allow_loss."""
    if spec.pfc == "off":
        return spec
    _check_stuck(spec)
    spec = replace(spec, headroom_bytes=_headroom(spec))
    spec = _on_a_pool(spec) if spec.alpha else _in_own_buffer(spec)
    return replace(_with_xon(spec), pause_quanta=_quanta(spec))


def lossless(spec: Spec) -> Lossless | None:
    """PFC of every switch of a resolved spec."""
    if spec.pfc == "off":
        return None
    return Lossless(
        known(spec.xoff_bytes),
        known(spec.xon_bytes),
        known(spec.headroom_bytes),
        known(spec.xoff_at),
        spec.pool_bytes,
        spec.alpha or None,
    )


def needed_headroom_bytes(spec: Spec) -> int:
    """Headroom with which nothing is lost, for one neighbour over the fastest link of the fabric."""
    fastest_bps = max(spec.link_rates_bps)
    slow_ns = known(spec.control_latency_ns) + CONTROLLER_NS if spec.pause == "controller" else 0
    return headroom_bytes(
        fastest_bps, spec.delay_ns, spec.frame_bytes, reaction_ns(fastest_bps, spec.switch_delay_ns) + slow_ns
    )


def first_pause_bytes(spec: Spec) -> int:
    """The least that one port may have counted when it pauses: xoff, or what is left of it when all ports of a switch
    are full at once."""
    if not spec.alpha:
        return known(spec.xoff_bytes)
    return int(spec.alpha * known(spec.pool_bytes) / (1 + spec.alpha * _most_ports(spec)))


def surely_first_mark_bytes(spec: Spec) -> int:
    """A kmin below this acts before PFC, however the bytes of a port are spread over queues (DCQCN, SIGCOMM 2015,
    section 4)."""
    ports, headroom = _most_ports(spec), known(spec.headroom_bytes)
    shared_bytes = known(spec.pool_bytes) if spec.alpha else ports * known(spec.xoff_bytes)
    memory = SharedBuffer(shared_bytes + ports * headroom, ports, 1, headroom)
    return int(memory.dynamic_ecn_bytes(spec.alpha) if spec.alpha else memory.static_ecn_bytes)


def warnings(spec: Spec) -> list[str]:
    """What may go wrong in a resolved spec that is run all the same, a line each."""
    if spec.pfc == "off":
        return []
    lines = []
    needed_bytes, headroom = needed_headroom_bytes(spec), known(spec.headroom_bytes)
    if headroom < needed_bytes:
        lines.append(
            f"headroom: {format_bytes(headroom)} is less than the {format_bytes(needed_bytes)} that are needed:"
            " the lossless class may lose packets"
        )
    if spec.duration_ns is not None and known(spec.pfc_watchdog_ns) >= spec.duration_ns:
        watchdog, duration = format_duration(known(spec.pfc_watchdog_ns)), format_duration(spec.duration_ns)
        lines.append(f"pfc_watchdog: {watchdog} is not below the duration of {duration}: it never acts")
    return lines


def _check_stuck(spec: Spec) -> None:
    stuck = known(spec.stuck)
    endless = next((each for each in stuck if each.end_ns is None), None)
    if spec.duration_ns is None and endless is not None:
        refuse("stuck", f"{endless} has no end, and workload={spec.workload} waits for all data", "an end")
    check_stuck(stuck, spec.host_names, spec.duration_ns)


def _headroom(spec: Spec) -> int:
    """As given, or as needed; with allow_loss what is needed may be more than half of the buffer, and no more is
    taken."""
    needed_bytes = needed_headroom_bytes(spec)
    if spec.headroom_bytes is None:
        most_bytes = spec.buffer_bytes // (2 * _neighbours(spec))
        return min(needed_bytes, most_bytes) if spec.allow_loss and not spec.alpha else needed_bytes
    if spec.headroom_bytes < needed_bytes and not spec.allow_loss:
        refuse(
            "headroom",
            f"{format_bytes(spec.headroom_bytes)} is given, and a neighbour {_away(spec)} still sends"
            f" {format_bytes(needed_bytes)}",
            f"{format_bytes(needed_bytes)} or more, or allow_loss=on",
        )
    return spec.headroom_bytes


def _away(spec: Spec) -> str:
    """What headroom follows from."""
    link = f"over a link of {format_rate(max(spec.link_rates_bps))} and {format_duration(spec.delay_ns)}"
    if spec.pause == "switch":
        return link
    return f"{link}, paused by the controller {format_duration(known(spec.control_latency_ns))} later,"


def _neighbours(spec: Spec) -> int:
    """How many neighbours' headroom lies in one port's buffer."""
    return 1 if spec.xoff_at == "ingress" else _most_ports(spec) - 1


def _most_ports(spec: Spec) -> int:
    """Ports in use of the largest switch."""
    wires = describe(lay_out(spec)).wires
    hosts = set(spec.host_names)
    return max(Counter(node for wire in wires for node in (wire.a, wire.b) if node not in hosts).values())


def _in_own_buffer(spec: Spec) -> Spec:
    """xoff where every port has a buffer of its own."""
    if spec.pool_bytes is not None:
        refuse("pool", f"{format_bytes(spec.pool_bytes)} is given with alpha=off", "with alpha")
    neighbours, headroom = _neighbours(spec), known(spec.headroom_bytes)
    room_bytes = spec.buffer_bytes - neighbours * headroom
    whose = f" for each of {neighbours} neighbours" if neighbours > 1 else ""
    headrooms = f"headroom of {format_bytes(headroom)}{whose}"
    if room_bytes < spec.frame_bytes:
        least_bytes = neighbours * headroom + spec.frame_bytes
        refuse(
            "buffer",
            f"{format_bytes(spec.buffer_bytes)} is given, and {headrooms} leaves no frame of it (a neighbour"
            f" {_away(spec)} still sends {format_bytes(needed_headroom_bytes(spec))})",
            f"{format_bytes(least_bytes)} or more" + ("" if spec.allow_loss else ", or allow_loss=on"),
        )
    if spec.xoff_bytes is not None and spec.xoff_bytes > room_bytes:
        refuse(
            "xoff",
            f"{format_bytes(spec.xoff_bytes)} and {headrooms} are above buffer={format_bytes(spec.buffer_bytes)}",
            f"up to {format_bytes(room_bytes)}",
        )
    return replace(spec, xoff_bytes=spec.xoff_bytes or room_bytes)


def _on_a_pool(spec: Spec) -> Spec:
    """xoff where ports share memory: the most that alpha gives a port alone, alpha / (1 + alpha) of the pool."""
    if spec.xoff_at == "egress":
        refuse("alpha", f"{spec.alpha:g} is given with xoff_at=egress", "with xoff_at=ingress")
    ports, alpha = _most_ports(spec), known(spec.alpha)
    whole_bytes = _SWITCH_BUFFER_BYTES * ports // _SWITCH_PORTS
    auto_bytes = int(SharedBuffer(whole_bytes, ports, 1, known(spec.headroom_bytes)).shared_bytes)
    pool_bytes = auto_bytes if spec.pool_bytes is None else spec.pool_bytes
    xoff_bytes = int(alpha * pool_bytes / (1 + alpha))
    if xoff_bytes < spec.frame_bytes or pool_bytes > MOST_POOL_BYTES:
        left = (
            f"is left of {format_bytes(whole_bytes)} for {ports} ports by headroom of"
            f" {format_bytes(known(spec.headroom_bytes))} each"
        )
        least_bytes = -(-spec.frame_bytes * (1 + alpha) // alpha)
        refuse(
            "pool",
            f"{format_bytes(max(0, pool_bytes))} {'is given' if spec.pool_bytes else left}",
            f"{least_bytes:.0f}B, which lets one port have a frame, to {format_bytes(MOST_POOL_BYTES)}",
        )
    if spec.xoff_bytes not in (None, xoff_bytes):
        given = format_bytes(known(spec.xoff_bytes))
        refuse("xoff", f"{given} is given with alpha={alpha:g}, which sets it", "auto, or alpha=off")
    return replace(spec, pool_bytes=pool_bytes, xoff_bytes=xoff_bytes)


def _with_xon(spec: Spec) -> Spec:
    xoff_bytes = known(spec.xoff_bytes)
    if spec.xon_bytes is None:
        return replace(spec, xon_bytes=max(0, xoff_bytes - _XON_FRAMES * spec.frame_bytes))
    if spec.xon_bytes > xoff_bytes:
        refuse("xon", f"{format_bytes(spec.xon_bytes)} is above xoff {format_bytes(xoff_bytes)}", "up to xoff")
    return spec


def _quanta(spec: Spec) -> int:
    """As given, or the most that end within the duration, where that is known."""
    slowest_bps, fastest_bps = min(spec.link_rates_bps), max(spec.link_rates_bps)
    ordered = (CONTROLLER_NS,) if spec.pause == "controller" else ()
    least = least_quanta(spec.frame_bytes, fastest_bps, *ordered)
    held = MOST_QUANTA if spec.duration_ns is None else spec.duration_ns * slowest_bps // (QUANTUM_BITS * 10**9)
    quanta = min(MOST_QUANTA, held) if spec.pause_quanta is None else spec.pause_quanta
    if held < least:
        least_ns = -(-least * QUANTUM_BITS * 10**9 // slowest_bps)
        refuse(
            "duration",
            f"{format_duration(known(spec.duration_ns))} is given, in which no pause at {format_rate(slowest_bps)} ends"
            f" that can be refreshed in time ({least} quanta)",
            f"{format_duration(least_ns)} or more",
        )
    if quanta < least:
        refuse(
            "pause_quanta",
            f"{quanta} is given; a refresh at half of them may wait for a frame of {spec.frame_bytes}B and is late",
            f"{least} to {min(MOST_QUANTA, held)}",
        )
    if quanta > held:
        last, duration = pause_ns(quanta, slowest_bps), format_duration(known(spec.duration_ns))
        refuse(
            "pause_quanta",
            f"{quanta} is given, which at {format_rate(slowest_bps)} last {format_duration(last)} and outlast the"
            f" duration of {duration}",
            f"{least} to {held}",
        )
    return quanta
