"""A folder in memory whose files lie in huge pages, where an ordinary user can have one: for the guest's memory.

A lab goes round all its ports all the time, and what belongs to each lies apart from the others': in pages of 4 KB a
processor's table of addresses (the TLB) holds the ports of some dozens of hosts, in pages of 2 MB those of thousands.
/dev/shm has small ones unless root has said otherwise. A tmpfs of one's own may have huge ones (tmpfs(5), huge=), and
one that is mounted nowhere (fsmount(2)) is gone with its last descriptor. Without the privilege to mount it is made in
a user namespace (user_namespaces(7)) by a helper, which gives its descriptor back and ends:
`python3 -I huge_pages.py SOCKET`.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # of every architecture
_CLOSE_ON_EXEC, _SET_STRING, _CREATE = 1, 1, 6  # FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC, FSCONFIG_SET_STRING, _CMD_CREATE
_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
_LIMIT_S = 10.0


@cache
def folder() -> Path | None:
    """The folder, one for all labs of this process, there until it ends; None where it cannot be had."""
    descriptor: int | None = None
    with suppress(OSError):  # this kernel has no such call, or no huge pages
        try:
            descriptor = _mount()
        except PermissionError:
            descriptor = _helped()
    return None if descriptor is None else Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def _mount() -> int:
    """A descriptor of a tmpfs with huge pages, half as large as this machine's memory at most. Raises OSError."""
    context = _call(_FSOPEN, b"tmpfs", _CLOSE_ON_EXEC)
    try:
        _call(_FSCONFIG, context, _SET_STRING, b"huge", b"always", 0)
        _call(_FSCONFIG, context, _CREATE, None, None, 0)
        return _call(_FSMOUNT, context, _CLOSE_ON_EXEC, 0)
    finally:
        os.close(context)


def _call(number: int, *words: object) -> int:
    result = int(_LIBC.syscall(number, *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _helped() -> int | None:
    """The same from a helper in a user namespace; None where there may be none."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        words = [sys.executable, "-I", "-S", __file__, str(theirs.fileno())]
        try:
            subprocess.run(words, pass_fds=[theirs.fileno()], capture_output=True, timeout=_LIMIT_S, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    return descriptors[0] if descriptors else None


def _in_a_namespace(answer: socket.socket) -> None:
    """Mount as the first user of a new namespace, who is ours here too: files belong to us. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    if _LIBC.unshare(_NEW_USERS | _NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for name, words in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(words)
    socket.send_fds(answer, [b"x"], [_mount()])


if __name__ == "__main__":
    _in_a_namespace(socket.socket(fileno=int(sys.argv[1])))
