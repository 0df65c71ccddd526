"""Files of two runs that have to be equal, byte by byte: which are not, and where."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

import dpkt

_SHOWN = 3  # packets of a capture


def unlike(one: Path, other: Path, names: Iterable[str]) -> list[str]:
    """A line for each of these files that is not the same in both folders."""
    return [_told(one / name, other / name, name) for name in names if not _is_same(one / name, other / name)]


def _is_same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


def _told(one: Path, other: Path, name: str) -> str:
    if one.suffix == ".pcap":
        return f"{name}: {_packets(one, other)}"
    first, second = one.read_bytes(), other.read_bytes()
    at = next((place for place, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))
    near = slice(max(0, at - 40), at + 40)
    return f"{name}: {len(first)} and {len(second)} bytes, from byte {at}: {first[near]!r} and {second[near]!r}"


def _packets(one: Path, other: Path) -> str:
    """How many packets differ, and the first of them: seconds, and the frame in hexadecimal digits."""
    first, second = (_read(path) for path in (one, other))
    pairs = enumerate(zip_longest(first, second), start=1)
    differing = [(number, a, b) for number, (a, b) in pairs if a != b]
    shown = "; ".join(f"{number}: {a} and {b}" for number, a, b in differing[:_SHOWN])
    return f"{len(first)} and {len(second)} packets, {len(differing)} differ, {shown}"


def _read(path: Path) -> list[tuple[str, str]]:
    with path.open("rb") as file:
        return [(f"{float(at):.9f}", frame.hex()) for at, frame in dpkt.pcap.Reader(file)]
