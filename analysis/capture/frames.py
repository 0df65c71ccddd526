"""Frames of one batch while their headers are read: where each header begins, and the columns that fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.capture.packets import DTYPES, NO_SCALE, WIDTHS
from analysis.capture.records import gather


class Headers(NamedTuple):
    """Headers (n,) of one kind: the frames' rows, where in the buffer each begins, and where its frame's captured bytes
    (or the datagram that it heads) end."""

    rows: np.ndarray
    at: np.ndarray
    end: np.ndarray

    def keep(self, which: np.ndarray) -> Headers:
        """Those that a mask (n,) picks."""
        return self if which.all() else Headers(self.rows[which], self.at[which], self.end[which])

    def behind(self, sizes: int | np.ndarray) -> Headers:
        """What begins `sizes` bytes further on."""
        return self._replace(at=self.at + sizes)


class Frames:
    """The frames of a batch (n,) in `data`, from `begin` to `end`, and the columns of those headers that were found:
    a column that no frame fills is not there."""

    def __init__(self, data: np.ndarray, begin: np.ndarray, captured: np.ndarray, wire_bytes: np.ndarray) -> None:
        self.data = data
        self.begin, self.end = begin, begin + captured
        self.wire_end = begin + wire_bytes
        self.columns: dict[str, np.ndarray] = {}
        self.is_cut = np.zeros(len(begin), np.bool_)  # captured shorter than its headers

    def __len__(self) -> int:
        return len(self.begin)

    def all(self) -> Headers:
        """Every frame's first byte."""
        return Headers(np.arange(len(self)), self.begin, self.end)

    def fits(self, headers: Headers, size: int) -> np.ndarray:
        """Which of the headers have their first `size` bytes there; frames whose capture cuts them are noted."""
        ends = headers.at + size
        fits = ends <= headers.end
        if not fits.all():
            missing = headers.rows[~fits]
            self.is_cut[missing] |= ends[~fits] > self.end[missing]
        return fits

    def whole(self, headers: Headers, size: int) -> Headers:
        """Those headers whose first `size` bytes are there; frames whose capture cuts them are noted."""
        return headers.keep(self.fits(headers, size))

    def read(self, headers: Headers, layout: np.dtype) -> np.ndarray:
        """Copies (n,) of the structures at those places."""
        return gather(self.data, headers.at, layout)

    def put(self, name: str, headers: Headers, values: np.ndarray | int) -> None:
        """Fill a column for the frames of those headers."""
        rows = headers.rows
        if name not in self.columns:
            if isinstance(values, np.ndarray) and values.shape == (len(self), *WIDTHS.get(name, ())):
                self.columns[name] = values.astype(DTYPES[name])
                return
            self.columns[name] = blank(name, len(self))
        self.columns[name][rows if len(rows) < len(self) else slice(None)] = values


def blank(name: str, count: int) -> np.ndarray:
    """A column of `count` packets that have nothing."""
    shape = (count, *WIDTHS.get(name, ()))
    return np.full(shape, NO_SCALE, np.uint8) if name == "window_scale" else np.zeros(shape, DTYPES[name])
