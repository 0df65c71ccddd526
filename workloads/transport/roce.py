"""RoCEv2 of the hosts' kernel (soft-RoCE): reliable queue pairs between the hosts' RDMA devices, all driven from one
process.

What a sender is given goes out as messages. Each is one RDMA WRITE, or several where a window cuts it, of which the
last has immediate data, which tells the receiver how much there is; or as many SENDs. All of it is event-driven: a
program that polls would stop virtual time.

A completion channel (ibv_get_cq_event(3)) cannot be asked whether there is room to send, and a dead receiver is noticed
by the sender alone. So `receive_descriptor` is an epoll of both ends' channels, and `send_descriptor` an eventfd(2)
that is full while the flow takes no more.

Limits of soft-RoCE (rxe_param.h, and lab/patches/0011): a queue pair has at most 513 packets unacknowledged, and asks
for an acknowledgement with every 66th and with a message's last. With packets of 4 KB it has 1.8 MB on their way at
least and 2.1 MB at most: alone it fills a link whose rate x round trip is below the first. They wait in the NIC when it
is paced, and the clock runs: one that does not get through what it has under way in an ACK timeout (251 Mb/s with 4 KB
and 67 ms) times out though nothing is lost.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import select
import struct
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from topologies.emulate import Fabric
from topologies.namespaces import entered
from topologies.rdma import device_name
from topologies.units import BadRequest
from workloads.patterns import Pair, flow_names

VERBS = ("write", "send")
# Soft-RoCE counts a retry for each NAK, as for each timeout, and takes 7 as for ever: then no flow is ever told dead.
MOST_RETRIES, ENDLESS_RETRIES = 6, 7
_DSCP_SHIFT, _ECT0 = 2, 2
_DEPTH = 64  # work requests, and messages, of a flow under way
_WINDOW_PIECES = 4
_HANDSHAKE_LIMIT_MS = 5_000
_FIRST_PSN = 0  # fixed, so that equal runs have equal packets
_FULL = (1 << 64) - 2  # eventfd(2): it can take no more
_EFD_NONBLOCK, _EFD_CLOEXEC = 0o4000, 0o2000000
_LIBC = ctypes.CDLL(None, use_errno=True)

Piece = tuple[int, int]  # bytes of a work request, and how many are told to the receiver with it; 0: it is not woken
Completion = tuple[str, int, int]  # what went wrong (empty: nothing), length in bytes, what was told with it


@dataclass(frozen=True)
class QueuePairs:
    """What all queue pairs of a run are like.

    verb: "write" or "send". mtu_bytes: path MTU, 256 to 4096. dscp: of data, which is ECN-capable (ECT(0), RFC 3168);
    ack_dscp: of acknowledgements, which are not. window_bytes: most unacknowledged bytes (None: no such limit), kept in
    work requests of a quarter of it. message_bytes: a receiver is told of so much at a time. queue_bytes: a flow takes
    so much ahead of acknowledgements. ack_timeout, retries: who hears nothing for 4.096 us x 2^ack_timeout (14: 67 ms,
    the usual) or is told of a loss begins anew, `retries` times without progress (7: for ever), and is dead then.
    """

    verb: str = "write"
    mtu_bytes: int = 4096
    dscp: int = 0
    ack_dscp: int = 0
    window_bytes: int | None = None
    message_bytes: int = 1 << 20
    queue_bytes: int = 4 << 20
    ack_timeout: int = 14
    retries: int = MOST_RETRIES

    def __post_init__(self) -> None:
        if self.window_bytes is not None and self.window_bytes < self.mtu_bytes:
            raise BadRequest(f"window: {self.window_bytes} B; allowed: at least one packet, {self.mtu_bytes} B")
        if not 0 <= self.retries <= ENDLESS_RETRIES:
            raise BadRequest(f"retries: {self.retries}; allowed: 0 to {MOST_RETRIES}, or {ENDLESS_RETRIES} for ever")

    @property
    def piece_bytes(self) -> int:
        """The largest work request: whole packets, and a quarter of the window."""
        if self.window_bytes is None:
            return self.message_bytes
        packets = max(1, self.window_bytes // _WINDOW_PIECES // self.mtu_bytes)
        return min(self.message_bytes, packets * self.mtu_bytes)


class End(Protocol):
    """One end of a connection, a queue pair; see `verbs.End`. Its `descriptor` is readable when something has
    completed."""

    number: int
    descriptor: int

    def connect(
        self, peer: End, traffic_class: int, mtu_bytes: int, first_psn: int, ack_timeout: int, retries: int
    ) -> None:
        """Make it ready to send and to receive."""

    def write(self, peer: End, pieces: Sequence[Piece]) -> None:
        """Post RDMA WRITEs."""

    def send(self, pieces: Sequence[Piece]) -> None:
        """Post SENDs."""

    def post_receives(self, count: int) -> None:
        """Make room for messages."""

    def rearm(self) -> None:
        """Wait for an event and ask for the next."""

    def completed(self) -> list[Completion]:
        """Tell what has completed since the last look."""

    def psns(self) -> tuple[int, int]:
        """Tell the next packet to send and the next that is expected."""

    def close(self) -> None:
        """End it."""


class _Gate:
    """A descriptor that is writable while the gate is open."""

    def __init__(self) -> None:
        self.descriptor: int = _LIBC.eventfd(0, _EFD_NONBLOCK | _EFD_CLOEXEC)
        if self.descriptor < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"eventfd: {os.strerror(code)}")
        self._open = True

    def set(self, to_open: bool) -> None:
        """Open or shut it."""
        if to_open and not self._open:
            os.read(self.descriptor, 8)
        elif self._open and not to_open:
            os.write(self.descriptor, struct.pack("=Q", _FULL))
        self._open = to_open

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


class Flow(ABC):
    """A connected pair of queue pairs. `source` and `destination` are the ends' addresses and queue pair numbers."""

    def __init__(
        self, name: str, pair: Pair, ips: tuple[str, str], sending: Any, receiving: Any, asked: QueuePairs
    ) -> None:
        self.name, (self.sender, self.receiver) = name, pair
        self.source, self.destination = (ips[0], sending.number), (ips[1], receiving.number)
        self._sending, self._receiving, self._asked = sending, receiving, asked
        self._ready, self._gate = select.epoll(), _Gate()
        self.send_descriptor, self.receive_descriptor = self._gate.descriptor, self._ready.fileno()
        for end in (sending, receiving):
            self._ready.register(end.descriptor, select.EPOLLIN)

    @staticmethod
    def nic(name: str, ip: str, payload: Any, flows: int, asked: QueuePairs) -> Any:
        """A host's device, open, for so many flows; see `verbs.Nic`."""
        return _verbs().Nic(name, ip, payload)

    @staticmethod
    @abstractmethod
    def ends(sender: Any, receiver: Any, asked: QueuePairs) -> tuple[Any, Any]:
        """The ends that such a flow needs on two such devices."""

    def _check(self, trouble: str, host: str) -> None:
        if trouble:
            raise ConnectionError(f"flow {self.sender} to {self.receiver} has died at {host}: {trouble}")

    def describe(self) -> dict[str, object]:
        """End points, and where both ends are in the sequence of packets (24 bits)."""
        asked = self._asked
        state = {"sender_psn": self._sending.psns()[0], "receiver_psn": self._receiving.psns()[1]}
        return {
            "flow": self.name,
            "sender": self.sender,
            "receiver": self.receiver,
            "source": "{}:{}".format(*self.source),
            "destination": "{}:{}".format(*self.destination),
            "roce": {"verb": asked.verb, "mtu_bytes": asked.mtu_bytes, "window_bytes": asked.window_bytes, **state},
        }

    def close(self) -> None:
        """End both queue pairs."""
        self._ready.close()
        self._gate.close()
        self._sending.close()
        self._receiving.close()


class RoceConnection(Flow):
    """A flow whose bytes nobody reads; see `base.Connection`."""

    def __init__(
        self, name: str, pair: Pair, ips: tuple[str, str], sending: End, receiving: End, asked: QueuePairs
    ) -> None:
        super().__init__(name, pair, ips, sending, receiving, asked)
        self._ends = {end.descriptor: end for end in (sending, receiving)}
        self._waiting_bytes = self._unacked_bytes = self._message_bytes = 0
        self._posted: deque[int] = deque()
        receiving.post_receives(_DEPTH)

    @staticmethod
    def ends(sender: Any, receiver: Any, asked: QueuePairs) -> tuple[End, End]:
        """A receiver is woken by messages, a sender by each acknowledgement."""
        return sender.end(_DEPTH, solicited=False), receiver.end(_DEPTH, solicited=True)

    @property
    def _room_bytes(self) -> int:
        return self._asked.queue_bytes - self._waiting_bytes - self._unacked_bytes

    def send(self, limit_bytes: int) -> int:
        """Take up to `limit_bytes` of zeros; 0 when too many are not acknowledged yet."""
        taken = min(limit_bytes, self._room_bytes)
        self._waiting_bytes += taken
        self._post()
        if not self._room_bytes:
            self._gate.set(to_open=False)
        return taken

    def _post(self) -> None:
        """Post what the window and the queue allow."""
        pieces: list[Piece] = []
        while size_bytes := self._next_bytes():
            self._waiting_bytes -= size_bytes
            self._unacked_bytes += size_bytes
            self._message_bytes += size_bytes
            self._posted.append(size_bytes)
            is_last = not self._waiting_bytes or self._message_bytes == self._asked.message_bytes
            pieces.append((size_bytes, self._message_bytes if is_last else 0))
            if is_last:
                self._message_bytes = 0
        if pieces and self._asked.verb == "write":
            self._sending.write(self._receiving, pieces)
        elif pieces:
            self._sending.send(pieces)

    def _next_bytes(self) -> int:
        """Size of the next work request that may be posted now, 0: none."""
        asked = self._asked
        size_bytes = min(self._waiting_bytes, asked.piece_bytes, asked.message_bytes - self._message_bytes)
        fits = asked.window_bytes is None or self._unacked_bytes + size_bytes <= asked.window_bytes
        return size_bytes if fits and len(self._posted) < _DEPTH else 0

    def expect(self, remaining_bytes: int) -> None:
        """Nothing to do: a receiver is woken by messages, which the sender cuts."""

    def receive(self) -> int:
        """See to both ends; returns how many bytes the receiver has been told of meanwhile. Raises ConnectionError when
        either end's queue pair is dead."""
        for descriptor, _ in self._ready.poll(0):
            self._ends[descriptor].rearm()
        self._take_acknowledgements()
        arrived_bytes = self._take_arrivals()  # then: what is acknowledged has arrived, and its place is free again
        self._post()
        if self._room_bytes * 2 >= self._asked.queue_bytes:
            self._gate.set(to_open=True)
        return arrived_bytes

    def _take_arrivals(self) -> int:
        """Where it is written, what messages announce; where it is sent, the lengths of the messages themselves."""
        found = self._completed(self._receiving, self.receiver)
        self._receiving.post_receives(len(found))
        return sum(told if self._asked.verb == "write" else length for _, length, told in found)

    def _take_acknowledgements(self) -> None:
        for _ in self._completed(self._sending, self.sender):
            self._unacked_bytes -= self._posted.popleft()

    def _completed(self, end: End, host: str) -> list[Completion]:
        found = end.completed()
        for trouble, _, _ in found:
            self._check(trouble, host)
        return found


AnyFlow = TypeVar("AnyFlow", bound=Flow)


def connected(
    fabric: Fabric,
    pairs: Sequence[Pair],
    on_connected: Callable[[], None] = lambda: None,
    asked: QueuePairs = QueuePairs(),
) -> AbstractContextManager[list[RoceConnection]]:
    """Flows whose bytes nobody reads; see `flows`."""
    return flows(RoceConnection, fabric, pairs, on_connected, asked)


@contextmanager
def flows(
    kind: type[AnyFlow],
    fabric: Fabric,
    pairs: Sequence[Pair],
    on_connected: Callable[[], None],
    asked: QueuePairs,
) -> Iterator[list[AnyFlow]]:
    """One flow of that kind per (sender, receiver), in order, on hosts that have RDMA devices (`topologies.rdma`);
    `on_connected` is called when each has been tried.

    Flows are named as `patterns.flow_names` says. Raises BadRequest without pyverbs, OSError naming the pair that
    cannot connect.
    """
    with ExitStack() as stack:
        nics = _nics(kind, fabric, pairs, asked, stack)
        connections = []
        for pair, name in zip(pairs, flow_names(pairs)):
            connections.append(_connection(kind, name, pair, nics, asked))
            stack.callback(connections[-1].close)
            on_connected()
        yield connections


def _verbs() -> Any:
    try:
        return importlib.import_module("workloads.transport.verbs")
    except ImportError as error:
        raise BadRequest("transport: roce needs pyverbs; allowed: tcp, or the package python3-pyverbs") from error


def _nics(
    kind: type[Flow], fabric: Fabric, pairs: Sequence[Pair], asked: QueuePairs, stack: ExitStack
) -> dict[str, Any]:
    """The opened device of every host that has flows; `stack` closes them."""
    payload = _verbs().Payload(asked.message_bytes)
    stack.callback(payload.close)
    nics = {}
    for host, flows in Counter(host for pair in pairs for host in pair).items():
        with entered(fabric.namespaces[host]):
            nics[host] = kind.nic(device_name(host), fabric.nameToNode[host].IP(), payload, flows, asked)
        stack.callback(nics[host].close)
    return nics


def _connection(kind: type[AnyFlow], name: str, pair: Pair, nics: dict[str, Any], asked: QueuePairs) -> AnyFlow:
    sender, receiver = pair
    sending, receiving = kind.ends(nics[sender], nics[receiver], asked)
    try:
        _shake_hands(sending, receiving, asked)
    except OSError as error:
        raise OSError(error.errno, f"{sender} cannot connect to {receiver}: {error.strerror}") from error
    return kind(name, pair, (nics[sender].ip, nics[receiver].ip), sending, receiving, asked)


def _shake_hands(sending: End, receiving: End, asked: QueuePairs) -> None:
    """Connect both ends and try the way: a message of two packets and its acknowledgement, as a TCP handshake is. The
    switches on the way have looked the flow up then, and no packet of the run overtakes another that waits for that."""
    common = (asked.mtu_bytes, _FIRST_PSN, asked.ack_timeout, asked.retries)
    receiving.connect(sending, asked.ack_dscp << _DSCP_SHIFT, *common)
    sending.connect(receiving, asked.dscp << _DSCP_SHIFT | _ECT0, *common)
    sending.write(receiving, [(asked.mtu_bytes + 1, 0)])
    waiter = select.poll()
    waiter.register(sending.descriptor, select.POLLIN)
    if not waiter.poll(_HANDSHAKE_LIMIT_MS):  # with endless retries nobody else would give up
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    sending.rearm()
    for trouble, _, _ in sending.completed():
        if trouble:
            raise OSError(errno.ETIMEDOUT, trouble)
