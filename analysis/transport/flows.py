"""TCP flows from the packets of one capture point: what was sent, what was acknowledged, what was sent again.

A flow is one direction of a connection that carries data. Byte positions are unwrapped to 64 bits and count
from the flow's first data byte, so that they neither wrap at 2^32 nor depend on the initial sequence number.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analysis.capture.packets import ACK, FIN, SYN, Packets
from analysis.transport.connections import Directions, directions_of
from analysis.transport.flow_table import Acks, FlowTable, Sends
from analysis.transport.sent import Flow
from analysis.transport.sequences import distance, run_lengths, running_max, shifted, unwrap_runs


def flows_of(packets: Packets, names: Mapping[tuple[str, str], str] | None = None) -> list[Flow]:
    """Every direction of a TCP connection that carries data, in order of its first data packet.

    names: (source, destination) -> name; a flow without one is called "source > destination". Where the same two
    endpoints connect again, the second connection's name ends with " (2)", and so on.
    """
    directions = directions_of(packets)
    sends = _sends(packets, directions)
    acks = _acknowledgements(packets, directions, sends)
    repeats = _repeats(packets, directions, SYN), _repeats(packets, directions, FIN)
    table = FlowTable(packets, directions, sends, acks, repeats)
    first = np.argsort(sends.rows[sends.begins], kind="stable")
    return [table.flow(number, names or {}) for number in first.tolist()]


def _sends(packets: Packets, directions: Directions) -> Sends:
    owner = np.repeat(np.arange(len(directions.begins)), run_lengths(directions.begins, len(directions.rows)))
    carrying = packets.payload_bytes[directions.rows] > 0
    rows, owner_of = directions.rows[carrying], owner[carrying]
    direction, begins = np.unique(owner_of, return_index=True)
    number = (packets.seq[rows].astype(np.int64) + (packets.flags[rows] & SYN > 0)) % 2**32  # SYN takes a number
    positions = unwrap_runs(number, begins)
    initial = _initial(packets, directions, owner)[direction]
    ahead = np.where(initial >= 0, distance(number[begins], initial), 0)
    lowest = np.minimum.reduceat(positions, begins) if len(begins) else begins
    moved = np.where(initial >= 0, np.maximum(ahead, -lowest), -lowest)
    start = positions + np.repeat(moved, run_lengths(begins, len(rows)))
    return Sends(
        direction, begins, rows, start, start + packets.payload_bytes[rows], number[begins] - moved, initial >= 0
    )


def _initial(packets: Packets, directions: Directions, owner: np.ndarray) -> np.ndarray:
    """The sequence number of each direction's first data byte, by its last SYN; -1 without one."""
    syns = np.flatnonzero(packets.flags[directions.rows] & SYN > 0)
    found = np.full(len(directions.begins), -1, np.int64)
    found[owner[syns]] = (packets.seq[directions.rows[syns]].astype(np.int64) + 1) % 2**32
    return found


def _repeats(packets: Packets, directions: Directions, flag: int) -> np.ndarray:
    """How often each direction sent a segment with this flag and without data again (k,)."""
    if not len(directions.begins):
        return directions.begins
    flagged = packets.flags[directions.rows] & flag > 0
    bare = flagged & (packets.payload_bytes[directions.rows] == 0)
    any_flagged, all_bare = (np.add.reduceat(each, directions.begins, dtype=np.int64) for each in (flagged, bare))
    return np.where(all_bare == any_flagged, np.maximum(all_bare - 1, 0), all_bare)


def _acknowledgements(packets: Packets, directions: Directions, sends: Sends) -> Acks:
    rows, flow = _acknowledging(packets, directions, sends)
    known, begins, counts = np.unique(flow, return_index=True, return_counts=True)
    begin, end = np.zeros((2, len(sends.begins)), np.int64)
    begin[known], end[known] = begins, begins + counts
    number = packets.ack[rows].astype(np.int64)
    relative = unwrap_runs(number, begins)
    relative += np.repeat(distance(number[begins], sends.origin[known]), counts)
    highest = running_max(np.maximum(relative, 0), begins)
    before, window, blocks = shifted(highest, begins), packets.window[rows], packets.sack_blocks[rows]
    same_window = window == shifted(window, begins)
    bare = (packets.payload_bytes[rows] == 0) & (packets.flags[rows] & (SYN | FIN) == 0)
    outstanding = _highest_sent(sends, rows, flow) > before
    return Acks(
        begin,
        end,
        rows,
        highest,
        highest > before,
        bare & (relative == before) & outstanding & (same_window | (blocks > 0)),
        *_sacked(packets, rows, relative),
    )


def _acknowledging(packets: Packets, directions: Directions, sends: Sends) -> tuple[np.ndarray, np.ndarray]:
    """The rows with an acknowledgement that came back for each flow, flow by flow, and the flow's number."""
    mate = directions.mate[sends.direction]
    lengths = run_lengths(directions.begins, len(directions.rows))
    counts = np.where(mate >= 0, lengths[mate], 0)
    flow = np.repeat(np.arange(len(mate)), counts)
    within = np.arange(len(flow)) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = directions.rows[directions.begins[mate][flow] + within]
    acknowledges = packets.flags[rows] & ACK > 0
    return rows[acknowledges], flow[acknowledges]


def _highest_sent(sends: Sends, rows: np.ndarray, flow: np.ndarray) -> np.ndarray:
    """The highest position that each acknowledgement's flow had sent before it."""
    owner = np.repeat(np.arange(len(sends.begins)), run_lengths(sends.begins, len(sends.rows)))
    apart = int(max(sends.rows.max(initial=0), rows.max(initial=0))) + 1
    place = np.searchsorted(owner * apart + sends.rows, flow * apart + rows)
    highest = np.concatenate([[0], running_max(sends.end, sends.begins)])[place]
    return np.where(place > sends.begins[flow], highest, 0)


def _sacked(packets: Packets, rows: np.ndarray, relative: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions (m, 2) of data that each acknowledgement reports to have come twice (RFC 2883): its first SACK
    block, where that lies below the acknowledgement or inside of the second one; and the edges (m, 4) of its first two
    blocks."""
    twice, sacks = np.zeros((len(rows), 2), np.int64), np.zeros((len(rows), 4), np.int64)
    some = np.flatnonzero(packets.sack_blocks[rows] > 0)
    ack = packets.ack[rows[some]].astype(np.int64)
    edges = distance(packets.sack_edges[rows[some]].astype(np.int64), ack[:, None])
    two = packets.sack_blocks[rows[some]] > 1
    inside = two & (edges[:, 2] <= edges[:, 0]) & (edges[:, 1] <= edges[:, 3])
    duplicate = (edges[:, 0] < edges[:, 1]) & ((edges[:, 1] <= 0) | inside)
    edges += relative[some, None]
    twice[some[duplicate]] = edges[duplicate, :2]
    edges[~two, 2:] = 0
    sacks[some] = edges
    return twice, sacks
