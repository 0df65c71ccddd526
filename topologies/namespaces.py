"""Network namespaces without a process each: made by unshare(2), kept by a bind mount in /run/netns, where `ip
netns` finds them too."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_MS_BIND = 0x1000
_MNT_DETACH = 2
_FOLDER = Path("/run/netns")
_SELF = "/proc/thread-self/ns/net"


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


@contextmanager
def _back_home() -> Iterator[None]:
    """Run the block, which may leave the calling thread's namespace, and come back."""
    home = os.open(_SELF, os.O_RDONLY)
    try:
        yield
    finally:
        _call("setns", home, _CLONE_NEWNET)
        os.close(home)


def create(name: str) -> int:
    """Make namespace `name`; returns an open descriptor of it. Raises FileExistsError when the name is taken."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    path = _FOLDER / name
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o444))
    try:
        with scratch():
            _call("mount", _SELF.encode(), bytes(path), None, _MS_BIND, None)
    except OSError:
        path.unlink()
        raise
    return os.open(path, os.O_RDONLY)


@contextmanager
def scratch() -> Iterator[None]:
    """Run the block in a namespace of its own, which ends with it; affects the calling thread only. Raises
    PermissionError without the right to make one."""
    with _back_home():
        _call("unshare", _CLONE_NEWNET)
        yield


def remove(name: str) -> None:
    """Remove namespace `name`; its interfaces go when its last user does."""
    path = _FOLDER / name
    _LIBC.umount2(bytes(path), _MNT_DETACH)
    path.unlink()


@contextmanager
def entered(namespace: int) -> Iterator[None]:
    """Run the block inside `namespace` (an open descriptor); sockets made there stay there. Affects the calling
    thread only."""
    with _back_home():
        _call("setns", namespace, _CLONE_NEWNET)
        yield
