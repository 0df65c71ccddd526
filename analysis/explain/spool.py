"""Packets in temporary files, by conversation: for captures that memory does not hold.

The files lie in a folder of their own below TMPDIR, which is removed when the spool is left, or with the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np

from analysis.capture.packets import COLUMNS, DTYPES, WIDTHS, Damage, Packets, empty_columns
from analysis.explain.conversations import conversation_keys, mixed

_FILES_BITS = 6
_MOST_DIVISIONS = 4
_SLICE_PACKETS = 1 << 18
# What tells nothing about flows is not kept in their files.
_NOT_OF_FLOWS = ("pause_quanta", "mac_control", "pause_classes", "captured_bytes", "interface", "vlan")
_FLOW_COLUMNS = tuple(name for name in COLUMNS if name not in _NOT_OF_FLOWS)
_FLOW_RECORD = np.dtype([(name, DTYPES[name], WIDTHS.get(name, ())) for name in _FLOW_COLUMNS])
_PAUSE_RECORD = np.dtype([(name, DTYPES[name], WIDTHS.get(name, ())) for name in COLUMNS])

Columns = dict[str, np.ndarray]


def as_packets(columns: Columns, ipv6: Sequence[bytes] = ()) -> Packets:
    """Columns as packets; ipv6 is the table that their addresses are places in."""
    return Packets(**columns, ipv6=ipv6, damage=Damage())


class Spooled:
    """Packets in one file: how many, and whether they are all of one conversation."""

    def __init__(self, path: Path, record: np.dtype) -> None:
        self._path, self._record = path, record
        self._lowest, self._highest = 2**64, -1
        self.count = 0

    def add(self, records: np.ndarray, keys: np.ndarray) -> None:
        """More packets, and what tells the conversation of each."""
        with _no_room(self._path), open(self._path, "ab") as file:
            file.write(records.tobytes())
        self.count += len(records)
        self._lowest = min(self._lowest, int(keys.min()))
        self._highest = max(self._highest, int(keys.max()))

    @property
    def is_one(self) -> bool:
        """Whether all are of one conversation."""
        return self._lowest == self._highest

    def slices(self, size: int) -> Iterator[Columns]:
        """The packets, so many at a time."""
        for start in range(0, self.count, size):
            yield _columns(self._read(start, size))

    def load(self) -> Columns:
        """All of the packets."""
        return _columns(self._read(0, self.count))

    def _read(self, start: int, count: int) -> np.ndarray:
        return np.fromfile(
            self._path, self._record, min(count, self.count - start), offset=start * self._record.itemsize
        )

    def remove(self) -> None:
        """Give its room back."""
        self._path.unlink(missing_ok=True)


class Spool:
    """The packets of one capture in files, those of a conversation in one of them; a context manager, which removes
    them."""

    def __init__(self) -> None:
        with _no_room(Path(tempfile.gettempdir())):
            self._folder = tempfile.TemporaryDirectory(prefix="fabriclab-")
        self._made = 0
        self._pauses = self._new(_PAUSE_RECORD)
        self._files = self._several()

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def add(self, packets: Packets) -> None:
        """Packets of flows and pauses, in the capture's order."""
        pauses = np.flatnonzero(packets.mac_control > 0)
        if len(pauses):
            self._pauses.add(_records(packets, pauses, _PAUSE_RECORD), np.zeros(1, np.uint64))
        rows = np.flatnonzero(packets.mac_control == 0)
        if len(rows):
            _distribute(_records(packets, rows, _FLOW_RECORD), conversation_keys(packets, rows), self._files, 0)

    def pauses(self, most: int) -> Iterator[Columns]:
        """The pause frames, in slices of at most so many."""
        return self._pauses.slices(most)

    def divided(self, most: int) -> Iterator[Spooled]:
        """The files, each with at most so many packets, or with one conversation; each is gone when the next is asked
        for."""
        for file in self._files:
            yield from self._divided(file, most, 1)

    def _divided(self, file: Spooled, most: int, level: int) -> Iterator[Spooled]:
        if file.count > most and not file.is_one and level <= _MOST_DIVISIONS:
            parts = self._several()
            for columns in file.slices(_SLICE_PACKETS):
                packets = as_packets(columns)
                rows = np.arange(len(packets))
                _distribute(_records(packets, rows, _FLOW_RECORD), conversation_keys(packets, rows), parts, level)
            file.remove()
            for part in parts:
                yield from self._divided(part, most, level + 1)
        elif file.count:
            yield file
            file.remove()

    def _several(self) -> list[Spooled]:
        return [self._new(_FLOW_RECORD) for _ in range(1 << _FILES_BITS)]

    def _new(self, record: np.dtype) -> Spooled:
        self._made += 1
        return Spooled(Path(self._folder.name) / str(self._made), record)


@contextmanager
def _no_room(path: Path) -> Iterator[None]:
    """A folder that cannot be written, or is full, is told in one line."""
    try:
        yield
    except OSError as error:
        raise RuntimeError(
            f"{path.parent}: the temporary files of a long capture cannot be written ({error.strerror or error}); "
            "TMPDIR names another folder"
        ) from None


def _records(packets: Packets, rows: np.ndarray, record: np.dtype) -> np.ndarray:
    """The packets at `rows` as records."""
    found = np.empty(len(rows), record)
    for name in record.names or ():
        found[name] = getattr(packets, name)[rows]
    return found


def _columns(records: np.ndarray) -> Columns:
    """Records as columns; what they do not hold is nothing."""
    columns = empty_columns(len(records))
    for name in records.dtype.names or ():
        columns[name] = np.ascontiguousarray(records[name])
    return columns


def _distribute(records: np.ndarray, keys: np.ndarray, files: list[Spooled], level: int) -> None:
    """Records into files by their keys; each level divides by other bits."""
    place = (mixed(keys + np.uint64(level)) >> np.uint64(64 - _FILES_BITS)).astype(np.uint8)
    order = np.argsort(place, kind="stable")
    records, keys = records[order], keys[order]
    numbers, first = np.unique(place[order], return_index=True)
    for number, start, end in zip(numbers.tolist(), first.tolist(), [*first[1:].tolist(), len(order)]):
        files[number].add(records[start:end], keys[start:end])
