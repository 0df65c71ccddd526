"""What a queue must have held, worked out frame by frame from captures alone: of its senders, and of its port.

A frame reaches the queue at the time its sender's NIC let it go plus the port's delay, and leaves it at the time that
the port's capture tells. Two events of the same few nanoseconds may have come in either order, so that each arrival
finds between `least` and `most` bytes queued.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tests.emulation.captures import Frame

TIMER_LATENESS_NS = 2  # two timers and their rounding


@dataclass(frozen=True)
class Arrival:
    """A frame at the queue: bytes that it found, whether it passed, whether it was marked there."""

    frame_bytes: int
    least_bytes: int
    most_bytes: int
    passed: bool
    marked: bool


def replay(sent: Sequence[Frame], left: Sequence[Frame], port_delay_ns: int) -> list[Arrival]:
    """Every frame of `sent` (any order) as it arrived at the queue that those of `left` (in order) came through."""
    arriving = sorted(sent, key=lambda frame: frame.time_ns)
    gone = {frame.identity: frame for frame in left}
    assert len(gone) == len(left), "frames cannot be told apart"
    accepted = [frame for frame in arriving if frame.identity in gone]
    entered = _Sum([frame.time_ns + port_delay_ns for frame in accepted], [frame.wire_bytes for frame in accepted])
    departed = _Sum([frame.time_ns for frame in left], [frame.wire_bytes for frame in left])
    found = []
    for frame in arriving:
        at_ns, out = frame.time_ns + port_delay_ns, gone.get(frame.identity)
        itself = frame.wire_bytes if out else 0
        found.append(
            Arrival(
                frame.wire_bytes,
                max(0, entered.before(at_ns - TIMER_LATENESS_NS) - departed.until(at_ns + TIMER_LATENESS_NS)),
                entered.until(at_ns + TIMER_LATENESS_NS) - itself - departed.before(at_ns - TIMER_LATENESS_NS),
                out is not None,
                out is not None and out.is_marked and not frame.is_marked,
            )
        )
    return found


class _Sum:
    """Bytes up to a time."""

    def __init__(self, times_ns: list[int], sizes: list[int]) -> None:
        self._times_ns, self._totals = times_ns, [0, *accumulate(sizes)]

    def before(self, at_ns: int) -> int:
        return self._totals[bisect_left(self._times_ns, at_ns)]

    def until(self, at_ns: int) -> int:
        return self._totals[bisect_right(self._times_ns, at_ns)]
