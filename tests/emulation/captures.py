"""A strict reader of tcpdump's files, independent of the project's own: a cut record is an error here."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_NANOSECOND_MAGIC = 0xA1B23C4D
_HEADER, _RECORD = struct.Struct("=IHHiIII"), struct.Struct("=IIII")
_IPV4 = b"\x08\x00"
_CE = 3  # RFC 3168


@dataclass(frozen=True)
class Frame:
    """One captured frame: time in ns, its length on the wire, and the bytes that were kept of it."""

    time_ns: int
    wire_bytes: int
    kept: bytes

    @property
    def is_ip(self) -> bool:
        return self.kept[12:14] == _IPV4

    @property
    def is_marked(self) -> bool:
        return self.is_ip and self.kept[15] & _CE == _CE

    @property
    def destination(self) -> str:
        return ".".join(map(str, self.kept[30:34]))

    @property
    def source(self) -> str:
        return ".".join(map(str, self.kept[26:30]))

    @property
    def identity(self) -> tuple[str, int]:
        """Source and IPv4 identification: what tells a frame from the others of a short run."""
        return self.source, int(struct.unpack_from("!H", self.kept, 18)[0])


def read(path: Path) -> list[Frame]:
    """All frames of a nanosecond capture of an Ethernet, in order."""
    data = path.read_bytes()
    magic, *_, link_type = _HEADER.unpack_from(data)
    assert (magic, link_type) == (_NANOSECOND_MAGIC, 1), path
    frames, offset = [], _HEADER.size
    while offset < len(data):
        seconds, nanoseconds, kept, wire = _RECORD.unpack_from(data, offset)
        offset += _RECORD.size + kept
        assert offset <= len(data), f"{path} is cut"
        frames.append(Frame(seconds * 10**9 + nanoseconds, wire, data[offset - kept : offset]))
    return frames
