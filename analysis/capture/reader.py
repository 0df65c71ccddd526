"""Capture files to columns: any pcap or pcapng, whole or a piece at a time in bounded memory.

What a file is, and what packs it, is told by its first bytes. Records are found one after the other (pcap, pcapng);
their headers are then read for many at a time: link layer (links), IPv4 and IPv6 (ip), TCP (tcp), UDP and RoCEv2 (udp),
pause frames (mac_control).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.capture import pcap, pcapng
from analysis.capture.addresses import AddressTable
from analysis.capture.frames import Frames, blank
from analysis.capture.ip import Datagrams, ipv4, ipv6
from analysis.capture.links import IPV4, IPV6, MAC_CONTROL, carried
from analysis.capture.mac_control import mac_control
from analysis.capture.packets import COLUMNS, TCP, UDP, Damage, Packets
from analysis.capture.records import Ending, Records
from analysis.capture.source import Source, Window, open_source
from analysis.capture.tcp import tcp
from analysis.capture.udp import udp
from topologies.units import BadRequest

_CHUNK_PACKETS = 1 << 18
_BATCH_RECORDS = 1 << 15  # what is decoded at a time stays in the processor's cache
_KINDS = "pcap (a1b2c3d4 or a1b23c4d) or pcapng (0a0d0d0a), plain or packed by gzip or zstd"


def read_capture(path: str | os.PathLike[str], addresses: AddressTable | None = None) -> Packets:
    """All packets of one capture file, or of standard input for "-"; what is wrong with it is counted in `damage`.

    IPv6 addresses get their numbers from `addresses`, to be shared by files that are joined. Raises BadRequest, naming
    the file and what was found, when it cannot be read or is no capture.
    """
    return _assembled(list(_batches(path, addresses)))


def stream_capture(
    path: str | os.PathLike[str], addresses: AddressTable | None = None, chunk_packets: int = _CHUNK_PACKETS
) -> Iterator[Packets]:
    """The packets of one capture file in pieces of at most `chunk_packets`, at least one piece: numbers run on, and
    `damage` is each piece's own. Otherwise as read_capture; what it raises comes with the first piece."""
    waiting: list[_Batch] = []
    for batch in _batches(path, addresses, chunk_packets):
        if waiting and sum(map(len, waiting)) + len(batch) > chunk_packets:
            yield _assembled(waiting)
            waiting = []
        waiting.append(batch)
    yield _assembled(waiting)


@dataclass(frozen=True, eq=False)
class _Batch:
    """Packets whose headers were read together: the columns that they fill, the file's number of the first, the
    addresses known by then, and what is wrong with them."""

    count: int
    first_number: int
    columns: dict[str, np.ndarray]
    ipv6: tuple[bytes, ...]
    damage: Damage

    def __len__(self) -> int:
        return self.count


def _batches(
    path: str | os.PathLike[str], addresses: AddressTable | None, most: int = _CHUNK_PACKETS
) -> Iterator[_Batch]:
    """Batches of at most `most` packets; the last, perhaps empty, tells how the file ended."""
    table = AddressTable() if addresses is None else addresses
    source = open_source(path)
    try:
        ending, clock, number = Ending(), _Clock(), 1
        for records in _records(source, ending):
            for part in _split(records, min(most, _BATCH_RECORDS)):
                yield _decoded(part, number, table, clock)
                number += len(part)
        damage = Damage(truncated=ending.is_truncated or source.is_cut, garbage_bytes=ending.garbage_bytes)
        yield _Batch(0, number, {}, table.as_it_stands(), damage)
    finally:
        source.close()


def _records(source: Source, ending: Ending) -> Iterator[Records]:
    window = Window(source)
    window.advance()
    magic = bytes(window.data[:4]) if len(window) >= 4 else bytes(window.data[: len(window)])
    if not magic:
        why = "cannot be unpacked" if source.is_cut else "the file is empty"
        raise BadRequest(f"{source.name}: {why}; allowed: {_KINDS}")
    if magic in pcap.MAGICS:
        return pcap.batches(window, ending)
    if magic == pcapng.MAGIC:
        return pcapng.batches(window, ending)
    raise BadRequest(f"{source.name}: begins with {magic.hex()}; allowed: {_KINDS}")


def _split(records: Records, most: int) -> Iterator[Records]:
    if len(records) <= most:
        yield records
        return
    for start in range(0, len(records), most):
        yield records.part(slice(start, start + most))


class _Clock:
    """The time of the packet before, at each interface and in the file, from batch to batch."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._latest_ns = 0

    def filled(self, records: Records) -> np.ndarray:
        """Time stamps; a packet without one has that of the packet before it in the file."""
        times_ns = records.time_ns
        if records.is_untimed is not None:
            told = np.where(records.is_untimed, 0, np.arange(1, len(records) + 1))
            times_ns = np.concatenate([[self._latest_ns], times_ns])[np.maximum.accumulate(told)]
        self._latest_ns = int(times_ns[-1])
        return times_ns

    def backwards(self, times_ns: np.ndarray, interface: np.ndarray) -> int:
        """How many packets are earlier than the one before them at the same interface."""
        if interface.min() == interface.max():
            return self._backwards(times_ns, int(interface[0]))
        return sum(self._backwards(times_ns[interface == each], int(each)) for each in np.unique(interface))

    def _backwards(self, times_ns: np.ndarray, interface: int) -> int:
        before_ns = self._last.get(interface, int(times_ns[0]))
        self._last[interface] = int(times_ns[-1])
        return int(times_ns[0] < before_ns) + int(np.count_nonzero(times_ns[1:] < times_ns[:-1]))


def _decoded(records: Records, number: int, addresses: AddressTable, clock: _Clock) -> _Batch:
    frames = Frames(records.data, records.begin, records.captured, records.wire_bytes)
    foreign = _read_headers(frames, records.link_type, addresses)
    times_ns = clock.filled(records)
    columns = {
        **frames.columns,
        "time_ns": times_ns,
        "wire_bytes": records.wire_bytes,
        "captured_bytes": records.captured.astype(np.uint32),
        "interface": records.interface,
    }
    damage = Damage(
        foreign_link=foreign,
        cut_headers=int(np.count_nonzero(frames.is_cut)),
        empty=int(np.count_nonzero(records.captured == 0)),
        backwards=clock.backwards(times_ns, records.interface),
        untimed=0 if records.is_untimed is None else int(np.count_nonzero(records.is_untimed)),
    )
    return _Batch(len(records), number, columns, addresses.as_it_stands(), damage)


def _read_headers(frames: Frames, link_type: int | np.ndarray, addresses: AddressTable) -> int:
    """Fill the columns from the link layer up; how many frames are of a link type that is not read."""
    found, foreign = carried(frames, link_type)
    for headers, ethertype in found:
        at_ipv4, at_ipv6, at_control = (ethertype == each for each in (IPV4, IPV6, MAC_CONTROL))
        if at_ipv4.any():
            _read_transport(frames, ipv4(frames, headers.keep(at_ipv4)))
        if at_ipv6.any():
            _read_transport(frames, ipv6(frames, headers.keep(at_ipv6), addresses))
        if at_control.any():
            mac_control(frames, headers.keep(at_control))
    return foreign


def _read_transport(frames: Frames, datagrams: Datagrams) -> None:
    for protocol, read in ((TCP, tcp), (UDP, udp)):
        headers, room_bytes = datagrams.of(protocol)
        if len(headers.rows):
            read(frames, headers, room_bytes)


def _assembled(batches: list[_Batch]) -> Packets:
    """Batches as one, each column's parts let go as soon as they are joined."""
    total = sum(map(len, batches))
    columns = {name: _column(name, batches) for name in COLUMNS if name != "number"}
    first = batches[0].first_number
    damage = sum((each.damage for each in batches), Damage())
    numbers = np.arange(first, first + total)
    return Packets(number=numbers, **columns, ipv6=batches[-1].ipv6, damage=damage)


def _column(name: str, batches: list[_Batch]) -> np.ndarray:
    """A column of all batches; where none fills it, memory that nothing has touched takes no room."""
    if not any(name in each.columns for each in batches):
        return blank(name, sum(map(len, batches)))
    parts = [each.columns.pop(name) if name in each.columns else blank(name, len(each)) for each in batches]
    return np.concatenate(parts) if len(parts) > 1 else parts[0]
