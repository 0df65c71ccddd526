"""What the copies of Linux TCP cost this machine's processor, measured on the real clock over the loopback interface:
no privilege, no lab, nothing left behind.

A sender and a receiver, two processes, move `total_bytes` in messages. Charged to a process is what the kernel charges
it (getrusage(2)); the stack of the loopback interface runs in the time of either. MSG_ZEROCOPY (Linux
Documentation/networking/msg_zerocopy.rst) spares the sender its copy where a NIC reads the pages; the kernel tells with
each completion whether it had to copy all the same, as over loopback it has.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

_SO_ZEROCOPY, _MSG_ZEROCOPY = 60, 0x4000000  # asm-generic/socket.h, linux/socket.h; Python has no names for them
_COPIED = 1  # SO_EE_CODE_ZEROCOPY_COPIED of linux/errqueue.h
_EXTENDED_ERROR = struct.Struct("=IBBBBII")  # struct sock_extended_err
_MESSAGE_BYTES, _TOTAL_BYTES = 256 << 10, 512 << 20
_SMALL_BYTES, _ROUND_TRIPS, _REPEATS = 4096, 2000, 3
_LIMIT_S = 60.0


@dataclass(frozen=True)
class Copying:
    """`way` of sending `sent_bytes`, and its time; processor seconds of both ends; the part of the messages of which
    the kernel says that it copied them though it was asked not to (None: it was not asked)."""

    way: str
    sent_bytes: int
    seconds: float
    sender_cpu_s: float
    receiver_cpu_s: float
    copied_anyway: float | None = None


def measure() -> dict[str, Any]:
    """Medians of each way, JSON-ready: "ways" (see Copying), "latency_s" of 4 KiB one way (half of a round trip), and
    "copy_bytes_per_s" of a plain copy in memory. Raises OSError where sockets cannot be had."""
    ways = [_median([_moved(way) for _ in range(_REPEATS)]) for way in _WAYS]
    return {
        "message_bytes": _MESSAGE_BYTES,
        "ways": [asdict(way) for way in ways],
        "latency_s": _latency_s(),
        "copy_bytes_per_s": _copy_bytes_per_s(),
    }


def _median(found: list[Copying]) -> Copying:
    """The one in the middle by processor time."""
    return sorted(found, key=lambda each: each.sender_cpu_s + each.receiver_cpu_s)[len(found) // 2]


@contextmanager
def _connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # No timeout here: with one, Python waits for bytes to read before it looks for completions.
        sending = socket.create_connection(listener.getsockname())
        receiving, _ = listener.accept()
    receiving.settimeout(_LIMIT_S)
    with sending, receiving:
        sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        receiving.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sending, receiving


@contextmanager
def _child(work: Callable[[], Any], end: socket.socket, other_end: socket.socket) -> Iterator[Callable[[], Any]]:
    """`work` in a process of its own, which has `end` for itself, as we have the `other_end`: each sees the other die.
    The function that is yielded waits for what it returns (JSON)."""
    reader, writer = os.pipe()
    number = os.fork()
    if number == 0:
        status = 1
        try:
            other_end.close()
            os.write(writer, json.dumps(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    end.close()
    try:
        yield lambda: json.loads(os.read(reader, 1 << 16) or b"null")
    finally:
        os.close(reader)
        os.waitpid(number, 0)


def _moved(way: str) -> Copying:
    with _connection() as (sending, receiving), _child(lambda: _receive(receiving, way), receiving, sending) as told:
        before_s, begin_s = _cpu_s(), time.perf_counter()
        copied = _WAYS[way](sending)
        sending.shutdown(socket.SHUT_WR)
        receiver_cpu_s = told()
        spent_s = time.perf_counter() - begin_s
        if receiver_cpu_s is None:
            raise OSError("the receiver of a measurement over loopback has died")
        return Copying(way, _TOTAL_BYTES, spent_s, _cpu_s() - before_s, receiver_cpu_s, copied)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _receive(receiving: socket.socket, way: str) -> float:
    """Take all; returns the processor seconds that it took."""
    before_s, room = _cpu_s(), bytearray(_MESSAGE_BYTES)
    flags = socket.MSG_TRUNC if way == "sendfile" else 0  # dropped: nobody copies
    while receiving.recv_into(room, 0, flags):
        pass
    return _cpu_s() - before_s


def _send_copied(sending: socket.socket) -> None:
    data = bytes(_MESSAGE_BYTES)
    for _ in range(_TOTAL_BYTES // _MESSAGE_BYTES):
        sending.sendall(data)


def _send_file(sending: socket.socket) -> None:
    payload = os.memfd_create("payload")
    try:
        os.ftruncate(payload, _MESSAGE_BYTES)
        for _ in range(_TOTAL_BYTES // _MESSAGE_BYTES):
            at = 0
            while at < _MESSAGE_BYTES:
                at += os.sendfile(sending.fileno(), payload, at, _MESSAGE_BYTES - at)
    finally:
        os.close(payload)


def _send_zerocopy(sending: socket.socket) -> float:
    """Returns the part of the messages that were copied all the same."""
    sending.setsockopt(socket.SOL_SOCKET, _SO_ZEROCOPY, 1)
    data = memoryview(bytes(_MESSAGE_BYTES))
    sent = completed = copied = 0
    for _ in range(_TOTAL_BYTES // _MESSAGE_BYTES):
        at = 0
        while at < _MESSAGE_BYTES:
            try:
                at += sending.send(data[at:], _MSG_ZEROCOPY)
                sent += 1
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                _await_completion(sending)  # too many are not read yet
            done, of_them_copied = _completions(sending)
            completed, copied = completed + done, copied + of_them_copied
    while completed < sent:
        _await_completion(sending)
        done, of_them_copied = _completions(sending)
        completed, copied = completed + done, copied + of_them_copied
    return copied / sent


def _await_completion(sending: socket.socket) -> None:
    poller = select.poll()
    poller.register(sending, select.POLLERR)
    if not poller.poll(_LIMIT_S * 1000):
        raise OSError("no completion of a zero-copy message comes")


def _completions(sending: socket.socket) -> tuple[int, int]:
    """Messages that are done with since the last look, and how many of them were copied."""
    done = copied = 0
    while True:
        try:
            _, found, _, _ = sending.recvmsg(0, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return done, copied
        for _, _, data in found:
            _, _, _, code, _, first, last = _EXTENDED_ERROR.unpack_from(data)
            done += last - first + 1
            copied += (last - first + 1) if code & _COPIED else 0


_WAYS: dict[str, Callable[[socket.socket], float | None]] = {
    "copy": _send_copied,
    "zerocopy": _send_zerocopy,
    "sendfile": _send_file,
}


def _latency_s() -> float:
    """Median of 4 KiB one way: half of a round trip between two processes."""
    with _connection() as (here, there), _child(lambda: _echo(there), there, here) as told:
        data, times_s = bytes(_SMALL_BYTES), []
        for _ in range(_ROUND_TRIPS):
            begin_s = time.perf_counter()
            here.sendall(data)
            _whole(here)
            times_s.append(time.perf_counter() - begin_s)
        here.shutdown(socket.SHUT_WR)
        told()
    return statistics.median(times_s) / 2


def _echo(there: socket.socket) -> bool:
    for _ in range(_ROUND_TRIPS):
        there.sendall(_whole(there))
    return True


def _whole(end: socket.socket) -> bytes:
    """A message of 4 KiB."""
    parts = b""
    while len(parts) < _SMALL_BYTES:
        part = end.recv(_SMALL_BYTES - len(parts))
        if not part:
            raise OSError("the other end of a measurement over loopback has died")
        parts += part
    return parts


def _copy_bytes_per_s() -> float:
    """Median speed of a copy from memory to memory, by processor time: what else runs does not make it slower."""
    source, target = bytes(64 * _MESSAGE_BYTES), bytearray(64 * _MESSAGE_BYTES)
    speeds = []
    for _ in range(16):
        begin_s = time.process_time()
        target[:] = source
        speeds.append(len(source) / (time.process_time() - begin_s))
    return statistics.median(speeds)
