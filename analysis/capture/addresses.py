"""IPv6 addresses as numbers: their places in a table that all files of one look-up share."""

from __future__ import annotations

import numpy as np

from analysis.capture.hashing import MIX
from analysis.capture.packets import FIRST_IPV6


class AddressTable:
    """The IPv6 addresses seen so far. Share one among captures that are to be joined: an address has the same number in
    all of them."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self._as_tuple: tuple[bytes, ...] = ()
        self._keys = np.zeros(0, np.uint64)  # sorted, so that many are found at once
        self._halves = np.zeros((0, 2), np.uint64)
        self._numbers = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._places)

    def as_it_stands(self) -> tuple[bytes, ...]:
        """All addresses (16 bytes each) in the order of their numbers."""
        if len(self._as_tuple) != len(self._places):
            self._as_tuple = tuple(self._places)
        return self._as_tuple

    def numbers(self, addresses: np.ndarray) -> np.ndarray:
        """The numbers (n,) of addresses (n,) of 16 bytes each; new ones are added."""
        halves = addresses.view(np.uint64).reshape(-1, 2)
        found, is_known = self._look_up(halves)
        if not is_known.all():
            unknown = addresses[~is_known]
            self._add(unknown)
            found[~is_known] = [FIRST_IPV6 + self._places[each] for each in _as_bytes(unknown)]
        return found

    def _look_up(self, halves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers, and where they are right: two addresses may have the same key, and one of them is then not found."""
        if not len(self._keys):
            return np.zeros(len(halves), np.int64), np.zeros(len(halves), np.bool_)
        place = np.minimum(np.searchsorted(self._keys, _keys(halves)), len(self._keys) - 1)
        return self._numbers[place], (self._halves[place] == halves).all(axis=1)

    def _add(self, addresses: np.ndarray) -> None:
        before = len(self._places)
        for each in _as_bytes(addresses):
            self._places.setdefault(each, len(self._places))
        if len(self._places) == before:
            return
        halves = np.frombuffer(b"".join(self._places), np.uint64).reshape(-1, 2)
        order = np.argsort(_keys(halves), kind="stable")
        self._halves, self._numbers = halves[order], FIRST_IPV6 + order
        self._keys = _keys(self._halves)


def _keys(halves: np.ndarray) -> np.ndarray:
    return (halves[:, 0] ^ halves[:, 0] >> np.uint64(32)) * MIX ^ halves[:, 1]


def _as_bytes(addresses: np.ndarray) -> list[bytes]:
    whole = addresses.tobytes()
    return [whole[at : at + 16] for at in range(0, len(whole), 16)]
