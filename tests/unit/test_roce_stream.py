"""Streams over queue pairs without a kernel: bytes through rings whose ends complete as a test likes."""

from __future__ import annotations

import os
import random
import select
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.transport import roce
from workloads.transport.roce import QueuePairs
from workloads.transport.roce_stream import Filled, Heard, RingEnd, RoceStream

KIB = 1 << 10
SLOT_BYTES, SLOTS = 1000, 16
RING = QueuePairs(mtu_bytes=256, message_bytes=SLOT_BYTES, queue_bytes=SLOTS * SLOT_BYTES)

# --- ends that a test moves


class FakeEnd:
    """See `roce_stream.RingEnd`; its descriptor is a pipe with a byte for an event. What it posts is under way until
    `deliver` moves it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.descriptor, self._writer = os.pipe()
        self.memory: dict[int, bytearray] = {}
        self.receives: deque[int] = deque()
        self.under_way: deque[tuple[str, Filled]] = deque()
        self.peer: FakeEnd
        self._found: list[Heard] = []
        self._armed = True

    def slot(self, number: int) -> memoryview:
        return memoryview(self.memory.setdefault(number, bytearray(4 * KIB)))

    def empty(self, number: int) -> None:
        self.receives.append(number)

    def write_slots(self, peer: RingEnd, filled: Sequence[Filled]) -> None:
        assert peer is self.peer
        self.under_way.extend(("write", each) for each in filled)

    def send_slots(self, filled: Sequence[Filled]) -> None:
        self.under_way.extend(("send", each) for each in filled)

    def tell(self, peer: RingEnd, number: int, acknowledged: bool) -> None:
        assert peer is self.peer
        self.under_way.append(("tell", Filled(0, number, 1 if acknowledged else None)))

    def deliver(self) -> None:
        """The next message arrives and is acknowledged; its bytes leave the ring only now."""
        verb, message = self.under_way.popleft()
        place = self.peer.receives.popleft()  # there has to be one
        if verb == "tell":
            self.peer.complete(Heard("", True, 0, message.size_bytes, 0))
        else:
            assert verb == "write" or place == message.number
            self.peer.slot(message.number)[: message.size_bytes] = self.slot(message.number)[: message.size_bytes]
            told = message.size_bytes if verb == "write" else 0
            self.peer.complete(Heard("", True, message.size_bytes, told, 0))
        if message.serial is not None:
            self.complete(Heard("", False, 0, 0, message.serial if verb != "tell" else 0))

    def complete(self, heard: Heard) -> None:
        self._found.append(heard)
        if self._armed:
            os.write(self._writer, b"x")
            self._armed = False

    def heard(self) -> list[Heard]:
        found, self._found = self._found, []
        return found

    def ask(self) -> None:
        self._armed = True

    def forget(self) -> None:
        assert is_readable(self.descriptor), "it would wait for ever"
        assert os.read(self.descriptor, 1) == b"x"

    def rearm(self) -> None:
        self.forget()
        self.ask()

    def psns(self) -> tuple[int, int]:
        return 7, 9

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._writer)


@contextmanager
def stream(asked: QueuePairs = RING) -> Iterator[tuple[RoceStream, FakeEnd, FakeEnd]]:
    sending, receiving = FakeEnd(17), FakeEnd(18)
    sending.peer, receiving.peer = receiving, sending
    made = RoceStream("h2", ("h2", "h1"), ("10.0.0.2", "10.0.0.1"), sending, receiving, asked)
    try:
        yield made, sending, receiving
    finally:
        made.close()


def is_writable(descriptor: int) -> bool:
    return bool(select.select([], [descriptor], [], 0)[1])


def is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def some(size: int) -> memoryview:
    return memoryview(random.Random(size).randbytes(size))


def take(made: RoceStream, size: int) -> bytes:
    into = bytearray(size)
    return bytes(into[: made.take(memoryview(into))])


# --- slots


@pytest.mark.parametrize(
    ("size", "sizes"), [(1, [1]), (1000, [1000]), (2500, [1000, 1000, 500]), (99_000, SLOTS * [1000])]
)
def test_what_is_put_fills_slots(size: int, sizes: list[int]) -> None:
    with stream() as (made, sending, _):
        assert made.put(some(size)) == sum(sizes)
        assert [(filled.number, filled.size_bytes) for _, filled in sending.under_way] == list(enumerate(sizes))


@pytest.mark.parametrize("verb", roce.VERBS)
def test_slots_are_the_senders_again_a_quarter_at_a_time(verb: str) -> None:
    asked = QueuePairs(verb=verb, mtu_bytes=256, message_bytes=SLOT_BYTES, queue_bytes=SLOTS * SLOT_BYTES)
    with stream(asked) as (made, sending, receiving):
        assert made.put(some(SLOTS * SLOT_BYTES)) == SLOTS * SLOT_BYTES
        assert made.put(some(1)) == 0
        assert not is_writable(made.send_descriptor)
        for _ in range(SLOTS):
            sending.deliver()
        take(made, SLOTS // 4 * SLOT_BYTES - 1)
        assert not receiving.under_way
        take(made, 1)
        assert [(verb, told.size_bytes) for verb, told in receiving.under_way] == [("tell", SLOTS // 4)]
        assert made.put(some(1)) == 0
        receiving.deliver()
        assert is_readable(made.receive_descriptor)
        take(made, 1)
        assert is_writable(made.send_descriptor)
        assert made.put(some(99_000)) == SLOTS // 4 * SLOT_BYTES


def test_the_descriptor_stays_readable_while_something_is_left() -> None:
    with stream() as (made, sending, _):
        made.put(some(2500))
        for _ in range(3):
            sending.deliver()
        assert is_readable(made.receive_descriptor)
        assert take(made, 600) + take(made, 600) == some(2500)[:1200]
        assert is_readable(made.receive_descriptor)
        assert take(made, 5000) == some(2500)[1200:]
        assert not is_readable(made.receive_descriptor)
        assert take(made, 1) == b""


def test_what_comes_between_looks_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message arrives after the ring was found empty and before the next event was asked for."""
    with stream() as (made, sending, receiving):
        made.put(some(1000))
        made.put(some(700))
        sending.deliver()
        plain = receiving.ask

        def ask_late() -> None:
            monkeypatch.setattr(receiving, "ask", plain)
            sending.deliver()
            plain()

        monkeypatch.setattr(receiving, "ask", ask_late)
        assert take(made, 1000) == some(1000)
        assert is_readable(made.receive_descriptor)
        assert take(made, 1000) == some(700)
        assert not is_readable(made.receive_descriptor)


def test_a_window_holds_back_what_is_not_acknowledged() -> None:
    asked = QueuePairs(mtu_bytes=256, message_bytes=4 * KIB, queue_bytes=64 * KIB, window_bytes=4 * KIB)
    with stream(asked) as (made, sending, _):
        assert made.put(some(6 * KIB)) == 6 * KIB
        posted = [filled.size_bytes for _, filled in sending.under_way]
        assert sum(posted) == 4 * KIB
        assert set(posted) == {KIB}
        sending.deliver()
        take(made, 1)
        assert sum(filled.size_bytes for _, filled in sending.under_way) == 4 * KIB


# --- all bytes


@given(
    asked=st.builds(
        QueuePairs,
        verb=st.sampled_from(roce.VERBS),
        mtu_bytes=st.just(256),
        message_bytes=st.integers(1, SLOT_BYTES),
        queue_bytes=st.integers(1, 40_000),
        window_bytes=st.none() | st.integers(256, 8_000),
    ),
    steps=st.lists(st.tuples(*3 * [st.integers(0, 3_000)], *2 * [st.integers(0, 20)]), min_size=1, max_size=30),
)
def test_every_byte_arrives_in_order(asked: QueuePairs, steps: list[tuple[int, int, int, int, int]]) -> None:
    """Bytes are put, delivered and taken in turn; the receiver takes only when it is told, and at last all is."""
    with stream(asked) as (made, sending, receiving):
        put, taken = bytearray(), bytearray()
        for offered, seed, wanted, messages, told in steps:
            data = memoryview(random.Random(seed).randbytes(offered))
            put += data[: made.put(data)]
            move(sending, messages)
            if is_readable(made.receive_descriptor):
                taken += take(made, wanted)
            move(receiving, told)
            assert put.startswith(taken)
        while sending.under_way or receiving.under_way or is_readable(made.receive_descriptor):
            move(sending, 1)
            move(receiving, 1)
            taken += take(made, 100)
        assert taken == put
        assert is_writable(made.send_descriptor)
        assert made.put(some(1)) == 1


def move(end: FakeEnd, most: int) -> None:
    for _ in range(min(most, len(end.under_way))):
        end.deliver()


# --- what is told


@pytest.mark.parametrize("host", ["h2", "h1"])
def test_death_names_the_flow_the_host_and_the_reason(host: str) -> None:
    with stream() as (made, sending, receiving):
        made.put(some(10))
        end = sending if host == "h2" else receiving
        end.complete(Heard("transport retry counter exceeded", False, 0, 0, 0))
        assert is_readable(made.receive_descriptor)
        said = f"^flow h2 to h1 has died at {host}: transport retry counter exceeded$"
        with pytest.raises(ConnectionError, match=said):
            take(made, 10)


def test_who_puts_into_a_dead_flow_is_told() -> None:
    with stream() as (made, sending, _):
        sending.complete(Heard("transport retry counter exceeded", False, 0, 0, 0))
        with pytest.raises(ConnectionError, match=r"^flow h2 to h1 has died at h2: "):
            made.put(some(1))


def test_description() -> None:
    with stream() as (made, _, _):
        assert made.describe() == {
            "flow": "h2",
            "sender": "h2",
            "receiver": "h1",
            "source": "10.0.0.2:17",
            "destination": "10.0.0.1:18",
            "roce": {"verb": "write", "mtu_bytes": 256, "window_bytes": None, "sender_psn": 7, "receiver_psn": 9},
        }
