"""Rounds of the incast workload: seeded starts, the barrier between rounds, every byte; over local sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import rounds
from workloads.engine import Engine, Transfer
from workloads.rounds import Round, Rounds, start_offsets_ns

SMALL = Rounds(sru_bytes=5000, rounds=3, jitter_ns=1_000_000, seed=7)


# --- start times


@given(st.integers(), st.integers(1, 100), st.integers(0, 1000), st.integers(0, 10**9))
def test_starts_are_seeded_and_within_the_jitter(seed: int, senders: int, number: int, jitter_ns: int) -> None:
    workload = Rounds(1, 1, jitter_ns, seed)
    offsets = start_offsets_ns(workload, senders, number)
    assert offsets == start_offsets_ns(workload, senders, number)
    assert len(offsets) == senders
    assert all(0 <= offset <= jitter_ns for offset in offsets)


def test_seeds_and_rounds_differ() -> None:
    first = start_offsets_ns(SMALL, 8, 0)
    assert first != start_offsets_ns(SMALL, 8, 1)
    assert first != start_offsets_ns(replace(SMALL, seed=8), 8, 0)
    assert start_offsets_ns(replace(SMALL, jitter_ns=0), 3, 0) == [0, 0, 0]


def test_starts_are_the_same_on_every_python() -> None:
    """Recorded: a new Python that draws otherwise would change every run."""
    assert start_offsets_ns(Rounds(1, 1, 100_000, 1), 4, 0) == [89228, 49975, 57598, 13597]


# --- the engine


class LocalConnection:
    """A connection over a pair of local sockets that notes when it was used; see `workloads.transport.base`."""

    def __init__(self, name: str, notes: list[tuple[str, str]], chunk_bytes: int = 1 << 16) -> None:
        self.name = self.sender = name
        self.receiver, self.notes, self.chunk_bytes = "h1", notes, chunk_bytes
        self.sending, self.receiving = socket.socketpair()
        for end in (self.sending, self.receiving):
            end.setblocking(False)
        self.send_descriptor, self.receive_descriptor = self.sending.fileno(), self.receiving.fileno()
        self.expected: list[int] = []

    def send(self, limit_bytes: int) -> int:
        try:
            self.notes.append(("send", self.sender))
            return self.sending.send(bytes(min(limit_bytes, self.chunk_bytes)))
        except BlockingIOError:
            return 0

    def expect(self, remaining_bytes: int) -> None:
        self.expected.append(remaining_bytes)

    def receive(self) -> int:
        try:
            count = len(self.receiving.recv(self.chunk_bytes))
        except BlockingIOError:
            return 0
        if count == 0:
            raise ConnectionError(f"{self.sender} closed")
        self.notes.append(("receive", self.sender))
        return count

    def describe(self) -> dict[str, object]:
        return {}

    def close(self) -> None:
        self.sending.close()
        self.receiving.close()


@pytest.fixture
def notes() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def connections(notes: list[tuple[str, str]]) -> Iterator[list[LocalConnection]]:
    made = [LocalConnection(f"h{number}", notes, chunk_bytes=2000) for number in range(2, 6)]
    yield made
    for connection in made:
        connection.close()


def test_every_round_moves_every_byte(connections: list[LocalConnection]) -> None:
    told: list[Round] = []
    done = rounds.run(SMALL, connections, told.append)
    assert done == told
    assert [each.bytes for each in done] == 3 * [4 * 5000]
    with pytest.raises(BlockingIOError):
        connections[0].receiving.recv(1)


def test_a_round_ends_before_the_next_begins(connections: list[LocalConnection], notes: list[tuple[str, str]]) -> None:
    marks: list[int] = []
    done = rounds.run(SMALL, connections, lambda each: marks.append(len(notes)))
    for mark in marks:
        received = [name for kind, name in notes[:mark] if kind == "receive"]
        sent = [name for kind, name in notes[:mark] if kind == "send"]
        assert {name: received.count(name) for name in set(received)} == {name: sent.count(name) for name in set(sent)}
    for each, following in zip(done, done[1:]):
        assert each.start_ns < each.end_ns < following.start_ns


def test_senders_start_at_their_times(connections: list[LocalConnection], notes: list[tuple[str, str]]) -> None:
    """In the order of their offsets, however the connections are listed."""
    workload = Rounds(sru_bytes=100, rounds=1, jitter_ns=40_000_000, seed=3)
    offsets = dict(zip(("h2", "h3", "h4", "h5"), start_offsets_ns(workload, 4, 0)))
    (done,) = rounds.run(workload, connections)
    assert [name for kind, name in notes if kind == "send"] == sorted(offsets, key=lambda name: offsets[name])
    assert done.end_ns - done.start_ns >= max(offsets.values())


def test_more_than_a_socket_holds_is_sent_in_pieces(notes: list[tuple[str, str]]) -> None:
    connection = LocalConnection("h2", notes)
    try:
        with Engine() as engine:
            ends: list[int] = []
            engine.start(Transfer(connection, 3_000_000, time.time_ns()), lambda transfer, end_ns: ends.append(end_ns))
            engine.run()
        assert len(ends) == 1
        assert notes.count(("send", "h2")) > 3_000_000 // connection.chunk_bytes
        assert connection.expected[0] == 3_000_000
        assert all(0 < each < 3_000_000 for each in connection.expected[1:])
    finally:
        connection.close()


def test_a_transfer_may_start_another_when_it_ends(notes: list[tuple[str, str]]) -> None:
    connection = LocalConnection("h2", notes)
    sizes: list[int] = []
    try:
        with Engine() as engine:

            def again(transfer: Transfer, end_ns: int) -> None:
                sizes.append(transfer.size_bytes)
                if len(sizes) < 3:
                    engine.start(Transfer(connection, transfer.size_bytes + 1, end_ns), again)

            engine.start(Transfer(connection, 10, time.time_ns()), again)
            engine.run()
        assert sizes == [10, 11, 12]
    finally:
        connection.close()


def test_a_flow_that_dies_ends_the_run(connections: list[LocalConnection]) -> None:
    connections[1].sending.shutdown(socket.SHUT_WR)
    connections[1].send = lambda limit_bytes: 0  # type: ignore[method-assign]
    with pytest.raises(ConnectionError, match="h3 closed"):
        rounds.run(replace(SMALL, jitter_ns=0), connections)
