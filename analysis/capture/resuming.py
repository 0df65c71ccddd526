"""Reading on behind damage: the next place in a capture where records surely begin."""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np

from analysis.capture.records import Ending
from analysis.capture.source import Window

_ENOUGH = 4  # sound records in a row; bytes that are none hardly ever look like it
_ENOUGH_AT_THE_END = 2  # the last of which ends where the file does
_FIRST_LOOK_BYTES, _FARTHER = 1 << 10, 4


class Plausible(NamedTuple):
    """How to tell the beginning of a record: `may_begin(words)` gives a mask (n,) by the first 32 bits, in byte
    `order`, to leave out most places; `which(data, at)` a mask (n,) by the whole header of `header_bytes`, and the
    records' lengths (n,)."""

    order: str
    may_begin: Callable[[np.ndarray], np.ndarray]
    which: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    header_bytes: int


def resume(window: Window, plausible: Plausible, ending: Ending) -> bool:
    """Move the window on to the next place where several sound records follow each other, and note what is left out in
    `ending`; False when there is none up to the end."""
    start = window.at + 1
    while True:
        place, is_sure = _search(window, start, plausible)
        ending.garbage_bytes += place - window.at
        window.at = start = place
        if is_sure:
            return True
        if window.is_last or not window.advance():
            ending.garbage_bytes += len(window)
            return False
        start = window.at


def _search(window: Window, start: int, plausible: Plausible) -> tuple[int, bool]:
    """The first place where records surely begin; or, where the window ends too early to tell, or has none, the place
    to go on from when there is more."""
    last, look = window.end - plausible.header_bytes, _FIRST_LOOK_BYTES
    while start <= last:
        words = np.ndarray((min(look, last + 1 - start),), plausible.order + "u4", window.data, start, (1,))
        places = start + np.flatnonzero(plausible.may_begin(words))
        for place in places[plausible.which(window.array, places)[0]].tolist():
            count, end = _follow(window, place, plausible)
            runs_off = end > last and not window.is_last
            if count >= _ENOUGH or (count >= _ENOUGH_AT_THE_END and window.is_last and end == window.end):
                return place, True
            if runs_off and place > window.at:
                return place, False
        start, look = start + look, look * _FARTHER
    return max(min(start, last + 1), window.at), False


def _follow(window: Window, place: int, plausible: Plausible) -> tuple[int, int]:
    """How many sound records follow each other from `place` on, up to enough, and where the last of them ends."""
    count = 0
    while count < _ENOUGH and place + plausible.header_bytes <= window.end:
        sound, length = plausible.which(window.array, np.array([place]))
        if not sound[0] or place + length[0] > window.end:
            return count, int(place + length[0]) if sound[0] else place
        count, place = count + 1, int(place + length[0])
    return count, place
