"""Frames that a capture holds twice: two interfaces, a mirrored port, a bridge.

Of a copy, all that its sender wrote is the same, its IPv4 identification (RFC 6864) among it, though the time to live
and the ECN field may have changed on the way. It says nothing about the sender. Where identifications tell nothing
(IPv6; a sender that writes the same one in all), only a frame of consequence (with data, say) that follows the same one
in the file at once, within a millisecond, is taken for a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.capture.hashing import MIX
from analysis.capture.packets import Packets
from analysis.transport.sequences import differs, run_lengths

_COPY_WITHIN_NS = 1_000_000
_TELLING_SHARE = 0.9  # of a direction's neighbouring frames that differ: their identifications must, too


def copies_among(
    packets: Packets, rows: np.ndarray, begins: np.ndarray, written: Sequence[str], full: np.ndarray
) -> np.ndarray:
    """Which of the rows (n,) are copies of one before. The rows are sorted by direction, whose begins are given;
    written: the columns that the sender wrote; full (n,): frames of consequence."""
    direction = np.repeat(np.arange(len(begins)), run_lengths(begins, len(rows)))
    columns = [getattr(packets, name)[rows] for name in written]
    identification = packets.ip_id[rows]
    found = np.zeros(len(rows), np.bool_)
    mixed = direction.astype(np.uint64)
    for column in (*columns, identification):
        mixed = (mixed ^ column.astype(np.uint64)) * MIX
        mixed ^= mixed >> np.uint64(29)
    if not _has_twice(mixed):
        return found
    order = np.argsort(mixed, kind="stable")
    earlier, later = order[:-1], order[1:]
    for column in (mixed, direction, identification, *columns):
        same = column[earlier] == column[later]
        earlier, later = earlier[same], later[same]
    first, second = rows[earlier], rows[later]
    at_once = (second == first + 1) & (packets.time_ns[second] - packets.time_ns[first] < _COPY_WITHIN_NS)
    # Linux writes 0 into every SYN/ACK: that tells nothing
    telling = _telling(columns, identification, begins)[direction[later]] & (identification[later] > 0)
    found[later[telling | (at_once & full[later])]] = True
    return found


def _has_twice(numbers: np.ndarray) -> bool:
    ordered = np.sort(numbers)
    return bool((ordered[1:] == ordered[:-1]).any())


def _telling(columns: Sequence[np.ndarray], identification: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """In which directions (k,) frames that differ have different identifications."""
    differ = np.zeros(len(identification), np.bool_)
    for column in columns:
        differ |= differs(column)
    differ[begins] = False
    apart = differ & differs(identification)
    different, told = (np.add.reduceat(each, begins, dtype=np.int64) for each in (differ, apart))
    return (different > 0) & (told >= _TELLING_SHARE * different)
