"""How exactly a port's shaper kept the line's rate on the real clock, by the times at which frames left that had been
waiting: then a frame leaves one frame's time after the one before.

Which frames had been waiting the senders' own captures tell: a frame that left its sender before the frame ahead of it
left the port found that one there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.capture.packets import Packets

FEWEST_GAPS = 100  # of which the 99th percentile is not the widest of all
_MIXERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)  # odd, so that no bit of a sequence number is lost


@dataclass(frozen=True, eq=False)
class Frames:
    """Frames that passed a point, in order of time: times in ns, lengths in bytes with the Ethernet header, and what
    tells a frame from all others (address, IP identification, sequence number), each (n,)."""

    time_ns: np.ndarray
    wire_bytes: np.ndarray
    key: np.ndarray


@dataclass(frozen=True)
class Shaped:
    """What a shaper did with frames that had been waiting: its rate, by how much 99 of 100 gaps between frames differ
    from the frame's time at most, and how many gaps there were."""

    rate_bps: float
    jitter_s: float
    gaps: int


def frames(packets: Packets, which: np.ndarray) -> Frames:
    """The packets of a capture that a mask (n,) picks."""
    found = packets.select(which)
    order = np.argsort(found.time_ns, kind="stable")
    place = found.src_ip.astype(np.uint64) << np.uint64(16) | found.ip_id
    mixed = (each.astype(np.uint64) * np.uint64(odd) for each, odd in zip((found.seq, found.psn), _MIXERS))
    key = place ^ next(mixed) ^ next(mixed)
    return Frames(found.time_ns[order], found.wire_bytes[order], key[order])


def together(parts: Sequence[Frames]) -> Frames:
    """What passed several points, in order of time."""
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in ("time_ns", "wire_bytes", "key")]
    order = np.argsort(columns[0], kind="stable")
    return Frames(*(column[order] for column in columns))


def came_ns(left: Frames, sent: Frames) -> np.ndarray:
    """When each frame that left the port had been sent (n,), the last time before that; -1 where no capture tells."""
    key, time_ns = (np.concatenate([getattr(part, name) for part in (sent, left)]) for name in ("key", "time_ns"))
    has_left = np.arange(len(key)) >= len(sent.key)
    order = np.lexsort((has_left, time_ns, key))
    last_sent = np.maximum.accumulate(np.where(has_left[order], -1, np.arange(len(order))))
    known = (last_sent >= 0) & (key[order][last_sent] == key[order])
    came = np.empty(len(order), np.int64)
    came[order] = np.where(known, time_ns[order][last_sent], -1)
    return came[len(sent.key) :]


def waiting_spans(left: Frames, came: np.ndarray, way_ns: int) -> list[tuple[int, int]]:
    """Places of the first and the last frame of every run of frames in which each came, `way_ns` after it was sent,
    before the frame ahead of it left."""
    waited = (came[1:] >= 0) & (came[1:] + way_ns <= left.time_ns[:-1])
    edges = np.flatnonzero(np.diff(np.concatenate([[False], waited, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist()))


def shaped(left: Frames, spans: Sequence[tuple[int, int]], rate_bps: int, saved_ns: int) -> Shaped | None:
    """Rate and jitter over the spans, each without its first `saved_ns`, in which the shaper may give out what it has
    saved up; None where too few frames left in them, or all at one time."""
    gap_ns, size = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first, last in spans:
        begin = int(np.searchsorted(left.time_ns[: last + 1], left.time_ns[first] + saved_ns))
        gap_ns.append(np.diff(left.time_ns[begin : last + 1]))
        size.append(left.wire_bytes[begin + 1 : last + 1])
    gaps_ns, sizes = np.concatenate(gap_ns), np.concatenate(size)
    if len(gaps_ns) < FEWEST_GAPS or not gaps_ns.any():
        return None
    jitter_ns = percentile_99(np.abs(gaps_ns - sizes * 8e9 / rate_bps))
    return Shaped(float(sizes.sum() * 8e9 / gaps_ns.sum()), jitter_ns / 1e9, len(gaps_ns))


def percentile_99(values: np.ndarray) -> float:
    """The least of the values (n,) that at most one in a hundred exceeds; of fewer than a hundred the largest."""
    return float(np.sort(values)[-(-99 * len(values) // 100) - 1])
