"""What federated learning is to do, and the diary of what it did (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workloads.federated_updates import Scheme

ROOT = 0


@dataclass(frozen=True)
class Plan:
    """What is to be done. Parties are numbered: the root is 0, then come edges, then clients; `names` are their hosts.

    children: of each aggregator. quorum: part of its children that an aggregator waits for. edge_rounds: averages of an
    edge in a round. compute_ns, spread: median and sigma of the log-normal time of a training; slowdowns: of single
    clients, by name.
    """

    names: Sequence[str]
    children: Mapping[int, tuple[int, ...]]
    rounds: int
    scheme: Scheme
    seed: int
    quorum: float = 1.0
    edge_rounds: int = 1
    compute_ns: int = 0
    spread: float = 0.0
    slowdowns: Mapping[str, float] = field(default_factory=dict)

    @property
    def edges(self) -> tuple[int, ...]:
        """The aggregators between root and clients."""
        return tuple(party for party in self.children if party != ROOT)

    @property
    def clients(self) -> tuple[int, ...]:
        """The parties that train, in order."""
        return tuple(party for party in range(len(self.names)) if party not in self.children)

    @property
    def parents(self) -> dict[int, int]:
        """Of everybody but the root."""
        return {child: parent for parent, children in self.children.items() for child in children}

    def trainings(self, party: int) -> int:
        """How often in a round a party gets a model."""
        return 1 if self.parents[party] == ROOT else self.edge_rounds

    def channels(self) -> list[tuple[int, int, int]]:
        """Sender, receiver and lane of all that flows: both ways between everybody and its parent."""
        pairs = [pair for child, parent in self.parents.items() for pair in ((parent, child), (child, parent))]
        return [(*pair, 0) for pair in pairs]


class Diary:
    """What happened in each round, by the given clock (ns), as measured.json has it under `fl_rounds`."""

    def __init__(self, names: Sequence[str], clock: Callable[[], int]) -> None:
        self.rounds: list[dict[str, Any]] = []
        self._names, self._clock = names, clock

    def begin(self) -> None:
        """The next round has begun."""
        times: dict[str, dict[str, int]] = {
            "broadcast_end_ns": {},
            "computed_ns": {},
            "trained_ns": {},
            "arrived_ns": {},
        }
        counts = {"accuracy": None, "loss": None, "bytes_up": 0, "bytes_down": 0}
        begun = {"round": len(self.rounds), "start_ns": self._clock(), "end_ns": None}
        self.rounds.append({**begun, **times, "dropped": [], **counts})

    def end(self, number: int, loss: float, accuracy: float) -> None:
        """The root has averaged, and has tried the new model."""
        self.rounds[number].update(end_ns=self._clock(), loss=loss, accuracy=accuracy)

    def note(self, what: str, number: int, party: int) -> None:
        """That it happened to a party, now."""
        self.rounds[number][what][self._names[party]] = self._clock()

    def note_first(self, what: str, number: int, party: int) -> None:
        """The same, but only what happened first in the round."""
        if self._names[party] not in self.rounds[number][what]:
            self.note(what, number, party)

    def compute(self, number: int, party: int, duration_ns: int) -> None:
        """For how long a party computes, beside what it has in this round."""
        computed: dict[str, int] = self.rounds[number]["computed_ns"]
        computed[self._names[party]] = computed.get(self._names[party], 0) + duration_ns

    def count(self, what: str, number: int, size_bytes: int) -> None:
        """Bytes of a message that was sent."""
        self.rounds[number][what] += size_bytes

    def drop(self, number: int, parties: Sequence[int]) -> None:
        """Whose updates came too late."""
        dropped: list[str] = self.rounds[number]["dropped"]
        dropped += [self._names[party] for party in parties if self._names[party] not in dropped]
