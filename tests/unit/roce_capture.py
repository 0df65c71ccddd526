"""RoCEv2 packets by hand, as a capture at their sender shows them."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.unit.frames import T0_NS, address, pcap_bytes

FIRST, MIDDLE, ACK, CNP = 0x06, 0x07, 0x11, 0x81
SEQUENCE_ERROR, RNR = 0x60, 0x20
PAYLOAD_BYTES = 1024
_EXTENSIONS = {FIRST: 16, ACK: 4, CNP: 16}


def roce_frame(
    source: str, destination: str, qpn: int, psn: int, opcode: int = MIDDLE, payload: int = 0, syndrome: int = 0
) -> bytes:
    """An Ethernet, IPv4, UDP, BTH frame between addresses for a queue pair, padding and ICRC included."""
    pad = -payload % 4
    extension = bytes([syndrome]) + bytes(_EXTENSIONS.get(opcode, 0))[1:] if opcode in _EXTENSIONS else b""
    bth = struct.pack(">BBHII", opcode, pad << 4, 0xFFFF, qpn, 1 << 31 | psn % 2**24)
    body = bth + extension + bytes(payload + pad + 4)
    udp = struct.pack(">HHHH", 50_000, 4791, 8 + len(body), 0)
    total = 20 + len(udp) + len(body)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 26 << 2 | 2, total, 1, 0, 64, 17, 0, address(source), address(destination))
    return bytes(12) + b"\x08\x00" + ip + udp + body


class RoceCapture:
    """A queue pair of h2 (number 17) that sends to one of h1 (number 18), as h2's capture shows it: packets by number,
    at times in µs."""

    def __init__(
        self, source: str = "10.0.0.2", own: int = 17, peer: int = 18, first_psn: int = 2**24 - 3, start_ns: int = T0_NS
    ) -> None:
        self.source, self.own, self.peer = source, own, peer
        self.first_psn, self.start_ns = first_psn, start_ns
        self.records: list[tuple[int, bytes]] = []

    def send(self, at_us: float, *numbers: int, payload: int = PAYLOAD_BYTES) -> RoceCapture:
        """Packets one after the other, 0.1 µs apart; those with number 0 begin a message."""
        for place, number in enumerate(numbers):
            opcode = MIDDLE if number else FIRST
            frame = roce_frame(self.source, "10.0.0.1", self.peer, self.first_psn + number, opcode, payload)
            self._note(at_us + place / 10, frame)
        return self

    def ack(self, at_us: float, number: int, syndrome: int = 0x1F) -> RoceCapture:
        """An acknowledgement of all packets up to `number`, or by its syndrome a NAK of all from `number` on."""
        self._note(at_us, roce_frame("10.0.0.1", self.source, self.own, self.first_psn + number, ACK, 0, syndrome))
        return self

    def nak(self, at_us: float, number: int) -> RoceCapture:
        """The NAK of a gap that begins with packet `number`."""
        return self.ack(at_us, number, SEQUENCE_ERROR)

    def cnp(self, at_us: float) -> RoceCapture:
        """A congestion notification for the sender."""
        self._note(at_us, roce_frame("10.0.0.1", self.source, self.own, 0, CNP))
        return self

    def mark(self) -> RoceCapture:
        """Mark everything so far as a congested queue does (CE)."""
        marked = ((time_ns, frame[:15] + bytes([frame[15] | 3]) + frame[16:]) for time_ns, frame in self.records)
        self.records = list(marked)
        return self

    def _note(self, at_us: float, frame: bytes) -> None:
        self.records.append((self.start_ns + round(at_us * 1000), frame))

    def write(self, path: Path) -> Path:
        """The capture as a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pcap_bytes(self.records))
        return path
