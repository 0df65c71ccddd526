"""Many datagrams in one system call (sendmmsg(2), recvmmsg(2)), their payload straight from and to memory: a call costs
more than a packet.

Every datagram has a small header of its own in front of its payload, a NumPy record.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_MOST_MESSAGES = 1024  # of one call: UIO_MAXIOV (linux/uio.h)
_IOVECS = 2  # of a datagram: header, payload
_SOCKADDR_BYTES = 16  # sockaddr_in


class _Msghdr(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_bytes", ctypes.c_uint32),
        ("iovecs", ctypes.c_void_p),
        ("iovecs_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class _Mmsghdr(ctypes.Structure):
    _fields_ = [("header", _Msghdr), ("length", ctypes.c_uint)]


class _Messages:
    """Room for `count` datagrams with headers of type `header`; what numbers the kernel reads and writes is seen as
    NumPy arrays."""

    def __init__(self, count: int, header: np.dtype) -> None:
        self.count = count
        self.headers = np.zeros(count, header)
        self.iovecs = np.zeros((count, _IOVECS, 2), np.uintp)  # (base, length)
        self.iovecs[:, 0, 0] = self.headers.ctypes.data + np.arange(count) * header.itemsize
        self.iovecs[:, 0, 1] = header.itemsize
        self.array = (_Mmsghdr * count)()
        for index, message in enumerate(self.array):
            message.header.iovecs = self.iovecs.ctypes.data + index * self.iovecs.strides[0]
            message.header.iovecs_count = _IOVECS
        self.lengths = self._column(_Mmsghdr.length.offset, np.uint32)
        self.names = self._column(_Mmsghdr.header.offset + _Msghdr.name.offset, np.uintp)
        self.name_bytes = self._column(_Mmsghdr.header.offset + _Msghdr.name_bytes.offset, np.uint32)

    def _column(self, offset: int, kind: type) -> np.ndarray:
        """One field of all messages."""
        return np.ndarray(self.count, kind, memoryview(self.array).cast("B"), offset, (ctypes.sizeof(_Mmsghdr),))


class Inbox:
    """Takes datagrams of up to `payload_bytes` behind their headers, up to `count` at a time, from any socket;
    `is_full`: the last time there may have been more."""

    def __init__(self, count: int, header: np.dtype, payload_bytes: int) -> None:
        self._messages = _Messages(count, header)
        self.payloads = np.empty((count, payload_bytes), np.uint8)
        self._messages.iovecs[:, 1, 0] = self.payloads.ctypes.data + np.arange(count) * payload_bytes
        self._messages.iovecs[:, 1, 1] = payload_bytes
        self._header_bytes = header.itemsize
        self.is_full = False

    def take(self, descriptor: int) -> tuple[list[tuple], list[int]]:
        """What has come: the headers as tuples, and how many bytes of payload each came with, until the next call; its
        row of `payloads` has as many of them as fit. Raises OSError."""
        messages = self._messages
        # MSG_TRUNC: a datagram's own length is told, not how much of it there was room for
        flags = socket.MSG_DONTWAIT | socket.MSG_TRUNC
        taken = _LIBC.recvmmsg(descriptor, messages.array, messages.count, flags, None)
        self.is_full = taken == messages.count
        if taken < 0:
            code = ctypes.get_errno()
            if code in (socket.EAGAIN, socket.EWOULDBLOCK):
                return [], []
            raise OSError(code, os.strerror(code))
        lengths = messages.lengths[:taken].astype(int) - self._header_bytes
        return messages.headers[:taken].tolist(), lengths.tolist()


class Datagram(NamedTuple):
    """What is to be sent: its header, where its payload is in memory, and the socket address that it goes to (0: what
    the socket is connected to)."""

    header: tuple
    address: int
    size_bytes: int
    name: int = 0


class Outbox:
    """Sends datagrams by any socket; `count` at a time."""

    def __init__(self, count: int, header: np.dtype) -> None:
        self._messages = _Messages(min(count, _MOST_MESSAGES), header)

    def send(self, descriptor: int, datagrams: Sequence[Datagram]) -> None:
        """All of them, in order; the socket must block. Raises OSError."""
        count = self._messages.count
        for first in range(0, len(datagrams), count):
            self._send(descriptor, datagrams[first : first + count])

    def _send(self, descriptor: int, datagrams: Sequence[Datagram]) -> None:
        messages, count = self._messages, len(datagrams)
        headers, addresses, sizes_bytes, names = zip(*datagrams)
        messages.headers[:count] = list(headers)
        messages.iovecs[:count, 1, 0] = addresses
        messages.iovecs[:count, 1, 1] = sizes_bytes
        messages.names[:count] = names
        messages.name_bytes[:count] = np.where(messages.names[:count], _SOCKADDR_BYTES, 0)
        sent = 0
        while sent < count:
            rest = ctypes.byref(messages.array, sent * ctypes.sizeof(_Mmsghdr))
            done = _LIBC.sendmmsg(descriptor, rest, count - sent, 0)
            if done < 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
            sent += done


class SocketAddress:
    """The memory of an IPv4 socket address (ip(7)), for Datagram.name."""

    def __init__(self, ip: str, port: int) -> None:
        family = socket.AF_INET.to_bytes(2, sys.byteorder)
        self._memory = np.frombuffer(family + port.to_bytes(2, "big") + socket.inet_aton(ip) + bytes(8), np.uint8)
        self.name = self._memory.ctypes.data
