"""Many collectives of one kind, one after the other, which each rank begins when its numbers are ready."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from workloads.collectives import catalog
from workloads.collectives.program import Await, Program, Programs, Signal, World


class Series:
    """`count` times the collective, number k on worlds[k % len(worlds)].

    Each of a party's programs goes through all numbers in order, as one stream of a GPU does: it begins with the next
    one when it has done its part of the last. So it can use the same lanes again: what it sends to a peer is taken by
    one program there, in the same order.
    """

    def __init__(self, collective: str, algorithm: str, worlds: Sequence[World], count: int) -> None:
        self._collective, self._algorithm, self._worlds, self._count = collective, algorithm, worlds, count
        self._lanes = self._most_programs()
        self._under_way: dict[int, Programs] = {}
        self._left: dict[int, int] = {}
        self._ready: defaultdict[tuple[int, int], Signal] = defaultdict(Signal)
        self._done: defaultdict[tuple[int, int, int], Signal] = defaultdict(Signal)

    def _made(self, number: int) -> Programs:
        return catalog.programs(self._collective, self._algorithm, self._worlds[number % len(self._worlds)])

    def _most_programs(self) -> dict[int, int]:
        """Party -> how many programs it has in any of the worlds at the most."""
        most: dict[int, int] = {}
        for number in range(len(self._worlds)):
            for party, programs in self._made(number).items():
                most[party] = max(most.get(party, 0), len(programs))
        return most

    def programs(self) -> Programs:
        """What every party does."""
        return {party: [self._stream(party, lane) for lane in range(most)] for party, most in self._lanes.items()}

    def begin(self, rank: int, number: int) -> None:
        """The rank's numbers of this collective are ready."""
        self._ready[rank, number].set()

    def ended(self, rank: int, numbers: Iterable[int]) -> Await:
        """Done when the rank's part of all these collectives is."""
        lanes = range(self._lanes[rank])
        return Await([self._done[rank, number, lane] for number in numbers for lane in lanes])

    def _stream(self, party: int, lane: int) -> Program:
        is_rank = party < self._worlds[0].ranks
        for number in range(self._count):
            if is_rank:
                yield Await([self._ready[party, number]])
            yield from self._part(party, lane, number)
            self._done[party, number, lane].set()

    def _part(self, party: int, lane: int, number: int) -> Program:
        """A party's program of one collective; made for all parties when the first asks for its own."""
        if number not in self._under_way:
            self._under_way[number] = self._made(number)
            self._left[number] = sum(self._lanes.values())
        mine = self._under_way[number].get(party, [])
        self._left[number] -= 1
        if not self._left[number]:
            del self._under_way[number], self._left[number]
        if lane < len(mine):
            yield from mine[lane]
