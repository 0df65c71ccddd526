"""Frames and captures by hand, as tests of many modules need them."""

from __future__ import annotations

import struct
from pathlib import Path

from analysis.capture.packets import ACK, FIN

T0_NS = 1_700_000_000_123_456_789
ISN = 2**32 - 2000  # every hand-made flow wraps


def address(text: str) -> bytes:
    return bytes(int(part) for part in text.split("."))


def tcp_frame(
    source: str,
    destination: str,
    seq: int,
    ack: int,
    payload: int = 0,
    sacks: int = 0,
    flags: int = ACK,
    window: int = 500,
) -> bytes:
    """An Ethernet, IPv4, TCP frame between "address:port" endpoints, timestamps and `sacks` SACK blocks
    included."""
    (src, sport), (dst, dport) = source.split(":"), destination.split(":")
    options = bytes([1, 1, 8, 10]) + struct.pack(">II", 7, 9)
    options += bytes([1, 1, 5, 2 + 8 * sacks]) + bytes(8 * sacks) if sacks else b""
    offset = (20 + len(options)) // 4 << 4
    tcp = (
        struct.pack(">HHIIBBHHH", int(sport), int(dport), seq % 2**32, ack % 2**32, offset, flags, window, 0, 0)
        + options
    )
    total = 20 + len(tcp) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, total, 1, 0, 64, 6, 0, address(src), address(dst))
    return bytes(12) + b"\x08\x00" + ip + tcp + bytes(payload)


def pcap_bytes(
    records: list[tuple[int, bytes]],
    magic: int = 0xA1B23C4D,
    order: str = "<",
    snaplen: int = 100,
    link_type: int = 1,
) -> bytes:
    """A capture file of (time in ns, frame) records."""
    unit = 1 if magic == 0xA1B23C4D else 1000
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link_type)]
    for time_ns, frame in records:
        kept = frame[:snaplen]
        out.append(struct.pack(order + "IIII", *divmod(time_ns // unit, 10**9 // unit), len(kept), len(frame)) + kept)
    return b"".join(out)


class Capture:
    """A flow from `source` to h1 as its sender's capture shows it: segments and acknowledgements at times in
    µs, places in bytes."""

    def __init__(
        self, source: str = "10.0.0.2:20000", destination: str = "10.0.0.1:5000", start_ns: int = T0_NS
    ) -> None:
        self.source, self.destination, self.start_ns = source, destination, start_ns
        self.records: list[tuple[int, bytes]] = []

    def send(self, at_us: float, start: int, payload: int = 1000) -> Capture:
        frame = tcp_frame(self.source, self.destination, ISN + start, 1, payload)
        self.records.append((self.start_ns + round(at_us * 1000), frame))
        return self

    def ack(self, at_us: float, place: int, sacks: int = 0, window: int = 500) -> Capture:
        frame = tcp_frame(self.destination, self.source, 1, ISN + place, 0, sacks, window=window)
        self.records.append((self.start_ns + round(at_us * 1000), frame))
        return self

    def fin(self, at_us: float, place: int) -> Capture:
        """The sender has no more to send."""
        frame = tcp_frame(self.source, self.destination, ISN + place, 1, 0, flags=FIN | ACK)
        self.records.append((self.start_ns + round(at_us * 1000), frame))
        return self

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pcap_bytes(self.records))
        return path
