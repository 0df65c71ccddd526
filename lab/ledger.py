"""What a session in private namespaces makes outside them: names of its networks, so that `ip netns` finds them.

Each is noted before it is made, in a file that a killed run leaves behind. Whoever removes, the session itself or
`run_experiment clean`, removes only what is noted, and a name only while it still is the network that was noted.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path("/run/fabriclab")
NAMES = Path("/run/netns")
PREFIX = "fl-"
_LIBC = ctypes.CDLL(None, use_errno=True)
_MS_BIND, _MNT_DETACH = 0x1000, 2


class Busy(RuntimeError):
    """Another session holds this machine's one place for them; the message is one line."""


class Unusable(RuntimeError):
    """The ledger's folder cannot be used; the message is one line."""


class NameTaken(RuntimeError):
    """A name that a session needs exists already, and is not ours; the message is one line."""


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one of the same number: with its start, in the kernel's ticks."""

    pid: int
    started: int

    @staticmethod
    def of(pid: int) -> Process:
        """The process that has this number now; raises OSError when none has."""
        return Process(pid, int(stat_fields(pid)[_STARTED]))

    @property
    def is_alive(self) -> bool:
        """Whether it runs still; one that has ended and nobody has waited for does not."""
        try:
            found = stat_fields(self.pid)
        except OSError:
            return False
        return found[_STATE] != "Z" and int(found[_STARTED]) == self.started


_STATE, _STARTED = 0, 19


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name (proc(5)); raises OSError where there is no such process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def names_like_ours() -> list[Path]:
    """Names of networks with our prefix that are there, whoever made them."""
    return sorted(NAMES.glob(f"{PREFIX}*"))


class Ledger:
    """The open ledger of one session, under the lock of this machine's one place."""

    def __init__(self, folder: Path = FOLDER, names: Path = NAMES) -> None:
        self._folder, self._names, self._file = folder, names, folder / "ledger"

    def note(self, **fact: Any) -> None:
        """Keep one fact; before what it tells of is done."""
        with self._file.open("a") as file:
            file.write(json.dumps(fact) + "\n")

    def note_process(self, pid: int) -> None:
        """Keep the first process of the session's namespaces."""
        with suppress(OSError):  # it has ended already
            process = Process.of(pid)
            self.note(pid=process.pid, started=process.started)

    def prepare(self) -> None:
        """Make the folder of names where there is none; to be called before the session mounts its own on it."""
        if not self._names.is_dir():
            self.note(folder=str(self._names))
            self._names.mkdir()

    def noted_names(self) -> set[str]:
        """The names that are noted, made or not."""
        return {fact["name"] for fact in self._facts() if "name" in fact}

    def give_name(self, name: str, network: Path) -> None:
        """Have `ip netns` know the namespace `network` by this name, with our prefix."""
        path = self._names / f"{PREFIX}{name}"
        if os.path.lexists(path):
            raise NameTaken(f"the name {path} is taken")
        self.note(name=path.name, inode=network.stat().st_ino)
        path.touch(0o444, exist_ok=False)
        if _LIBC.mount(bytes(network), bytes(path), None, _MS_BIND, None):
            raise OSError(ctypes.get_errno(), f"mount {path}: {os.strerror(ctypes.get_errno())}")

    def settle(self) -> list[str]:
        """Undo all that is noted; returns what was removed, and what is ours no longer, in words."""
        facts = self._facts()
        said = [self._end(Process(fact["pid"], fact["started"])) for fact in facts if "pid" in fact]
        said += self.forget_names()
        for fact in facts:
            if "folder" in fact:
                with suppress(OSError):  # somebody else uses it meanwhile
                    Path(fact["folder"]).rmdir()
        self._file.unlink(missing_ok=True)
        return [line for line in said if line]

    def forget_names(self) -> list[str]:
        """Remove the names that were given so far; returns them, and what is ours no longer, in words."""
        facts = [fact for fact in self._facts() if "name" in fact]
        inodes = {fact["name"]: fact["inode"] for fact in facts}
        return [self._forget(self._names / name, inode) for name, inode in inodes.items()]

    def _facts(self) -> list[dict[str, Any]]:
        """What is noted; a line that was cut short by a full disk or a kill told of nothing that was done."""
        try:
            lines = self._file.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []
        return [fact for fact in map(_fact, lines) if fact]

    @staticmethod
    def _end(process: Process) -> str:
        if not process.is_alive:
            return ""
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        return f"process {process.pid}"

    @staticmethod
    def _forget(path: Path, inode: int) -> str:
        """Remove the name of the network with this inode. A name that was noted and not made yet is an empty file, or
        nothing."""
        try:
            found = path.stat()
        except FileNotFoundError:
            return ""
        is_network = found.st_dev != path.parent.stat().st_dev
        if is_network and found.st_ino != inode:
            return f"{path} left alone: it is another network by now"
        if is_network:
            _LIBC.umount2(bytes(path), _MNT_DETACH)
        path.unlink()
        return str(path)


_open: list[Ledger] = []


def abandon() -> None:
    """Undo what the sessions of this process have noted, now: it is about to end without a chance to do it in order."""
    for ledger in _open:
        ledger.settle()


_FACTS = ({"pid": int, "started": int}, {"name": str, "inode": int}, {"folder": str})


def _fact(line: str) -> dict[str, Any]:
    """The fact that a line tells, empty for a line that tells none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    kinds = {key: type(value) for key, value in found.items()} if isinstance(found, dict) else {}
    return found if kinds in _FACTS else {}


@contextmanager
def locked(folder: Path = FOLDER, names: Path = NAMES) -> Iterator[Ledger]:
    """The ledger, for the one session that this machine has at a time; raises Busy when another one runs, Unusable
    where no ledger can be kept.

    What is noted when it is opened is what a killed session has left.
    """
    try:
        folder.mkdir(mode=0o755, exist_ok=True)
        descriptor = _lock(folder / "lock")
    except OSError as error:
        hint = ": only root can" if error.errno in (errno.EACCES, errno.EPERM) else ""
        raise Unusable(f"no ledger of runs can be kept in {folder} ({error.strerror}){hint}") from error
    ledger = Ledger(folder, names)
    _open.append(ledger)
    try:
        yield ledger
    finally:
        _open.remove(ledger)
        (folder / "lock").unlink(missing_ok=True)
        with suppress(OSError):  # what cannot be undone is noted there still
            folder.rmdir()
        os.close(descriptor)


def _lock(path: Path) -> int:
    """A descriptor that holds the lock file, which has the number of its holder in it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode().strip() or "unknown"
            os.close(descriptor)
            raise Busy(f"another run uses this machine's own kernel already (process {holder})") from None
        if _is(descriptor, path):  # not the file of a holder that has just gone
            os.write(descriptor, f"{os.getpid()}\n".encode())
            return descriptor
        os.close(descriptor)


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
