"""An event loop that is exact to the nanosecond: descriptors that become readable, and timers on CLOCK_REALTIME.

One timerfd under epoll serves all timers (timerfd_create(2), epoll(7)): where computing takes no time, a callback runs
at the instant that it was asked for. The descriptors of one wake-up are served before the timers that are due.
"""

from __future__ import annotations

import heapq
import os
import select
import time
from collections.abc import Callable
from itertools import count

from controller import timerfd

Callback = Callable[[], object]


class Timer:
    """A callback that waits for its time, `time_ns` of CLOCK_REALTIME."""

    __slots__ = ("_callback", "time_ns")

    def __init__(self, time_ns: int, callback: Callback) -> None:
        self.time_ns = time_ns
        self._callback: Callback | None = callback

    def cancel(self) -> None:
        """Never call; nothing happens when it has been called or cancelled before."""
        self._callback = None

    @property
    def waits(self) -> bool:
        """Whether the callback is still to come."""
        return self._callback is not None

    def fire(self) -> None:
        """Call, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Loop:
    """Calls back for readable descriptors and for times that have come; a context manager around its descriptors."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._timer = timerfd.create()
        # Told once of each expiry: setting the timer anew takes it back, so that nobody has to read it.
        self._epoll.register(self._timer, select.EPOLLIN | select.EPOLLET)
        self._callbacks: dict[int, Callback] = {}
        self._timers: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._set_ns: int | None = None
        self._woken_ns: int | None = None
        self._running = False

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *exc: object) -> None:
        self._epoll.close()
        os.close(self._timer)

    def watch(self, descriptor: int, callback: Callback) -> None:
        """Call whenever `descriptor` is readable, again and again until it is read empty."""
        self._epoll.register(descriptor, select.EPOLLIN)
        self._callbacks[descriptor] = callback

    def unwatch(self, descriptor: int) -> None:
        """Call no more for `descriptor`; raises KeyError when it is not watched."""
        del self._callbacks[descriptor]
        self._epoll.unregister(descriptor)

    def call_at(self, time_ns: int, callback: Callback) -> Timer:
        """Call once at `time_ns` of CLOCK_REALTIME, as soon as possible when that has passed; those of one instant in
        the order in which they were asked for."""
        timer = Timer(time_ns, callback)
        heapq.heappush(self._timers, (time_ns, next(self._order), timer))
        return timer

    @staticmethod
    def now_ns() -> int:
        """CLOCK_REALTIME in ns."""
        return time.time_ns()

    def woken_ns(self) -> int:
        """CLOCK_REALTIME in ns, the same for all callbacks of one wake-up: what happens at once is done at once, though
        each reading of a virtual clock moves it."""
        if self._woken_ns is None:
            self._woken_ns = time.time_ns()
        return self._woken_ns

    def run(self) -> None:
        """Until `stop`; what a callback raises ends it."""
        self._running = True
        while self._running:
            self._set_timer()
            woken = self._epoll.poll()
            self._woken_ns = None
            for descriptor, _ in woken:
                callback = self._callbacks.get(descriptor)  # another callback may have unwatched it
                if callback is not None:
                    callback()
            self._call_due()

    def stop(self) -> None:
        """Return from `run` once the callbacks of this wake-up are through."""
        self._running = False

    def _call_due(self) -> None:
        if not self._timers:
            return
        now_ns = self.woken_ns()
        if self._set_ns is not None and self._set_ns <= now_ns:
            self._set_ns = None  # it has expired: what is asked for the same instant from now on needs it set again
        while self._timers and self._timers[0][0] <= now_ns:
            heapq.heappop(self._timers)[2].fire()

    def _set_timer(self) -> None:
        """For the first timer that still waits; no system call when that is what it is set to."""
        while self._timers and not self._timers[0][2].waits:
            heapq.heappop(self._timers)
        first_ns = self._timers[0][0] if self._timers else None
        if first_ns == self._set_ns:
            return
        self._set_ns = first_ns
        timerfd.set_to(self._timer, first_ns)
