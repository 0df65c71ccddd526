"""RoCEv2 flows from the packets of one capture point: what a queue pair sent, and what came back for it.

A packet names the queue pair that it goes to, not the one that it comes from. A flow's requests therefore tell its
destination; its own queue pair is the one that the acknowledgements go to. Where several flows join the same two
hosts, acknowledgements belong to the flow of which they name packet numbers that had been sent by then: sequences
begin at random numbers of 24 bits.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from analysis.capture.packets import (
    ACKNOWLEDGE,
    CNP,
    NAK_SYNDROME,
    RNR_SYNDROME,
    SEQUENCE_ERROR,
    SYNDROME_KIND,
    Packets,
)
from analysis.transport.copies import copies_among
from analysis.transport.sent import Sent
from analysis.transport.sequences import differs, distance, numbered, sorting, unwrap

UNKNOWN_PAIR = "?"  # in place of a queue pair's number that no packet tells
_PSN_BITS = 24
_REQUESTS = (*range(13), 19, 20, 22, 23)  # BTH opcodes that a requester sends on a reliable connection
_WRITTEN_BY_SENDER = ("opcode", "psn", "payload_bytes", "syndrome", "ack_request")
_MATCHING_SHARE = 0.5  # of a queue pair's acknowledgements that name packets of the flow they are for


@dataclass(frozen=True, eq=False)
class RoceFlow(Sent):
    """A queue pair's requests (n,), their acknowledgements and NAKs (m,), and the CNPs (k,) that came for it.

    send_psn counts packets from the flow's first one, unwrapped; ack_psn is the first one not acknowledged yet, running
    maximum taken; ack_is_nak: a NAK of a gap in the sequence. copies: how many frames were captured twice.
    """

    send_psn: np.ndarray
    ack_psn: np.ndarray
    ack_is_nak: np.ndarray
    cnp_ns: np.ndarray
    copies: int

    @cached_property
    def highest_psn_before(self) -> np.ndarray:
        """The highest packet number sent before each packet (n,); one below its own for the first."""
        highest = np.maximum.accumulate(self.send_psn)
        return np.concatenate([self.send_psn[:1] - 1, highest[:-1]])

    @cached_property
    def is_retransmission(self) -> np.ndarray:
        """Which packets (n,) have a number no higher than one that was sent before (at the sender's own capture they
        repeat it; elsewhere those that `fills_gap` names do not)."""
        return self.send_psn <= self.highest_psn_before

    @cached_property
    def fills_gap(self) -> np.ndarray:
        """Which packets (n,) bring a number that was not seen before, below the highest one."""
        fills = np.zeros(len(self.send_psn), np.bool_)
        fills[np.unique(self.send_psn, return_index=True)[1]] = True
        return fills & self.is_retransmission

    @cached_property
    def is_needless(self) -> np.ndarray:
        """Which packets (n,) were sent again and are proven to have arrived before: since the sender went back, an
        acknowledgement covers them that names a number not sent again by then (a receiver takes packets in order
        only)."""
        found = np.zeros(len(self.send_psn), np.bool_)
        steps = np.diff(self.send_psn, prepend=self.send_psn[:1] - 1)
        begins = np.flatnonzero(self.is_retransmission & (steps != 1))
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(found)]):
            heard = slice(*np.searchsorted(self.ack_order, [self.send_order[begin], _place(self.send_order, end)]))
            again = np.maximum.accumulate(self.send_psn[begin:end])
            reached = again[np.searchsorted(self.send_order[begin:end], self.ack_order[heard]) - 1]
            covered = self.ack_psn[heard] - 1
            proof = covered[(covered > reached) & (covered <= self.highest_psn_before[begin])]
            found[begin:end] = self.send_psn[begin:end] <= proof.max(initial=-1)
        return found & self.is_retransmission


def _place(orders: np.ndarray, index: int) -> int:
    """The place in the capture of the packet at `index`, or beyond all."""
    return int(orders[index]) if index < len(orders) else int(np.iinfo(np.int64).max)


def flows_of_roce(packets: Packets, names: Mapping[tuple[str, str], str] | None = None) -> list[RoceFlow]:
    """Every queue pair's flow of requests, in order of its first packet.

    names: (source, destination) -> name; a flow without one is called "source > destination". A source whose queue pair
    no packet tells ends with ":?".
    """
    streams = _streams(packets)
    flows = []
    for stream, back in _matched(packets, streams):
        row = stream.requests[0]
        address = int(packets.src_ip[row])
        source = packets.endpoint(address, int(packets.qpn[back.first])) if back else _unknown(packets, address)
        destination = packets.endpoint(int(packets.dst_ip[row]), int(packets.qpn[row]))
        name = (names or {}).get((source, destination), f"{source} > {destination}")
        flows.append(_flow(packets, stream, back, (name, source, destination)))
    return flows


def _unknown(packets: Packets, address: int) -> str:
    """An endpoint of which no packet tells the queue pair."""
    return f"{packets.host(address)}:{UNKNOWN_PAIR}"


def flow_between(packets: Packets, source: str, destination: str, name: str) -> RoceFlow | None:
    """The flow from one queue pair ("address:number") to another; None when nothing of it was captured."""
    streams = _streams(packets)
    there = next((each for each in streams if each.ends == _ends(source, destination) and len(each.requests)), None)
    back = next((each for each in streams if each.ends == _ends(destination, source)), None)
    return _flow(packets, there, back, (name, source, destination)) if there is not None else None


class _Ends(NamedTuple):
    """Addresses, and the queue pair that packets go to."""

    source: str
    destination: str
    pair: str


class _Stream(NamedTuple):
    """What one host sent to one queue pair of another: the places in the capture of its requests, acknowledgements and
    CNPs; first: of any of them."""

    ends: _Ends
    first: int
    requests: np.ndarray
    acks: np.ndarray
    cnps: np.ndarray
    copies: int


def _ends(source: str, destination: str) -> _Ends:
    """Of "address:number" both."""
    (src, _, _), (dst, _, pair) = source.rpartition(":"), destination.rpartition(":")
    return _Ends(_address(src), _address(dst), pair)


def _address(text: str) -> str:
    return str(ipaddress.ip_address(text.strip("[]")))


def _streams(packets: Packets) -> list[_Stream]:
    """The streams of a capture, in order of their first packets."""
    rows = np.flatnonzero(packets.is_roce)
    hosts = numbered(np.concatenate([packets.src_ip[rows], packets.dst_ip[rows]])).reshape(2, -1)
    key = numbered((hosts[0] * (int(hosts.max(initial=0)) + 1) + hosts[1]) << _PSN_BITS | packets.qpn[rows])
    order = sorting(key)
    rows, begins = rows[order], np.flatnonzero(differs(key[order]))
    full = np.isin(packets.opcode[rows], _REQUESTS) | (packets.syndrome[rows] == SEQUENCE_ERROR)
    is_copy = copies_among(packets, rows, begins, _WRITTEN_BY_SENDER, full)
    is_copy &= packets.opcode[rows] != CNP  # all of a pair's CNPs are the same, those of some senders to the last bit
    parts = zip(np.split(rows, begins[1:]), np.split(is_copy, begins[1:])) if len(rows) else ()
    return sorted((_stream(packets, some, copy) for some, copy in parts), key=lambda stream: stream.first)


def _stream(packets: Packets, rows: np.ndarray, is_copy: np.ndarray) -> _Stream:
    first, own = int(rows[0]), rows[~is_copy]
    opcode = packets.opcode[own]
    return _Stream(
        _Ends(
            packets.address(int(packets.src_ip[first])),
            packets.address(int(packets.dst_ip[first])),
            str(packets.qpn[first]),
        ),
        first,
        own[np.isin(opcode, _REQUESTS)],
        own[opcode == ACKNOWLEDGE],
        own[opcode == CNP],
        int(is_copy.sum()),
    )


def _matched(packets: Packets, streams: Iterable[_Stream]) -> list[tuple[_Stream, _Stream | None]]:
    """Each stream with requests, and the stream the other way that answers it: None where none does."""
    by_hosts: dict[tuple[str, str], list[_Stream]] = {}
    for stream in streams:
        by_hosts.setdefault(stream.ends[:2], []).append(stream)
    found: list[tuple[_Stream, _Stream | None]] = []
    for (source, destination), some in by_hosts.items():
        asking = [stream for stream in some if len(stream.requests)]
        found += _paired(packets, asking, by_hosts.get((destination, source), []))
    return sorted(found, key=lambda pair: int(pair[0].requests[0]))


def _paired(packets: Packets, asking: list[_Stream], answering: list[_Stream]) -> list[tuple[_Stream, _Stream | None]]:
    """Streams between two hosts, paired by the packet numbers that are answered, best first; a single one left each
    way belongs together."""
    shares = [
        (share, here, there)
        for here, stream in enumerate(asking)
        for there, back in enumerate(answering)
        for share in [_share_answered(packets, stream, back)]
        if share >= _MATCHING_SHARE
    ]
    partner: dict[int, int] = {}
    for _, here, there in sorted(shares, key=lambda each: (-each[0], each[1:])):
        if here not in partner and there not in partner.values():
            partner[here] = there
    if len(asking) == len(answering) == 1:
        partner[0] = 0
    return [(stream, answering[partner[here]] if here in partner else None) for here, stream in enumerate(asking)]


def _share_answered(packets: Packets, stream: _Stream, back: _Stream) -> float:
    """The share of the acknowledgements in `back` that name a packet which `stream` had sent by then."""
    numbers, at = np.unique(packets.psn[stream.requests], return_index=True)
    if not len(back.acks):
        return 0.0
    place = np.minimum(np.searchsorted(numbers, packets.psn[back.acks]), len(numbers) - 1)
    named = (numbers[place] == packets.psn[back.acks]) & (stream.requests[at[place]] < back.acks)
    return float(named.mean())


def _flow(packets: Packets, stream: _Stream, back: _Stream | None, called: tuple[str, str, str]) -> RoceFlow:
    """The flow of a stream's requests, called by name, source and destination."""
    nothing = stream.requests[:0]
    sent, acks = stream.requests, nothing if back is None else back.acks
    psn = unwrap(packets.psn[sent], _PSN_BITS)
    lowest = int(psn.min())
    psn = psn - lowest
    numbers, first = np.unique(psn, return_index=True)
    boundaries = np.concatenate([[0], np.cumsum(packets.payload_bytes[sent[first]])])
    begin = boundaries[np.searchsorted(numbers, psn)]
    reached = _acknowledged(packets, acks, int(packets.psn[sent[0]]) + lowest)
    return RoceFlow(
        *called,
        send_ns=packets.time_ns[sent],
        send_order=sent,
        send_start=begin,
        send_end=begin + packets.payload_bytes[sent],
        send_wire_bytes=packets.wire_bytes[sent],
        ack_ns=packets.time_ns[acks],
        ack_order=acks,
        ack_bytes=boundaries[np.searchsorted(numbers, reached)],
        send_psn=psn,
        ack_psn=reached,
        ack_is_nak=packets.syndrome[acks] == SEQUENCE_ERROR,
        cnp_ns=packets.time_ns[nothing if back is None else back.cnps],
        copies=stream.copies,
    )


def _acknowledged(packets: Packets, acks: np.ndarray, origin: int) -> np.ndarray:
    """The first packet not acknowledged after each of `acks`; `origin` is the first packet's number (modulo 2^24).

    An acknowledgement covers its own packet number, a NAK all before it.
    """
    numbers = unwrap(packets.psn[acks], _PSN_BITS)
    if len(acks):
        numbers = numbers + distance(int(packets.psn[acks[0]]), origin, _PSN_BITS)
    refused = np.isin(packets.syndrome[acks] & SYNDROME_KIND, (NAK_SYNDROME, RNR_SYNDROME))
    return np.maximum.accumulate(np.maximum(numbers + ~refused, 0))
