"""What a forked process beside a run has in common: it is exact, dies with its parent, and ends at SIGTERM."""

from __future__ import annotations

import ctypes
import os
import signal

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
