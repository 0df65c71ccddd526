"""Carries programs out: messages over connections, waits by timers, sums in NumPy, all in one event loop.

Computing takes no virtual time, so that a run lasts as long as its packets and its waits. With `processors` each
message costs its host time as well (workloads/host_cost.py): a send begins when the processor is through with it, a
receive is done when it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from controller.loop import Loop, Timer
from workloads.collectives.lanes import Done, Lanes
from workloads.collectives.program import (
    Add,
    Aggregate,
    Await,
    Channel,
    Program,
    Programs,
    Receive,
    Send,
    Wait,
)
from workloads.host_cost import Processor
from workloads.transport.base import DataConnection


class Aggregator(Protocol):
    """What adds up the data of all ranks in the network; see in_network.InNetwork."""

    def add(self, rank: int, data: np.ndarray, done: Done) -> None:
        """Let `data` become the sum over all ranks, and then call `done`."""


class _Running:
    """A program under way: its party, and how many operations of its step are not done."""

    __slots__ = ("party", "pending", "program")

    def __init__(self, party: int, program: Program) -> None:
        self.party, self.program = party, program
        self.pending = 0


_Operate = Callable[[_Running, Any], None]


class Executor:
    """Runs programs over `connections`, one call after the other; a context manager around its descriptor.

    connections: one for each channel that the programs use. patience_s: who hears nothing of any flow for so long,
    while nobody computes, gives up (None: the transport tells by itself when a flow is dead). processors: of the
    parties, None where messages cost nothing. aggregator: who carries out Aggregate. `charged_bytes`: payload of the
    messages that each party's processor has had so far.
    """

    def __init__(
        self,
        connections: Mapping[Channel, DataConnection],
        loop: Loop,
        patience_s: float | None = None,
        processors: Mapping[int, Processor] | None = None,
        aggregator: Aggregator | None = None,
    ) -> None:
        self._loop, self._aggregator, self._processors = loop, aggregator, processors or {}
        self._lanes = Lanes(connections, loop, self._advance)
        self._patience = _Patience(loop, patience_s, self._lanes)
        self._scratch = _Scratch()
        self._runnable: deque[_Running] = deque()
        self._advances = False
        self.charged_bytes = dict.fromkeys(self._processors, 0)
        self._programs_left: dict[int, int] = {}
        self._ends_ns: dict[int, int] = {}
        self._operate: dict[type, _Operate] = {
            Send: self._send,
            Receive: self._receive,
            Add: self._add,
            Aggregate: self._aggregate,
            Wait: self._wait,
            Await: self._await,
        }

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exc: object) -> None:
        self._lanes.close()

    @property
    def sent_bytes(self) -> Mapping[Channel, int]:
        """Payload that each channel has been given so far."""
        return self._lanes.sent_bytes

    def run(self, programs: Programs, begins_ns: Mapping[int, int]) -> dict[int, int]:
        """Run `programs`, those of party p from `begins_ns[p]` (CLOCK_REALTIME) on, until all have ended; returns when
        each party did. Raises ConnectionError when a flow dies."""
        self._programs_left = {party: len(its) for party, its in programs.items() if its}
        self._ends_ns = {}
        for party in self._programs_left:
            self._later(begins_ns[party], partial(self._begin, party, programs[party]))
        if self._programs_left:
            with self._patience:
                self._loop.run()
        return self._ends_ns

    def _begin(self, party: int, programs: Sequence[Program]) -> None:
        self._runnable.extend(_Running(party, program) for program in programs)

    def _later(self, time_ns: int, call: Callable[[], object]) -> None:
        """Call at `time_ns`, and go on with the programs that can; until then silence is no sign of death."""

        def due() -> None:
            self._patience.sleepers -= 1
            call()
            self._advance()

        self._patience.sleepers += 1
        self._loop.call_at(time_ns, due)

    def _advance(self) -> None:
        """Go on with every program whose step is done, those too whose step is done by this."""
        if self._advances:
            return
        self._advances = True
        while self._runnable:
            self._step(self._runnable.popleft())
        self._advances = False

    def _step(self, running: _Running) -> None:
        """The program's next step, or its end."""
        step = next(running.program, None)
        if step is None:
            self._end(running.party)
            return
        operations = step if isinstance(step, tuple) else (step,)
        running.pending = len(operations) + 1
        for operation in operations:
            self._operate[type(operation)](running, operation)
        self._done(running)  # only now: what is done at once does not make the step done

    def _end(self, party: int) -> None:
        self._programs_left[party] -= 1
        if not self._programs_left[party]:
            del self._programs_left[party]
            self._ends_ns[party] = self._loop.woken_ns()
        if not self._programs_left:
            self._loop.stop()

    def _done(self, running: _Running) -> None:
        """An operation of its step is done."""
        running.pending -= 1
        if not running.pending:
            self._runnable.append(running)

    # --- operations

    def _send(self, running: _Running, operation: Send) -> None:
        channel, data = (running.party, operation.peer, operation.lane), _bytes_of(operation.data)
        put = partial(self._lanes.send, channel, data, partial(self._done, running))
        self._charge(running.party, len(data), False, put)

    def _receive(self, running: _Running, operation: Receive) -> None:
        self._take(running, operation, operation.into, partial(self._done, running))

    def _add(self, running: _Running, operation: Add) -> None:
        into = operation.into
        arrived = self._scratch.borrow(into)

        def add() -> None:
            np.add(into, arrived, out=into)
            self._scratch.give_back(arrived)
            self._done(running)

        self._take(running, operation, arrived, add)

    def _take(self, running: _Running, operation: Receive | Add, into: np.ndarray, done: Done) -> None:
        """Fill `into` from the operation's peer; the processor, where there is one, is through with it at `done`."""
        channel, size_bytes = (operation.peer, running.party, operation.lane), into.nbytes
        self._lanes.receive(
            channel, _bytes_of(into), lambda slept: self._charge(running.party, size_bytes, slept, done)
        )

    def _charge(self, party: int, size_bytes: int, slept: bool, then: Done) -> None:
        """Call when the party's processor is through with a message, now where it has none."""
        processor = self._processors.get(party)
        if processor is None:
            then()
            return
        self.charged_bytes[party] += size_bytes
        self._later(processor.charge(self._loop.woken_ns(), size_bytes, slept), then)

    def _aggregate(self, running: _Running, operation: Aggregate) -> None:
        if self._aggregator is None:
            raise ValueError("a program asks for an aggregator, and there is none")
        party, size_bytes = running.party, operation.data.nbytes
        self._patience.sleepers += 1

        def done() -> None:
            self._patience.sleepers -= 1
            self._charge(party, size_bytes, True, partial(self._done, running))
            self._advance()

        add = partial(self._aggregator.add, party, operation.data, done)
        self._charge(party, size_bytes, False, add)

    def _wait(self, running: _Running, operation: Wait) -> None:
        self._later(self._loop.woken_ns() + operation.duration_ns, partial(self._done, running))

    def _await(self, running: _Running, operation: Await) -> None:
        missing = operation.needed
        if missing <= 0:
            self._done(running)
            return

        def is_set() -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                self._done(running)
                self._advance()

        for signal in operation.signals:
            signal.when_set(is_set)


class _Patience:
    """Gives up when no flow has brought anything for `seconds`, though nobody of `sleepers` waits for a time or for an
    aggregator; a context manager around the time in which it does."""

    def __init__(self, loop: Loop, seconds: float | None, lanes: Lanes) -> None:
        self._loop, self._seconds, self._lanes = loop, seconds, lanes
        self._timer: Timer | None = None
        self._heard_bytes = -1
        self.sleepers = 0

    def __enter__(self) -> None:
        self._set()

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set(self) -> None:
        if self._seconds is not None:
            self._timer = self._loop.call_at(self._loop.now_ns() + int(self._seconds * 1e9), self._look)

    def _look(self) -> None:
        missing = self._lanes.missing()
        if missing and not self.sleepers and self._heard_bytes == self._lanes.arrived_bytes:
            flow, others = f"flow {missing[0].sender} to {missing[0].receiver}", len(missing) - 1
            both = f"{flow} and {others} more have" if others else f"{flow} has"
            raise ConnectionError(f"{both} died: nothing has arrived for {self._seconds:.3g} s")
        self._heard_bytes = -1 if self.sleepers else self._lanes.arrived_bytes
        self._set()


class _Scratch:
    """Buffers for what is to be added, used again and again: fresh memory costs page faults."""

    def __init__(self) -> None:
        self._free: dict[tuple[np.dtype, int], list[np.ndarray]] = {}

    def borrow(self, like: np.ndarray) -> np.ndarray:
        """An array of the same type and length, whatever is in it."""
        free = self._free.get((like.dtype, len(like)))
        return free.pop() if free else np.empty_like(like)

    def give_back(self, array: np.ndarray) -> None:
        """Whoever borrowed it needs it no more."""
        self._free.setdefault((array.dtype, len(array)), []).append(array)


def _bytes_of(array: np.ndarray) -> memoryview:
    """The memory of a one-dimensional contiguous array (that of an empty one cannot be cast)."""
    return array.data.cast("B") if len(array) else memoryview(b"")
