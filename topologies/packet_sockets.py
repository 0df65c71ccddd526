"""The packet sockets of another process, given more room than it asks for (packet(7), pidfd_getfd(2))."""

from __future__ import annotations

import ctypes
import os
import socket
from contextlib import suppress
from pathlib import Path

_TABLE = Path("/proc/thread-self/net/packet")
_SYS_PIDFD_GETFD = 438  # on every architecture
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_LIBC = ctypes.CDLL(None, use_errno=True)


def widen(pid: int, send_bytes: int, receive_bytes: int) -> int:
    """Let every packet socket of process `pid` in the current network namespace hold this much of memory, frames with
    what the kernel needs for them; returns how many there are. Raises OSError without the right to do it."""
    count = 0
    process = os.pidfd_open(pid)
    try:
        for descriptor in _descriptors(pid):
            with _duplicate(process, descriptor) as found:
                found.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, send_bytes)
                found.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, receive_bytes)
            count += 1
    finally:
        os.close(process)
    return count


def _descriptors(pid: int) -> list[int]:
    """Of the process's packet sockets, told by their inodes."""
    links = {f"socket:[{line.split()[-1]}]" for line in _TABLE.read_text().splitlines()[1:]}
    found = []
    for path in list(Path(f"/proc/{pid}/fd").iterdir()):
        with suppress(FileNotFoundError):  # it has been closed
            if str(path.readlink()) in links:
                found.append(int(path.name))
    return found


def _duplicate(process: int, descriptor: int) -> socket.socket:
    mine = _LIBC.syscall(_SYS_PIDFD_GETFD, process, descriptor, 0)
    if mine < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"pidfd_getfd: {os.strerror(code)}")
    return socket.socket(fileno=mine)
