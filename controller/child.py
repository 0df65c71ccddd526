"""What a forked process beside a run has in common: it is exact, dies with its parent, and ends at SIGTERM."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import traceback
from collections.abc import Callable

_PR_SET_TIMERSLACK, _PR_SET_PDEATHSIG = 29, 1
_LIBC = ctypes.CDLL(None)


def settle() -> int:
    """To be called in the child first; returns a descriptor that is readable once SIGTERM has come."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _LIBC.prctl(_PR_SET_TIMERSLACK, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, lambda *_: None)
    return reader


class Child:
    """A process that works beside what runs in the block, as a context manager. `work` is called in it with a function
    to say that it is ready, and is to return once SIGTERM has come; `name` is what errors call it. Raises RuntimeError
    when it does not start, or ends badly. `pid` is the process, `used` what it used of the machine in the end."""

    def __init__(self, name: str, work: Callable[[Callable[[], None]], None]) -> None:
        self._name, self._work = name, work
        self.pid = 0
        self.used: resource.struct_rusage | None = None

    def __enter__(self) -> Child:
        ready, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ready)
            self._run(tell)
        os.close(tell)
        is_ready = os.read(ready, 1)
        os.close(ready)
        if not is_ready:
            os.waitpid(self.pid, 0)
            raise RuntimeError(f"{self._name} did not start")
        return self

    def _run(self, tell: int) -> None:
        """The child's whole life."""
        status = 1

        def is_ready() -> None:
            os.write(tell, b"+")
            os.close(tell)

        try:
            self._work(is_ready)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def __exit__(self, *exc: object) -> None:
        os.kill(self.pid, signal.SIGTERM)
        _, status, self.used = os.wait4(self.pid, 0)
        if status:
            raise RuntimeError(f"{self._name} ended with status {os.waitstatus_to_exitcode(status)}")
