"""A timer as a descriptor that an epoll can wait for, exact to the nanosecond (timerfd_create(2))."""

from __future__ import annotations

import ctypes
import os
import struct
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
_TFD_NONBLOCK, _TFD_CLOEXEC, _TFD_TIMER_ABSTIME = 0o4000, 0o2000000, 1
_ITIMERSPEC = struct.Struct("=4q")  # interval (none) and expiry, each in seconds and nanoseconds


def create() -> int:
    """A new timer on CLOCK_REALTIME, set to nothing; raises OSError when there is none to be had."""
    return _checked(_LIBC.timerfd_create(time.CLOCK_REALTIME, _TFD_NONBLOCK | _TFD_CLOEXEC))


def set_to(timer: int, time_ns: int | None) -> None:
    """Readable from `time_ns` of CLOCK_REALTIME on, in place of an earlier time; None: never."""
    # Zero would mean never.
    seconds, nanoseconds = (0, 0) if time_ns is None else divmod(max(1, time_ns), 10**9)
    until = _ITIMERSPEC.pack(0, 0, seconds, nanoseconds)
    _checked(_LIBC.timerfd_settime(timer, _TFD_TIMER_ABSTIME, until, None))


def _checked(result: int) -> int:
    """What a call of the C library gave; raises OSError when it failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
