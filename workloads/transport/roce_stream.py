"""A stream of real bytes over a queue pair: a registered ring of slots at each end.

The sender copies what it is given into the next free slots of its ring, and each goes out as one message, by RDMA WRITE
with immediate data or by SEND, into the same slot of the receiver's ring, from where the receiver copies it out. What
it has emptied it tells the sender, a quarter of the ring at a time, by an RDMA WRITE of nothing with the number as
immediate data, in the class of acknowledgements. Until then those slots stay the sender's: nothing is ever written over
what has not been read, and no message comes where no receive waits. Libraries of collectives do the same (NCCL's
buffers are 4 MiB in eight steps per connection, NCCL_BUFFSIZE).

All of it is event-driven, see `roce`. What a sender hears is seen to when somebody takes from the flow or puts into it.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from topologies.emulate import Fabric
from workloads.patterns import Pair
from workloads.transport import roce
from workloads.transport.roce import Flow, QueuePairs
from workloads.transport.slots import Filled, Heard

_DEPTH = 31  # work requests each way: soft-RoCE's queues have room for a power of two, less one
_MOST_SLOTS = _DEPTH // 2 + 1  # the others: sent, emptied and told, but not acknowledged yet
_PARTS = 4  # of a ring; what is emptied is told part by part
_CREDITS = 2 * _PARTS  # receives for what is told, of which no more than one ring waits to be looked at
_ACKNOWLEDGED = _DEPTH // 4  # of so many that are told, one


class RingEnd(Protocol):
    """One end of a stream; see `verbs_ring.RingEnd`. Its `descriptor` is readable when something has completed."""

    number: int
    descriptor: int

    def slot(self, number: int) -> memoryview:
        """The memory of a slot."""

    def empty(self, number: int) -> None:
        """Make room for a message in a slot."""

    def write_slots(self, peer: RingEnd, filled: Sequence[Filled]) -> None:
        """Post RDMA WRITEs."""

    def send_slots(self, filled: Sequence[Filled]) -> None:
        """Post SENDs."""

    def tell(self, peer: RingEnd, number: int, acknowledged: bool) -> None:
        """Post an RDMA WRITE of nothing that tells a number."""

    def heard(self) -> list[Heard]:
        """Tell what has completed since the last look."""

    def ask(self) -> None:
        """Ask for an event when something completes from now on."""

    def forget(self) -> None:
        """Take an event."""

    def rearm(self) -> None:
        """Take an event and ask for the next."""

    def psns(self) -> tuple[int, int]:
        """Tell the next packet to send and the next that is expected."""

    def close(self) -> None:
        """End it."""


@dataclass
class _Arrived:
    """What is left in a slot of the receiver."""

    number: int
    begin: int
    end: int


class RoceStream(Flow):
    """See `base.DataConnection`. A ring has `queue_bytes` of what is asked, in slots of its largest work request."""

    def __init__(
        self, name: str, pair: Pair, ips: tuple[str, str], sending: RingEnd, receiving: RingEnd, asked: QueuePairs
    ) -> None:
        super().__init__(name, pair, ips, sending, receiving, asked)
        self._slots = _slots(asked)
        self._part = max(1, self._slots // _PARTS)
        self._told_every = 1 if asked.window_bytes else self._part
        self._filled = self._posted = self._acked = self._freed = 0  # slots of the sender, since ever
        self._unacked_bytes = 0
        self._waiting: deque[int] = deque()  # bytes of slots that are filled and not posted
        self._unacked: deque[int] = deque()  # and of those that are posted
        self._landed = self._emptied = self._credits = 0  # slots of the receiver; how often it has told
        self._arrived: deque[_Arrived] = deque()
        for number in range(self._slots):
            receiving.empty(number)
        for _ in range(_CREDITS):
            sending.empty(0)

    @staticmethod
    def nic(name: str, ip: str, payload: Any, flows: int, asked: QueuePairs) -> Any:
        """With memory for the ring of each flow."""
        return _verbs_ring().RingNic(name, ip, payload, flows * _slots(asked) * asked.piece_bytes)

    @staticmethod
    def ends(sender: Any, receiver: Any, asked: QueuePairs) -> tuple[RingEnd, RingEnd]:
        """Both have a ring."""
        shape = (_DEPTH, _slots(asked), asked.piece_bytes)
        return _verbs_ring().RingEnd(sender, *shape), _verbs_ring().RingEnd(receiver, *shape)

    def put(self, data: memoryview) -> int:
        """Copy `data` into free slots; 0 when there are none."""
        self._hear_sender()
        taken = 0
        while taken < len(data) and self._filled - self._freed < self._slots:
            piece = data[taken : taken + self._asked.piece_bytes]
            self._sending.slot(self._filled % self._slots)[: len(piece)] = piece
            self._filled += 1
            self._waiting.append(len(piece))
            taken += len(piece)
        self._post()
        if taken < len(data):
            self._gate.set(to_open=False)
        return taken

    def _post(self) -> None:
        """Post what the window and the queue allow."""
        filled = []
        while self._waiting and self._fits(self._waiting[0]):
            size_bytes, number = self._waiting.popleft(), self._posted % self._slots
            self._posted += 1
            self._unacked.append(size_bytes)
            self._unacked_bytes += size_bytes
            filled.append(Filled(number, size_bytes, None if self._posted % self._told_every else self._posted))
        if filled and self._asked.verb == "write":
            self._sending.write_slots(self._receiving, filled)
        elif filled:
            self._sending.send_slots(filled)

    def _fits(self, size_bytes: int) -> bool:
        window_bytes = self._asked.window_bytes
        fits = window_bytes is None or self._unacked_bytes + size_bytes <= window_bytes
        return fits and len(self._unacked) < _DEPTH

    def _hear_sender(self) -> None:
        """Acknowledgements, and slots that are free again."""
        for heard in self._sending.heard():
            self._check(heard.trouble, self.sender)
            if heard.arrived:
                self._freed += heard.told
                self._sending.empty(0)
                continue
            while self._acked < heard.serial:
                self._unacked_bytes -= self._unacked.popleft()
                self._acked += 1

    def expect(self, remaining_bytes: int) -> None:
        """Nothing to do: a receiver is woken by messages, which the sender cuts."""

    def take(self, into: memoryview) -> int:
        """See to both ends, and copy what has arrived. The event of an arrival is left alone while something is left in
        the ring: the descriptor is still readable then."""
        ready = {descriptor for descriptor, _ in self._ready.poll(0)}
        if self._sending.descriptor in ready:
            self._sending.rearm()
            self._hear_sender()
            self._post()
            if self._filled - self._freed < self._slots:
                self._gate.set(to_open=True)
        taken = self._copy(into)
        if self._receiving.descriptor in ready and not self._arrived:
            self._receiving.ask()
            taken += self._copy(into[taken:])  # what came before that makes no event
            if not self._arrived:
                self._receiving.forget()
        return taken

    def _copy(self, into: memoryview) -> int:
        self._hear_receiver()
        taken = 0
        while self._arrived and taken < len(into):
            first = self._arrived[0]
            end = min(first.end, first.begin + len(into) - taken)
            size_bytes = end - first.begin
            into[taken : taken + size_bytes] = self._receiving.slot(first.number)[first.begin : end]
            first.begin = end
            taken += size_bytes
            if first.begin == first.end:
                self._empty(self._arrived.popleft().number)
        return taken

    def _hear_receiver(self) -> None:
        """Where it is written, what messages tell is their length; where it is sent, they have one."""
        for heard in self._receiving.heard():
            self._check(heard.trouble, self.receiver)
            if heard.arrived:
                size_bytes = heard.told if self._asked.verb == "write" else heard.size_bytes
                self._arrived.append(_Arrived(self._landed % self._slots, 0, size_bytes))
                self._landed += 1

    def _empty(self, number: int) -> None:
        """The slot has been read."""
        self._receiving.empty(number)
        self._emptied += 1
        if self._emptied == self._part:
            self._credits += 1
            self._receiving.tell(self._sending, self._emptied, self._credits % _ACKNOWLEDGED == 0)
            self._emptied = 0


def _verbs_ring() -> Any:
    """Importing pyverbs takes time."""
    return importlib.import_module("workloads.transport.verbs_ring")


def _slots(asked: QueuePairs) -> int:
    return max(1, min(_MOST_SLOTS, asked.queue_bytes // asked.piece_bytes))


def connected(
    fabric: Fabric, pairs: Sequence[Pair], on_connected: Callable[[], None], asked: QueuePairs
) -> AbstractContextManager[list[RoceStream]]:
    """Flows that carry real bytes; see `roce.flows`."""
    return roce.flows(RoceStream, fabric, pairs, on_connected, asked)
