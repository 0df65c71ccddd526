"""The event loop: timers at their time and in order, descriptors while they are readable."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.loop import Loop

MS = 1_000_000


@pytest.fixture
def loop() -> Iterator[Loop]:
    with Loop() as made:
        yield made


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for descriptor in ends:
        os.close(descriptor)


def test_timers_fire_in_order_of_time_then_of_asking_and_never_early(loop: Loop) -> None:
    begin_ns, fired = loop.now_ns(), []

    def ask(name: str, at_ns: int) -> None:
        loop.call_at(at_ns, lambda: fired.append((name, loop.now_ns() >= at_ns)))

    for name, after_ns in (("c", 3 * MS), ("a", MS), ("b1", 2 * MS), ("b2", 2 * MS)):
        ask(name, begin_ns + after_ns)
    loop.call_at(begin_ns + 4 * MS, loop.stop)
    loop.run()
    assert fired == [("a", True), ("b1", True), ("b2", True), ("c", True)]


def test_a_time_that_has_passed_is_now(loop: Loop) -> None:
    fired = []
    loop.call_at(1, lambda: fired.append("past"))
    loop.call_at(0, lambda: fired.append("zero"))
    loop.call_at(-1, loop.stop)
    loop.run()
    assert fired == ["zero", "past"]


def test_a_timer_may_ask_for_its_own_instant_again(loop: Loop) -> None:
    at_ns, fired = loop.now_ns() + MS, []

    def again() -> None:
        fired.append(at_ns)
        loop.call_at(at_ns, again if len(fired) < 5 else loop.stop)

    loop.call_at(at_ns, again)
    loop.run()
    assert len(fired) == 5


def test_a_timer_asked_for_later_but_due_earlier_comes_first(loop: Loop) -> None:
    begin_ns, fired = loop.now_ns(), []
    loop.call_at(begin_ns + 20 * MS, loop.stop)
    loop.call_at(begin_ns + MS, lambda: loop.call_at(begin_ns + 2 * MS, lambda: fired.append(loop.now_ns())))
    loop.run()
    assert begin_ns + 2 * MS <= fired[0] < begin_ns + 20 * MS


def test_a_cancelled_timer_never_fires(loop: Loop) -> None:
    begin_ns, fired = loop.now_ns(), []
    first = loop.call_at(begin_ns + MS, lambda: fired.append("first"))
    second = loop.call_at(begin_ns + 2 * MS, lambda: fired.append("second"))
    last = loop.call_at(begin_ns + 3 * MS, loop.stop)
    first.cancel()
    loop.call_at(begin_ns + 2 * MS - 1, second.cancel)
    assert [timer.waits for timer in (first, second, last)] == [False, True, True]
    loop.run()
    last.cancel()  # it has fired: nothing happens
    assert fired == []
    assert not last.waits


def test_a_readable_descriptor_calls_until_it_is_read_empty(loop: Loop, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    seen = []

    def read() -> None:
        seen.append(os.read(reader, 1))
        if len(seen) == 3:
            loop.stop()

    loop.watch(reader, read)
    os.write(writer, b"abc")
    loop.run()
    assert seen == [b"a", b"b", b"c"]


def test_descriptors_come_before_timers_of_one_instant(loop: Loop, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    order = []
    loop.watch(reader, lambda: order.append(os.read(reader, 1)))
    at_ns = loop.now_ns() + MS
    loop.call_at(at_ns, lambda: order.append(b"timer"))
    loop.call_at(at_ns, loop.stop)
    os.write(writer, b"x")
    while time.time_ns() < at_ns:
        time.sleep(0.0005)
    loop.run()
    assert order == [b"x", b"timer"]


def test_all_callbacks_of_one_wake_up_are_told_one_time(loop: Loop, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    begin_ns, told = loop.now_ns(), []
    loop.watch(reader, lambda: told.append((loop.woken_ns(), os.read(reader, 1))[0]))
    loop.call_at(begin_ns - 1, lambda: told.append(loop.woken_ns()))
    loop.call_at(begin_ns + MS, lambda: told.append(loop.woken_ns()))
    loop.call_at(begin_ns + MS, loop.stop)
    os.write(writer, b"x")
    loop.run()
    first_ns, second_ns, third_ns = told
    assert begin_ns <= first_ns == second_ns
    assert third_ns >= begin_ns + MS


def test_an_unwatched_descriptor_calls_no_more_also_when_it_was_readable_in_the_same_round(
    loop: Loop, pipe: tuple[int, int]
) -> None:
    reader, writer = pipe
    other_reader, other_writer = os.pipe()
    seen = []

    def take(own: int, other: int) -> None:
        seen.append(own)
        loop.unwatch(other)

    loop.watch(reader, lambda: take(reader, other_reader))
    loop.watch(other_reader, lambda: take(other_reader, reader))
    os.write(writer, b"x")
    os.write(other_writer, b"x")
    loop.call_at(loop.now_ns(), loop.stop)
    loop.run()
    os.close(other_reader)
    os.close(other_writer)
    assert len(seen) == 1


def test_what_is_not_watched_cannot_be_unwatched(loop: Loop) -> None:
    with pytest.raises(KeyError):
        loop.unwatch(0)


def test_what_a_callback_raises_ends_the_run(loop: Loop) -> None:
    def fail() -> None:
        raise ValueError("this one")

    loop.call_at(0, fail)
    with pytest.raises(ValueError, match="this one"):
        loop.run()


def test_it_leaves_no_descriptor_open() -> None:
    before = _descriptors()
    with Loop() as loop:
        loop.call_at(0, loop.stop)
        loop.run()
    assert _descriptors() == before


def _descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())
