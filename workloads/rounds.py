"""Barrier-synchronised rounds: all flows start at the same time, and nobody starts the next round before all have
finished.

With N senders to one receiver these are the synchronised reads of Phanishayee et al. (FAST 2008). Each flow sends its
bytes (the SRU) over its own persistent connection. Start times carry a seeded jitter, as real hosts have.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workloads.engine import Engine, Transfer
from workloads.transport.base import Connection

# Between rounds the network is quiet for this long (a few RTTs of any fabric here), so that each round is a burst of
# its own, and then for a seeded part of a timer tick: rounds that all began at one phase of the hosts' tick would
# all meet the same timers.
PAUSE_NS = 100_000
_TICK_NS = 1_000_000


@dataclass(frozen=True)
class Rounds:
    """`rounds` rounds of `sru_bytes` over each connection; starts are uniform in [0, jitter_ns]."""

    sru_bytes: int
    rounds: int
    jitter_ns: int
    seed: int


@dataclass(frozen=True)
class Round:
    """When a round began (CLOCK_REALTIME ns), when its last byte arrived, how many bytes all senders sent; and when
    each flow, in the connections' order, started and ended."""

    start_ns: int
    end_ns: int
    bytes: int
    spans_ns: tuple[tuple[int, int], ...] = ()


def start_offsets_ns(asked: Rounds, senders: int, round_number: int) -> list[int]:
    """Start of each sender after the round's begin; equal seeds give equal offsets."""
    dice = random.Random(f"{asked.seed}/{round_number}")
    return [dice.randint(0, asked.jitter_ns) for _ in range(senders)]


def phase_ns(asked: Rounds, round_number: int) -> int:
    """How long after the pause a round begins, less than a tick; equal seeds give equal phases."""
    return random.Random(f"{asked.seed}/{round_number}/phase").randrange(_TICK_NS)


def next_start_ns(asked: Rounds, round_number: int) -> int:
    """When a round that is prepared now begins (CLOCK_REALTIME)."""
    return time.time_ns() + PAUSE_NS + phase_ns(asked, round_number)


def run(
    asked: Rounds,
    connections: Sequence[Connection],
    on_round: Callable[[Round], None] = lambda done: None,
    first_start_ns: int | None = None,
    patience_s: float | None = None,
) -> list[Round]:
    """Run all rounds; `on_round` is told of each as it ends. The first begins at `first_start_ns` where it is given.
    Raises ConnectionError when a flow dies, or nothing of any has arrived for `patience_s`."""
    rounds = []
    with Engine(patience_s) as engine:
        for number in range(asked.rounds):
            start_ns = first_start_ns if first_start_ns is not None and not number else next_start_ns(asked, number)
            rounds.append(_round(engine, asked, connections, number, start_ns))
            on_round(rounds[-1])
    return rounds


def _round(engine: Engine, asked: Rounds, connections: Sequence[Connection], number: int, start_ns: int) -> Round:
    begins_ns = [start_ns + offset_ns for offset_ns in start_offsets_ns(asked, len(connections), number)]
    ends_ns: dict[Connection, int] = {}
    for connection, begin_ns in zip(connections, begins_ns):
        engine.start(
            Transfer(connection, asked.sru_bytes, begin_ns),
            lambda transfer, end_ns: ends_ns.update({transfer.connection: end_ns}),
        )
    engine.run()
    spans_ns = tuple(zip(begins_ns, (ends_ns[connection] for connection in connections)))
    return Round(start_ns, max(ends_ns.values()), asked.sru_bytes * len(connections), spans_ns)
