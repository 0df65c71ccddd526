"""Workloads of the user's own: what they send when, and what a rehearsal tells before anything is built."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from experiments import limits, memory, own_workloads
from experiments.connections import queue_pairs
from experiments.spec import Spec, parse
from tests.conftest import ROOT
from tests.unit.test_plugins import plug_of, refused
from topologies import plugins
from workloads import own_workload
from workloads.engine import Transfer
from workloads.own_workload import Traffic, made, rehearsed
from workloads.rounds import Rounds

EXAMPLE = f"{ROOT}/examples/own_workload.py"
HOSTS = tuple(f"h{number}" for number in range(1, 7))
ASKED = Rounds(sru_bytes=160_000, rounds=2, jitter_ns=1000, seed=7)
LINE_BPS = 8_000_000_000  # a byte a nanosecond


def example(name: str) -> plugins.Plug:
    return plugins.read(f"{EXAMPLE}:{name}", "workload")


def resolved(name: str, **keys: Any) -> Spec:
    return limits.resolve(parse({"workload": f"{EXAMPLE}:{name}", "hosts": 6, **keys}))


class Log:
    """A carrier that carries out what it is told at once, in order of arrival."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, int]] = []
        self.due: list[tuple[int, Any, Transfer]] = []

    def start(self, transfer: Transfer, done: Any) -> None:
        self.starts.append((transfer.start_ns, transfer.size_bytes))
        self.due.append((transfer.start_ns + transfer.size_bytes, done, transfer))

    def run(self) -> None:
        while self.due:
            self.due.sort(key=lambda each: each[0])
            end_ns, done, transfer = self.due.pop(0)
            done(transfer, end_ns)


class Chain:
    """Two transfers of one connection, and one of another that the first brings about."""

    def begin(self, traffic: Traffic) -> None:
        traffic.send(("h1", "h2"), 100, then=lambda: traffic.send(("h2", "h3"), 5, wait_ns=50))
        traffic.send(("h1", "h2"), 30)


def played(workload: Any, asked: Rounds = ASKED, number: int = 0) -> tuple[Log, Traffic]:
    log = Log()
    lanes = own_workload._lanes(dict.fromkeys([("h1", "h2"), ("h2", "h3")]))  # type: ignore[arg-type]
    traffic = Traffic(log, lanes, asked, number, start_ns=1_000_000)
    traffic.play(workload)
    return log, traffic


def test_transfers_of_one_connection_go_one_after_the_other() -> None:
    log, traffic = played(Chain(), Rounds(1, 1, 0, 1))
    assert log.starts == [(1_000_000, 100), (1_000_100, 30), (1_000_150, 5)]
    assert [(each.connection, each.size_bytes, each.end_ns) for each in traffic.sent] == [
        (0, 100, 1_000_100),
        (0, 30, 1_000_130),
        (1, 5, 1_000_155),
    ]


def test_what_begin_sends_starts_within_the_jitter_and_nothing_else_does() -> None:
    log, _ = played(Chain())
    first_ns = log.starts[0][0]
    assert 1_000_000 < first_ns <= 1_000_000 + ASKED.jitter_ns
    assert [start - first_ns for start, _ in log.starts] == [0, 100, 150]
    assert played(Chain())[0].starts == log.starts != played(Chain(), number=1)[0].starts


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((("h3", "h1"), 5), "no connection ('h3', 'h1')"),
        ((("h1", "h2"), 0), "size_bytes is 0"),
        ((("h1", "h2"), 2.5), "size_bytes is 2.5"),
        ((("h1", "h2"), True), "size_bytes is True"),
        ((("h1", "h2"), 5, None, -1), "wait_ns is -1"),
    ],
)
def test_what_cannot_be_sent_is_refused(words: tuple[Any, ...], said: str) -> None:
    class Wrong:
        def begin(self, traffic: Traffic) -> None:
            traffic.send(*words)

    with pytest.raises(ValueError, match=re.escape(said)):
        played(Wrong())


def test_the_shuffle_sends_each_mappers_bytes_to_every_reducer_one_at_a_time() -> None:
    workload, pairs = made(example("Shuffle"), HOSTS, ASKED)
    assert len(pairs) == 9
    log = Log()
    traffic = Traffic(log, own_workload._lanes(dict.fromkeys(pairs)), ASKED, 0, 0)  # type: ignore[arg-type]
    sent = traffic.play(workload)
    assert Counter(each.connection for each in sent) == dict.fromkeys(range(9), 1)
    for mapper in range(3):
        own = sorted((each.start_ns, each.end_ns) for each in sent if each.connection // 3 == mapper)
        assert all(end <= start for (_, end), (start, _) in zip(own, own[1:]))


def test_the_broadcast_is_pipelined() -> None:
    found = rehearsed(example("PipelinedBroadcast"), HOSTS, ASKED, LINE_BPS)
    assert found.pairs == tuple(zip(HOSTS, HOSTS[1:]))
    assert (found.transfers, found.size_bytes, found.largest_bytes) == (2 * 5 * 16, 2 * 5 * 160_000, 10_000)
    workload, pairs = made(example("PipelinedBroadcast"), HOSTS, ASKED)
    lanes = own_workload._lanes(dict.fromkeys(pairs))  # type: ignore[arg-type]
    sent = Traffic(Log(), lanes, Rounds(160_000, 1, 0, 1), 0, 0).play(workload)
    assert max(each.end_ns for each in sent) == (16 + 5 - 1) * 10_000  # each link waits for a piece, not for all


def test_a_rehearsal_tells_what_memory_needs() -> None:
    small, large = (resolved("Shuffle", bytes=size) for size in ("64KiB", "1MiB"))
    assert memory.pairs(small) == 9
    assert (memory.largest_bytes(small), memory.largest_bytes(large)) == (65536, 1 << 20)
    assert memory.memory_bytes(small) < memory.memory_bytes(large)
    assert memory.largest_bytes(limits.resolve(parse({"workload": "pings", "hosts": 4}))) is None


def test_roce_waits_for_what_the_workload_sends_at_a_time() -> None:
    small, large = (resolved("Shuffle", bytes=size, transport="roce", rate="1Gbps") for size in ("4KiB", "4MiB"))
    assert queue_pairs(small, steady=False).ack_timeout < queue_pairs(large, steady=False).ack_timeout


def test_ours_are_not_rehearsed() -> None:
    assert own_workloads.rehearsal(parse({})) is None


CLASS = "class made:\n    def __init__(self, hosts, asked): self.hosts = hosts\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{CLASS}    def pairs(self): return []\n    def begin(self, t): pass", "has no pair, or one twice"),
        (
            f"{CLASS}    def pairs(self): return [('h1','h2')]*2\n    def begin(self, t): pass",
            "has no pair, or one twice",
        ),
        (
            f"{CLASS}    def pairs(self): return [('h1','h99')]\n    def begin(self, t): pass",
            r"\('h1', 'h99'\) in pairs",
        ),
        (f"{CLASS}    def pairs(self): return [('h1','h1')]\n    def begin(self, t): pass", r"\('h1', 'h1'\) in pairs"),
        (f"{CLASS}    def pairs(self): return 5\n    def begin(self, t): pass", "raises TypeError"),
        (
            f"{CLASS}    def pairs(self): return iter(lambda: ('h1','h2'), 0)\n    def begin(self, t): pass",
            "has no pair, or one twice",
        ),
        (f"{CLASS}    def pairs(self): return [([1],[2])]\n    def begin(self, t): pass", r"\(\[1\], \[2\]\) in pairs"),
        (f"{CLASS}    def pairs(self): return [('h1','h2')]\n    def begin(self, t): pass", "sends nothing in round 0"),
        (
            f"{CLASS}    def pairs(self): return [('h1','h2')]\n    def begin(self, t): t.send(('h2','h1'), 5)",
            "own.py:4 ",
        ),
        (f"{CLASS}    def pairs(self): return [('h1','h2')]\n    def begin(self, t): 1 / 0", "own.py:4 raises ZeroD"),
        (f"{CLASS}    def pairs(self): return [('h1','h2')]", "is a class without them: made; allowed: a class with"),
        (
            "class made:\n    def pairs(self): pass\n    def begin(self, t): pass",
            r"raises TypeError: made\(\) takes no arg",
        ),
    ],
)
def test_a_workload_that_cannot_be_played_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert re.search(said, refused("workload", tmp_path, text))


def test_one_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_workload, "MOST_TRANSFERS", 1000)
    text = f"{CLASS}    def pairs(self): return [('h1', 'h2')]\n"
    text += "    def begin(self, t): t.send(('h1', 'h2'), 1, then=lambda: self.begin(t))"
    assert "more than 1,000 transfers, if it ends at all" in refused("workload", tmp_path, text)


def test_keys_of_other_workloads_do_not_apply() -> None:
    with pytest.raises(
        plugins.BadRequest, match=r"^senders: 3 is given with workload=.*:Shuffle; allowed: with workload="
    ):
        resolved("Shuffle", senders=3)


def test_a_plug_is_made_anew_for_every_run(tmp_path: Path) -> None:
    plug = plugins.read(
        plug_of(tmp_path, f"{CLASS}    def pairs(self): return [('h1','h2')]\n    def begin(self, t): pass"), ""
    )
    assert made(plug, HOSTS, ASKED)[0] is not made(plug, HOSTS, ASKED)[0]
