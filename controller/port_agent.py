"""PFC at every port of a running fabric: what the machines of `controller.pause` decide, done.

 kernel: crossing of XOFF or XON --> Pauser --> pause frame out of the ingress port, over the link like any frame
 pause frame comes in            --> Hold   --> hold, release or discard the class in the port's queue

Frames are the only way that a pause travels: one that anybody else sends pauses as well.

When a frame takes effect. A queue is seen one delay of its own link late (netem is the root of the stack, see
topologies.qdisc), and so is what it sends: all that a port lets go is at the other end at once. A switch's frame left
when its own queue, seen that delay late, had crossed, so that it takes effect as it arrives, and the link still carries
for two delays behind the crossing as a real one does. A host has no queue that it tells of: what it says is meant for
now, and takes effect a link's delay behind its arrival, when the last of what was on a real link would have come.
"""

from __future__ import annotations

import errno
import socket
from array import array
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from controller import bpf
from controller.commands import Pause
from controller.loop import Callback, Loop, Timer
from controller.pause import Event, Hold, Pauser
from controller.pfc_frame import ETHERTYPE, FRAME_BYTES, PfcFrame, decode, priority_of
from topologies import live_queues, qdisc
from topologies.addresses import interface
from topologies.emulate import Fabric
from topologies.namespaces import entered
from topologies.netlink import Netlink, Request

RECORD = "pauses.events"
PRIORITY = priority_of(qdisc.LOSSLESS_DSCP)
_ETH_P_ALL = 0x0003
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_MAC_CONTROL = b"".join(
    (
        bpf.instruction(bpf.LOAD_HALF, 12),
        bpf.instruction(bpf.IF_EQUAL, ETHERTYPE, 0, 1),
        bpf.instruction(bpf.RETURN, FRAME_BYTES),
        bpf.NOTHING,
    )
)


@dataclass(frozen=True)
class Port:
    """Port `number` of a switch or (`is_nic`) a host: its name in the node's namespace, its MAC address, the rate of
    its link, and how long after its arrival a pause frame takes effect."""

    node: str
    number: int
    is_nic: bool
    interface: str
    ifindex: int
    mac: str
    rate_bps: int
    effect_ns: int

    @property
    def name(self) -> str:
        """What tells it from all others: "leaf1-eth3", "h2-eth0"."""
        return interface(self.node, self.number)

    @property
    def host(self) -> str | None:
        """Whose namespace it is in; None: the first one, where all switches are."""
        return self.node if self.is_nic else None


@dataclass(frozen=True)
class Stuck:
    """A host whose NICs send pause frames from `begin_ns` to `end_ns` (CLOCK_REALTIME)."""

    host: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class PausePolicy:
    """How ports pause: `quanta` of a frame; after how many ns a paused switch port discards (None: never); which hosts
    are stuck; `control_latency_ns` after a crossing a controller orders the frame (None: the port sends it itself, at
    once)."""

    quanta: int
    watchdog_ns: int | None = None
    stuck: tuple[Stuck, ...] = ()
    control_latency_ns: int | None = None


def ports(fabric: Fabric) -> list[Port]:
    """Every port of the fabric, switches' before hosts'."""
    switches = [
        _port(switch, number, intf, fabric.port_index[intf.name])
        for switch in fabric.switches
        for number, intf in sorted(switch.intfs.items())
    ]
    nics = [
        _port(host, number, intf, host.ifindexes[intf.name])
        for host in fabric.hosts
        for number, intf in sorted(host.intfs.items())
    ]
    return [*switches, *nics]


def _port(node: Any, number: int, intf: Any, ifindex: int) -> Port:
    link = intf.link
    peer = (link.intf2 if link.intf1 is intf else link.intf1).node
    effect_ns = link.profile.delay_ns if peer.inNamespace else 0
    return Port(node.name, number, node.inNamespace, intf.name, ifindex, intf.mac, link.profile.rate_bps, effect_ns)


class _Place:
    """Where frames are sent and seen: a host's namespace, or the first one (None) with all switch ports. A port's
    bridge takes what comes in before the protocols get to see it, so that there all protocols are listened to, and a
    filter leaves MAC control (of what came before the filter, `decode` makes nothing)."""

    def __init__(self, namespace: int | None) -> None:
        protocol = _ETH_P_ALL if namespace is None else ETHERTYPE
        with nullcontext() if namespace is None else entered(namespace):
            self.netlink = Netlink()
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
        self.socket.setblocking(False)
        if namespace is None:
            bpf.attach(self.socket, _MAC_CONTROL)
            self.socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)

    def send(self, port: Port, quanta: int) -> bool:
        """A pause frame out of a port; whether it could be: not when the link is down."""
        frame = PfcFrame(port.mac, ((PRIORITY, quanta),)).encode()
        try:
            self.socket.sendto(frame, (port.interface, ETHERTYPE))
        except OSError as error:
            if error.errno != errno.ENETDOWN:
                raise
            return False
        return True

    def close(self) -> None:
        """Close its sockets."""
        self.socket.close()
        self.netlink.close()


class _Alarm:
    """Calls back at a time that may change."""

    def __init__(self, loop: Loop, callback: Callback) -> None:
        self._loop, self._callback = loop, callback
        self._timer: Timer | None = None

    def set(self, due_ns: int | None) -> None:
        """Call at `due_ns`, and at no other time; None: not at all."""
        if self._timer is not None:
            if self._timer.waits and self._timer.time_ns == due_ns:
                return
            self._timer.cancel()
        self._timer = None if due_ns is None else self._loop.call_at(due_ns, self._callback)


class _End:
    """A port with its two machines and what wakes them; `number` is its place in the list of ports."""

    def __init__(self, number: int, port: Port, policy: PausePolicy) -> None:
        self.number, self.port = number, port
        self.pauser = Pauser(policy.quanta, port.rate_bps)
        self.hold = Hold(port.rate_bps, policy.watchdog_ns if port.host is None else None)
        self.refresh: _Alarm
        self.expiry: _Alarm


class PortAgent:
    """PFC of all ports of `fabric`, on `loop`; a context manager around its sockets. With a control latency the
    controller that listens at the socket `controller` (see `controller.commands`) sends the switches' frames."""

    def __init__(self, loop: Loop, fabric: Fabric, policy: PausePolicy, controller: Path | None = None) -> None:
        self._loop, self._namespaces, self._policy, self._controller = loop, fabric.namespaces, policy, controller
        self.ports = ports(fabric)
        self._rows = array("q")
        self._ends = [_End(number, port, policy) for number, port in enumerate(self.ports)]
        self._by_interface = {(end.port.host, end.port.interface): end for end in self._ends}
        self._by_index = {end.port.ifindex: end for end in self._ends if end.port.host is None}
        for end in self._ends:
            end.refresh = _Alarm(loop, partial(self._refresh, end))
            end.expiry = _Alarm(loop, partial(self._wake, end))

    def __enter__(self) -> PortAgent:
        with ExitStack() as stack:
            self._places: dict[str | None, _Place] = {}
            for host, namespace in ((None, None), *self._namespaces.items()):
                self._places[host] = place = _Place(namespace)
                stack.callback(place.close)
                self._loop.watch(place.socket.fileno(), partial(self._arrived, host, place.socket))
            if self._controller is not None:
                self._orders = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                self._orders.connect(str(self._controller))
            listener = live_queues.PfcListener()
            stack.callback(listener.close)
            self._loop.watch(listener.fileno(), partial(self._crossed, listener))
            self._opened = stack.pop_all()
        for end in self._ends:
            self._plan(end)
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def write(self, folder: Path) -> dict[str, Any]:
        """Keep what happened in `folder`/RECORD: rows of four int64 (`controller.pause.COLUMNS`; events are numbers of
        `controller.pause.Event`); returns the names of the ports by their numbers."""
        with (folder / RECORD).open("wb") as file:
            self._rows.tofile(file)
        return {"pause_ports": [port.name for port in self.ports]}

    def _note(self, now_ns: int, end: _End, event: Event, value: int) -> None:
        self._rows.extend((now_ns, end.number, event, value))

    # --- the sending side

    def _plan(self, end: _End) -> None:
        """A stuck host's port pauses by the clock."""
        for stuck in self._policy.stuck:
            if stuck.host == end.port.host:
                self._loop.call_at(stuck.begin_ns, partial(self._turn, end, True, 0))
                self._loop.call_at(stuck.end_ns, partial(self._turn, end, False, 0))

    def _crossed(self, listener: live_queues.PfcListener) -> None:
        latency_ns = self._policy.control_latency_ns
        for crossing in listener.read():
            turn = partial(self._turn, self._by_index[crossing.ifindex], crossing.xoff, crossing.ingress_bytes)
            if latency_ns is None:
                turn()
            else:
                self._loop.call_at(self._loop.woken_ns() + latency_ns, turn)

    def _turn(self, end: _End, xoff: bool, ingress_bytes: int) -> None:
        now_ns = self._loop.woken_ns()
        event = end.pauser.crossing(now_ns, xoff)
        if event is not None:
            self._send(now_ns, end, event, ingress_bytes)

    def _refresh(self, end: _End) -> None:
        now_ns = self._loop.woken_ns()
        event = end.pauser.wake(now_ns)
        if event is not None:
            self._send(now_ns, end, event, end.pauser.quanta)

    def _send(self, now_ns: int, end: _End, event: Event, value: int) -> None:
        port, quanta = end.port, end.pauser.quanta_of(event)
        end.refresh.set(end.pauser.due_ns)
        if self._controller is not None and not port.is_nic:
            self._orders.send(Pause(port.node, port.number, quanta).encode())
        elif not self._places[port.host].send(port, quanta):
            return
        self._note(now_ns, end, event, value)

    # --- the receiving side

    def _arrived(self, host: str | None, place: socket.socket) -> None:
        data, address = place.recvfrom(FRAME_BYTES)
        end, frame = self._by_interface.get((host, address[0])), decode(data)
        quanta = frame.quanta_of(PRIORITY) if isinstance(frame, PfcFrame) else None
        if end is None or quanta is None:
            return
        if end.port.effect_ns:
            effect_ns = self._loop.woken_ns() + end.port.effect_ns
            self._loop.call_at(effect_ns, partial(self._heed, end, quanta))
        else:
            self._heed(end, quanta)

    def _heed(self, end: _End, quanta: int) -> None:
        now_ns = self._loop.woken_ns()
        self._change(now_ns, end, end.hold.frame(now_ns, quanta), quanta)

    def _wake(self, end: _End) -> None:
        now_ns = self._loop.woken_ns()
        self._change(now_ns, end, end.hold.wake(now_ns), 0)

    def _change(self, now_ns: int, end: _End, events: Sequence[Event], quanta: int) -> None:
        """Do to the queue what has been decided, and be woken in time."""
        self._places[end.port.host].netlink.execute(_request(end.port, event) for event in events)
        for event in events:
            self._note(now_ns, end, event, quanta if event is Event.HELD else 0)
        end.expiry.set(end.hold.due_ns)


def _request(port: Port, event: Event) -> Request:
    if event in (Event.WATCHDOG_ON, Event.WATCHDOG_OFF):
        return live_queues.discard(port.ifindex, event is Event.WATCHDOG_ON)
    return live_queues.hold(port.ifindex, event is Event.HELD, is_nic=port.host is not None)
