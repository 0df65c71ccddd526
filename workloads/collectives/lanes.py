"""Messages over data connections: each channel carries what is sent on it one after the other, and fills what is to be
received in the same order.

One epoll under the loop's serves all connections, so that a wake-up costs the same whatever their number. Descriptors
are registered once. A receiver's is level-triggered: when something has come that nobody asks for yet, it is disarmed
until somebody does. A sender's is edge-triggered: it tells when there is room again, and when the flow has died, which
with TCP the sender alone learns.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Mapping

from controller.loop import Loop
from workloads.collectives.program import Channel
from workloads.transport.base import DataConnection

Done = Callable[[], object]
Arrived = Callable[[bool], object]  # told whether the receiver slept for it
_DEAD = select.EPOLLERR | select.EPOLLHUP


class _Outgoing:
    """What waits to be put into a connection."""

    __slots__ = ("connection", "waiting")

    def __init__(self, connection: DataConnection) -> None:
        self.connection = connection
        self.waiting: deque[tuple[memoryview, Done]] = deque()

    def push(self, data: memoryview, done: Done) -> None:
        """Behind the others; `done` is called when all has been taken."""
        self.waiting.append((data, done))
        if len(self.waiting) == 1:
            self.put()

    def put(self) -> None:
        """As much as the connection takes."""
        while self.waiting:
            data, done = self.waiting[0]
            taken = self.connection.put(data) if data else 0
            if taken < len(data):
                self.waiting[0] = (data[taken:], done)
                return
            self.waiting.popleft()
            done()


class _Incoming:
    """What is to be taken from a connection; `armed`: its descriptor would tell, `slept`: the first in line waits for
    what has not come."""

    __slots__ = ("armed", "connection", "slept", "waiting")

    def __init__(self, connection: DataConnection) -> None:
        self.connection = connection
        self.waiting: deque[tuple[memoryview, Arrived]] = deque()
        self.armed = True
        self.slept = True

    def expect_first(self, slept: bool) -> None:
        """Ask for the first in line; those that are empty have come."""
        self.slept = slept
        while self.waiting:
            into, done = self.waiting[0]
            if into:
                self.connection.expect(len(into))
                return
            self.waiting.popleft()
            done(False)

    def take(self) -> int:
        """One piece of what has come, for the first in line; returns the number of bytes."""
        into, done = self.waiting[0]
        taken = self.connection.take(into)
        if taken < len(into):
            self.waiting[0] = (into[taken:], done)
            if taken:
                self.connection.expect(len(into) - taken)
            return taken
        self.waiting.popleft()
        done(self.slept)
        self.expect_first(slept=False)
        return taken


class Lanes:
    """The channels of a run over their connections, driven by `loop`; `after_wake` is called when what a wake-up
    brought has been seen to. `arrived_bytes` grows with all that comes; `sent_bytes` counts the payload of each
    channel."""

    def __init__(
        self, connections: Mapping[Channel, DataConnection], loop: Loop, after_wake: Callable[[], object]
    ) -> None:
        self._loop, self._after_wake = loop, after_wake
        self._outgoing = {channel: _Outgoing(connection) for channel, connection in connections.items()}
        self._incoming = {channel: _Incoming(connection) for channel, connection in connections.items()}
        self._by_sender = {each.connection.send_descriptor: each for each in self._outgoing.values()}
        self._by_receiver = {each.connection.receive_descriptor: each for each in self._incoming.values()}
        self.arrived_bytes = 0
        self.sent_bytes = dict.fromkeys(connections, 0)
        self._epoll = select.epoll()
        for descriptor in self._by_sender:
            self._epoll.register(descriptor, select.EPOLLOUT | select.EPOLLET)
        for descriptor in self._by_receiver:
            self._epoll.register(descriptor, select.EPOLLIN)
        loop.watch(self._epoll.fileno(), self._woken)

    def close(self) -> None:
        """Let go of the loop; the connections stay."""
        self._loop.unwatch(self._epoll.fileno())
        self._epoll.close()

    def send(self, channel: Channel, data: memoryview, done: Done) -> None:
        """Send the bytes of `data`; `done` is called when the transport has taken them. Raises ConnectionError when the
        flow is dead."""
        self.sent_bytes[channel] += len(data)
        self._outgoing[channel].push(data, done)

    def receive(self, channel: Channel, into: memoryview, done: Arrived) -> None:
        """Fill `into` with the next bytes of the channel; `done` is called when it is full."""
        incoming = self._incoming[channel]
        incoming.waiting.append((into, done))
        if len(incoming.waiting) > 1:
            return
        incoming.expect_first(slept=incoming.armed)
        if incoming.waiting and not incoming.armed:
            incoming.armed = True
            self._epoll.modify(incoming.connection.receive_descriptor, select.EPOLLIN)

    def missing(self) -> list[DataConnection]:
        """The connections that somebody waits for."""
        return [each.connection for each in self._incoming.values() if each.waiting]

    def _woken(self) -> None:
        for descriptor, events in self._epoll.poll(0):
            incoming = self._by_receiver.get(descriptor)
            if incoming is None:
                self._see_to_sender(self._by_sender[descriptor], events)
            elif incoming.waiting:
                self.arrived_bytes += incoming.take()
            else:
                self._unasked(incoming, events)
        self._after_wake()

    @staticmethod
    def _see_to_sender(outgoing: _Outgoing, events: int) -> None:
        if events & _DEAD:
            outgoing.connection.put(memoryview(b""))  # says why
            raise _died(outgoing.connection)
        outgoing.put()

    def _unasked(self, incoming: _Incoming, events: int) -> None:
        """Something has come that nobody asks for yet; of a dead flow an epoll tells even those who do not ask."""
        if events & _DEAD:
            raise _died(incoming.connection)
        incoming.armed = False
        self._epoll.modify(incoming.connection.receive_descriptor, 0)


def _died(connection: DataConnection) -> ConnectionError:
    return ConnectionError(f"flow {connection.sender} to {connection.receiver} has died")
