"""What a RoCE stream and the ends of its rings tell each other: slots that are filled, and what has completed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Filled:
    """Slot `number` of a ring has `size_bytes` in it. `serial` is told when they are acknowledged (None: it is not)."""

    number: int
    size_bytes: int
    serial: int | None


@dataclass(frozen=True)
class Heard:
    """What has completed: what went wrong (empty: nothing), whether it is a message of the peer, its length, what was
    told with it, and the serial of what is acknowledged."""

    trouble: str
    arrived: bool
    size_bytes: int
    told: int
    serial: int
