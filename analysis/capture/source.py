"""Where the bytes of a capture come from: a file or standard input, plain, gzip (RFC 1952) or zstd (RFC 8878), and a
window of bounded size that moves over them."""

from __future__ import annotations

import io
import os
import sys
import zlib
from pathlib import Path
from typing import Any, Callable, Protocol, cast

import numpy as np

from topologies.units import BadRequest

STDIN = "-"
ENDINGS, PACKED_ENDINGS = (".pcap", ".pcapng", ".cap"), (".gz", ".zst")  # of files
# Those that captures are looked for by in a folder: a .cap that is packed may be anything.
CAPTURE_ENDINGS = (*ENDINGS, *(f"{each}{packed}" for packed in PACKED_ENDINGS for each in (".pcap", ".pcapng")))
WINDOW_BYTES = 1 << 22  # many of the largest records fit, and what is decoded at a time stays near the processor
_PACKED_BYTES = 1 << 18
_BITE_BYTES = 512
_PADDING_BYTES = 64  # headers are looked for by reading a little further than a record may reach
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_GZIP_FORM = 16 + zlib.MAX_WBITS


class Stream(Protocol):
    """Bytes in order: `readinto` fills as much of the memory as there is, and gives 0 at the end."""

    def readinto(self, memory: memoryview, /) -> int:
        """Fill memory from its beginning; the number of bytes."""


class Source:
    """A capture's bytes, unpacked. `is_cut` once a packed file has ended before its end, or is damaged there: what came
    before is still good."""

    def __init__(self, name: str, stream: Stream) -> None:
        self.name = name
        self.is_cut = False
        self._stream = stream

    def fill(self, memory: memoryview) -> int:
        """Fill all of the memory, or as much as there is; the number of bytes.

        Raises BadRequest, naming the file, when it cannot be read.
        """
        filled = 0
        while filled < len(memory) and not self.is_cut:
            try:
                count = self._stream.readinto(memory[filled:])
            except OSError as error:
                raise BadRequest(f"{self.name}: cannot be read: {error.strerror or error}") from error
            except _packing_errors():
                self.is_cut = True
                break
            if not count:
                break
            filled += count
        return filled

    def close(self) -> None:
        """Give back what the system holds for it."""
        close: Callable[[], None] | None = getattr(self._stream, "close", None)
        if close is not None:
            close()


def open_source(path: str | os.PathLike[str]) -> Source:
    """The bytes of a file, or of standard input for "-"; what packs them is told by their first bytes, not by the name.

    Raises BadRequest, naming the file, when it cannot be opened or what unpacks it is not installed.
    """
    name = os.fspath(path)
    if name == STDIN:
        return _unpacked("standard input", cast(io.BufferedIOBase, sys.stdin.buffer))
    try:
        raw = Path(name).open("rb")  # noqa: SIM115 - the source closes it
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadRequest(f"{name}: cannot be read: {why}") from error
    return _unpacked(name, raw)


def _unpacked(name: str, raw: io.BufferedIOBase) -> Source:
    source = Source(name, raw)
    first = bytearray(4)
    first = first[: source.fill(memoryview(first))]
    whole = _Rejoined(bytes(first), raw)
    if first[:2] == _GZIP:
        return Source(name, _Gzip(whole))
    if first == _ZSTD:
        return Source(name, _zstd(name, whole))
    return Source(name, whole)


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, first: bytes, rest: io.BufferedIOBase) -> None:
        super().__init__()
        self._first, self._rest = first, rest

    def readable(self) -> bool:
        return True

    def readinto(self, memory: memoryview) -> int:  # type: ignore[override]
        if not self._first:
            return self._rest.readinto(memory)
        count = min(len(memory), len(self._first))
        memory[:count], self._first = self._first[:count], self._first[count:]
        return count

    def close(self) -> None:
        if self._rest is not sys.stdin.buffer:
            self._rest.close()
        super().close()


class _Gzip:
    """gzip, member after member; raises EOFError where a member is cut off, zlib.error where it is damaged.

    Python's own reader throws away what it has unpacked when it meets the damage.
    """

    def __init__(self, packed: io.RawIOBase) -> None:
        self._packed = packed
        self._waiting = b""
        self._unpacker = zlib.decompressobj(_GZIP_FORM)
        self._is_begun = False  # whether a member is open

    def readinto(self, memory: memoryview) -> int:
        while True:
            if not self._waiting:
                self._waiting = self._packed.read(_PACKED_BYTES) or b""
            if not self._waiting and not self._is_begun:
                return 0
            if not self._waiting:
                raise EOFError
            got = self._unpack(len(memory))
            memory[: len(got)] = got
            if got:
                return len(got)

    def _unpack(self, most: int) -> bytes:
        self._is_begun = True
        got = self._unpacker.decompress(self._waiting, most)
        self._waiting = self._unpacker.unconsumed_tail
        if self._unpacker.eof:
            self._waiting = self._unpacker.unused_data.lstrip(b"\0")  # members may be padded
            self._unpacker, self._is_begun = zlib.decompressobj(_GZIP_FORM), False
        return got

    def close(self) -> None:
        self._packed.close()


class _Zstd:
    """zstd, frame after frame; raises EOFError where a frame is cut off, ZstdError where it is damaged.

    A few packed bytes may be megabytes: they are taken in small bites.
    """

    def __init__(self, unpacker: Any, packed: io.RawIOBase) -> None:
        self._packed, self._unpacker = packed, unpacker
        self._frame = unpacker.decompressobj()
        self._waiting = b""
        self._ready = memoryview(b"")
        self._is_begun = False  # whether a frame is open

    def readinto(self, memory: memoryview) -> int:
        while not self._ready:
            bite = self._waiting or self._packed.read(_BITE_BYTES)
            if not bite and self._is_begun:
                raise EOFError
            if not bite:
                return 0
            self._unpack(bite)
        count = min(len(memory), len(self._ready))
        memory[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _unpack(self, bite: bytes) -> None:
        self._ready, self._waiting, self._is_begun = memoryview(self._frame.decompress(bite)), b"", True
        if self._frame.eof:
            self._waiting = self._frame.unused_data
            self._frame, self._is_begun = self._unpacker.decompressobj(), False

    def close(self) -> None:
        self._packed.close()


def _zstd(name: str, packed: io.RawIOBase) -> _Zstd:
    try:
        import zstandard
    except ImportError as error:
        raise BadRequest(f"{name}: is packed by zstd, and Python's zstandard is not installed") from error
    return _Zstd(zstandard.ZstdDecompressor(), packed)


def _packing_errors() -> tuple[type[Exception], ...]:
    """What is raised where a packed file is cut off or damaged."""
    loaded = sys.modules.get("zstandard")
    return (EOFError, zlib.error, *((loaded.ZstdError,) if loaded else ()))


class Window:
    """A part of a source in memory of bounded size: `data[at:end]` is what is there and not yet done with.

    `bytes_seen` counts what is done with: `at` is that place in the file.
    """

    def __init__(self, source: Source, size_bytes: int = WINDOW_BYTES) -> None:
        self.source = source
        self.data = bytearray(size_bytes + _PADDING_BYTES)
        self.array = np.frombuffer(self.data, np.uint8)
        self.at = self.end = 0
        self.is_last = False  # the source has no more than what is here
        self._size_bytes = size_bytes

    def __len__(self) -> int:
        return self.end - self.at

    def advance(self) -> bool:
        """Move on so that data[at] is the first byte, and fill up; whether anything came."""
        left = len(self)
        self.data[:left] = self.data[self.at : self.end]
        self.at, self.end = 0, left
        came = self.source.fill(memoryview(self.data)[left : self._size_bytes])
        self.end += came
        self.is_last = came < self._size_bytes - left
        return came > 0

    def has(self, count: int) -> bool:
        """Whether `count` bytes from `at` on are here, after reading on where that is needed."""
        return len(self) >= count or (not self.is_last and self.advance() and len(self) >= count)

    def skip(self, count: int) -> bool:
        """Leave out the next `count` bytes, however many; whether there were so many."""
        while count > len(self):
            count -= len(self)
            self.at = self.end
            if self.is_last or not self.advance():
                return False
        self.at += count
        return True
