"""Incast: N senders answer one receiver at the same time, round after round, and nobody starts the next before
all have finished.

The barrier-synchronised reads of Phanishayee et al. (FAST 2008): each round every sender sends its SRU (bytes
per sender) over its own persistent connection. Start times carry a seeded jitter, as real hosts have.
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
_PAUSE_NS = 100_000
_TICK_NS = 1_000_000


@dataclass(frozen=True)
class Incast:
    """`rounds` rounds of `sru_bytes` from each connection's sender; starts are uniform in [0, jitter_ns]."""

    sru_bytes: int
    rounds: int
    jitter_ns: int
    seed: int


@dataclass(frozen=True)
class Round:
    """When a round began (CLOCK_REALTIME ns), when its last byte arrived, and how many bytes all senders sent."""

    start_ns: int
    end_ns: int
    bytes: int


def start_offsets_ns(incast: Incast, senders: int, round_number: int) -> list[int]:
    """Start of each sender after the round's begin; equal seeds give equal offsets."""
    dice = random.Random(f"{incast.seed}/{round_number}")
    return [dice.randint(0, incast.jitter_ns) for _ in range(senders)]


def phase_ns(incast: Incast, round_number: int) -> int:
    """How long after the pause a round begins, less than a tick; equal seeds give equal phases."""
    return random.Random(f"{incast.seed}/{round_number}/phase").randrange(_TICK_NS)


def run(
    incast: Incast, connections: Sequence[Connection], on_round: Callable[[Round], None] = lambda done: None
) -> list[Round]:
    """Run all rounds; `on_round` is told of each as it ends."""
    rounds = []
    with Engine() as engine:
        for number in range(incast.rounds):
            rounds.append(_round(engine, incast, connections, number))
            on_round(rounds[-1])
    return rounds


def _round(engine: Engine, incast: Incast, connections: Sequence[Connection], number: int) -> Round:
    start_ns = time.time_ns() + _PAUSE_NS + phase_ns(incast, number)
    ends_ns: list[int] = []
    for connection, offset_ns in zip(connections, start_offsets_ns(incast, len(connections), number)):
        engine.start(
            Transfer(connection, incast.sru_bytes, start_ns + offset_ns), lambda _, end_ns: ends_ns.append(end_ns)
        )
    engine.run()
    return Round(start_ns, max(ends_ns), incast.sru_bytes * len(connections))
