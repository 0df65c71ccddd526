"""What a capture holds, counted while it streams by."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from analysis.capture.packets import TCP, UDP, Damage, Packets
from analysis.capture.source import ENDINGS, PACKED_ENDINGS, STDIN
from analysis.explain.conversations import datagram_keys
from analysis.explain.model import Point
from analysis.printable import printable

_MOST_KEYS = 1 << 20  # of UDP conversations that are told apart: 8 MB


class Tally:
    """The counts of one capture so far."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._counts = dict.fromkeys(("packets", "tcp", "roce", "udp", "pause", "wire_bytes"), 0)
        self._first_ns: list[int] = []
        self._last_ns: list[int] = []
        self._damage = Damage()
        self._datagram_keys = np.zeros(0, np.uint64)

    def add(self, packets: Packets) -> None:
        """Count one chunk."""
        self._damage += packets.damage
        is_roce = packets.is_roce
        counts = {
            "packets": len(packets),
            "tcp": int((packets.protocol == TCP).sum()),
            "roce": int(is_roce.sum()),
            "udp": int(((packets.protocol == UDP) & ~is_roce).sum()),
            "pause": int((packets.mac_control > 0).sum()),
            "wire_bytes": int(packets.wire_bytes.sum()),
        }
        self._counts = {name: self._counts[name] + count for name, count in counts.items()}
        if len(packets):
            self._first_ns = [min([*self._first_ns, int(packets.time_ns.min())])]
            self._last_ns = [max([*self._last_ns, int(packets.time_ns.max())])]
        if counts["udp"] and len(self._datagram_keys) < _MOST_KEYS:
            self._datagram_keys = np.union1d(self._datagram_keys, datagram_keys(packets))[:_MOST_KEYS]

    @property
    def datagram_conversations(self) -> int:
        """UDP conversations that are not RoCEv2's: told apart up to 2^20 of them."""
        return len(self._datagram_keys)

    def point(self, name: str) -> Point:
        """The capture as counted, by this name."""
        others = self._counts["packets"] - sum(self._counts[kind] for kind in ("tcp", "roce", "udp", "pause"))
        return Point(
            file=self._path,
            name=name,
            **self._counts,
            other=others,
            first_ns=sum(self._first_ns),
            last_ns=sum(self._last_ns),
            damage=self._damage,
        )


def point_name(path: str) -> str:
    """A capture's name: its file's, without folder and endings, as far as it can be shown."""
    if path == STDIN:
        return "stdin"
    name = Path(path).name
    while name.lower().endswith((*ENDINGS, *PACKED_ENDINGS)) and Path(name).stem != name:
        name = Path(name).stem
    return printable(name)
