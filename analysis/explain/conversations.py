"""The conversations of a capture, counted for all packets at once, and those among them that are worth telling.

A capture of a scan holds a hundred thousand connections without data, one of a busy server as many with a few packets
each. Each told costs about a millisecond, so that only those with the most data are told, and the others are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.capture.hashing import MIX
from analysis.capture.packets import TCP, UDP, Packets

MOST_TOLD = 2_000
_SPREAD = np.uint64(29)


@dataclass(frozen=True)
class Counted:
    """Conversations: how many in all, how many of them carry data, how many of these are not told, and the payload
    bytes of those."""

    conversations: int = 0
    with_data: int = 0
    untold: int = 0
    untold_bytes: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(
            self.conversations + other.conversations,
            self.with_data + other.with_data,
            self.untold + other.untold,
            self.untold_bytes + other.untold_bytes,
        )


def mixed(values: np.ndarray) -> np.ndarray:
    """Whole numbers (n,) spread over 64 bits."""
    found = values.astype(np.uint64) * MIX
    return (found ^ found >> _SPREAD) * MIX


def conversation_keys(packets: Packets, rows: np.ndarray) -> np.ndarray:
    """A number of 64 bits for the conversation of each row (n,), the same for both directions: of TCP and UDP the two
    endpoints, of RoCEv2 the two addresses, because a queue pair's packets name their destination only. That two
    conversations share one has a chance of one in 2^64 for each two."""
    roce = packets.is_roce[rows]
    sport, dport = (np.where(roce, 0, getattr(packets, name)[rows]) for name in ("sport", "dport"))
    ends = mixed(packets.src_ip[rows] << 16 | sport) + mixed(packets.dst_ip[rows] << 16 | dport)
    return mixed(ends + packets.protocol[rows])


def choose(packets: Packets, most: int = MOST_TOLD) -> tuple[Packets, Counted]:
    """The packets without those of conversations that are not told, and the counts of all that TCP and RoCEv2 had."""
    rows = np.flatnonzero(((packets.protocol == TCP) & (packets.sport > 0)) | packets.is_roce)
    keys, numbers = np.unique(conversation_keys(packets, rows), return_inverse=True)
    carried = np.bincount(numbers, weights=packets.payload_bytes[rows], minlength=len(keys))
    with_data = np.flatnonzero(carried)
    untold = with_data[np.argsort(-carried[with_data], kind="stable")][most:]
    counted = Counted(len(keys), len(with_data), len(untold), int(carried[untold].sum()))
    if len(keys) <= most:
        return packets, counted
    told = carried > 0
    told[untold] = False
    return packets.select(rows[told[numbers]]), counted


def datagram_keys(packets: Packets) -> np.ndarray:
    """The different keys of the UDP conversations that are not RoCEv2's."""
    rows = np.flatnonzero((packets.protocol == UDP) & ~packets.is_roce)
    return np.unique(conversation_keys(packets, rows))
