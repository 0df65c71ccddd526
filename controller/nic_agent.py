"""DCQCN in the emulated NIC of one host: what arrives there is answered or heeded, and queue pairs are paced.

As notification point it sees CE-marked RoCE packets come in and sends CNPs back over the fabric; as reaction point it
sees CNPs come in and sets the rate of the queue pair's queue in the NIC. A filter shows it nothing else, and no marked
packet of a queue pair for which no CNP may be sent yet: those cost no system call.

The NIC's queues stand behind its link's delay (netem is the root of the stack, see topologies.qdisc): a rate that is
set there is at the other end of the link at once. A reaction point therefore acts one such delay after the fact, as if
its own clock were so much behind; its records are in its own time.
"""

from __future__ import annotations

import errno
import socket
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from controller import bpf
from controller.dcqcn import Dcqcn, NotificationPoint, ReactionPoint
from controller.loop import Loop, Timer
from controller.roce_packet import CNP, HEADER_BYTES, RocePacket, cnp, congestion_filter, parse
from topologies import live_queues
from topologies.namespaces import entered
from topologies.netlink import Netlink

COLUMNS = ("time_ns", "queue_pair", "event", "rate_bps", "alpha", "target_bps")
RECORD = "dcqcn.events"
CNP_RECEIVED, RATE, CNP_SENT = range(3)
_ETH_P_IP = 0x0800  # packets that come in: what goes out is seen only by who listens to all protocols

Destination = tuple[str, int]  # a queue pair as its sender's NIC knows it: the IP address and QPN that it sends to
# The connected queue pairs of a host now, own QPN -> the peer's (see topologies.rdma.queue_pairs).
Connected = Callable[[], Mapping[int, int]]


class Record:
    """What happened to all queue pairs of a run: `rows` of six int64 (COLUMNS; event is CNP_RECEIVED, RATE or CNP_SENT,
    alpha is in 1e-9). Rate, alpha and target are the reaction point's; who sends a CNP does not know them: 0."""

    def __init__(self) -> None:
        self.rows = array("q")
        self._numbers: dict[Destination, int] = {}

    @property
    def queue_pairs(self) -> list[Destination]:
        """What the numbers in `rows` mean."""
        return list(self._numbers)

    def sent(self, time_ns: int, queue_pair: Destination) -> None:
        """A CNP was sent because of a queue pair's packet."""
        self.rows.extend((time_ns, self._number(queue_pair), CNP_SENT, 0, 0, 0))

    def changed(self, time_ns: int, queue_pair: Destination, event: int, point: ReactionPoint) -> None:
        """`event` has come to a queue pair's reaction point, which is `point` now."""
        alpha_1e9 = round(point.alpha(time_ns) * 1e9)
        self.rows.extend((time_ns, self._number(queue_pair), event, point.rate_bps, alpha_1e9, point.target_bps))

    def _number(self, queue_pair: Destination) -> int:
        return self._numbers.setdefault(queue_pair, len(self._numbers))


@dataclass(frozen=True)
class Nic:
    """Where an agent works: an open descriptor of the host's network namespace, name and index of the interface in it,
    rate in bits/s and delay in ns of its link."""

    namespace: int
    interface: str
    ifindex: int
    rate_bps: int
    delay_ns: int


class _Limiter:
    """The reaction point of one queue pair and the timer that it waits for."""

    __slots__ = ("point", "queue_pair", "timer")

    def __init__(self, queue_pair: Destination, point: ReactionPoint) -> None:
        self.queue_pair, self.point = queue_pair, point
        self.timer: Timer | None = None


class NicAgent:
    """Notification and reaction points of one NIC, on `loop`; a context manager around its sockets."""

    def __init__(self, loop: Loop, nic: Nic, parameters: Dcqcn, connected: Connected, record: Record) -> None:
        self._loop, self._nic, self._parameters = loop, nic, parameters
        self._connected, self._record = connected, record
        self._peers: Mapping[int, int] = {}
        self._notification_point = NotificationPoint(parameters.cnp_interval_ns)
        self._muted: dict[int, Timer] = {}  # in the order of their muting, each with the timer that ends it
        self._limiters: dict[Destination, _Limiter] = {}

    def __enter__(self) -> NicAgent:
        with entered(self._nic.namespace):
            self._netlink = Netlink()
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)  # of no protocol yet: it hears nothing
        self._socket.setblocking(False)
        self._apply_filter()
        self._socket.bind((self._nic.interface, _ETH_P_IP))
        self._loop.watch(self._socket.fileno(), self._heard)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()
        self._netlink.close()

    def _apply_filter(self) -> None:
        bpf.attach(self._socket, congestion_filter(self._muted))

    def _heard(self) -> None:
        try:
            packet = parse(self._socket.recv(HEADER_BYTES))
        except OSError as error:
            if error.errno != errno.ENETDOWN:  # told once when the link goes down; it may come up again
                raise
            return
        if packet is None:
            return
        if packet.opcode != CNP:
            self._notify(packet)
        elif (peer := self._peer(packet.queue_pair)) is not None:
            self._cnp((socket.inet_ntoa(packet.source_ip), peer))

    def _peer(self, queue_pair: int) -> int | None:
        """The QPN at the other end; None when there is no such queue pair, or it is not connected (any more)."""
        if queue_pair not in self._peers:
            self._peers = self._connected()
        return self._peers.get(queue_pair)

    # --- notification point

    def _notify(self, packet: RocePacket) -> None:
        """Muted is also who turns out to have no peer, so as not to be looked up for every packet. Where the timer that
        ends it is late, a packet that had come before the filter may be answered first: that timer has had its time."""
        now_ns, queue_pair = self._loop.woken_ns(), packet.queue_pair
        if not self._notification_point.answers(queue_pair, now_ns):
            return
        if queue_pair in self._muted:
            self._muted[queue_pair].cancel()
        free_ns = now_ns + self._parameters.cnp_interval_ns
        self._muted[queue_pair] = self._loop.call_at(free_ns, partial(self._unmute, queue_pair))
        self._apply_filter()
        peer = self._peer(queue_pair)
        if peer is not None:
            self._socket.send(cnp(packet, peer))
            self._record.sent(now_ns, (socket.inet_ntoa(packet.destination_ip), queue_pair))

    def _unmute(self, queue_pair: int) -> None:
        del self._muted[queue_pair]
        self._apply_filter()

    # --- reaction point

    def _cnp(self, queue_pair: Destination) -> None:
        now_ns = self._loop.woken_ns()
        self._loop.call_at(now_ns + self._nic.delay_ns, partial(self._react, queue_pair, now_ns))

    def _react(self, queue_pair: Destination, arrived_ns: int) -> None:
        limiter = self._limiters.get(queue_pair)
        if limiter is None:
            point = ReactionPoint(self._parameters, self._nic.rate_bps)
            limiter = self._limiters[queue_pair] = _Limiter(queue_pair, point)
        limiter.point.cnp(arrived_ns)
        self._apply(limiter, arrived_ns, CNP_RECEIVED)

    def _advance(self, limiter: _Limiter, due_ns: int) -> None:
        limiter.point.advance(due_ns, partial(self._sent_bytes, limiter.queue_pair))
        self._apply(limiter, due_ns, RATE)

    def _sent_bytes(self, queue_pair: Destination) -> int:
        """A NIC tells of some hundred queue pairs: of any further ones no bytes are counted."""
        paced = live_queues.read_queue_pairs(self._netlink, self._nic.ifindex).get(queue_pair)
        return 0 if paced is None else paced.sent_bytes

    def _apply(self, limiter: _Limiter, time_ns: int, event: int) -> None:
        """Pace the queue pair at its rate, or no more, and wait for its next timer."""
        point = limiter.point
        rate_bps = None if point.next_ns is None else point.rate_bps
        self._netlink.execute([live_queues.pace(self._nic.ifindex, *limiter.queue_pair, rate_bps)])
        self._record.changed(time_ns, limiter.queue_pair, event, point)
        if limiter.timer is not None:
            limiter.timer.cancel()
        if point.next_ns is not None:
            due_ns = point.next_ns
            limiter.timer = self._loop.call_at(due_ns + self._nic.delay_ns, partial(self._advance, limiter, due_ns))
