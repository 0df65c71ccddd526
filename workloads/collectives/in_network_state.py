"""In-network aggregation as state machines of a worker and of the aggregator (pure): time and packets are arguments.

After SwitchML (Sapio et al., "Scaling distributed machine learning with in-network aggregation", NSDI 2021, section
3.5 and algorithms 3 and 4). The aggregator has a pool of slots, each twice: two versions that take turns. A worker
cuts its data into chunks, numbered through all that it ever adds; chunk c uses slot c mod s in version (c div s) mod 2.
The aggregator adds what comes for a slot until every worker's part is there, and then sends the sum to all. For a
worker the sum is also the word that the slot is free: it sends the slot's next chunk, s chunks further on, in the other
version. A worker whose packet or sum is lost hears nothing, and sends its part again after a while. The aggregator adds
no part twice, and answers one that comes again with the sum, which it keeps (the shadow copy) until the version is
needed anew: only a worker that has the sum of a chunk, of which all workers' parts had come, sends the slot's next
chunk; and only once all have sent that one can a worker come back to the first version.

What differs from the paper: a packet carries its chunk's number instead of version, slot and offset, which follow from
it. So a copy that the network held back until its slot was in use anew is told from a part of the new chunk, whereas
SwitchML relies on a network that does not do that. A worker that hears nothing doubles its patience each time, up to 64
times the first, and each of its slots waits a part of it longer that is its own: what is sent again at one time by all
workers would meet in the same small buffer each time, and the same part of it would be lost each time. Numbers are
added in their own type; the paper's switch had only integers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_MOST_TIMES_PATIENT = 64


@dataclass(frozen=True)
class Pool:
    """What workers and aggregator agree on: number of workers, slots of each version, most bytes of numbers in a
    packet, after how long a worker that hears nothing first sends again."""

    workers: int
    slots: int
    payload_bytes: int
    timeout_ns: int


class Tensor:
    """An array under way at a worker, as bytes: it becomes the sum, chunk by chunk, and then `done` is called."""

    __slots__ = ("address", "data", "done", "first", "kind", "left", "past")

    def __init__(self, array: np.ndarray, first: int, chunks: int, done: Callable[[], object]) -> None:
        self.data = array.view(np.uint8)
        self.kind, self.address, self.done = array.dtype.char, array.ctypes.data, done
        self.first, self.past, self.left = first, first + chunks, chunks


class Chunk(NamedTuple):
    """Chunk `number` of a worker's stream: `size_bytes` of its tensor from `offset_bytes` on."""

    number: int
    tensor: Tensor
    offset_bytes: int
    size_bytes: int

    @property
    def data(self) -> np.ndarray:
        """Its bytes in the tensor."""
        return self.tensor.data[self.offset_bytes : self.offset_bytes + self.size_bytes]


class _Sent:
    """A chunk whose sum has not come: when to send it again, and how long to wait after that."""

    __slots__ = ("chunk", "due_ns", "patience_ns")

    def __init__(self, chunk: Chunk, now_ns: int, patience_ns: int) -> None:
        self.chunk, self.due_ns, self.patience_ns = chunk, now_ns + patience_ns, patience_ns


class Worker:
    """Worker `rank`: what it adds, one tensor after the other, and what it must send. `due_ns`: when it has something
    to send again, at the earliest (None: nothing is under way)."""

    def __init__(self, pool: Pool, rank: int) -> None:
        self._pool, self._rank = pool, rank
        self._tensors: deque[Tensor] = deque()
        self._numbered = 0  # chunks of all tensors so far
        self._idle = dict.fromkeys(range(pool.slots))  # the next chunk of each slot that has nothing under way
        self._sent: dict[int, _Sent] = {}
        self.due_ns: int | None = None
        self.resent = 0

    def add(self, now_ns: int, array: np.ndarray, done: Callable[[], object]) -> list[Chunk]:
        """`array`, contiguous and not empty, is to become the sum; returns what is to be sent now."""
        chunks = -(-array.nbytes // self._pool.payload_bytes)
        self._tensors.append(Tensor(array, self._numbered, chunks, done))
        self._numbered += chunks
        ready = sorted(number for number in self._idle if number < self._numbered)
        return [self._send(now_ns, number) for number in ready]

    def sum_arrived(self, now_ns: int, number: int, data: np.ndarray) -> Chunk | None:
        """The sum of a chunk has come, for the first time or again; returns what is to be sent now."""
        sent = self._sent.pop(number, None)
        if sent is None:
            return None
        chunk, following = sent.chunk, number + self._pool.slots
        chunk.data[:] = data
        self._idle[following] = None
        self._arrived(chunk.tensor)
        return self._send(now_ns, following) if following in self._idle and following < self._numbered else None

    def late(self, now_ns: int) -> list[Chunk]:
        """What is to be sent again now."""
        late = [each for each in self._sent.values() if each.due_ns <= now_ns]
        most_ns = _MOST_TIMES_PATIENT * self._pool.timeout_ns
        for each in late:
            each.patience_ns = min(2 * each.patience_ns, most_ns)
            each.due_ns = now_ns + each.patience_ns + self._apart_ns(each)
        self.due_ns = min((each.due_ns for each in self._sent.values()), default=None)
        self.resent += len(late)
        return [each.chunk for each in late]

    def _apart_ns(self, sent: _Sent) -> int:
        """How much longer than its patience a chunk waits: of all slots of all workers, no two equally long."""
        pool = self._pool
        place = (sent.chunk.number % pool.slots) * pool.workers + self._rank
        return sent.patience_ns * place // (pool.slots * pool.workers)

    def _send(self, now_ns: int, number: int) -> Chunk:
        del self._idle[number]
        sent = self._sent[number] = _Sent(self._chunk(number), now_ns, self._pool.timeout_ns)
        if self.due_ns is None or sent.due_ns < self.due_ns:
            self.due_ns = sent.due_ns
        return sent.chunk

    def _chunk(self, number: int) -> Chunk:
        tensor = next(each for each in self._tensors if number < each.past)
        offset_bytes = (number - tensor.first) * self._pool.payload_bytes
        return Chunk(number, tensor, offset_bytes, min(self._pool.payload_bytes, len(tensor.data) - offset_bytes))

    def _arrived(self, tensor: Tensor) -> None:
        tensor.left -= 1
        if not tensor.left:
            self._tensors.remove(tensor)
            tensor.done()


class Slot:
    """One version of a slot: the chunk that it is for, whose parts are in (a bit each), and their sum as bytes."""

    __slots__ = ("_memory", "address", "number", "parts", "total")

    def __init__(self, payload_bytes: int) -> None:
        self.total = self._memory = np.empty(payload_bytes, np.uint8)
        self.address = self._memory.ctypes.data
        self.number, self.parts = -1, 0

    def begin(self, number: int, data: np.ndarray) -> None:
        """The first part of a new chunk."""
        self.number, self.total = number, self._memory[: len(data)]
        self.total[:] = data


class Sum(NamedTuple):
    """A slot whose sum is to be sent: to the one worker `to`, or to all (None)."""

    slot: Slot
    to: int | None


class Aggregator:
    """The aggregator: adds up, and answers. `packets` counts all that came, `duplicates` those of them whose part it
    had already."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._slots = [Slot(pool.payload_bytes) for _ in range(2 * pool.slots)]  # version 0 of all, then version 1
        self._whole = (1 << pool.workers) - 1
        self.packets = self.duplicates = 0

    def part_arrived(self, worker: int, number: int, kind: str, data: np.ndarray) -> Sum | None:
        """A worker's part of a chunk has come: bytes of numbers of the NumPy type `kind`; returns what is to be
        sent."""
        slot, part = self._slots[number % len(self._slots)], 1 << worker
        self.packets += 1
        if number < slot.number or (number == slot.number and slot.parts & part):
            self.duplicates += 1
            return Sum(slot, worker) if number == slot.number and slot.parts == self._whole else None
        if number > slot.number:
            slot.begin(number, data)
            slot.parts = part
        else:
            total = slot.total.view(kind)
            np.add(total, data.view(kind), out=total)
            slot.parts |= part
        return Sum(slot, None) if slot.parts == self._whole else None
