"""Files of two runs that have to be equal, byte by byte: which are not, and where."""

from __future__ import annotations

import filecmp
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

from tests.emulation.captures import Frame, read

_SHOWN = 3  # packets of a capture


def unlike(one: Path, other: Path, names: Iterable[str]) -> list[str]:
    """A line for each of these files that is not the same in both folders."""
    _, differing, missing = filecmp.cmpfiles(one, other, list(names), shallow=False)
    assert not missing, missing
    return [_told(one / name, other / name, name) for name in differing]


def _told(one: Path, other: Path, name: str) -> str:
    if one.suffix == ".pcap":
        return f"{name}: {_packets(one, other)}"
    first, second = one.read_bytes(), other.read_bytes()
    at = next((place for place, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))
    near = slice(max(0, at - 40), at + 40)
    return f"{name}: {len(first)} and {len(second)} bytes, from byte {at}: {first[near]!r} and {second[near]!r}"


def _packets(one: Path, other: Path) -> str:
    """How many packets differ, and the first of them: nanoseconds, and the frame in hexadecimal digits."""
    first, second = read(one), read(other)
    pairs = enumerate(zip_longest(first, second), start=1)
    differing = [(number, a, b) for number, (a, b) in pairs if a != b]
    shown = "; ".join(f"{number}: {_shown(a)} and {_shown(b)}" for number, a, b in differing[:_SHOWN])
    return f"{len(first)} and {len(second)} packets, {len(differing)} differ, {shown}"


def _shown(frame: Frame | None) -> str:
    return "nothing" if frame is None else f"{frame.time_ns} {frame.kept.hex()}"
