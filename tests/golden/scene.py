"""What the golden cases of inside.py are played on: a star of two hosts, its captures, losses of given segments, and
what was counted meanwhile.

What a host sends is made of blocks of one segment's payload, each with its number in front, so that a filter at the
switch can take away one given segment, so many times as asked (tc-u32(8)): no loss is left to chance.
"""

from __future__ import annotations

import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tests.emulation.inside import fabric_of
from topologies.emulate import Fabric
from topologies.namespaces import entered
from workloads import counters
from workloads.capture import SNAP_BYTES, Capture, Point
from workloads.transport.tcp import TcpConnection

SEGMENT_BYTES = 1448  # 1,500 less the headers of IPv4 and of TCP with time stamps
FIRST_NUMBER = 0x474F4C00  # the number in front of block 0
HEADERS: dict[int, int] = {socket.AF_INET: 52, socket.AF_INET6: 72}  # IP's and TCP's with time stamps
_V4, _V6 = ("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")  # of h1 and h2
_ADDRESSES: dict[int, tuple[str, str]] = {socket.AF_INET: _V4, socket.AF_INET6: _V6}
_PORT, _SOURCE_PORT = 5000, 20_000
_POLL_S, QUIET_S = 50e-6, 0.05


class Cooked(Capture):
    """A capture on all interfaces at once, with the link type that is asked for (tcpdump's names)."""

    link_type = "LINUX_SLL2"

    def _start(self, point: Point) -> subprocess.Popen[str]:
        options = ["-s", str(SNAP_BYTES), "--time-stamp-precision=nano", "-Z", "root", "-n", "-y", self.link_type]
        words = [*point.enter, "tcpdump", "-i", "any", *options, "-w", str(self.folder / f"{point.name}.pcap")]
        return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)


class CookedOld(Cooked):
    """The older one of the two cooked link types."""

    link_type = "LINUX_SLL"


class Losses:
    """Filters that take segments away as they come into the switch from h2, each so many times; a context manager.

    `dropped` tells afterwards how many times each block was.
    """

    def __init__(self, asked: Mapping[int, int], family: int) -> None:
        self._asked, self._family, self.dropped = dict(asked), family, dict.fromkeys(asked, 0)
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> Losses:
        _tc("qdisc", "add", "dev", "leaf1-eth2", "clsact")
        for block in self._asked:
            _tc(*self._filter("add", block), *self._match(block), "action", "drop")
        self._watcher.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._watcher.join()

    def _filter(self, command: str, block: int) -> tuple[str, ...]:
        protocol = "ip" if self._family == socket.AF_INET else "ipv6"
        place = ("dev", "leaf1-eth2", "ingress", "protocol", protocol, "prio", str(block + 1))
        return ("filter", command, *place)

    def _match(self, block: int) -> tuple[str, ...]:
        number = f"0x{FIRST_NUMBER + block:08x}"
        return ("u32", "match", "u32", number, "0xffffffff", "at", str(HEADERS[self._family]))

    def _watch(self) -> None:
        waiting = dict(self._asked)
        while waiting and not self._done.is_set():
            time.sleep(_POLL_S)
            for block, count in self._counts().items():
                self.dropped[block] = count
                if block in waiting and count >= waiting[block]:
                    _tc(*self._filter("del", block))
                    del waiting[block]

    @staticmethod
    def _counts() -> dict[int, int]:
        """Block -> how many times its filter has dropped."""
        said = _tc("-s", "filter", "show", "dev", "leaf1-eth2", "ingress")
        filters = re.split(r"^filter ", said, flags=re.MULTILINE)
        found = [(re.search(r"pref (\d+)", each), re.search(r"dropped (\d+)", each)) for each in filters]
        return {int(pref.group(1)) - 1: int(drops.group(1)) for pref, drops in found if pref and drops}


def _tc(*words: str) -> str:
    return subprocess.run(["tc", *words], capture_output=True, text=True, check=True).stdout


class Scene:
    """A star whose h2 sends to h1: its captures, and what was counted while they ran. addresses: of h1 and h2, by
    family."""

    def __init__(self, fabric: Fabric, family: int = socket.AF_INET) -> None:
        self.fabric, self.family = fabric, family
        self.addresses = dict(_ADDRESSES)
        self.script: list[dict[str, Any]] = []

    def note(self, what: str, **facts: Any) -> None:
        """Something that the program does now."""
        self.script.append({"at_ns": time.time_ns(), "what": what, **facts})

    def connect(self, receive_buffer: int | None = None) -> tuple[socket.socket, socket.socket]:
        """A connection from h2 to h1: h2's socket and h1's."""
        at, of = self.addresses[self.family]
        listener, sending = self._socket("h1"), self._socket("h2")
        if receive_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        listener.bind((at, _PORT))
        listener.listen()
        sending.bind((of, _SOURCE_PORT))
        sending.connect((at, _PORT))
        receiving, _ = listener.accept()
        listener.close()
        return sending, receiving

    def _socket(self, host: str) -> socket.socket:
        with entered(self.fabric.namespaces[host]):
            made = socket.socket(self.family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return made


@contextmanager
def lab_folder(folder: str) -> Iterator[Path]:
    """A folder of the lab's own, whose files are in `folder` afterwards: an ordinary user's does not suit tcpdump."""
    made = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield made
    for file in made.iterdir():
        shutil.copyfile(file, Path(folder, file.name))


@contextmanager
def recorded(
    keys: Mapping[str, Any], folder: str, told: dict[str, Any], points: Sequence[str], kind: type[Capture] = Capture
) -> Iterator[Scene]:
    """A fabric of one sender, captured at `points`; `told` has the counters and the script afterwards."""
    with fabric_of({"senders": 1, **keys}) as (_, fabric), lab_folder(folder) as captures:
        scene = Scene(fabric)
        with kind([_point(fabric, name) for name in points], captures) as capture:
            before, drops = counters.read(fabric.namespaces), _drops(fabric)
            yield scene
            time.sleep(QUIET_S)
            after = counters.read(fabric.namespaces)
            told["kernel"] = counters.difference(before, after)
            told["queue_drops"] = {port: count - drops[port] for port, count in _drops(fabric).items()}
        told["script"], told["capture_lost"] = scene.script, capture.losses


def _point(fabric: Fabric, name: str) -> Point:
    """A switch port by its name, or a host's NIC: "h2-eth0"."""
    host, _, interface = name.partition("-")
    if host in fabric.namespaces:
        return Point(name, interface, tuple(fabric[host].enter_command()))
    return Point(name, name)


def _drops(fabric: Fabric) -> dict[str, int]:
    return {
        name: max(item.statistics["drops"] for item in stack) for name, stack in fabric.port_qdiscs().items() if stack
    }


def blocks(first: int, count: int, size: int = SEGMENT_BYTES) -> bytes:
    """So many blocks of one segment each."""
    return b"".join(
        struct.pack("!I", FIRST_NUMBER + number).ljust(size, b".") for number in range(first, first + count)
    )


def drained(receiving: socket.socket, count: int) -> threading.Thread:
    """A thread that reads so many bytes."""

    def read() -> None:
        left = count
        while left and (data := receiving.recv(1 << 16)):
            left -= len(data)

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def info(sending: socket.socket, receiving: socket.socket) -> dict[str, int]:
    """TCP_INFO of the sending end of a connection."""
    told = TcpConnection("h2", "h2", "h1", sending, receiving, payload=-1).describe()
    return cast("dict[str, int]", told["tcp_info"])


def delay(scene: Scene, microseconds: int) -> None:
    """Packets take so long from the switch to h1, from now on."""
    line = ("qdisc", "change", "dev", "leaf1-eth1", "handle", "1:", "root", "netem", "limit", "10000000")
    _tc(*line, "delay", f"{microseconds}us")
    scene.note("delay", microseconds=microseconds)


def shut(*ends: socket.socket) -> None:
    for end in ends:
        end.close()
