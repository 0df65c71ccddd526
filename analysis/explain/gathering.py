"""A capture of any size in pieces in which every flow is whole, in bounded memory.

Up to some millions of packets a capture is one piece. Of a longer one the packets that matter go, by conversation, into
temporary files, each of which is a piece. A file with too many packets for one piece is divided by conversation once
more. A single conversation with too many packets is cut: where nothing of it was outstanding, or, where that never is,
at its longest silence. What belongs to no flow is counted and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.capture.addresses import AddressTable
from analysis.capture.packets import COLUMNS, TCP, Packets
from analysis.capture.reader import stream_capture
from analysis.explain.cutting import best_cut
from analysis.explain.model import Point
from analysis.explain.spool import Spool, Spooled, as_packets
from analysis.explain.tally import Tally, point_name

MOST_PACKETS = 2_000_000  # of a piece: each takes about 300 bytes while it is gathered and told


@dataclass(frozen=True, eq=False)
class Piece:
    """Packets of a capture, in its order; is_cut: a flow goes on from the piece before, with data outstanding between
    the two."""

    packets: Packets
    is_cut: bool = False


@dataclass(frozen=True, eq=False)
class Gathered:
    """A capture as counted, its pieces, which can be taken once, and how many UDP conversations it holds that are not
    RoCEv2's."""

    point: Point
    pieces: Iterator[Piece]
    datagram_conversations: int


def gather(
    path: str, name: str = "", addresses: AddressTable | None = None, most_packets: int = MOST_PACKETS
) -> Gathered:
    """Read one capture ("-": from stdin) to its end, and give what it holds in pieces of at most so many packets.

    Raises BadRequest as the reader does, RuntimeError when there is no room for temporary files.
    """
    tally, table = Tally(path), addresses or AddressTable()
    held: list[dict[str, np.ndarray]] = []
    spool: Spool | None = None
    for chunk in stream_capture(path, table):
        tally.add(chunk)
        kept = _worth_keeping(chunk)
        if spool is None:
            held.append({name: getattr(kept, name) for name in COLUMNS})
            if sum(len(each["number"]) for each in held) > most_packets:
                spool = Spool()
                while held:
                    spool.add(as_packets(held.pop(0)))
        else:
            spool.add(kept)
    pieces = _loaded(spool, table, most_packets) if spool else iter([Piece(_whole(held, table))])
    return Gathered(tally.point(name or point_name(path)), pieces, tally.datagram_conversations)


def _worth_keeping(packets: Packets) -> Packets:
    """The packets that flows or pauses are made of."""
    kept = ((packets.protocol == TCP) & (packets.sport > 0)) | packets.is_roce | (packets.mac_control > 0)
    return packets if kept.all() else packets.select(kept)


def _whole(held: list[dict[str, np.ndarray]], table: AddressTable) -> Packets:
    """The chunks as one; each column of theirs is let go as soon as it is joined."""
    columns = {name: np.concatenate([each.pop(name) for each in held]) for name in COLUMNS}
    return as_packets(columns, table.as_it_stands())


def _loaded(spool: Spool, table: AddressTable, most_packets: int) -> Iterator[Piece]:
    """The pieces of a spooled capture, those of pauses first."""
    with spool:
        for pauses in spool.pauses(most_packets):
            yield Piece(as_packets(pauses, table.as_it_stands()))
        for conversations in spool.divided(most_packets):
            if conversations.count <= most_packets:
                yield Piece(as_packets(conversations.load(), table.as_it_stands()))
            else:
                yield from _cut(conversations, table, most_packets)


def _cut(conversation: Spooled, table: AddressTable, most_packets: int) -> Iterator[Piece]:
    """A conversation with too many packets in parts."""
    rest: dict[str, np.ndarray] = {}
    was_cut = False
    for columns in conversation.slices(most_packets // 2):
        rest = {name: np.concatenate([rest[name], columns[name]]) for name in COLUMNS} if rest else columns
        packets = as_packets(rest, table.as_it_stands())
        if len(packets) > most_packets // 2:
            cut = best_cut(packets, len(packets) // 2)
            yield Piece(packets.select(slice(cut.place)), was_cut)
            rest, was_cut = {name: values[cut.place :].copy() for name, values in rest.items()}, not cut.is_idle
    yield Piece(as_packets(rest, table.as_it_stands()), was_cut)
