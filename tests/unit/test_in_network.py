"""In-network aggregation over a network that loses, copies and reorders: every sum is exact, nothing is added twice."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.loop import Loop
from workloads.collectives.in_network import InNetwork
from workloads.collectives.in_network_state import Aggregator, Chunk, Pool, Worker

MS = 1_000_000
KINDS = ("float32", "float16", "int8")


@dataclass(frozen=True)
class Part:
    worker: int
    number: int
    kind: str
    data: np.ndarray


@dataclass(frozen=True)
class Total:
    worker: int
    number: int
    data: np.ndarray


@dataclass
class Network:
    """Workers and an aggregator with packets between them, of which `dice` decides what becomes: in each of `troubled`
    turns one is lost, delivered, or delivered and kept to be delivered again; afterwards all are delivered."""

    pool: Pool
    dice: random.Random
    troubled: int
    now_ns: int = 0
    flying: list[Part | Total] = field(default_factory=list)
    done: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workers = [Worker(self.pool, rank) for rank in range(self.pool.workers)]
        self.aggregator = Aggregator(self.pool)

    def add(self, worker: int, tensor: int, array: np.ndarray) -> None:
        done = lambda: self.done.append((worker, tensor))  # noqa: E731
        self.send(worker, self.workers[worker].add(self.now_ns, array, done))

    def send(self, worker: int, chunks: list[Chunk]) -> None:
        self.flying += (Part(worker, each.number, each.tensor.kind, each.data.copy()) for each in chunks)

    def deliver(self, packet: Part | Total) -> None:
        if isinstance(packet, Total):
            following = self.workers[packet.worker].sum_arrived(self.now_ns, packet.number, packet.data)
            self.send(packet.worker, [following] if following else [])
            return
        answer = self.aggregator.part_arrived(packet.worker, packet.number, packet.kind, packet.data)
        if answer is not None:
            targets = range(len(self.workers)) if answer.to is None else [answer.to]
            self.flying += (Total(each, answer.slot.number, answer.slot.total.copy()) for each in targets)

    def turn(self) -> None:
        """One packet's fate, or, when none is under way, time passes until somebody sends again."""
        if not self.flying or (self.troubled and self.dice.random() < 0.05):
            due_ns = (each.due_ns for each in self.workers if each.due_ns is not None)
            self.now_ns = min(due_ns, default=self.now_ns)
            for number, worker in enumerate(self.workers):
                self.send(number, worker.late(self.now_ns))
            return
        packet = self.flying.pop(self.dice.randrange(len(self.flying)))
        fate = self.dice.choice(("lost", "copied", "delivered", "delivered")) if self.troubled else "delivered"
        self.troubled = max(self.troubled - 1, 0)
        if fate == "copied":
            self.flying.append(packet)
        if fate != "lost":
            self.deliver(packet)


def numbers(kind: str, count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 9, count).astype(kind)


@given(
    workers=st.integers(1, 5),
    slots=st.integers(1, 4),
    tensors=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 60)), min_size=1, max_size=4),
    seed=st.integers(0, 1 << 32),
    troubled=st.integers(0, 300),
)
def test_sums_are_exact_whatever_the_network_does(
    workers: int, slots: int, tensors: list[tuple[str, int]], seed: int, troubled: int
) -> None:
    network = Network(Pool(workers, slots, payload_bytes=16, timeout_ns=MS), random.Random(seed), troubled)
    data = [[numbers(kind, count, seed + 7 * w + t) for t, (kind, count) in enumerate(tensors)] for w in range(workers)]
    right = [sum((data[w][t] for w in range(workers)), np.zeros_like(data[0][t])) for t in range(len(tensors))]
    asked = [(tensor, worker) for tensor in range(len(tensors)) for worker in range(workers)]
    while len(network.done) < len(data) * len(tensors):
        if asked and (not network.flying or network.dice.random() < 0.2):
            tensor, worker = asked.pop(0)
            network.add(worker, tensor, data[worker][tensor])
        else:
            network.turn()
    assert sorted(network.done) == [(w, t) for w in range(workers) for t in range(len(tensors))]
    for worker in range(workers):
        for mine, sum_of_all in zip(data[worker], right):
            np.testing.assert_array_equal(mine, sum_of_all)


def test_without_trouble_every_part_and_every_sum_goes_once() -> None:
    network = Network(Pool(3, slots=2, payload_bytes=8, timeout_ns=MS), random.Random(1), troubled=0)
    data = [np.full(10, worker, np.float32) for worker in range(3)]
    for worker, array in enumerate(data):
        network.add(worker, 0, array)
    while network.flying:
        network.turn()
    assert network.now_ns == 0
    assert (network.aggregator.packets, network.aggregator.duplicates) == (3 * 5, 0)
    assert [each.resent for each in network.workers] == [0, 0, 0]
    assert [array.tolist() for array in data] == [[3.0] * 10] * 3


def pair(slots: int = 1) -> tuple[list[Worker], Aggregator]:
    pool = Pool(2, slots, payload_bytes=4, timeout_ns=MS)
    return [Worker(pool, 0), Worker(pool, 1)], Aggregator(pool)


def ones(count: int) -> np.ndarray:
    return np.ones(count, np.float32)


def test_no_more_chunks_are_under_way_than_there_are_slots() -> None:
    worker = Worker(Pool(2, slots=3, payload_bytes=4, timeout_ns=MS), 0)
    assert [each.number for each in worker.add(0, ones(5), lambda: None)] == [0, 1, 2]
    following = worker.sum_arrived(0, 1, ones(1).view(np.uint8))
    assert following is not None
    assert (following.number, following.offset_bytes) == (4, 16)  # the slot of chunk 1, not the next number
    assert worker.sum_arrived(0, 4, ones(1).view(np.uint8)) is None


def test_a_part_that_comes_again_is_added_once_and_answered_once_the_sum_is_there() -> None:
    _, aggregator = pair()
    part = ones(1).view(np.uint8)
    assert aggregator.part_arrived(0, 0, "f", part) is None
    assert aggregator.part_arrived(0, 0, "f", part) is None
    answer = aggregator.part_arrived(1, 0, "f", part)
    assert answer is not None
    assert answer.to is None
    again = aggregator.part_arrived(0, 0, "f", part)
    assert again is not None
    assert (again.to, again.slot.total.view("f").tolist()) == (0, [2.0])
    assert (aggregator.packets, aggregator.duplicates) == (4, 2)


def test_a_part_held_back_until_its_slot_is_in_use_anew_is_not_added_to_another_chunk() -> None:
    _, aggregator = pair()
    part = ones(1).view(np.uint8)
    for number in range(2):
        for worker in range(2):
            aggregator.part_arrived(worker, number, "f", part)
    assert aggregator.part_arrived(0, 2, "f", part) is None  # chunk 2 is in the version that chunk 0 had
    assert aggregator.part_arrived(1, 0, "f", part) is None
    answer = aggregator.part_arrived(1, 2, "f", part)
    assert answer is not None
    assert answer.slot.total.view("f").tolist() == [2.0]


def test_who_hears_nothing_sends_again_ever_more_patiently_up_to_64_times_the_first() -> None:
    (worker, _), _ = pair()
    worker.add(0, ones(1), lambda: None)
    waits_ns, now_ns = [], 0
    for _ in range(9):
        assert worker.due_ns is not None
        assert worker.late(worker.due_ns - 1) == []
        waits_ns.append(worker.due_ns - now_ns)
        now_ns = worker.due_ns
        assert [each.number for each in worker.late(now_ns)] == [0]
    assert waits_ns == [MS * times for times in (1, 2, 4, 8, 16, 32, 64, 64, 64)]
    assert worker.resent == 9


def test_no_two_slots_of_any_workers_send_again_at_one_time_twice() -> None:
    pool = Pool(workers=3, slots=4, payload_bytes=4, timeout_ns=MS)
    due_ns = []
    for rank in range(pool.workers):
        worker = Worker(pool, rank)
        worker.add(0, ones(pool.slots), lambda: None)
        assert len(worker.late(MS)) == pool.slots  # the first time all at once
        while worker.due_ns is not None and worker.due_ns < 5 * MS:
            due_ns.append(worker.due_ns)
            worker.late(worker.due_ns)
    assert len(set(due_ns)) == len(due_ns) == pool.workers * pool.slots


def test_a_new_chunk_is_due_before_one_that_was_sent_again() -> None:
    (worker, _), _ = pair(slots=2)
    worker.add(0, ones(1), lambda: None)
    worker.late(MS)
    assert worker.due_ns == 3 * MS
    worker.add(MS, ones(1), lambda: None)
    assert worker.due_ns == 2 * MS


def test_a_sum_that_comes_again_changes_nothing() -> None:
    (worker, _), _ = pair()
    array, done = ones(1), []
    worker.add(0, array, lambda: done.append(True))
    worker.sum_arrived(0, 0, np.array([5], np.float32).view(np.uint8))
    array[0] = 7
    assert worker.sum_arrived(0, 0, np.array([5], np.float32).view(np.uint8)) is None
    assert (array.tolist(), done) == ([7.0], [True])


def test_what_a_worker_adds_when_its_sum_is_done_goes_out_at_once() -> None:
    (worker, _), _ = pair()
    sent: list[Chunk] = []
    worker.add(0, ones(1), lambda: sent.extend(worker.add(0, ones(1), lambda: None)))
    assert worker.sum_arrived(0, 0, ones(1).view(np.uint8)) is None
    assert [each.number for each in sent] == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_added_in_their_type(kind: str) -> None:
    _, aggregator = pair()
    part = np.full(4 // np.dtype(kind).itemsize, 100, kind)
    aggregator.part_arrived(0, 0, part.dtype.char, part.view(np.uint8))
    answer = aggregator.part_arrived(1, 0, part.dtype.char, part.view(np.uint8))
    assert answer is not None
    np.testing.assert_array_equal(answer.slot.total.view(kind), part + part)


def over_loopback(loop: Loop) -> tuple[InNetwork, list[socket.socket]]:
    """Two workers and their aggregator; the aggregator's socket is the last."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    *workers, centre = sockets
    for worker in workers:
        worker.connect(centre.getsockname())
    pool = Pool(2, 4, 1024, 10**9)
    return InNetwork(pool, loop, ["h1", "h2", "h3"], centre, workers), sockets


def test_a_greeting_that_comes_late_is_no_part() -> None:
    with Loop() as loop:
        made, sockets = over_loopback(loop)
        sockets[0].send(b"")
        sockets[2].sendto(b"", sockets[1].getsockname())
        parts, done = [np.arange(700, dtype=np.float32) for _ in range(2)], []

        def over(rank: int) -> None:
            done.append(rank)
            if len(done) == len(parts):
                loop.stop()

        for rank, part in enumerate(parts):
            loop.call_at(loop.now_ns(), partial(made.add, rank, part, partial(over, rank)))
        loop.run()
        made.close()
    assert all(np.array_equal(part, 2 * np.arange(700)) for part in parts)
    for each in sockets:
        each.close()


def test_it_can_be_closed_while_something_waits_to_be_looked_at() -> None:
    with Loop() as loop:
        made, sockets = over_loopback(loop)
        sockets[0].send(b"")
        made._woken()
        made.close()
    for each in sockets:
        each.close()
