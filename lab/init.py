"""First process inside the lab kernel: makes the root, runs one command, reports its exit status, powers off.

Started by the kernel as `python3 -I init.py JOB`, where JOB is the file that `lab.boot` wrote. Standard library
only: it runs before anything else exists. The root is the host's file system under an overlay in memory; only
the results folder is the host's own, mounted at the same path. The serial channel (/dev/tty2) carries JSON
lines to the host, and the word "stop" from it.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import tty
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_MNT_DETACH = 2
_POWER_OFF = 0x4321FEDC
_SYS_PIVOT_ROOT = 155  # x86-64, the only architecture of User-Mode Linux
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def mount(kind: str, target: str, data: str = "") -> None:
    """A kernel file system of this kind on a folder, which is made where it is missing."""
    Path(target).mkdir(parents=True, exist_ok=True)
    check(f"mount {kind} on {target}", _LIBC.mount(kind.encode(), target.encode(), kind.encode(), 0, data.encode()))


def check(what: str, result: int) -> None:
    """Raises OSError, which says what was tried, when a call to the C library has failed."""
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def make_root(results: str) -> None:
    """Overlay of the host's root in memory as the new root, `results` from the host at its own path, kernel
    file systems mounted."""
    os.umask(0o022)
    mount("tmpfs", "/tmp", "mode=0755")
    for part in ("upper", "work", "root"):
        Path("/tmp", part).mkdir()
    mount("overlay", "/tmp/root", "lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work")
    os.chdir("/tmp/root")
    for kind, target in (("proc", "proc"), ("sysfs", "sys"), ("devtmpfs", "dev"), ("devpts", "dev/pts")):
        mount(kind, target)
    for target in ("dev/shm", "run"):
        mount("tmpfs", target, "mode=1777")
    mount("hostfs", results.lstrip("/"), results)
    Path("run/netns").mkdir()
    Path("run/old").mkdir()
    check("pivot_root", _LIBC.syscall(_SYS_PIVOT_ROOT, b".", b"run/old"))
    os.chdir("/")
    _LIBC.umount2(b"/run/old", _MNT_DETACH)


def settle() -> None:
    """Loopback up, IPv6 off where there is any: its background chatter is noise in captures."""
    with socket.socket() as control:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack_from("h", fcntl.ioctl(control, _SIOCGIFFLAGS, request), 16)[0]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))
    for scope in ("all", "default"):
        with suppress(FileNotFoundError), open(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", "w") as knob:
            knob.write("1")


def open_channel() -> int:
    """The serial line to the host, raw: JSON lines out, "stop" in."""
    channel = os.open("/dev/tty2", os.O_RDWR | os.O_NOCTTY)
    tty.setraw(channel, termios.TCSANOW)  # the default would flush a "stop" that is there already
    return channel


def tell(channel: int, event: dict[str, Any]) -> None:
    """Send one event to the host."""
    os.write(channel, json.dumps(event).encode() + b"\n")


def spawn(job: dict[str, Any], channel: int, streams: Callable[[bool], Iterable[int]]) -> int:
    """Start the job; returns its process number. `streams` opens its standard streams there, by whether it has a
    terminal. Its file descriptor 3 is the channel to the host."""
    pid = os.fork()
    if pid:
        return pid
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    for descriptor, stream in enumerate(streams(job["interactive"])):
        os.dup2(stream, descriptor)
    os.dup2(channel, 3)
    os.set_inheritable(3, True)
    os.closerange(4, 64)
    os.chdir(job["cwd"])
    try:
        os.execvpe(job["argv"][0], job["argv"], job["env"])
    except OSError as error:
        print(f"{job['argv'][0]}: {error.strerror}", file=sys.stderr)
        os._exit(127)


def _consoles(interactive: bool) -> tuple[int, ...]:
    """The standard streams of a session of its own: the kernel's consoles."""
    os.setsid()
    if interactive:
        terminal = os.open("/dev/tty0", os.O_RDWR)
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        return (terminal, terminal, terminal)
    return (os.open(os.devnull, os.O_RDONLY), _raw_output("/dev/tty0"), _raw_output("/dev/tty1"))


def _raw_output(path: str) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY)
    attributes = termios.tcgetattr(descriptor)
    attributes[1] &= ~termios.OPOST  # a newline stays a newline
    termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
    return descriptor


def wait(pid: int, orders: int) -> int:
    """Exit status of `pid` in shell terms (128 + signal); reaps orphans; passes on the host's request to stop."""
    wakeup = _child_wakeup()
    while True:
        ready, _, _ = select.select([wakeup, orders], [], [])
        if orders in ready and b"stop" in os.read(orders, 64):
            _interrupt(pid)
        if wakeup in ready:
            os.read(wakeup, 64)
            status = _reap(pid)
            if status is not None:
                return status


def _interrupt(pid: int) -> None:
    """SIGINT to the job and what it started, or to the job alone while it has no session of its own yet."""
    try:
        os.killpg(pid, signal.SIGINT)
    except ProcessLookupError:
        os.kill(pid, signal.SIGINT)


def _child_wakeup() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _reap(main: int) -> int | None:
    """Collect every ended child; the shell status of `main` when it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == main:
            found = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main(job_path: str) -> None:
    """Run the job that `job_path` describes, then power the kernel off."""
    with open(job_path) as file:
        job = json.load(file)
    status = 125
    channel = -1
    try:
        make_root(job["results"])
        channel = open_channel()
        settle()
        socket.sethostname("lab")
        signal.signal(signal.SIGCHLD, lambda *_: None)
        tell(channel, {"event": "booted"})
        status = wait(spawn(job, channel, _consoles), channel)
    except OSError as error:
        print(f"lab: {error}", file=sys.stderr)
    finally:
        os.sync()
        if channel >= 0:
            tell(channel, {"event": "exit", "status": status})
        _LIBC.reboot(_POWER_OFF)


if __name__ == "__main__":
    main(sys.argv[1])
