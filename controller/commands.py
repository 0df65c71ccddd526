"""What the controller is told by those that watch the queues (pure): a line of text for each command, a datagram each.

pause SWITCH PORT QUANTA    send a pause frame for the lossless class out of a port (0 quanta: resume)
mark SWITCH PORT on|off     from now on, mark the packets that leave by a port, or no longer
openvswitch SOCKET          the switches' control socket: what they have cached is forgotten when marks change
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from controller.pfc_frame import MOST_QUANTA

LONGEST_BYTES = 4096


@dataclass(frozen=True)
class Pause:
    """Send a pause frame of so many quanta out of a port."""

    switch: str
    port: int
    quanta: int

    def encode(self) -> bytes:
        """The line."""
        return f"pause {self.switch} {self.port} {self.quanta}".encode()


@dataclass(frozen=True)
class Mark:
    """Mark what leaves by a port, or no longer."""

    switch: str
    port: int
    on: bool

    def encode(self) -> bytes:
        """The line."""
        return f"mark {self.switch} {self.port} {'on' if self.on else 'off'}".encode()


@dataclass(frozen=True)
class Switches:
    """The switches' control socket."""

    control: str

    def encode(self) -> bytes:
        """The line."""
        return f"openvswitch {self.control}".encode()


Command = Union[Pause, Mark, Switches]


def parse(line: bytes) -> Command:
    """The command of a line; raises ValueError for any other."""
    try:
        verb, *words = line.decode().split()
        return _KINDS[verb](*words)
    except (KeyError, TypeError, ValueError):
        allowed = "pause SWITCH PORT QUANTA (0 to 65535), mark SWITCH PORT on|off, openvswitch SOCKET"
        raise ValueError(f"command: {line!r} is given; allowed: {allowed}") from None


def _pause(switch: str, port: str, quanta: str) -> Pause:
    if not 0 <= int(quanta) <= MOST_QUANTA:
        raise ValueError(quanta)
    return Pause(switch, int(port), int(quanta))


def _mark(switch: str, port: str, state: str) -> Mark:
    return Mark(switch, int(port), {"on": True, "off": False}[state])


_KINDS: dict[str, Callable[..., Command]] = {"pause": _pause, "mark": _mark, "openvswitch": Switches}
