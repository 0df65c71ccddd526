"""A kernel source, whatever it is packed in, read as one tar archive."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, cast

from lab.progress import Progress
from lab.tools import ToolError, complaint_in, running

DAMAGE = (lzma.LZMAError, EOFError, OSError, tarfile.TarError)
_UNUSED = (  # never read by a build of User-Mode Linux: a third of the files, half of the bytes
    "*/arch/[a-tvwyz]*.[chS]",  # of all but um, x86 and xtensa; their Kconfig is read
    "*/arch/[a-tvwyz]*.dts*",
    "*/Documentation/*/*.*",
    "*/drivers/gpu/drm/amd/include",
    "*/tools/perf",
    "*/tools/testing",
)
_CHUNK_BYTES = 1 << 20


class BadSource(ValueError):
    """The kernel source that was asked for cannot be used; the message is one line."""


def top_makefile(path: Path) -> str:
    """The text of the source's top Makefile; raises ValueError or one of DAMAGE when it cannot be read."""
    if path.is_dir():
        return (path / "Makefile").read_text()
    with _stream(path) as stream, tarfile.open(fileobj=_decompressed(stream), mode="r|") as archive:
        for member in archive:
            if re.fullmatch(r"[^/]+/Makefile", member.name):
                return cast("IO[bytes]", archive.extractfile(member)).read().decode()
    raise ValueError("no top Makefile in it")


def unpack_archive(path: Path, target: Path, progress: Progress) -> None:
    """Fill the new folder `target` with what a build reads; advances by the bytes read of a file."""
    target.mkdir(parents=True)
    unused = [f"--exclude={pattern}" for pattern in _UNUSED]
    options = ["--strip-components=1", "--no-same-owner", "--anchored", *unused]
    command = ["tar", "-x", "-C", str(target), *options]
    with tempfile.TemporaryFile() as errors:  # a full disk makes more lines than a pipe holds
        with _stream(path) as stream, running(command, stdin=subprocess.PIPE, stderr=errors) as tar:
            _feed(path, _Counted(stream, progress), cast("IO[bytes]", tar.stdin))
            tar.communicate()
        errors.seek(0)
        if tar.returncode:
            raise ToolError(f"unpacking {path} failed: {complaint_in(errors.read())}")


@contextmanager
def _stream(path: Path) -> Iterator[IO[bytes]]:
    """The source as one tar archive, perhaps compressed."""
    with ExitStack() as stack:
        if path.is_dir():
            command = ["tar", "-C", str(path), "--exclude-vcs", "-c", "."]
            tar = stack.enter_context(running(command, stderr=subprocess.DEVNULL))
            yield cast("IO[bytes]", tar.stdout)
            if tar.wait():
                raise BadSource(f"{path} cannot be read completely")
        elif path.suffix == ".deb":
            content = ["dpkg-deb", "--fsys-tarfile", str(path)]
            command = ["tar", "-xO", "--wildcards", "*/linux-source-*.tar.*"]
            outer = stack.enter_context(running(content, stderr=subprocess.DEVNULL))
            inner = stack.enter_context(running(command, stdin=outer.stdout, stderr=subprocess.DEVNULL))
            yield cast("IO[bytes]", inner.stdout)
        else:
            yield stack.enter_context(path.open("rb"))


def _decompressed(stream: IO[bytes]) -> IO[bytes]:
    """The stream read through the decompressor that its first bytes ask for."""
    start = cast(io.BufferedReader, stream).peek(6)
    if start.startswith(b"\xfd7zXZ"):
        return cast("IO[bytes]", lzma.LZMAFile(stream))
    if start.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.BZ2File(stream))
    if start.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
    return stream


class _Counted(io.RawIOBase):
    """Reports how much of a stream has been read."""

    def __init__(self, stream: IO[bytes], progress: Progress) -> None:
        self._stream, self._progress, self._done = stream, progress, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._done += len(data)
        self._progress.advance(self._done)
        return len(data)


def _feed(path: Path, counted: _Counted, pipe: IO[bytes]) -> None:
    try:
        for chunk in _chunks(_decompressed(io.BufferedReader(counted, _CHUNK_BYTES))):
            pipe.write(chunk)
    except BrokenPipeError:
        return  # tar says why
    except DAMAGE as error:
        raise BadSource(f"{path} is damaged: {error}") from error


def _chunks(stream: IO[bytes]) -> Iterable[bytes]:
    return iter(lambda: stream.read(_CHUNK_BYTES), b"")
