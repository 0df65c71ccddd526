"""First processes of private namespaces of this machine: `python3 -I -B machine_init.py JOB SCRATCH`, as root.

The keeper leaves the machine's namespaces of networks, mounts and processes and starts the first process of new ones;
when the keeper dies, by whatever, the kernel ends that one (PR_SET_PDEATHSIG) and with it all others and everything
that they have made. The first process mounts what belongs to the new namespaces, a memory file system on SCRATCH and
one on /run/netns, runs the job, reports its exit status, and ends.

Descriptors: 3 brings orders ("stop"), 4 takes events (JSON lines), 5 is the job's standard error.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # isolated, Python does not look where the file lies

from lab import init

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWPID, _CLONE_NEWNET = 0x20000, 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1
_ORDERS, _EVENTS, _ERRORS = 3, 4, 5
_NAMED = "/run/netns"


def keep(job_path: str, scratch: str) -> int:
    """The keeper: start the first process of new namespaces, tell its number, and wait for it."""
    try:
        init.check("make namespaces", _LIBC.unshare(_CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWNET))
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    alive, held = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(held)
        _die_with(alive)
        main(job_path, scratch)
    init.tell(_EVENTS, {"event": "session", "pid": first})
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # of the terminal that it shares; whoever ends it uses SIGKILL
    os.waitpid(first, 0)
    return 0


def _die_with(alive: int) -> None:
    """End with the keeper, which holds the other end of the pipe `alive` and may be gone already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if select.select([alive], [], [], 0)[0]:
        os._exit(1)


def main(job_path: str, scratch: str) -> None:
    """The first process: run the job that `job_path` describes, and end."""
    status = 125
    try:
        job = json.loads(Path(job_path).read_text())
        _mount_own(scratch)
        init.settle()
        for number in (signal.SIGCHLD, signal.SIGINT):  # Ctrl-C at the terminal is the job's to hear
            signal.signal(number, lambda *_: None)
        init.tell(_EVENTS, {"event": "booted"})
        status = init.wait(init.spawn(job, _EVENTS, _streams), _ORDERS)
    except OSError as error:
        print(error, file=sys.stderr)
    finally:
        init.tell(_EVENTS, {"event": "exit", "status": status})
        os._exit(0)


def _mount_own(scratch: str) -> None:
    """/proc and /sys of the new namespaces, and memory on `scratch` and over the machine's named networks; nothing of
    it is seen outside."""
    init.check("keep mounts private", _LIBC.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    init.mount("proc", "/proc")
    init.mount("sysfs", "/sys")
    for folder in (scratch, _NAMED):
        init.mount("tmpfs", folder, "mode=0755")
    _own_copy(Path("/etc/hosts"), Path(scratch))


def _own_copy(file: Path, scratch: Path) -> None:
    """A copy of `file` in its place, for what a session writes to it: names of its hosts."""
    if file.exists():
        copy = scratch / file.name
        copy.write_bytes(file.read_bytes())
        init.check(f"mount a copy on {file}", _LIBC.mount(bytes(copy), bytes(file), None, _MS_BIND, None))


def _streams(interactive: bool) -> Iterable[int]:
    """The job's standard streams: our terminal; or in a session of its own nothing, our output, the descriptor for
    errors."""
    if interactive:
        return (0, 1, 1)
    os.setsid()
    return (os.open(os.devnull, os.O_RDONLY), 1, _ERRORS)


if __name__ == "__main__":
    sys.exit(keep(*sys.argv[1:]))
