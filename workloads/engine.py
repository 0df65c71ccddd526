"""One event loop moves the bytes of all hosts: transfers start at their times and call back when their last
byte has arrived."""

from __future__ import annotations

import heapq
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from controller import timerfd
from workloads.transport.base import Connection


@dataclass(frozen=True)
class Transfer:
    """`size_bytes` over `connection`, starting at `start_ns` of CLOCK_REALTIME."""

    connection: Connection
    size_bytes: int
    start_ns: int


class Engine:
    """Runs transfers; a connection carries one at a time. Who hears nothing of any for `patience_s` gives up (None: the
    transport tells by itself when a flow is dead)."""

    def __init__(self, patience_s: float | None = None) -> None:
        self._patience_s = patience_s
        self._epoll = select.epoll()
        self._timer = timerfd.create()
        self._epoll.register(self._timer, select.EPOLLIN)
        self._order = count()
        self._waiting: list[tuple[int, int, Transfer]] = []
        self._unsent: dict[int, tuple[Connection, int]] = {}
        self._missing: dict[int, tuple[Transfer, int]] = {}
        self._done: dict[int, Callable[[Transfer, int], None]] = {}

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self._epoll.close()
        os.close(self._timer)

    def start(self, transfer: Transfer, done: Callable[[Transfer, int], None]) -> None:
        """Begin `transfer` at its time; `done(transfer, end_ns)` is called when all has arrived, and may start
        others."""
        connection = transfer.connection
        self._missing[connection.receive_descriptor] = (transfer, transfer.size_bytes)
        self._done[connection.receive_descriptor] = done
        connection.expect(transfer.size_bytes)
        self._epoll.register(connection.receive_descriptor, select.EPOLLIN)
        heapq.heappush(self._waiting, (transfer.start_ns, next(self._order), transfer))

    def run(self) -> None:
        """Until nothing is left to arrive. Raises ConnectionError when a flow dies."""
        while self._missing:
            self._start_due()
            for descriptor, _ in self._heard():
                if descriptor in self._missing:
                    self._receive(descriptor)
                elif descriptor in self._unsent:
                    self._send(descriptor)
                else:
                    os.read(self._timer, 8)

    def _heard(self) -> list[tuple[int, int]]:
        """What has happened. Raises ConnectionError when nothing does, and nothing is about to start."""
        events = self._epoll.poll(None if self._waiting else self._patience_s)
        if not events:
            connection = next(iter(self._missing.values()))[0].connection
            flow, others = f"flow {connection.sender} to {connection.receiver}", len(self._missing) - 1
            both = f"{flow} and {others} more have" if others else f"{flow} has"
            raise ConnectionError(f"{both} died: nothing has arrived for {self._patience_s:.3g} s")
        return events

    def _start_due(self) -> None:
        """Send what is due and set the timer for the next."""
        while self._waiting and self._waiting[0][0] <= time.time_ns():
            _, _, transfer = heapq.heappop(self._waiting)
            connection = transfer.connection
            left = transfer.size_bytes - connection.send(transfer.size_bytes)
            if left:
                self._unsent[connection.send_descriptor] = (connection, left)
                self._epoll.register(connection.send_descriptor, select.EPOLLOUT)
        if self._waiting:
            timerfd.set_to(self._timer, self._waiting[0][0])

    def _send(self, descriptor: int) -> None:
        connection, left = self._unsent[descriptor]
        left -= connection.send(left)
        if left:
            self._unsent[descriptor] = (connection, left)
        else:
            del self._unsent[descriptor]
            self._epoll.unregister(descriptor)

    def _receive(self, descriptor: int) -> None:
        transfer, missing = self._missing[descriptor]
        missing -= transfer.connection.receive()
        if missing > 0:
            self._missing[descriptor] = (transfer, missing)
            transfer.connection.expect(missing)
            return
        del self._missing[descriptor]
        self._epoll.unregister(descriptor)
        self._done.pop(descriptor)(transfer, time.time_ns())
