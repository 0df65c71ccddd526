"""Flows that send without a break from their begin to their end, while the receivers note every arrival.

What a flow has handed to its transport when its end comes is on its way and may still arrive. Where it cannot (its
class is paused for ever, its packets are lost), nobody waits for it longer than a settle time, and the flow is told as
stuck with what is missing.
"""

from __future__ import annotations

import select
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from controller.loop import Loop
from workloads.transport.base import Connection

BLOCK_BYTES = 64 << 10  # a system call costs more than a packet; at 10 Gb/s an arrival every 52 us is seen
COLUMNS = ("time_ns", "flow", "bytes")  # of a record of arrivals; `flow` is the number of the flow


@dataclass(frozen=True)
class LongFlow:
    """`connection` sends from `begin_ns` to `end_ns` (CLOCK_REALTIME)."""

    connection: Connection
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Outcome:
    """What became of a flow: bytes that its transport took and that arrived, when the last of them did (None: nothing
    has), and why the flow has died (None: it has not)."""

    begin_ns: int
    end_ns: int
    sent_bytes: int
    delivered_bytes: int
    last_arrival_ns: int | None
    died: str | None

    @property
    def undelivered_bytes(self) -> int:
        """What had not arrived when nobody waited any longer; above zero the flow is stuck."""
        return self.sent_bytes - self.delivered_bytes


class _Progress:
    """Where a flow is."""

    def __init__(self, flow: LongFlow) -> None:
        self.flow = flow
        self.sent_bytes = self.delivered_bytes = 0
        self.last_arrival_ns: int | None = None
        self.died: str | None = None
        self.ended = False

    @property
    def settled(self) -> bool:
        """Whether nothing more is to come."""
        return self.died is not None or (self.ended and self.delivered_bytes >= self.sent_bytes)


class LongFlows:
    """Drives all `flows` to their ends; afterwards, or when it is interrupted, `outcomes` tells of each in order and
    `write` keeps the arrivals. Gives up on what is under way once nothing has arrived for `settle_ns` after the last
    end. An arrival is noted when there is a block of it, and when the flow ends."""

    def __init__(self, flows: Sequence[LongFlow], settle_ns: int) -> None:
        self._settle_ns = settle_ns
        self._flows = [_Progress(flow) for flow in flows]
        self._numbers = {progress.flow.connection.send_descriptor: n for n, progress in enumerate(self._flows)}
        self._arrivals = array("q")
        self._latest_ns = max(flow.end_ns for flow in flows)  # of the last end and all arrivals

    def run(self) -> None:
        """Until every flow has ended and what it sent has arrived or is given up. A flow that dies is told as dead,
        and the others go on."""
        with Loop() as loop, select.epoll() as writable:
            self._loop, self._writable = loop, writable
            loop.watch(writable.fileno(), self._send_all)
            for number, progress in enumerate(self._flows):
                loop.call_at(progress.flow.begin_ns, partial(self._begin, number))
                loop.call_at(progress.flow.end_ns, partial(self._end, number))
            loop.call_at(self._latest_ns + self._settle_ns, self._give_up)
            loop.run()

    def _begin(self, number: int) -> None:
        connection = self._flows[number].flow.connection
        connection.expect(BLOCK_BYTES)
        self._loop.watch(connection.receive_descriptor, partial(self._receive, number))
        self._writable.register(connection.send_descriptor, select.EPOLLOUT)

    def _send_all(self) -> None:
        """A block of every flow that can take one."""
        for descriptor, _ in self._writable.poll(0):
            self._send(self._flows[self._numbers[descriptor]])

    def _send(self, progress: _Progress) -> None:
        try:
            progress.sent_bytes += progress.flow.connection.send(BLOCK_BYTES)
        except ConnectionError as error:
            self._bury(progress, error)

    def _receive(self, number: int) -> None:
        progress = self._flows[number]
        try:
            count = progress.flow.connection.receive()
        except ConnectionError as error:
            self._bury(progress, error)
            return
        if count:
            self._note(number, count)
        if progress.ended:
            self._stop_when_settled()
        else:
            self._send(progress)  # what has arrived may have made room before the connection says so

    def _note(self, number: int, count: int) -> None:
        progress, now_ns = self._flows[number], self._loop.woken_ns()
        progress.delivered_bytes += count
        progress.last_arrival_ns = now_ns
        self._latest_ns = max(self._latest_ns, now_ns)
        self._arrivals.extend((now_ns, number, count))

    def _end(self, number: int) -> None:
        """From now on anything that arrives is worth waking for: the rest is short, and may come in part."""
        progress = self._flows[number]
        progress.ended = True
        if progress.died is None:
            self._writable.unregister(progress.flow.connection.send_descriptor)
            progress.flow.connection.expect(1)
        self._stop_when_settled()

    def _bury(self, progress: _Progress, error: ConnectionError) -> None:
        progress.died = str(error)
        self._loop.unwatch(progress.flow.connection.receive_descriptor)
        if not progress.ended:
            self._writable.unregister(progress.flow.connection.send_descriptor)
        self._stop_when_settled()

    def _stop_when_settled(self) -> None:
        if all(progress.settled for progress in self._flows):
            self._loop.stop()

    def _give_up(self) -> None:
        """Stop when nothing has come for long enough."""
        until_ns = self._latest_ns + self._settle_ns
        if self._loop.woken_ns() < until_ns:
            self._loop.call_at(until_ns, self._give_up)
        else:
            self._loop.stop()

    def outcomes(self) -> list[Outcome]:
        """What has become of each flow so far."""
        return [
            Outcome(
                each.flow.begin_ns,
                each.flow.end_ns,
                each.sent_bytes,
                each.delivered_bytes,
                each.last_arrival_ns,
                each.died,
            )
            for each in self._flows
        ]

    def write(self, file: Path) -> None:
        """Keep the arrivals so far: rows of three int64, see COLUMNS."""
        with file.open("wb") as kept:
            self._arrivals.tofile(kept)
