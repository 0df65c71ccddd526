"""Watches the queues of switch ports for the controller that marks, and tells it when one crosses the threshold.

 a packet leaves an idle port ------> look at its queue, again and again until it stays empty
 the queue is longer than K ........> the control latency later: mark SWITCH PORT on
 it is no longer than K again ......> the control latency later: mark SWITCH PORT off

Until the next look passes no more time than the queue needs at least to get to K, or a microsecond when that is more:
it grows no faster than all other ports of its switch fill it while its own link drains it, and shrinks no faster than
that link. So a crossing is seen within a microsecond, and in virtual time, where a look takes no time, watching does
not change what is watched. A port that its switch cannot fill up to K is not looked at. A crossing that begins while a
pause holds an idle port is seen when the port sends again.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from controller import bpf
from controller.commands import Command, Mark, Switches
from controller.loop import Loop
from controller.policy import Policy
from controller.telemetry import drain
from topologies.describe import FabricDescription, ends
from topologies.live_queues import Probe
from topologies.profiles import ETHERNET_HEADER_BYTES

_LEAST_WAIT_NS = 1_000
_IDLE_LOOKS = 3
_ETH_P_ALL = 0x0003


@dataclass(frozen=True)
class WatchedPort:
    """A switch port, its interface, and the handle of the queue that is watched there: a port marks while more than
    `threshold_bytes` wait. The queue drains at the link's rate_bps; the switch's other ports can make it grow at
    growth_bps, and at once by burst_bytes: a frame from each."""

    switch: str
    port: int
    interface: str
    ifindex: int
    handle: int
    threshold_bytes: int
    rate_bps: int
    growth_bps: int
    burst_bytes: int

    @property
    def can_cross(self) -> bool:
        """Whether the queue can get across the threshold at all."""
        return self.growth_bps > 0 or self.burst_bytes > self.threshold_bytes

    def wait_ns(self, queue_bytes: int) -> int:
        """How long it takes the queue at least to get across the threshold from `queue_bytes`; a microsecond when that
        is more."""
        distance_bytes = queue_bytes - self.threshold_bytes
        speed_bps = self.rate_bps if distance_bytes > 0 else self.growth_bps
        surely_bytes = max(0, abs(distance_bytes) - self.burst_bytes)
        return max(_LEAST_WAIT_NS, surely_bytes * 8_000_000_000 // max(1, speed_bps))


def watched_ports(
    fabric: FabricDescription,
    port_index: Mapping[str, int],
    policy: Policy,
    handle: int,
    mtu_bytes: int,
    can_be_held: bool = False,
) -> Iterator[WatchedPort]:
    """The switch ports of a fabric whose queue `handle` can get longer than the kmin of the policy's curve for their
    rate. `port_index`: interface -> its index; `can_be_held`: neighbours may pause the queue, which then does not
    drain."""
    curves, switches = dict(policy.thresholds), {switch.name for switch in fabric.switches}
    found = [end for wire in fabric.wires for end in ends(wire) if end.node in switches]
    for end in found:
        others = [other.wire.rate_bps for other in found if other.node == end.node and other is not end]
        port = WatchedPort(
            end.node,
            end.port,
            end.interface,
            port_index[end.interface],
            handle,
            curves[end.wire.rate_bps].kmin_bytes,
            end.wire.rate_bps,
            max(0, sum(others) - (0 if can_be_held else end.wire.rate_bps)),
            len(others) * (mtu_bytes + ETHERNET_HEADER_BYTES),
        )
        if port.can_cross:
            yield port


class _Watch:
    """Looks at one port's queue; `crossed` is called with what the port is to do from now on."""

    def __init__(self, loop: Loop, port: WatchedPort, crossed: Callable[[Mark], None]) -> None:
        self._loop, self._port, self._crossed = loop, port, crossed
        self._marks, self._idle = False, 0
        self._probe = Probe(port.ifindex, port.handle)
        self._tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._tap.bind((port.interface, _ETH_P_ALL))
        self._tap.setblocking(False)
        bpf.attach(self._tap, bpf.EVERYTHING_THAT_LEAVES)
        loop.watch(self._tap.fileno(), self._wake)

    def close(self) -> None:
        """Close its sockets."""
        self._loop.unwatch(self._tap.fileno())
        self._tap.close()
        self._probe.close()

    def _wake(self) -> None:
        """A packet has left the port."""
        bpf.attach(self._tap, bpf.NOTHING)
        drain(self._tap)
        self._idle = 0
        self._look()

    def _look(self) -> None:
        queue_bytes = self._probe.read()[0]
        marks = queue_bytes > self._port.threshold_bytes
        if marks != self._marks:
            self._marks = marks
            self._crossed(Mark(self._port.switch, self._port.port, marks))
        self._idle = 0 if queue_bytes else self._idle + 1
        if self._idle < _IDLE_LOOKS:
            self._loop.call_at(_common(self._loop.woken_ns(), self._port.wait_ns(queue_bytes)), self._look)
        else:
            bpf.attach(self._tap, bpf.EVERYTHING_THAT_LEAVES)


def _common(now_ns: int, wait_ns: int) -> int:
    """A time within `wait_ns` from now, the second half of it, that ports with the like waits share: one waking serves
    them all."""
    step_ns = 1 << (wait_ns.bit_length() - 2)
    return (now_ns + wait_ns) // step_ns * step_ns


class QueueWatch:
    """Watches `ports` on `loop`, and tells the controller that listens at the socket `controller` of each crossing,
    `latency_ns` after it; a context manager around its sockets. `switches`: the control socket of the switches."""

    def __init__(
        self, loop: Loop, ports: Iterable[WatchedPort], latency_ns: int, controller: Path, switches: Path
    ) -> None:
        self._loop, self._ports, self._latency_ns = loop, tuple(ports), latency_ns
        self._controller, self._switches = controller, switches
        self._crossings: list[tuple[int, str, bool]] = []

    def __enter__(self) -> QueueWatch:
        with ExitStack() as stack:
            self._orders = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            self._orders.connect(str(self._controller))
            self._send(Switches(str(self._switches)))
            for port in self._ports:
                stack.callback(_Watch(self._loop, port, partial(self._crossed, port)).close)
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def write(self, folder: Path) -> dict[str, Any]:
        """Writes no file; returns every crossing as time in ns, interface, and whether the queue was then longer."""
        return {"mark_crossings": self._crossings}

    def _crossed(self, port: WatchedPort, command: Mark) -> None:
        now_ns = self._loop.woken_ns()
        self._crossings.append((now_ns, port.interface, command.on))
        if self._latency_ns:
            self._loop.call_at(now_ns + self._latency_ns, partial(self._send, command))
        else:
            self._send(command)

    def _send(self, command: Command) -> None:
        with suppress(ConnectionRefusedError):  # the controller has ended: the switches go on as they were told
            self._orders.send(command.encode())
