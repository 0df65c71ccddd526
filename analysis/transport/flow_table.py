"""The columns of all TCP flows of a capture side by side, of which each flow is a stretch: so that a hundred thousand
flows of a few packets cost little more than one of as many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from analysis.capture.packets import Packets
from analysis.transport.connections import Directions
from analysis.transport.sent import Flow


class Sends(NamedTuple):
    """The data segments of all directions that have any: the direction's number (k,), where each direction's begin in
    the other columns (k,), rows in the capture, positions; and the sequence number of position 0 (k,)."""

    direction: np.ndarray
    begins: np.ndarray
    rows: np.ndarray
    start: np.ndarray
    end: np.ndarray
    origin: np.ndarray
    has_syn: np.ndarray


class Acks(NamedTuple):
    """The acknowledgements of all flows: where each flow's begin (k,) and end (k,) in the other columns."""

    begin: np.ndarray
    end: np.ndarray
    rows: np.ndarray
    highest: np.ndarray
    advances: np.ndarray
    is_duplicate: np.ndarray
    dsack: np.ndarray
    sacks: np.ndarray


class _Place(NamedTuple):
    """Where a flow's stretches begin and end: of data segments, acknowledgements, all packets, and all that came
    back."""

    first: int
    end: int
    first_ack: int
    end_ack: int
    first_row: int
    end_row: int
    first_back: int
    end_back: int


class _Facts(NamedTuple):
    """What a flow has one of: as in Flow; reuse: which connection of the same endpoints it is, from 0 on."""

    reuse: int
    copies: int
    has_syn: bool
    syn_repeats: int
    fin_repeats: int


class FlowTable:
    """All flows' columns; repeats: how often each direction sent SYN and FIN again."""

    def __init__(
        self, packets: Packets, directions: Directions, sends: Sends, acks: Acks, repeats: tuple[np.ndarray, np.ndarray]
    ) -> None:
        self._packets, self._rows = packets, directions.rows
        self._hosts: dict[int, str] = {}
        self._places = _places(directions, sends, acks)
        facts = (directions.reuse, directions.copies, None, *repeats)
        told = [sends.has_syn if column is None else column[sends.direction] for column in facts]
        self._facts = list(map(_Facts, *(column.tolist() for column in told)))
        first = sends.rows[sends.begins]
        ends = (packets.src_ip, packets.sport, packets.dst_ip, packets.dport)
        self._ends = list(zip(*(column[first].tolist() for column in ends)))
        stamped, echoed = packets.has_timestamps[sends.rows], packets.has_timestamps[acks.rows]
        self._sent = {
            "send_ns": packets.time_ns[sends.rows],
            "send_order": sends.rows,
            "send_start": sends.start,
            "send_end": sends.end,
            "send_wire_bytes": packets.wire_bytes[sends.rows],
            "send_stamp": np.where(stamped, packets.timestamp_value[sends.rows].astype(np.int64), -1),
            "send_id": packets.ip_id[sends.rows],
        }
        self._acked = {
            "ack_ns": packets.time_ns[acks.rows],
            "ack_order": acks.rows,
            "ack_bytes": acks.highest,
            "ack_advances": acks.advances,
            "ack_is_duplicate": acks.is_duplicate,
            "ack_sack_blocks": packets.sack_blocks[acks.rows],
            "ack_dsack": acks.dsack,
            "ack_sacks": acks.sacks,
            "ack_window": packets.window[acks.rows],
            "ack_echo": np.where(echoed, packets.timestamp_echo[acks.rows].astype(np.int64), -1),
        }

    def flow(self, number: int, names: Mapping[tuple[str, str], str]) -> Flow:
        """The flow of this number."""
        at, facts = self._places[number], self._facts[number]
        src_ip, sport, dst_ip, dport = self._ends[number]
        source, destination = f"{self._host(src_ip)}:{sport}", f"{self._host(dst_ip)}:{dport}"
        name = names.get((source, destination)) or f"{source} > {destination}"
        return Flow(
            name=f"{name} ({facts.reuse + 1})" if facts.reuse else name,
            source=source,
            destination=destination,
            **{name: column[at.first : at.end] for name, column in self._sent.items()},
            **{name: column[at.first_ack : at.end_ack] for name, column in self._acked.items()},
            rows=self._rows[at.first_row : at.end_row],
            back_rows=self._rows[at.first_back : at.end_back],
            copies=facts.copies,
            has_syn=facts.has_syn,
            syn_repeats=facts.syn_repeats,
            fin_repeats=facts.fin_repeats,
        )

    def _host(self, address: int) -> str:
        """An endpoint in words, without its port."""
        if address not in self._hosts:
            self._hosts[address] = self._packets.host(address)
        return self._hosts[address]


def _places(directions: Directions, sends: Sends, acks: Acks) -> list[_Place]:
    row_bounds = np.append(directions.begins, len(directions.rows))
    mate = directions.mate[sends.direction]
    columns = (
        sends.begins,
        np.append(sends.begins, len(sends.rows))[1:],
        acks.begin,
        acks.end,
        row_bounds[sends.direction],
        row_bounds[sends.direction + 1],
        np.where(mate >= 0, row_bounds[mate], 0),
        np.where(mate >= 0, row_bounds[mate + 1], 0),
    )
    return list(map(_Place, *(column.tolist() for column in columns)))
