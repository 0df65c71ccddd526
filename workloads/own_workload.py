"""A workload of the user's own (see `topologies.plugins`): a class that says who is connected to whom, and what is sent
when.

    class Shuffle:
        def __init__(self, hosts, asked): ...    the hosts' names in order; bytes, rounds, jitter and seed (Rounds)
        def pairs(self): ...                     its connections, as (sender, receiver)
        def begin(self, traffic): ...            the first transfers of a round; what follows, they bring about:
                                                 traffic.send(pair, size_bytes, then=..., wait_ns=...)

A round ends when nothing is under way. Before anything is built the workload is rehearsed: the same calls, over links
that nobody shares, which tells what it needs, and what is wrong with it.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count, islice
from typing import Any, Protocol

from topologies import plugins
from topologies.plugins import Plug
from workloads.engine import Engine, Transfer
from workloads.patterns import Pair
from workloads.rounds import Rounds, next_start_ns, start_offsets_ns
from workloads.transport.base import Connection

KEY = "workload"
MOST_TRANSFERS = 1_000_000  # of all rounds: more take longer to be rehearsed than anybody waits
MOST_BYTES, MOST_WAIT_NS = 1 << 40, 3_600_000_000_000
Done = Callable[[Transfer, int], None]


class Workload(Protocol):
    """What the class of a plug makes of hosts and Rounds."""

    def pairs(self) -> Sequence[Pair]:
        """Its connections, as (sender, receiver), each once."""

    def begin(self, traffic: Traffic) -> None:
        """Send what a round begins with."""


class Carrier(Protocol):
    """What moves bytes: the engine of the lab, or that of a rehearsal."""

    def start(self, transfer: Transfer, done: Done) -> None:
        """Begin `transfer` at its time; `done(transfer, end_ns)` is called when all has arrived."""

    def run(self) -> None:
        """Until nothing is left to arrive."""


@dataclass(frozen=True)
class Sent:
    """A transfer that has arrived, on the connection of that number; times of CLOCK_REALTIME."""

    connection: int
    start_ns: int
    end_ns: int
    size_bytes: int


@dataclass
class _Lane:
    """A connection, and what waits for it: a connection carries one transfer at a time."""

    number: int
    connection: Connection
    waiting: deque[tuple[int, int, Callable[[], None] | None]] = field(default_factory=deque)
    is_busy: bool = False


class Traffic:
    """What a workload sends in one round. `round` counts from 0; `dice` are the round's own, equal seeds give equal
    numbers; `now_ns` is the time, in `begin` that of the round's begin."""

    def __init__(
        self, carrier: Carrier, lanes: Mapping[Pair, _Lane], asked: Rounds, number: int, start_ns: int
    ) -> None:
        self._carrier, self._lanes, self._starts = carrier, lanes, _Starts(asked, number)
        self.round, self.dice = number, random.Random(f"{asked.seed}/{number}/own")
        self.now_ns = start_ns
        self.sent: list[Sent] = []

    def send(self, pair: Pair, size_bytes: int, then: Callable[[], None] | None = None, wait_ns: int = 0) -> None:
        """Send bytes over the connection of a pair, behind what it is still to send, `wait_ns` after now (or after
        that); `then` is called when the last byte has arrived. What `begin` sends starts within the jitter. Raises
        ValueError for a pair without a connection, and for numbers that cannot be."""
        _check("size_bytes", size_bytes, 1, MOST_BYTES)
        _check("wait_ns", wait_ns, 0, MOST_WAIT_NS)
        if pair not in self._lanes:
            raise ValueError(f"send: no connection {pair!r} among pairs()")
        lane = self._lanes[pair]
        lane.waiting.append((size_bytes, wait_ns, then))
        if not lane.is_busy:
            self._next(lane)

    def _next(self, lane: _Lane) -> None:
        lane.is_busy = bool(lane.waiting)
        if not lane.waiting:
            return
        size_bytes, wait_ns, then = lane.waiting.popleft()

        def done(transfer: Transfer, end_ns: int) -> None:
            self._starts.over, self.now_ns = True, end_ns
            self.sent.append(Sent(lane.number, transfer.start_ns, end_ns, transfer.size_bytes))
            self._next(lane)
            if then is not None:
                then()

        start_ns = self.now_ns + wait_ns + self._starts.offset_ns(lane.number, len(self._lanes))
        self._carrier.start(Transfer(lane.connection, size_bytes, start_ns), done)

    def play(self, workload: Workload) -> list[Sent]:
        """The round, to its end."""
        workload.begin(self)
        self._starts.over = True
        self._carrier.run()
        return self.sent


class _Starts:
    """When what `begin` sends starts: within the jitter, each connection at its own time, as in `rounds`."""

    def __init__(self, asked: Rounds, number: int) -> None:
        self._asked, self._number = asked, number
        self._offsets_ns: list[int] = []
        self.over = False

    def offset_ns(self, connection: int, connections: int) -> int:
        """How long after the round's begin a connection starts; 0 when that is over."""
        if self.over:
            return 0
        self._offsets_ns = self._offsets_ns or start_offsets_ns(self._asked, connections, self._number)
        return self._offsets_ns[connection]


def _check(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"send: {name} is {value!r}, and has to be a whole number, {least} to {most}")


def made(plug: Plug, hosts: Sequence[str], asked: Rounds) -> tuple[Workload, list[Pair]]:
    """The workload and its connections; raises BadRequest for a plug that is none."""
    found = plugins.load(plug, KEY)
    if not isinstance(found, type) or not all(callable(getattr(found, name, None)) for name in ("pairs", "begin")):
        raise plugins.refuse(plug, KEY, f"is {_kind(found)}", "a class with pairs() and begin(traffic)")
    with plugins.told(plug, KEY):
        workload: Workload = found(list(hosts), asked)
        # So many have one twice: a generator that never ends does not fill the memory.
        pairs = [tuple(pair) for pair in islice(workload.pairs(), len(hosts) ** 2)]
    for pair in pairs:
        if len(pair) != 2 or not all(end in hosts for end in pair) or pair[0] == pair[1]:
            raise plugins.refuse(
                plug, KEY, f"has {pair!r} in pairs()", f"(sender, receiver) of {hosts[0]} to {hosts[-1]}"
            )
    if not pairs or len(set(pairs)) < len(pairs):
        raise plugins.refuse(plug, KEY, "has no pair, or one twice, in pairs()", "one or more, each once")
    return workload, [(sender, receiver) for sender, receiver in pairs]


def _kind(found: Any) -> str:
    return f"a class without them: {found.__name__}" if isinstance(found, type) else type(found).__name__


def play(
    plug: Plug,
    workload: Workload,
    asked: Rounds,
    connections: Mapping[Pair, Connection],
    on_round: Callable[[int, list[Sent]], None],
    first_start_ns: int,
    patience_s: float | None = None,
) -> None:
    """All rounds over these connections, the first at `first_start_ns`; `on_round` is told of each its begin and what
    was sent. Raises ConnectionError when a flow dies, BadRequest for what the workload's code raises."""
    with Engine(patience_s) as engine, plugins.told(plug, KEY, patience_s=None):  # a run has limits of its own
        for number in range(asked.rounds):
            start_ns = next_start_ns(asked, number) if number else first_start_ns
            on_round(start_ns, Traffic(engine, _lanes(connections), asked, number, start_ns).play(workload))


def _lanes(connections: Mapping[Pair, Connection]) -> dict[Pair, _Lane]:
    return {pair: _Lane(number, connection) for number, (pair, connection) in enumerate(connections.items())}


# --- the rehearsal


@dataclass(frozen=True)
class Rehearsed:
    """What a workload asks for: its connections, transfers and bytes over all rounds, the largest transfer, the longest
    wait."""

    pairs: tuple[Pair, ...]
    transfers: int
    size_bytes: int
    largest_bytes: int
    longest_wait_ns: int


class _Rehearsal:
    """Moves nothing: a transfer takes its bytes' time at the hosts' rate."""

    def __init__(self, rate_bps: int) -> None:
        self._rate_bps, self._order = rate_bps, count()
        self._due: list[tuple[int, int, Transfer, Done]] = []
        self.now_ns = self.transfers = self.size_bytes = self.largest_bytes = self.longest_wait_ns = 0

    def start(self, transfer: Transfer, done: Done) -> None:
        """Note it; nobody shares its link."""
        self.transfers += 1
        if self.transfers > MOST_TRANSFERS:
            raise ValueError(f"more than {MOST_TRANSFERS:,} transfers, if it ends at all")
        self.size_bytes += transfer.size_bytes
        self.largest_bytes = max(self.largest_bytes, transfer.size_bytes)
        self.longest_wait_ns = max(self.longest_wait_ns, transfer.start_ns - self.now_ns)
        end_ns = transfer.start_ns + transfer.size_bytes * 8 * 10**9 // self._rate_bps + 1
        heapq.heappush(self._due, (end_ns, next(self._order), transfer, done))

    def run(self) -> None:
        """One arrival after the other, in order of time."""
        while self._due:
            self.now_ns, _, transfer, done = heapq.heappop(self._due)
            done(transfer, self.now_ns)


@lru_cache(maxsize=64)
def rehearsed(plug: Plug, hosts: tuple[str, ...], asked: Rounds, rate_bps: int) -> Rehearsed:
    """What the workload asks for; raises BadRequest for one that cannot be played."""
    workload, pairs = made(plug, hosts, asked)
    carrier = _Rehearsal(rate_bps)
    lanes: dict[Pair, Any] = dict.fromkeys(pairs)
    with plugins.told(plug, KEY):
        for number in range(asked.rounds):
            sent = Traffic(carrier, _lanes(lanes), asked, number, carrier.now_ns).play(workload)
            if not sent:
                raise plugins.refuse(
                    plug, KEY, f"sends nothing in round {number}", "one transfer or more in each round"
                )
    return Rehearsed(
        tuple(pairs), carrier.transfers, carrier.size_bytes, carrier.largest_bytes, carrier.longest_wait_ns
    )
