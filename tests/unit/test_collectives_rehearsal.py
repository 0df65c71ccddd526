"""A rehearsal: what programs promise each other, and what it says of those that do not."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.collectives.problems import Problem
from workloads.collectives.program import (
    Add,
    Aggregate,
    Await,
    Program,
    Programs,
    Receive,
    Send,
    Signal,
    Step,
    Wait,
    segments,
)
from workloads.collectives.rehearsal import channels, rehearse
from workloads.collectives.steps import relay, together


def numbers(count: int, value: float = 0) -> np.ndarray:
    return np.full(count, value, "float32")


def steps(*each: Step) -> Program:
    yield from each


def refusal(programs: Programs) -> str:
    with pytest.raises(RuntimeError) as refused:
        rehearse(programs)
    return str(refused.value)


def test_messages_are_put_and_added_in_the_order_of_sending() -> None:
    into = numbers(2)
    told = rehearse(
        {
            0: [steps(Send(1, numbers(2, 5)), Send(1, numbers(2, 1)))],
            1: [steps(Receive(0, into), Add(0, into))],
        }
    )
    assert into.tolist() == [6, 6]
    assert told.sent_bytes == {(0, 1, 0): 16} and told.messages == {(0, 1, 0): 2}
    assert (told.bytes_from(0), told.bytes_from(1), told.bytes_to(1)) == (16, 0, 16)


@pytest.mark.parametrize("latency_ns", [0, 3])
@pytest.mark.parametrize("seed", range(20))
def test_a_channel_keeps_its_order_whatever_the_dice_say(seed: int, latency_ns: int) -> None:
    got = [numbers(1) for _ in range(5)]
    sender = steps(tuple(Send(1, numbers(1, value)) for value in range(5)))
    rehearse({0: [sender], 1: [steps(tuple(Receive(0, into) for into in got))]}, random.Random(seed), latency_ns)
    assert [into[0] for into in got] == [0, 1, 2, 3, 4]


def test_lanes_are_apart() -> None:
    first, second = numbers(1), numbers(1)
    programs = {
        0: [steps(Send(1, numbers(1, 1), lane=1)), steps(Send(1, numbers(1, 2), lane=0))],
        1: [steps(Receive(0, first, lane=0), Receive(0, second, lane=1))],
    }
    assert channels(programs) == [(0, 1, 0), (0, 1, 1)]
    assert (first[0], second[0]) == (2, 1)


def test_data_may_change_once_it_is_sent_and_not_before() -> None:
    def hasty(data: np.ndarray) -> Program:
        yield Send(1, data)
        data[:] = 9

    def early(data: np.ndarray, told: Signal) -> Program:
        yield Await([told])
        data[:] = 9

    def telling(told: Signal) -> Program:
        told.set()
        yield Wait(0)

    right, seen = numbers(1), set()
    rehearse({0: [hasty(numbers(1, 1))], 1: [steps(Receive(0, right))]}, latency_ns=5)
    assert right[0] == 1
    for seed in range(20):
        data, into, told = numbers(1, 1), numbers(1), Signal()
        sender = [steps(Send(1, data)), telling(told), early(data, told)]
        rehearse({0: sender, 1: [steps(Receive(0, into))]}, random.Random(seed))
        seen.add(float(into[0]))
    assert seen == {1.0, 9.0}


def test_time_passes_in_waits_and_messages_alone() -> None:
    def rank(peer: int, begin_ns: int) -> Program:
        yield Wait(begin_ns)
        yield Send(peer, numbers(1)), Receive(peer, numbers(1)), Wait(40)

    assert rehearse({0: [rank(1, 100)], 1: [rank(0, 10)]}, latency_ns=7).end_ns == 140
    assert rehearse({0: [rank(1, 100)], 1: [rank(0, 10)]}, latency_ns=70).end_ns == 170
    assert rehearse({0: [steps()]}).end_ns == 0


def test_dice_decide_among_all_that_happens_at_one_time() -> None:
    """Computing that began before the messages were sent ends when they come."""

    def waiting(heard: list[str]) -> Program:
        yield Wait(9)
        heard.append("waited")

    def taking(heard: list[str], peer: int) -> Program:
        yield Receive(peer, numbers(1))
        heard.append(f"from {peer}")

    orders = set()
    for seed in range(100):
        heard: list[str] = []
        parties = {peer: [steps(Wait(4), Send(0, numbers(1)))] for peer in (1, 2)}
        parties[0] = [waiting(heard), taking(heard, 1), taking(heard, 2)]
        rehearse(parties, random.Random(seed), latency_ns=5)
        orders.add(tuple(heard))
    assert len(orders) == 6


def test_waits_of_one_end_keep_their_order() -> None:
    heard: list[int] = []

    def waiting(number: int) -> Program:
        yield Wait(5)
        heard.append(number)

    rehearse({0: [waiting(number) for number in range(9)]})
    assert heard == list(range(9))


@pytest.mark.parametrize(("count", "end_ns"), [(None, 30), (0, 0), (1, 10), (2, 20)])
def test_signals_are_awaited_as_many_as_are_needed(count: int | None, end_ns: int) -> None:
    signals = [Signal() for _ in range(3)]
    times_ns: list[int] = []

    def setting(number: int) -> Program:
        yield Wait(10 * (number + 1))
        signals[number].set()

    def waiting() -> Program:
        yield Await(signals, count)
        times_ns.append(sum(signal.is_set for signal in signals) * 10)

    rehearse({0: [waiting(), *map(setting, range(3))]})
    assert times_ns == [end_ns]


def test_signals_that_are_set_already() -> None:
    signal = Signal()
    signal.set()
    rehearse({0: [steps(Await([signal]), Await([signal, signal]), Await([]))]})
    assert signal.is_set


def test_an_aggregation_waits_for_all_parties() -> None:
    data = [np.full(3, 60 + party, "int8") for party in range(4)]
    told = rehearse({party: [steps(Wait(party), Aggregate(data[party]))] for party in range(4)})
    wrapped = np.array(60 + 61 + 62 + 63).astype("int8")
    assert all((each == wrapped).all() and each.dtype == "int8" for each in data)
    assert told.end_ns == 3


def test_who_waits_for_whom_is_told() -> None:
    def waits(peer: int) -> Program:
        yield Receive(peer, numbers(1), lane=2)
        yield Send(peer, numbers(1), lane=2)

    told = refusal({0: [waits(1)], 1: [waits(0)]})
    assert told == (
        "nothing more happens: party 0 waits for a message of party 1 (lane 2);"
        " party 1 waits for a message of party 0 (lane 2)"
    )


def test_not_all_of_many_are_told() -> None:
    told = refusal({party: [steps(Add(20, numbers(1)))] for party in range(20)})
    assert told.count("waits for") == 8 and told.endswith("; and 12 more")


def test_signals_and_aggregations_that_never_come() -> None:
    assert "party 0 waits for 1 of 2 signals" in refusal({0: [steps(Await([Signal(), Signal()], 1))]})
    told = refusal({0: [steps(Aggregate(numbers(1)))], 1: [steps()]})
    assert told.endswith("party 0 waits for an aggregation that not all have asked for")


@pytest.mark.parametrize(("asked", "given"), [("3 float32", "2 float32"), ("2 float16", "2 float32")])
def test_a_message_of_another_length_or_type(asked: str, given: str) -> None:
    count, dtype = asked.split()
    into = np.zeros(int(count), dtype)
    told = refusal({0: [steps(Send(1, numbers(2)))], 1: [steps(Receive(0, into))]})
    assert told == f"party 1 waits for {asked} of party 0 (lane 0), which sent {given}"


def test_messages_that_nobody_takes() -> None:
    told = refusal({0: [steps(Send(1, numbers(1)), Send(1, numbers(1)))], 1: [steps()]})
    assert told == "nobody takes 2 messages of party 0 to party 1 (lane 0)"


@pytest.mark.parametrize("make", [Send, Receive])
def test_two_programs_at_one_end(make: type[Send] | type[Receive]) -> None:
    told = refusal({0: [steps(make(1, numbers(1))), steps(make(1, numbers(1)))]})
    assert re.fullmatch(r"two programs of party 0 use the channel from . to . \(lane 0\) at the same time", told)


def test_programs_may_use_an_end_one_after_the_other() -> None:
    signal = Signal()

    def first() -> Program:
        yield Send(1, numbers(1, 1))
        signal.set()

    into = numbers(2)
    taking = steps(Receive(0, into[:1]), Receive(0, into[1:]))
    rehearse({0: [first(), steps(Await([signal]), Send(1, numbers(1, 2)))], 1: [taking]})
    assert into.tolist() == [1, 2]


# --- what programs are put together from


def told(program: Program) -> list[list[str]]:
    """The operations of each step, and with whom."""
    made = [step if isinstance(step, tuple) else (step,) for step in program]
    return [[f"{type(each).__name__} {getattr(each, 'peer', None)}" for each in step] for step in made]


def test_what_moves_nothing_is_left_out_at_both_ends() -> None:
    nothing, one = numbers(0), numbers(1)
    assert told(together(Send(1, nothing), Receive(1, one), Add(1, nothing), Send(2, one))) == [["Receive 1", "Send 2"]]
    assert told(together(Send(1, nothing))) == []


def test_pieces_are_handed_on_while_the_next_is_taken() -> None:
    handed_on = relay([numbers(1), numbers(1)], Add, (1, 2), (3,))
    assert told(handed_on) == [["Add 1", "Add 2"], ["Add 1", "Add 2", "Send 3"], ["Send 3"]]


def test_the_ring_in_the_manual_is_right() -> None:
    manual = (Path(__file__).parents[2] / "docs/collectives.md").read_text()
    (shown,) = re.findall(r"```python\n(.*?)```", manual, re.DOTALL)
    names: dict[str, Any] = {"segments": segments, "Send": Send, "Receive": Receive, "Add": Add}
    exec(shown, names)
    for ranks in range(2, 8):
        problem = Problem("all_reduce", ranks, 5 * ranks + 1)
        world = problem.world()
        done = rehearse({rank: [names["all_reduce"](rank, world.buffers[rank], ranks)] for rank in range(ranks)})
        assert problem.wrong(world) == 0 and sum(done.messages.values()) == 2 * (ranks - 1) * ranks
