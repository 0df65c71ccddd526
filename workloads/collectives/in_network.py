"""The aggregator in the network and its workers, as UDP datagrams between the hosts' namespaces (see
in_network_state.py for the protocol).

What has come is looked at a microsecond after the first of it, at all hosts in one go, as a NIC does that gathers its
interrupts (and a program that takes its packets in bursts, as SwitchML's does): a datagram alone would cost several
system calls. The aggregator's sums leave as one datagram for each worker, because the fabric has no multicast; the link
that they share is as fast as all workers' together, so that each worker's own link is what counts.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from controller.loop import Loop, Timer
from topologies.emulate import Fabric
from topologies.namespaces import entered
from workloads.collectives.in_network_state import Aggregator, Chunk, Pool, Sum, Worker
from workloads.transport.batches import Datagram, Inbox, Outbox, SocketAddress

TICK_NS = 1_000
PORT, _FIRST_WORKER_PORT = 5001, 21_000
_HEADER = np.dtype([("number", np.uint32), ("worker", np.uint16), ("kind", np.uint8), ("spare", np.uint8)])
HEADER_BYTES = 20 + 8 + _HEADER.itemsize  # IP, UDP and ours
_AT_A_TIME = 256  # datagrams of a system call
_SOCKET_BUFFER_BYTES = 64 << 20
_MOST_TRIES = 100
_GREETINGS, _GREETING_S = 20, 2.0  # twice the longest round trip that a fabric may have


class InNetwork:
    """An aggregator and the workers that it serves, over connected sockets, driven by `loop`; see
    executor.Aggregator. `names`: the workers' hosts, and the aggregator's at last."""

    def __init__(
        self, pool: Pool, loop: Loop, names: Sequence[str], centre: socket.socket, sockets: Sequence[socket.socket]
    ) -> None:
        self.pool, self._loop, self._hosts = pool, loop, names
        self._aggregator = Aggregator(pool)
        self._workers = [Worker(pool, rank) for rank in range(len(sockets))]
        self._descriptors = [each.fileno() for each in sockets]
        self._numbers = {descriptor: number for number, descriptor in enumerate(self._descriptors)}
        self._unsent: list[list[Datagram]] = [[] for _ in sockets]
        self._names = [SocketAddress(*each.getsockname()) for each in sockets]
        self._inbox = Inbox(_AT_A_TIME, _HEADER, pool.payload_bytes)
        self._outbox = Outbox(_AT_A_TIME, _HEADER)
        self._unheard = [0] * len(sockets)  # times that each worker has sent again since something came of it
        self._serves = False
        self._timer: Timer | None = None
        self._looks: Timer | None = None  # while something has come and is not looked at
        self._epoll = select.epoll()
        for descriptor in (centre.fileno(), *self._descriptors):
            self._epoll.register(descriptor, select.EPOLLIN)
        loop.watch(self._epoll.fileno(), self._woken)

    def close(self) -> None:
        """Let go of the loop; the sockets stay."""
        if self._looks is None:
            self._loop.unwatch(self._epoll.fileno())
        else:
            self._looks.cancel()
        self._epoll.close()
        if self._timer is not None:
            self._timer.cancel()

    def facts(self) -> dict[str, int]:
        """Packets that workers sent again, those that the aggregator had added already, all that it got; and how much
        it keeps."""
        pool, aggregator = self.pool, self._aggregator
        return {
            "resent": sum(worker.resent for worker in self._workers),
            "duplicates": aggregator.duplicates,
            "packets": aggregator.packets,
            "slots": pool.slots,
            "payload_bytes": pool.payload_bytes,
            "pool_bytes": 2 * pool.slots * pool.payload_bytes,
        }

    def add(self, rank: int, data: np.ndarray, done: Callable[[], object]) -> None:
        """Let `data` become the sum over all ranks, and then call `done`."""
        if not len(data):
            done()
            return
        self._queue(rank, self._workers[rank].add(self._loop.woken_ns(), data, done))
        if not self._serves:
            self._flush()

    def _queue(self, worker: int, chunks: Sequence[Chunk]) -> None:
        self._unsent[worker] += (
            Datagram(
                (each.number, worker, ord(each.tensor.kind), 0),
                each.tensor.address + each.offset_bytes,
                each.size_bytes,
            )
            for each in chunks
        )

    def _flush(self) -> None:
        """Send what the workers are to send, and see to their timers."""
        for worker, datagrams in enumerate(self._unsent):
            if datagrams:
                self._outbox.send(self._descriptors[worker], datagrams)
                datagrams.clear()
        due_ns = min((each.due_ns for each in self._workers if each.due_ns is not None), default=None)
        if due_ns is not None and (self._timer is None or not self._timer.waits or due_ns < self._timer.time_ns):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due_ns, self._see_to_late)

    def _see_to_late(self) -> None:
        now_ns = self._loop.woken_ns()
        for number, worker in enumerate(self._workers):
            if worker.due_ns is not None and worker.due_ns <= now_ns:
                late = worker.late(now_ns)
                self._queue(number, late)
                self._count_unheard(number, bool(late))
        self._flush()

    def _count_unheard(self, worker: int, is_late: bool) -> None:
        """Nothing comes of what the aggregator gets while another worker's part is missing: that is no death."""
        self._unheard[worker] += is_late
        if self._unheard[worker] > _MOST_TRIES:
            flow = f"flow {self._hosts[worker]} to {self._hosts[-1]}"
            raise ConnectionError(f"{flow} has died: nothing has come back after {_MOST_TRIES} tries")

    def _woken(self) -> None:
        """Something has come: look at it, and at what comes with it, in a moment."""
        self._loop.unwatch(self._epoll.fileno())
        self._looks = self._loop.call_at(self._loop.woken_ns() + TICK_NS, self._serve)

    def _serve(self) -> None:
        self._serves = True
        for descriptor, _ in self._epoll.poll(0):
            worker = self._numbers.get(descriptor)
            if worker is None:
                self._serve_aggregator(descriptor)
            else:
                self._serve_worker(worker, descriptor)
        self._serves = False
        self._flush()
        self._loop.watch(self._epoll.fileno(), self._woken)
        self._looks = None

    def _arrivals(self, descriptor: int) -> Iterator[tuple[tuple[int, int, int, int], np.ndarray]]:
        """All that has come to a socket: headers, and the bytes behind each."""
        inbox, there_may_be_more = self._inbox, True
        while there_may_be_more:
            headers, sizes_bytes = inbox.take(descriptor)
            there_may_be_more = inbox.is_full
            for header, row, size_bytes in zip(headers, inbox.payloads, sizes_bytes):
                if 0 < size_bytes <= len(row):  # else a greeting that came late, or nobody's of ours
                    yield header, row[:size_bytes]

    def _serve_worker(self, number: int, descriptor: int) -> None:
        worker, now_ns = self._workers[number], self._loop.woken_ns()
        self._unheard[number] = 0
        following = (worker.sum_arrived(now_ns, header[0], data) for header, data in self._arrivals(descriptor))
        self._queue(number, [chunk for chunk in following if chunk is not None])

    def _serve_aggregator(self, descriptor: int) -> None:
        datagrams: list[Datagram] = []
        for (number, worker, kind, _), data in self._arrivals(descriptor):
            answer = self._aggregator.part_arrived(worker, number, chr(kind), data)
            if answer is None:
                self._unheard[worker] = 0
            else:
                datagrams += self._answer(answer)
        if datagrams:
            self._outbox.send(descriptor, datagrams)

    def _answer(self, answer: Sum) -> list[Datagram]:
        slot = answer.slot
        header, address, size_bytes = (slot.number, 0, 0, 0), slot.address, len(slot.total)
        names = self._names if answer.to is None else [self._names[answer.to]]
        return [Datagram(header, address, size_bytes, each.name) for each in names]


@contextmanager
def in_network(fabric: Fabric, workers: Sequence[str], aggregator: str, pool: Pool, loop: Loop) -> Iterator[InNetwork]:
    """The host `aggregator` as the aggregator of the hosts `workers`. Raises OSError naming the pair that cannot reach
    each other."""
    with ExitStack() as stack:
        centre = stack.enter_context(_socket(fabric, aggregator, PORT))
        sockets = [
            stack.enter_context(_socket(fabric, host, _FIRST_WORKER_PORT + number))
            for number, host in enumerate(workers)
        ]
        for host, each in zip(workers, sockets):
            each.connect(centre.getsockname())
            _greet(host, each, aggregator, centre)
        made = InNetwork(pool, loop, [*workers, aggregator], centre, sockets)
        stack.callback(made.close)
        yield made


def _socket(fabric: Fabric, host: str, port: int) -> socket.socket:
    with entered(fabric.namespaces[host]):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        made.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
    made.bind((fabric.nameToNode[host].IP(), port))
    return made


def _greet(host: str, worker: socket.socket, aggregator: str, centre: socket.socket) -> None:
    """A datagram each way, as TCP's handshake is: the switches on the way have looked the flow up then. Both may be
    lost, and are tried again."""
    for end in (worker, centre):
        end.settimeout(_GREETING_S)
    for _ in range(_GREETINGS):
        try:
            worker.send(b"")
            _, sender = centre.recvfrom(1)
            centre.sendto(b"", sender)
            worker.recv(1)
        except socket.timeout:  # which is no TimeoutError before Python 3.10
            continue
        for end in (worker, centre):
            end.settimeout(None)
        return
    raise OSError(f"{host} cannot reach {aggregator}: no datagram comes back")
