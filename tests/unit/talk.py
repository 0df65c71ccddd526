"""TCP conversations by hand, as a capture shows them: everything that a packet may say, both ways, IPv4 and IPv6."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from analysis.capture.packets import ACK, FIN, SYN, Packets
from analysis.capture.reader import read_capture
from tests.unit.frames import T0_NS, pcap_bytes

HERE, THERE = 0, 1  # the side that sends data, mostly, and the other
_TURN = 2**32
_KEPT_BYTES = 134  # of each frame: headers with all of their options


class Talk:
    """A conversation of two sides at times in µs. Numbers are places: 0 is a side's SYN, 1 its first byte.

    Each side numbers its IPv4 packets; stamps tick once a millisecond, and echo the other side's latest.
    """

    def __init__(
        self,
        ends: tuple[str, str] = ("10.0.0.2", "10.0.0.1"),
        ports: tuple[int, int] = (20_000, 5_000),
        initial: tuple[int, int] = (_TURN - 2_000, _TURN - 500),
        stamped: bool = True,
    ) -> None:
        self.ends, self.ports, self.initial, self.stamped = ends, ports, initial, stamped
        self.records: list[tuple[int, bytes]] = []
        self.numbers = [100, 40_000]
        self.stamps = [0, 0]

    def say(
        self,
        at_us: float,
        side: int = HERE,
        seq: int = 1,
        ack: int = 1,
        payload: int = 0,
        flags: int = ACK,
        window: int = 500,
        sacks: Sequence[tuple[int, int]] = (),
        scale: int | None = None,
        stamp: int | None = None,
        echo: int | None = None,
        identification: int | None = None,
    ) -> Talk:
        """One packet of a side. SACK blocks are places of the other side."""
        number = self.numbers[side] if identification is None else identification
        self.numbers[side] += identification is None
        own = int(at_us // 1000) + 1_000 * (side + 1) if stamp is None else stamp
        told = self.stamps[1 - side] if echo is None else echo
        self.stamps[side] = own
        options = self._options(side, sacks, scale, (own, told))
        numbers = ((self.initial[side] + seq) % _TURN, (self.initial[1 - side] + ack) % _TURN if flags & ACK else 0)
        ports = self.ports if side == HERE else self.ports[::-1]
        offset = (20 + len(options)) // 4 << 4
        tcp = struct.pack(">HHIIBBHHH", *ports, *numbers, offset, flags, window, 0, 0) + options + bytes(payload)
        self.records.append((T0_NS + round(at_us * 1000), self._datagram(side, tcp, number)))
        return self

    def send(self, at_us: float, start: int, payload: int = 1_000, **more: int) -> Talk:
        """Data from place `start` on."""
        return self.say(at_us, HERE, start, payload=payload, **more)  # type: ignore[arg-type]

    def ack(self, at_us: float, place: int, sacks: Sequence[tuple[int, int]] = (), **more: int) -> Talk:
        """An acknowledgement of everything before `place`."""
        return self.say(at_us, THERE, 1, place, sacks=sacks, **more)

    def handshake(self, at_us: float = -100, round_trip_us: float = 20, scale: int | None = 7) -> Talk:
        """SYN, its answer, and the answer to that."""
        self.say(at_us, HERE, 0, flags=SYN, scale=scale)
        self.say(at_us + round_trip_us, THERE, 0, 1, flags=SYN | ACK, scale=scale)
        return self.say(at_us + round_trip_us + 1, HERE, 1, 1)

    def close(self, at_us: float, place: int) -> Talk:
        """A FIN behind everything before `place`."""
        return self.say(at_us, HERE, place, flags=FIN | ACK)

    def again(self, at_us: float, place: int = -1) -> Talk:
        """A frame that was captured before, captured once more."""
        self.records.append((T0_NS + round(at_us * 1000), self.records[place][1]))
        return self

    def _options(
        self, side: int, sacks: Sequence[tuple[int, int]], scale: int | None, stamps: tuple[int, int]
    ) -> bytes:
        options = bytes([1, 3, 3, scale]) if scale is not None else b""
        if self.stamped:
            options += bytes([1, 1, 8, 10]) + struct.pack(">II", *(each % _TURN for each in stamps))
        if sacks:
            edges = [(self.initial[1 - side] + edge) % _TURN for block in sacks for edge in block]
            options += bytes([1, 1, 5, 2 + 8 * len(sacks)]) + struct.pack(f">{len(edges)}I", *edges)
        return options

    def _datagram(self, side: int, body: bytes, number: int) -> bytes:
        source, destination = self.ends if side == HERE else self.ends[::-1]
        if ":" in source:
            addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination)
            return bytes(12) + b"\x86\xdd" + struct.pack(">IHBB", 6 << 28, len(body), 6, 64) + addresses + body
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), number % 2**16, 0x4000, 64, 6, 0)
        return bytes(12) + b"\x08\x00" + header + socket.inet_aton(source) + socket.inet_aton(destination) + body

    def write(self, path: Path) -> Path:
        """The capture as a file, in the order in which packets were said."""
        path.write_bytes(pcap_bytes(self.records, snaplen=_KEPT_BYTES))
        return path

    def read(self, folder: Path) -> Packets:
        """The capture as columns."""
        return read_capture(self.write(folder / "talk.pcap"))
