"""A schedule of failures against a fabric that only notes what is done to it, on the real clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from workloads.faults import CONTROLLER, Fault, Faults

MS = 1_000_000
LINK = ("leaf1-eth3", "spine1-eth1")
LATE_MS = 500  # what a busy machine may be late by


class NotedFabric:
    """Notes each call with its time; every port holds as many packets as its name has letters."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, tuple[str, ...], int]] = []

    def held_packets(self, interfaces: Sequence[str]) -> dict[str, int]:
        self.notes.append(("held", tuple(interfaces), time.time_ns()))
        return {name: len(name) for name in interfaces}

    def set_ports(self, interfaces: Sequence[str], up: bool) -> None:
        self.notes.append(("up" if up else "down", tuple(interfaces), time.time_ns()))

    @property
    def done(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(what, ports) for what, ports, _ in self.notes]


def run(schedule: Sequence[Fault], wait: Callable[[Faults], bool], *more: Any) -> tuple[NotedFabric, Faults]:
    """Carry out a schedule until `wait` holds, or for ten seconds."""
    fabric: Any = NotedFabric()
    with Faults(fabric, schedule, *more) as faults:
        deadline_s = time.monotonic() + 10
        while not wait(faults) and time.monotonic() < deadline_s:
            time.sleep(0.001)
    return fabric, faults


def in_ms(delay_ms: int, action: str, target: str = "leaf1-spine1", ports: tuple[str, ...] = LINK) -> Fault:
    return Fault(time.time_ns() + delay_ms * MS, target, action, ports)


def test_down_and_up_in_order_and_at_their_times() -> None:
    schedule = [in_ms(20, "down"), in_ms(60, "up"), in_ms(61, "down", "spine2", ("spine2-eth1",))]
    fabric, faults = run(schedule, lambda each: len(each.done) == 3)
    assert fabric.done == [
        ("held", LINK),
        ("down", LINK),
        ("up", LINK),
        ("held", ("spine2-eth1",)),
        ("down", ("spine2-eth1",)),
    ]
    assert [(each.target, each.action) for each in faults.done] == [
        ("leaf1-spine1", "down"),
        ("leaf1-spine1", "up"),
        ("spine2", "down"),
    ]
    for fault, done in zip(schedule, faults.done):
        assert 0 <= done.time_ns - fault.time_ns < LATE_MS * MS


def test_what_was_in_flight_is_asked_before_the_ports_go_down() -> None:
    _, faults = run([in_ms(0, "down"), in_ms(0, "up")], lambda each: len(each.done) == 2)
    assert [each.in_flight for each in faults.done] == [{"leaf1-eth3": 10, "spine1-eth1": 11}, {}]


def test_a_time_that_has_passed_is_now() -> None:
    fabric, faults = run([in_ms(-1_000, "down")], lambda each: len(each.done) == 1)
    assert fabric.done == [("held", LINK), ("down", LINK)]
    assert 0 <= time.time_ns() - faults.done[0].time_ns < 11_000 * MS


def test_work_that_ends_before_its_faults_is_no_result() -> None:
    before = threading.active_count()
    start_s = time.monotonic()
    with pytest.raises(RuntimeError, match="the workload ended before leaf1-spine1 went up"):
        run([in_ms(0, "down"), in_ms(60_000, "up")], lambda each: len(each.done) == 1)
    assert time.monotonic() - start_s < 30
    assert threading.active_count() == before


def test_what_goes_wrong_in_the_thread_is_raised() -> None:
    class Broken(NotedFabric):
        def set_ports(self, interfaces: Sequence[str], up: bool) -> None:
            raise ValueError("no such port")

    with pytest.raises(ValueError, match="no such port"), Faults(Broken(), [in_ms(0, "down")]):  # type: ignore[arg-type]
        time.sleep(0.05)


def test_no_faults_is_nothing() -> None:
    fabric, faults = run([], lambda each: True)
    assert (fabric.done, faults.done) == ([], [])


@pytest.mark.parametrize("killers", [0, 1])
def test_the_controller_is_killed_where_there_is_one(killers: int) -> None:
    killed: list[int] = []
    more = killers * [lambda: killed.append(time.time_ns())]
    fabric, faults = run([in_ms(0, "down", CONTROLLER, ())], lambda each: len(each.done) == 1, *more)
    assert len(killed) == killers
    assert fabric.done == []
    assert [(each.target, each.in_flight) for each in faults.done] == [(CONTROLLER, {})]
