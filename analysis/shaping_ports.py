"""The shapers of a run on the real clock: every captured port towards a host, and how it kept its rate."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from analysis import shaping, text
from analysis.cost_model import ETHERNET_HEADER_BYTES
from analysis.fabric import Fabric
from analysis.run import Run


@dataclass(frozen=True)
class Port:
    """A port's shaper: its rate as measured, by what share that is off, its jitter, what its bucket saves up, and where
    this was read."""

    rate_bps: float
    error: float
    jitter_s: float
    saved_s: float
    source: str


def shaped_ports(run: Run) -> tuple[list[Port], str]:
    """Every port towards a host that was captured, as far as the captures of those who sent to it tell; none, and why,
    where nothing tells."""
    addresses = _addresses(run)
    hosts = {port: addresses.get(told.get("peer", "")) for port, told in run.measured.get("ports", {}).items()}
    seen = {port: ip for port, ip in hosts.items() if ip is not None and run.has_capture(port)}
    if not seen:
        return [], "no capture of a port towards a host"
    sent = _sent(run, addresses)
    found = {port: _shaped(run, port, ip, sent) for port, ip in seen.items()} if sent else {}
    ports = [each for each in found.values() if each is not None]
    few = f"fewer than {shaping.FEWEST_GAPS} frames are known to have waited at {next(iter(seen))}"
    return ports, few if sent else "no capture of a sender (capture=all)"


def _sent(run: Run, addresses: dict[str, int]) -> shaping.Frames | None:
    """What all hosts whose NIC was captured sent."""
    names = [name for name in addresses if run.has_capture(f"{name}-eth0")]
    parts = [(run.packets(f"{name}-eth0"), addresses[name]) for name in names]
    return shaping.together([shaping.frames(each, each.src_ip == ip) for each, ip in parts]) if parts else None


def _shaped(run: Run, port: str, host_ip: int, sent: shaping.Frames) -> Port | None:
    bucket = _bucket(run, port)
    if bucket is None:
        return None
    packets, parameters = run.packets(port), run.parameters
    frame_bytes = parameters.path.mtu_bytes + ETHERNET_HEADER_BYTES
    saved_ns, frame_ns = (
        size * 8 * 10**9 // bucket["rate_bps"] for size in (bucket["burst_bytes"] - frame_bytes, frame_bytes)
    )
    left = shaping.frames(packets, (packets.ip_version == 4) & (packets.src_ip != host_ip))
    # A frame's way through the switch takes CPU time, beside the configured delay: a frame's time is left for it.
    way_ns = parameters.path.delay_ns + frame_ns
    spans = shaping.waiting_spans(left, shaping.came_ns(left, sent), way_ns)
    seen = shaping.shaped(left, _undisturbed(run, port, left, spans), bucket["rate_bps"], saved_ns)
    if seen is None:
        return None
    source = f"captures: {text.counted(seen.gaps, 'gap')} between frames that had waited at {port}"
    return Port(seen.rate_bps, seen.rate_bps / bucket["rate_bps"] - 1, seen.jitter_s, saved_ns / 1e9, source)


def _bucket(run: Run, port: str) -> dict[str, int] | None:
    """The options of the port's shaper as read back; None where the run does not tell."""
    stack = run.measured["ports"][port].get("qdiscs", [])
    options: dict[str, int] = next((queue.get("options", {}) for queue in stack if queue.get("kind") == "tbf"), {})
    return options if {"rate_bps", "burst_bytes"} <= set(options) else None


def _undisturbed(run: Run, port: str, left: shaping.Frames, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans before anything failed, without those in which a pause held the port."""
    held = run.pauses.held.get(port, []) if run.pauses else []
    until_ns = min((each["time_ns"] for each in run.measured.get("failures", ())), default=None)
    times = left.time_ns
    return [
        (first, last)
        for first, last in spans
        if (until_ns is None or times[last] <= until_ns)
        and not any(start < times[last] and stop > times[first] for start, stop in held)
    ]


def _addresses(run: Run) -> dict[str, int]:
    """The hosts' addresses as numbers, by name."""
    hosts = Fabric.of(run.fabric).hosts if run.fabric else {}
    return {name: int(ipaddress.ip_address(address)) for name, address in hosts.items()}
