"""Programs carried out in memory, without a network: channels take whatever is sent at once, and a message takes a
fixed time on a clock that costs nothing.

Before a run, a rehearsal with small buffers of the same shape (a few numbers for every part of every rank, chunks of
one) tells which connections the programs need. It also finds what would make a run hang or go wrong: a program that
waits for what never comes, a message of another length than the receiver asks for, one that nobody takes, two programs
that use one end of a channel at the same time. Wherever several things could happen next, `order` decides which one
does: with dice, a program that relies on more than it was promised is found out.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Union

import numpy as np

from workloads.collectives.program import (
    Add,
    Aggregate,
    Await,
    Channel,
    Operation,
    Program,
    Programs,
    Receive,
    Send,
)

_MOST_TOLD = 8
_Taking = Union[Receive, Add]


@dataclass(frozen=True)
class Rehearsal:
    """What programs did: payload bytes and number of messages of each channel they used, and when the last was done,
    in ns after the begin."""

    sent_bytes: dict[Channel, int]
    messages: dict[Channel, int]
    end_ns: int

    def bytes_from(self, party: int) -> int:
        """What a party sent."""
        return sum(sent for (sender, _, _), sent in self.sent_bytes.items() if sender == party)

    def bytes_to(self, party: int) -> int:
        """What was sent to a party."""
        return sum(sent for (_, receiver, _), sent in self.sent_bytes.items() if receiver == party)


def rehearse(programs: Programs, order: random.Random | None = None, latency_ns: int = 0) -> Rehearsal:
    """Carry out the programs, each message taking `latency_ns`; what is ready happens in the order in which it became
    so, or in that of the dice. Raises RuntimeError saying who waits for what when they do not end well."""
    stage = _Stage(programs, order, latency_ns)
    stage.play()
    return Rehearsal(stage.sent_bytes, stage.messages, stage.now_ns)


def channels(programs: Programs) -> list[Channel]:
    """The channels that the programs use, in order of sender, receiver and lane; carries them out, so the buffers
    change."""
    return sorted(rehearse(programs).messages)


@dataclass(eq=False)
class _Actor:
    """A program of a party, and the operations of its step that are not done."""

    party: int
    program: Program
    open: list[Operation] = field(default_factory=list)


@dataclass(eq=False)
class _Line:
    """A channel: what is to be sent, what is on its way, what has arrived, what is to be filled."""

    channel: Channel
    sends: deque[tuple[_Actor, Send]] = field(default_factory=deque)
    on_its_way: deque[np.ndarray] = field(default_factory=deque)
    arrived: deque[np.ndarray] = field(default_factory=deque)
    takes: deque[tuple[_Actor, _Taking]] = field(default_factory=deque)


class _Stage:
    """Where programs are carried out: what is ready to happen, what happens later, what waits at each channel."""

    def __init__(self, programs: Programs, order: random.Random | None, latency_ns: int) -> None:
        self.sent_bytes: dict[Channel, int] = {}
        self.messages: dict[Channel, int] = {}
        self.now_ns = 0
        self._order = order
        self._latency_ns = latency_ns
        self._actors = [_Actor(party, program) for party, of_party in programs.items() for program in of_party]
        self._ready: deque[Callable[[], None]] = deque()
        self._later: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()  # of what happens later: ties keep their order
        self._lines: dict[Channel, _Line] = {}
        self._aggregations: dict[int, deque[tuple[_Actor, Aggregate]]] = {party: deque() for party in programs}

    def play(self) -> None:
        """Until nothing is left to happen; raises RuntimeError when somebody still waits or a message is left over."""
        self._ready.extend(partial(self._go_on, actor) for actor in self._actors)
        while self._ready or self._later:
            if self._ready:
                self._next()()
            else:
                self._pass_time()
        self._check_end()

    def _pass_time(self) -> None:
        """To the next time at which something happens; all that happens then is ready."""
        self.now_ns = self._later[0][0]
        while self._later and self._later[0][0] == self.now_ns:
            self._ready.append(heapq.heappop(self._later)[2])

    def _next(self) -> Callable[[], None]:
        if self._order:
            self._ready.rotate(self._order.randrange(len(self._ready)))
        return self._ready.popleft()

    def _after(self, duration_ns: int, happens: Callable[[], None]) -> None:
        if duration_ns:
            heapq.heappush(self._later, (self.now_ns + duration_ns, next(self._numbers), happens))
        else:
            self._ready.append(happens)

    def _go_on(self, actor: _Actor) -> None:
        for step in actor.program:
            actor.open = list(step) if isinstance(step, tuple) else [step]
            for operation in tuple(actor.open):
                self._begin(actor, operation)
            if actor.open:
                return

    def _done(self, actor: _Actor, operation: Operation) -> None:
        actor.open.remove(operation)
        if not actor.open:
            self._go_on(actor)

    def _begin(self, actor: _Actor, operation: Operation) -> None:
        if isinstance(operation, Send):
            self._begin_send(actor, operation)
        elif isinstance(operation, (Receive, Add)):
            self._begin_take(actor, operation)
        elif isinstance(operation, Aggregate):
            self._begin_aggregate(actor, operation)
        elif isinstance(operation, Await):
            self._begin_await(actor, operation)
        else:
            self._after(operation.duration_ns, partial(self._done, actor, operation))

    def _line(self, sender: int, receiver: int, lane: int) -> _Line:
        channel = (sender, receiver, lane)
        return self._lines.setdefault(channel, _Line(channel))

    def _begin_send(self, actor: _Actor, send: Send) -> None:
        line = self._line(actor.party, send.peer, send.lane)
        _check_alone(actor, (other for other, _ in line.sends), line)
        line.sends.append((actor, send))
        self._ready.append(partial(self._send, line))

    def _send(self, line: _Line) -> None:
        actor, send = line.sends.popleft()
        self.sent_bytes[line.channel] = self.sent_bytes.get(line.channel, 0) + send.data.nbytes
        self.messages[line.channel] = self.messages.get(line.channel, 0) + 1
        line.on_its_way.append(send.data.copy())
        self._after(self._latency_ns, partial(self._arrive, line))
        self._done(actor, send)

    def _arrive(self, line: _Line) -> None:
        line.arrived.append(line.on_its_way.popleft())
        self._match(line)

    def _begin_take(self, actor: _Actor, take: _Taking) -> None:
        line = self._line(take.peer, actor.party, take.lane)
        _check_alone(actor, (other for other, _ in line.takes), line)
        line.takes.append((actor, take))
        self._match(line)

    def _match(self, line: _Line) -> None:
        if line.arrived and line.takes:
            self._ready.append(partial(self._take, *line.takes.popleft(), line.arrived.popleft()))

    def _take(self, actor: _Actor, take: _Taking, data: np.ndarray) -> None:
        asked, sent = f"{len(take.into)} {take.into.dtype}", f"{len(data)} {data.dtype}"
        if asked != sent:
            who = f"party {actor.party} waits for {asked} of party {take.peer} (lane {take.lane})"
            raise RuntimeError(f"{who}, which sent {sent}")
        take.into[:] = take.into + data if isinstance(take, Add) else data
        self._done(actor, take)

    def _begin_aggregate(self, actor: _Actor, aggregate: Aggregate) -> None:
        self._aggregations[actor.party].append((actor, aggregate))
        if all(self._aggregations.values()):
            asked = [waiting.popleft() for waiting in self._aggregations.values()]
            self._ready.append(partial(self._aggregate, asked))

    def _aggregate(self, asked: list[tuple[_Actor, Aggregate]]) -> None:
        total = np.add.reduce([aggregate.data for _, aggregate in asked], dtype=asked[0][1].data.dtype)
        for actor, aggregate in asked:
            aggregate.data[:] = total
            self._done(actor, aggregate)

    def _begin_await(self, actor: _Actor, await_: Await) -> None:
        missing = itertools.count(await_.needed, -1)
        happens = partial(self._done, actor, await_)

        def told() -> None:
            if next(missing) == 1:
                self._ready.append(happens)

        if await_.needed == 0:
            self._ready.append(happens)
        for signal in await_.signals:
            signal.when_set(told)

    def _check_end(self) -> None:
        waiting = [_told(actor.party, operation) for actor in self._actors for operation in actor.open]
        if waiting:
            raise RuntimeError(f"nothing more happens: {_listed(waiting)}")
        left = [_left(line) for line in self._lines.values() if line.arrived]
        if left:
            raise RuntimeError(f"nobody takes {_listed(left)}")


def _check_alone(actor: _Actor, others: Iterable[_Actor], line: _Line) -> None:
    if any(other is not actor for other in others):
        sender, receiver, lane = line.channel
        where = f"the channel from {sender} to {receiver} (lane {lane})"
        raise RuntimeError(f"two programs of party {actor.party} use {where} at the same time")


def _told(party: int, operation: Operation) -> str:
    if isinstance(operation, (Receive, Add)):
        return f"party {party} waits for a message of party {operation.peer} (lane {operation.lane})"
    if isinstance(operation, Await):
        return f"party {party} waits for {operation.needed} of {len(operation.signals)} signals"
    return f"party {party} waits for an aggregation that not all have asked for"


def _left(line: _Line) -> str:
    sender, receiver, lane = line.channel
    return f"{len(line.arrived)} messages of party {sender} to party {receiver} (lane {lane})"


def _listed(told: list[str]) -> str:
    more = len(told) - _MOST_TOLD
    return "; ".join(told[:_MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
