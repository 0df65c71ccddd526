"""Programs carried out over TCP connections of this machine: results, order, times, and flows that die."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

from controller.loop import Loop
from workloads.collectives import catalog
from workloads.collectives.executor import Executor
from workloads.collectives.problems import Problem
from workloads.collectives.program import (
    Add,
    Aggregate,
    Await,
    Channel,
    Program,
    Programs,
    Receive,
    Send,
    Signal,
    Wait,
    World,
)
from workloads.collectives.rehearsal import channels
from workloads.host_cost import HostCost, Processor
from workloads.transport.tcp import TcpConnection

MS = 1_000_000
HELPERS = 2  # parameter servers, where the algorithm has any


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sending = socket.create_connection(listener.getsockname())
        receiving, _ = listener.accept()
    for end in (sending, receiving):
        end.setblocking(False)
    sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sending, receiving


@dataclass
class Setting:
    """An executor with its loop, and the sockets of its channels."""

    executor: Executor
    loop: Loop
    sockets: dict[Channel, tuple[socket.socket, socket.socket]] = field(default_factory=dict)

    def run(self, programs: Programs) -> dict[int, int]:
        return self.executor.run(programs, dict.fromkeys(programs, self.loop.now_ns()))


@contextmanager
def setting(used: Sequence[Channel], **options: object) -> Iterator[Setting]:
    with ExitStack() as stack:
        loop = stack.enter_context(Loop())
        payload = os.memfd_create("unused")
        stack.callback(os.close, payload)
        sockets = {channel: tcp_pair() for channel in used}
        connections = {
            (sender, receiver, lane): TcpConnection("", f"h{sender + 1}", f"h{receiver + 1}", *ends, payload)
            for (sender, receiver, lane), ends in sockets.items()
        }
        for connection in connections.values():
            stack.callback(connection.close)
        executor = stack.enter_context(Executor(connections, loop, **options))  # type: ignore[arg-type]
        yield Setting(executor, loop, sockets)


CASES = [
    (collective, algorithm)
    for collective in ("all_reduce", "broadcast", "reduce", "scatter", "gather", "all_gather", "reduce_scatter")
    for algorithm in catalog.choices(collective)
    if algorithm != "in_network"
] + [("all_to_all", "direct")]


def a_world(problem: Problem, algorithm: str, chunk_items: int) -> World:
    first = problem.ranks
    helpers = range(first, first + HELPERS) if algorithm == "parameter_server" else ()
    group = 3 if algorithm == "hierarchical" and problem.ranks % 3 == 0 else 1
    return problem.world(chunk_items, group, tuple(helpers))


@pytest.mark.parametrize(("collective", "algorithm"), CASES)
@pytest.mark.parametrize(("ranks", "dtype"), [(2, "float32"), (3, "int8"), (5, "float16"), (6, "float32")])
def test_results_are_numpys(collective: str, algorithm: str, ranks: int, dtype: str) -> None:
    rehearsed = Problem(collective, ranks, 4 * (ranks + HELPERS), dtype)
    used = channels(catalog.programs(collective, algorithm, a_world(rehearsed, algorithm, chunk_items=1)))
    with setting(used) as where:
        for seed, count in enumerate((10_007, 1, ranks * 500)):
            problem = Problem(collective, ranks, count, dtype, seed)
            world = a_world(problem, algorithm, chunk_items=700)
            ends_ns = where.run(catalog.programs(collective, algorithm, world))
            assert problem.wrong(world) == 0
            assert set(ends_ns) >= set(range(ranks))


def test_messages_larger_than_all_buffers_cross_each_other() -> None:
    mine, theirs = (np.arange(8 << 20, dtype=np.float32) + first for first in (0, 1))
    into = [np.zeros_like(mine), np.zeros_like(mine)]

    def swap(party: int, data: np.ndarray) -> Program:
        yield Send(1 - party, data), Receive(1 - party, into[party])

    with setting([(0, 1, 0), (1, 0, 0)]) as where:
        where.run({0: [swap(0, mine)], 1: [swap(1, theirs)]})
        assert where.executor.sent_bytes == {(0, 1, 0): mine.nbytes, (1, 0, 0): theirs.nbytes}
    np.testing.assert_array_equal(into[0], theirs)
    np.testing.assert_array_equal(into[1], mine)


def test_messages_of_a_channel_arrive_in_order_empty_ones_too() -> None:
    sizes = [0, 3, 0, 0, 200_000, 1, 0]
    arrays = [np.full(size, number, np.float32) for number, size in enumerate(sizes)]
    into = [np.full(size, 0.5, np.float32) for size in sizes]

    def sender() -> Program:
        yield tuple(Send(1, array) for array in arrays)

    def receiver() -> Program:
        yield tuple(Add(0, array) if len(array) == 1 else Receive(0, array) for array in into)

    with setting([(0, 1, 0)]) as where:
        where.run({0: [sender()], 1: [receiver()]})
    for number, (sent, got) in enumerate(zip(arrays, into)):
        np.testing.assert_array_equal(got, sent + (0.5 if len(sent) == 1 else 0), err_msg=str(number))


def test_what_arrives_before_it_is_asked_for_waits() -> None:
    into, asked_ns = np.zeros(100_000, np.float32), []

    def sender() -> Program:
        yield Send(1, np.ones_like(into))

    def receiver(loop: Loop) -> Program:
        yield Wait(20 * MS)
        asked_ns.append(loop.now_ns())
        yield Receive(0, into)

    with setting([(0, 1, 0)]) as where:
        begin_ns = where.loop.now_ns()
        ends_ns = where.run({0: [sender()], 1: [receiver(where.loop)]})
    assert into.all()
    assert ends_ns[0] < begin_ns + 20 * MS <= asked_ns[0] <= ends_ns[1]


def test_each_party_begins_at_its_time_and_programs_wait_as_long_as_they_say() -> None:
    def waits(duration_ns: int) -> Program:
        yield Wait(duration_ns)

    with setting([]) as where:
        begin_ns = where.loop.now_ns() + MS
        programs = {0: [waits(2 * MS), waits(MS)], 1: [waits(2 * MS)], 2: []}
        ends_ns = where.executor.run(programs, {0: begin_ns, 1: begin_ns + 3 * MS})
    assert list(ends_ns) == [0, 1]
    for party, end_ns in ((0, begin_ns + 2 * MS), (1, begin_ns + 5 * MS)):
        assert end_ns <= ends_ns[party] < end_ns + 50 * MS


def test_programs_of_a_party_wait_for_each_others_signals() -> None:
    said: list[str] = []
    signals = [Signal() for _ in range(3)]

    def sets(number: int, after_ns: int) -> Program:
        yield Wait(after_ns)
        said.append(f"set {number}")
        signals[number].set()

    def waits(count: int | None, name: str) -> Program:
        yield Await(signals, count)
        said.append(name)
        yield Await(signals[:1])  # set long ago
        said.append(f"{name} again")

    with setting([]) as where:
        programs = [waits(None, "all"), waits(2, "two"), waits(0, "none"), sets(0, 0), sets(1, MS), sets(2, 2 * MS)]
        where.run({0: programs})
    assert said == ["none", "set 0", "none again", "set 1", "two", "two again", "set 2", "all", "all again"]


def test_a_long_chain_of_signals_is_no_recursion() -> None:
    signals = [Signal() for _ in range(5_000)]

    def link(number: int) -> Program:
        yield Await([signals[number]])
        if number + 1 < len(signals):
            signals[number + 1].set()

    def first() -> Program:
        yield Wait(0)
        signals[0].set()

    with setting([]) as where:
        assert list(where.run({0: [*map(link, range(len(signals))), first()]})) == [0]


def test_nothing_to_do_has_ended() -> None:
    with setting([]) as where:
        assert where.run({0: [], 1: []}) == {}


class _Sums:
    """An aggregator in memory."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.waiting: list[tuple[np.ndarray, Callable[[], object]]] = []

    def add(self, rank: int, data: np.ndarray, done: Callable[[], object]) -> None:
        self.waiting.append((data, done))
        if len(self.waiting) == self.ranks:
            arrived, self.waiting = self.waiting, []
            total = sum(each.copy() for each, _ in arrived)
            for each, call in arrived:
                each[:] = total
                call()


def test_an_aggregator_adds_up() -> None:
    data = [np.full(5, rank, np.float32) for rank in range(3)]

    def twice(array: np.ndarray) -> Program:
        yield Aggregate(array)
        yield Aggregate(array)

    with setting([], aggregator=_Sums(3)) as where:
        where.run({rank: [twice(array)] for rank, array in enumerate(data)})
    assert [array.tolist() for array in data] == [[9.0] * 5] * 3


def test_without_an_aggregator_nobody_can_ask_for_it() -> None:
    def asks() -> Program:
        yield Aggregate(np.ones(1))

    with setting([]) as where, pytest.raises(ValueError, match="aggregator"):
        where.run({0: [asks()]})


# --- what messages cost


COST = HostCost(message_ns=5 * MS, packet_ns=MS, byte_ps=0, wake_ns=3 * MS)


def test_a_processor_does_one_message_after_the_other() -> None:
    processors = {party: Processor(COST, packet_bytes=1000) for party in (0, 1)}
    into = [np.zeros(500, np.float32) for _ in range(2)]  # 2 packets each

    def sender() -> Program:
        yield Send(1, into[0]), Send(1, into[1])

    def receiver() -> Program:
        yield Receive(0, into[0]), Receive(0, into[1])

    with setting([(0, 1, 0)], processors=processors) as where:
        begin_ns = where.loop.now_ns() + MS
        ends_ns = where.executor.run({0: [sender()], 1: [receiver()]}, {0: begin_ns, 1: begin_ns})
        charged = dict(where.executor.charged_bytes)
    assert [each.busy_ns for each in processors.values()] == [14 * MS, 14 * MS]
    assert charged == {0: 4_000, 1: 4_000}
    assert ends_ns[0] >= begin_ns + 14 * MS  # two messages of 7 ms
    assert ends_ns[1] >= begin_ns + (7 + 3 + 7 + 7) * MS  # the first leaves after 7, wakes for 3; both take 7


# --- flows that die


def asks_for(size: int, peer: int) -> Program:
    yield Receive(peer, np.zeros(size, np.uint8))


def sends(size: int, peer: int) -> Program:
    yield Send(peer, np.zeros(size, np.uint8))


@pytest.mark.parametrize("who", ["sender", "receiver"])
def test_a_flow_whose_other_end_is_gone_is_named(who: str) -> None:
    with setting([(0, 1, 0)]) as where:
        sending, receiving = where.sockets[0, 1, 0]
        gone = sending if who == "sender" else receiving
        programs: Mapping[int, list[Program]] = {0: [sends(64 << 20, 1)], 1: [asks_for(65 << 20, 0)]}

        def shut() -> None:
            gone.shutdown(socket.SHUT_RDWR)

        where.loop.call_at(where.loop.now_ns() + MS, shut)
        with pytest.raises(ConnectionError, match=r"h1.*h2|h2.*h1"):
            where.run(dict(programs))


def test_silence_is_death_after_the_patience_but_not_while_somebody_computes() -> None:
    def computes() -> Program:
        yield Wait(100 * MS)
        yield Send(1, np.zeros(10, np.uint8))

    with setting([(0, 1, 0), (2, 1, 0)], patience_s=0.03) as where:
        where.run({0: [computes()], 1: [asks_for(10, 0)]})
        with pytest.raises(
            ConnectionError, match=r"flow h1 to h2 and 1 more have died: nothing has arrived for 0.03 s"
        ):
            where.run({1: [asks_for(10, 0), asks_for(10, 2)]})


def test_a_flow_that_brings_something_now_and_then_is_alive() -> None:
    def drips(loop: Loop, sending: socket.socket) -> None:
        for number in range(10):
            loop.call_at(loop.now_ns() + number * 20 * MS, lambda: sending.send(b"x"))

    def one_by_one() -> Program:
        for _ in range(10):
            yield Receive(0, np.zeros(1, np.uint8))

    with setting([(0, 1, 0)], patience_s=0.05) as where:
        drips(where.loop, where.sockets[0, 1, 0][0])
        where.run({1: [one_by_one()]})


def test_lanes_of_two_parties_are_separate() -> None:
    dice = random.Random(1)
    sizes = [dice.randrange(1, 50_000) for _ in range(6)]
    into = [np.zeros(size, np.uint8) for size in sizes]

    def sender(lane: int) -> Program:
        for number in range(lane, len(sizes), 2):
            yield Send(1, np.full(sizes[number], number, np.uint8), lane)

    def receiver(lane: int) -> Program:
        for number in range(lane, len(sizes), 2):
            yield Receive(0, into[number], lane)

    with setting([(0, 1, 0), (0, 1, 1)]) as where:
        where.run({0: [sender(1), sender(0)], 1: [receiver(0), receiver(1)]})
    for number, array in enumerate(into):
        assert (array == number).all()
