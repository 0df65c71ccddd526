"""The halves of data flows' lab tests that run inside the lab: `python -m tests.emulation.data_flows_inside NAME
ARGUMENTS`.

Each stages a fabric from spec keys, moves real bytes over the connections that the spec asks for, and says what it saw;
the test judges that on the host.
"""

from __future__ import annotations

import ctypes
import json
import random
import select
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from controller.loop import Loop
from experiments import limits
from experiments.connections import data_connected
from experiments.spec import parse
from experiments.stage import Stage, staged
from workloads import capture
from workloads.capture import Capture, Point
from workloads.transport.base import DataConnection

_PR_SET_TIMERSLACK = 29
_QUIET_S = 0.01
_CUT_AFTER_NS = 500_000


class Stream:
    """Random bytes over a connection, put and taken in pieces of random sizes; equal seeds give equal streams."""

    def __init__(self, connection: DataConnection, size_bytes: int, most_bytes: int, seed: str) -> None:
        self.connection, self._most_bytes, self._dice = connection, most_bytes, random.Random(seed)
        self.data, self.found = memoryview(self._dice.randbytes(size_bytes)), memoryview(bytearray(size_bytes))
        self.put_bytes = self.taken_bytes = self._asked_bytes = 0

    def put(self) -> None:
        while self.put_bytes < len(self.data):
            piece = self.data[self.put_bytes :][: self._dice.randint(1, self._most_bytes)]
            taken = self.connection.put(piece)
            self.put_bytes += taken
            if taken < len(piece):
                return

    def ask(self) -> None:
        self._asked_bytes = min(self._dice.randint(1, self._most_bytes), len(self.data) - self.taken_bytes)
        self.connection.expect(self._asked_bytes)

    def take(self) -> bool:
        """One piece; whether it was the last."""
        taken = self.connection.take(self.found[self.taken_bytes :][: self._asked_bytes])
        self.taken_bytes += taken
        if self.taken_bytes < len(self.data):
            self.ask()
        return self.taken_bytes == len(self.data)


class Streams:
    """Moves streams until all have been taken; senders are woken once for each time that there is room again."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._left = list(streams)

    def run(self, act_ns: int | None = None, act: Callable[[], None] = lambda: None) -> None:
        """`act` is called at `act_ns` of CLOCK_REALTIME."""
        with Loop() as self._loop, select.epoll() as self._writable:
            self._by_descriptor = {each.connection.send_descriptor: each for each in self._left}
            self._loop.watch(self._writable.fileno(), self._put)
            for each in self._left:
                each.ask()
                self._loop.watch(each.connection.receive_descriptor, partial(self._take, each))
                self._writable.register(each.connection.send_descriptor, select.EPOLLOUT | select.EPOLLET)
            if act_ns is not None:
                self._loop.call_at(act_ns, act)
            self._loop.run()

    def _put(self) -> None:
        for descriptor, _ in self._writable.poll(0):
            self._by_descriptor[descriptor].put()

    def _take(self, stream: Stream) -> None:
        if stream.take():
            self._loop.unwatch(stream.connection.receive_descriptor)
            self._left.remove(stream)
        if not self._left:
            self._loop.stop()


@contextmanager
def connections(keys: Mapping[str, Any], pairs: Sequence[Sequence[str]]) -> Iterator[tuple[Stage, list[Any]]]:
    with (
        staged(limits.resolve(parse({"workload": "collective", "capture": "off", **keys}))) as where,
        data_connected(where, [(sender, receiver) for sender, receiver in pairs]) as made,
    ):
        yield where, list(made)


def move(
    keys: Mapping[str, Any], pairs: Sequence[Sequence[str]], size_bytes: int, most_bytes: int, folder: str = ""
) -> dict[str, Any]:
    """`size_bytes` over each pair's connection, in pieces of up to `most_bytes`; with `folder`, whole packets at every
    host go there as HOST.pcap."""
    capture.SNAP_BYTES = 1 << 16
    with connections(keys, pairs) as (where, made), _captured(where, folder):
        streams = [Stream(each, size_bytes, most_bytes, str(number)) for number, each in enumerate(made)]
        begin_ns = time.time_ns()
        Streams(streams).run()
        end_ns = time.time_ns()
        time.sleep(_QUIET_S)  # the last acknowledgements
        return {
            "intact": [each.data == each.found for each in streams],
            "goodput_bps": len(streams) * size_bytes * 8e9 / (end_ns - begin_ns),
            "flows": [each.describe() for each in made],
            "drops": sum(item.statistics["drops"] for stack in where.fabric.port_qdiscs().values() for item in stack),
        }


@contextmanager
def _captured(where: Stage, folder: str) -> Iterator[None]:
    if not folder:
        yield
        return
    lab_folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    points = [Point(host.name, "eth0", tuple(host.enter_command()), 32 << 10) for host in where.fabric.hosts]
    with Capture(points, lab_folder):
        yield
    for file in lab_folder.iterdir():
        shutil.copyfile(file, Path(folder, file.name))


def unread(keys: Mapping[str, Any], piece_bytes: int) -> dict[str, Any]:
    """Nobody takes what h2 puts, until its connection is full: what it took, when it has room again, what arrives."""
    with connections(keys, [("h2", "h1")]) as (_, (connection,)):
        source = memoryview(random.Random(1).randbytes(64 << 20))
        held_bytes = _put_all(connection, source, piece_bytes)
        was_writable = _is_ready(connection.send_descriptor, select.POLLOUT)
        found, at_bytes = memoryview(bytearray(held_bytes)), 0
        connection.expect(held_bytes)
        while at_bytes < held_bytes:
            _is_ready(connection.receive_descriptor, select.POLLIN, 1000)
            at_bytes += connection.take(found[at_bytes:][:piece_bytes])
            connection.expect(held_bytes - at_bytes)
        _is_ready(connection.receive_descriptor, select.POLLIN, 10)
        nothing = connection.take(memoryview(bytearray(1)))
        is_writable = _is_ready(connection.send_descriptor, select.POLLOUT)
        return {
            "held_bytes": held_bytes,
            "writable": [was_writable, is_writable],
            "intact": found == source[:held_bytes],
            "nothing": nothing,
        }


def _put_all(connection: DataConnection, source: memoryview, piece_bytes: int) -> int:
    """Until it takes no more though its packets have had time to leave."""
    taken_bytes = 0
    while True:
        taken = connection.put(source[taken_bytes:][:piece_bytes])
        taken_bytes += taken
        if not taken and not _is_ready(connection.send_descriptor, select.POLLOUT, 10):
            return taken_bytes


def _is_ready(descriptor: int, events: int, timeout_ms: int = 0) -> bool:
    waiter = select.poll()
    waiter.register(descriptor, events)
    return bool(waiter.poll(timeout_ms))


def death(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Half a millisecond into a long stream the receiver's link goes down: what is said of it."""
    with connections(keys, [("h2", "h1")]) as (where, made):
        streams = Streams([Stream(made[0], 32 << 20, 256 << 10, "1")])
        cut_ns = time.time_ns() + _CUT_AFTER_NS
        try:
            streams.run(cut_ns, lambda: where.fabric.set_ports([where.port_towards("h1")], up=False))
        except ConnectionError as error:
            return {"said": str(error)}
        return {"said": ""}


_FUNCTIONS = (move, unread, death)
NAMES: dict[str, Callable[..., Any]] = {each.__name__: each for each in _FUNCTIONS}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(NAMES[sys.argv[1]](**json.loads(sys.argv[2]))))
