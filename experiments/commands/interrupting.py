"""Wishes to stop: signals that end a command in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from experiments import screen
from lab import ledger
from lab.session import Stop

INTERRUPTED = 130


@contextmanager
def stopping() -> Iterator[Stop]:
    """Ctrl-C, SIGTERM and SIGHUP ask the labs to end and keep what they have; a second one ends us at once, and
    the labs with us."""
    stop = Stop()

    def handle(number: int, frame: Any) -> None:
        if stop.requested:
            ledger.abandon()  # the kernel ends the rest with us
            os._exit(INTERRUPTED)
        stop.request()
        screen.say("stopping: what was measured is kept (once more to drop it)")

    with handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), handle):
        yield stop


@contextmanager
def handling(signals: Sequence[int], handle: Callable[[int, Any], None]) -> Iterator[None]:
    """`handle` is called for these signals while the block runs."""
    before = [signal.signal(number, handle) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before):
            signal.signal(number, handler)


def interrupt(number: int, frame: Any) -> NoReturn:
    """End as Ctrl-C does, so that what the process holds (a terminal) is given back."""
    raise KeyboardInterrupt
