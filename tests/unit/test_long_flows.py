"""Long flows: sent from begin to end, every arrival noted, and no waiting for what never comes; over local sockets."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from workloads.long_flows import BLOCK_BYTES, LongFlow, LongFlows, Outcome

MS = 1_000_000
SETTLE_NS = 100 * MS


class LocalConnection:
    """A connection over a pair of local sockets; `lost` says of each receipt whether it is swallowed, `dies_after` how
    many sends it survives."""

    def __init__(self, name: str) -> None:
        self.name, self.sender, self.receiver = name, name, "h1"
        self.sending, self.receiving = socket.socketpair()
        for end in (self.sending, self.receiving):
            end.setblocking(False)
        self.send_descriptor, self.receive_descriptor = self.sending.fileno(), self.receiving.fileno()
        self.expected: list[int] = []
        self.sends: list[int] = []
        self.lost: Callable[[], bool] = lambda: False
        self.dies_after: int | None = None

    def send(self, limit_bytes: int) -> int:
        if self.dies_after is not None and len(self.sends) >= self.dies_after:
            raise ConnectionError(f"flow {self.name} has died")
        self.sends.append(time.time_ns())
        try:
            return self.sending.send(bytes(limit_bytes))
        except BlockingIOError:
            return 0

    def expect(self, remaining_bytes: int) -> None:
        self.expected.append(remaining_bytes)

    def receive(self) -> int:
        try:
            count = len(self.receiving.recv(1 << 20))
        except BlockingIOError:
            return 0
        return 0 if self.lost() else count

    def describe(self) -> dict[str, object]:
        return {"flow": self.name}

    def close(self) -> None:
        self.sending.close()
        self.receiving.close()


Make = Callable[[str], LocalConnection]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[LocalConnection] = []

    def one(name: str) -> LocalConnection:
        made.append(LocalConnection(name))
        return made[-1]

    yield one
    for each in made:
        each.close()


def flow(connection: LocalConnection, begin_ms: int, end_ms: int) -> LongFlow:
    now_ns = time.time_ns()
    return LongFlow(connection, now_ns + begin_ms * MS, now_ns + end_ms * MS)


def arrivals(flows: LongFlows, folder: Path) -> np.ndarray:
    flows.write(folder / "arrivals.events")
    return np.fromfile(folder / "arrivals.events", np.int64).reshape(-1, 3)


def test_a_flow_sends_from_its_begin_to_its_end_and_everything_arrives(make: Make, tmp_path: Path) -> None:
    early, late = make("h2"), make("h3")
    asked = [flow(early, 5, 105), flow(late, 150, 250)]
    flows = LongFlows(asked, SETTLE_NS)
    flows.run()
    for connection, each, outcome in zip((early, late), asked, flows.outcomes()):
        assert connection.sends[0] >= each.begin_ns
        assert outcome.sent_bytes == outcome.delivered_bytes > 10 * BLOCK_BYTES
        assert (outcome.undelivered_bytes, outcome.died) == (0, None)
        assert (outcome.begin_ns, outcome.end_ns) == (each.begin_ns, each.end_ns)
        assert each.begin_ns <= (outcome.last_arrival_ns or 0) < each.end_ns + SETTLE_NS
    assert late.sends[0] > early.sends[-1]
    rows = arrivals(flows, tmp_path)
    assert list(np.unique(rows[:, 1])) == [0, 1]
    for number, outcome in enumerate(flows.outcomes()):
        mine = rows[rows[:, 1] == number]
        assert mine[:, 2].sum() == outcome.delivered_bytes
        assert mine[-1, 0] == outcome.last_arrival_ns
    assert (np.diff(rows[:, 0]) >= 0).all()


def test_a_receiver_is_woken_for_blocks_and_after_the_end_for_anything(make: Make) -> None:
    connection = make("h2")
    flows = LongFlows([flow(connection, 0, 50)], SETTLE_NS)
    flows.run()
    assert connection.expected == [BLOCK_BYTES, 1]


def test_what_never_arrives_is_given_up_and_told(make: Make, tmp_path: Path) -> None:
    whole, stuck = make("h2"), make("h3")
    stuck.lost = lambda: True
    asked = [flow(whole, 0, 50), flow(stuck, 0, 50)]
    flows = LongFlows(asked, SETTLE_NS)
    flows.run()
    done_ns = time.time_ns()
    first, second = flows.outcomes()
    assert first.undelivered_bytes == 0
    assert second.undelivered_bytes == second.sent_bytes > 0
    assert second.last_arrival_ns is None
    assert done_ns >= asked[1].end_ns + SETTLE_NS
    assert list(np.unique(arrivals(flows, tmp_path)[:, 1])) == [0]


def test_what_trickles_in_is_waited_for(make: Make) -> None:
    """The settle time counts from the last arrival, not from the end."""
    connection = make("h2")
    asked = flow(connection, 0, 2)
    taken: list[int] = []

    def receive() -> int:
        now_ns = time.time_ns()
        if now_ns < asked.begin_ns + (1 + len(taken)) * SETTLE_NS // 2:
            return 0
        taken.append(len(connection.receiving.recv(BLOCK_BYTES // 4)))
        return taken[-1]

    connection.receive = receive  # type: ignore[method-assign]
    flows = LongFlows([asked], SETTLE_NS)
    flows.run()
    assert flows.outcomes()[0].undelivered_bytes == 0
    assert len(taken) > 2


def test_a_flow_that_dies_is_told_and_the_others_go_on(make: Make) -> None:
    dying, healthy = make("h2"), make("h3")
    dying.dies_after = 3
    flows = LongFlows([flow(dying, 0, 100), flow(healthy, 0, 100)], SETTLE_NS)
    flows.run()
    first, second = flows.outcomes()
    assert first.died == "flow h2 has died"
    assert (second.died, second.undelivered_bytes) == (None, 0)
    assert second.sent_bytes > first.sent_bytes


def test_interrupted_flows_tell_what_they_saw(make: Make, tmp_path: Path) -> None:
    connection = make("h2")
    flows = LongFlows([flow(connection, 0, 60_000)], SETTLE_NS)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            flows.run()
    finally:
        signal.signal(signal.SIGALRM, before)
    (outcome,) = flows.outcomes()
    assert outcome.delivered_bytes == arrivals(flows, tmp_path)[:, 2].sum() > 0


def test_undelivered_is_sent_less_delivered() -> None:
    assert Outcome(0, 1, 100, 40, 1, None).undelivered_bytes == 60
