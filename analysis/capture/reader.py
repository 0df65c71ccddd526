"""Capture files to columns: classic pcap (libpcap's savefile(5), version 2.4), Ethernet, IPv4, TCP, RoCEv2, and the
pause frames of Ethernet.

Record headers are walked once, because each one's place depends on the length of the one before; everything
else is gathered for many records at a time. The headers are read as the structured types below, which are the
wire layouts of IEEE 802.3 (annexes 31B: PAUSE, 31D: priority-based flow control), RFC 791, RFC 9293, RFC 768, and the
InfiniBand specification (volume 1, chapter 9, and annex A17: RoCEv2).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np

from analysis.capture.packets import (
    ACKNOWLEDGE,
    COLUMNS,
    PAUSE,
    PAUSE_CLASSES,
    PFC,
    ROCE_PORT,
    TCP,
    UDP,
    Damage,
    Packets,
    empty_columns,
)
from topologies.units import BadRequest

_FILE_HEADER_BYTES = 24
_RECORD_HEADER_BYTES = 16
_ETHERNET = 1
_LARGEST_RECORD_BYTES = 262_144  # libpcap's MAXIMUM_SNAPLEN: a longer record is damage, not a packet
_CHUNK_RECORDS = 1 << 15  # the windows of one chunk stay in the processor's cache
_MAGICS = {  # first four bytes -> byte order, nanoseconds per unit of the fraction
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_ETHERTYPE_IPV4, _ETHERTYPE_MAC_CONTROL = 0x0800, 0x8808
_ETHERTYPES_VLAN = (0x8100, 0x88A8)
_IPV4 = np.dtype(
    [
        ("version_ihl", "u1"),
        ("tos", "u1"),
        ("total_bytes", ">u2"),
        ("id", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("src_ip", ">u4"),
        ("dst_ip", ">u4"),
    ]
)
_TCP = np.dtype(
    [
        ("sport", ">u2"),
        ("dport", ">u2"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("offset", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)
_UDP_BTH = np.dtype(
    [
        ("sport", ">u2"),
        ("dport", ">u2"),
        ("udp_bytes", ">u2"),
        ("checksum", ">u2"),
        ("opcode", "u1"),
        ("pad", "u1"),
        ("pkey", ">u2"),
        ("qpn", ">u4"),
        ("psn", ">u4"),
    ]
)
_24_BITS = 0xFFFFFF
_ACK_REQUEST = 1 << 31
_ICRC_BYTES = 4
# Bytes between BTH and payload by opcode of a reliable connection (RETH 16, AETH 4, immediate or key 4, AtomicETH 28,
# AtomicAckETH 8), and which opcodes bring an AETH first.
_EXTENSIONS = {
    **{3: 4, 5: 4, 6: 16, 9: 4, 10: 16, 11: 20, 12: 16},
    **{13: 4, 15: 4, 16: 4, ACKNOWLEDGE: 4, 18: 12, 19: 28, 20: 28, 22: 4, 23: 4},
}
_EXTENSION_BYTES = np.array([_EXTENSIONS.get(opcode, 0) for opcode in range(256)], np.int64)
_WITH_AETH = (13, 15, 16, ACKNOWLEDGE, 18)
_HIGHEST_RELIABLE = 23
_MAC_CONTROL = np.dtype([("opcode", ">u2"), ("classes", ">u2"), ("quanta", ">u2", (PAUSE_CLASSES,))])
_TCP_COLUMNS = ("sport", "dport", "seq", "ack", "flags", "window")
_LONGEST_TCP_HEADER_BYTES = 60
_PADDING = bytes(14 + 2 * 4 + 60 + _LONGEST_TCP_HEADER_BYTES)  # a window may reach past the last record
_OPTION_END, _OPTION_NOP, _OPTION_SACK, _OPTION_TIMESTAMPS = 0, 1, 5, 8


class _Layout(NamedTuple):
    """What the file header says: struct byte order and nanoseconds per unit of a record's fraction."""

    order: str
    fraction_ns: int


def read_capture(path: str | os.PathLike[str]) -> Packets:
    """The packets of one pcap file; a record cut off at the end is left out and said in `truncated`.

    Raises BadRequest, naming the file and what was found, when it cannot be read or is no Ethernet pcap.
    """
    data = _contents(Path(path))
    layout = _file_layout(Path(path), data)
    offsets, truncated = _record_offsets(data, layout)
    buffer = np.frombuffer(data + _PADDING, np.uint8)
    starts = range(0, max(len(offsets), 1), _CHUNK_RECORDS)
    chunks = [_decode(buffer, offsets[start : start + _CHUNK_RECORDS], layout) for start in starts]
    columns = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in COLUMNS}
    columns["number"] = np.arange(1, len(columns["time_ns"]) + 1)
    return Packets(**columns, ipv6=(), damage=Damage(truncated=truncated))


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"{path}: cannot be read: {error.strerror}") from error


def _file_layout(path: Path, data: bytes) -> _Layout:
    if not data:
        raise BadRequest(f"{path}: the file is empty; allowed: a pcap capture")
    if data[:4] not in _MAGICS:
        raise BadRequest(f"{path}: begins with {data[:4].hex()}; allowed: a pcap capture (a1b2c3d4 or a1b23c4d)")
    if len(data) < _FILE_HEADER_BYTES:
        raise BadRequest(f"{path}: ends after {len(data)} bytes, inside the pcap file header of {_FILE_HEADER_BYTES}")
    layout = _Layout(*_MAGICS[data[:4]])
    link_type = struct.unpack(layout.order + "I", data[20:24])[0] & 0x0FFFFFFF  # the top bits tell of an FCS
    if link_type != _ETHERNET:
        raise BadRequest(f"{path}: link type {link_type}; allowed: {_ETHERNET} (Ethernet)")
    return layout


def _record_offsets(data: bytes, layout: _Layout) -> tuple[np.ndarray, bool]:
    """Where each whole record begins, and whether the file ends inside one (or a length is impossible)."""
    captured_at: Callable[[bytes, int], tuple[int]] = struct.Struct(layout.order + "I").unpack_from
    offsets: list[int] = []
    offset, last = _FILE_HEADER_BYTES, len(data) - _RECORD_HEADER_BYTES
    while offset <= last:
        captured = captured_at(data, offset + 8)[0]
        if captured > _LARGEST_RECORD_BYTES or offset + captured > last:
            break
        offsets.append(offset)
        offset += _RECORD_HEADER_BYTES + captured
    return np.array(offsets, np.int64), offset != len(data)


def _windows(buffer: np.ndarray, starts: np.ndarray, width: int) -> np.ndarray:
    """A contiguous copy (n, width) of the bytes at `starts`."""
    return np.lib.stride_tricks.sliding_window_view(buffer, width)[starts]


def _decode(buffer: np.ndarray, offsets: np.ndarray, layout: _Layout) -> dict[str, np.ndarray]:
    """The columns of the records at `offsets`."""
    columns = empty_columns(len(offsets))
    record = _windows(buffer, offsets, _RECORD_HEADER_BYTES).view(layout.order + "u4").astype(np.int64)
    columns["time_ns"] = record[:, 0] * 1_000_000_000 + record[:, 1] * layout.fraction_ns
    columns["wire_bytes"] = record[:, 3]
    frame = offsets + _RECORD_HEADER_BYTES
    frame_end = frame + record[:, 2]
    inner, ethertype = _network_layer(buffer, frame)
    controls = np.flatnonzero((ethertype == _ETHERTYPE_MAC_CONTROL) & (inner + _MAC_CONTROL.itemsize <= frame_end))
    _decode_mac_control(buffer, columns, controls, inner[controls])
    rows = np.flatnonzero((ethertype == _ETHERTYPE_IPV4) & (inner + _IPV4.itemsize <= frame_end))
    at, at_bytes = _decode_ipv4(buffer, columns, rows, inner[rows], frame[rows])
    for protocol, header, decode in ((TCP, _TCP, _decode_tcp), (UDP, _UDP_BTH, _decode_roce)):
        which = (columns["protocol"][rows] == protocol) & (at > 0) & (at + header.itemsize <= frame_end[rows])
        decode(buffer, columns, rows[which], at[which], at_bytes[which], frame_end[rows[which]])
    return columns


def _network_layer(buffer: np.ndarray, frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the header within each frame begins behind any VLAN tags (at most two, IEEE 802.1ad), and its ethertype."""
    type_at = frame + 12
    for _ in range(2):
        tagged = np.isin(_ethertypes(buffer, type_at), _ETHERTYPES_VLAN)
        if not tagged.any():
            break
        type_at = type_at + 4 * tagged
    return type_at + 2, _ethertypes(buffer, type_at)


def _ethertypes(buffer: np.ndarray, at: np.ndarray) -> np.ndarray:
    return buffer[at].astype(np.uint16) << 8 | buffer[at + 1]


def _decode_ipv4(
    buffer: np.ndarray, columns: dict[str, np.ndarray], rows: np.ndarray, ip: np.ndarray, frame: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fill the IPv4 columns of `rows`; where each transport header begins (0: none) and the bytes from there to the
    datagram's end."""
    header = _windows(buffer, ip, _IPV4.itemsize).view(_IPV4)[:, 0]
    header_bytes = (header["version_ihl"] & 0x0F).astype(np.int64) * 4
    for name in ("protocol", "src_ip", "dst_ip"):
        columns[name][rows] = header[name]
    columns["ecn"][rows], columns["dscp"][rows] = header["tos"] & 3, header["tos"] >> 2
    # A total length of 0 is what a sender's capture shows for a segment that the NIC will cut up (TSO).
    total_bytes = np.where(header["total_bytes"] > 0, header["total_bytes"], columns["wire_bytes"][rows] - (ip - frame))
    well_formed = (header["version_ihl"] >> 4 == 4) & (header_bytes >= _IPV4.itemsize)
    begins = well_formed & (header["fragment"] & 0x1FFF == 0)
    return np.where(begins, ip + header_bytes, 0), total_bytes - header_bytes


def _decode_mac_control(buffer: np.ndarray, columns: dict[str, np.ndarray], rows: np.ndarray, at: np.ndarray) -> None:
    """Fill the columns of pause frames of `rows`; PAUSE has its one time where PFC has its classes."""
    header = _windows(buffer, at, _MAC_CONTROL.itemsize).view(_MAC_CONTROL)[:, 0]
    known = np.isin(header["opcode"], (PAUSE, PFC))
    rows, header = rows[known], header[known]
    is_pfc = header["opcode"] == PFC
    columns["mac_control"][rows] = header["opcode"]
    columns["pause_classes"][rows] = np.where(is_pfc, header["classes"] & 0xFF, 0xFF)
    columns["pause_quanta"][rows] = np.where(is_pfc[:, None], header["quanta"], header["classes"][:, None])


def _decode_roce(
    buffer: np.ndarray,
    columns: dict[str, np.ndarray],
    rows: np.ndarray,
    udp: np.ndarray,
    udp_bytes: np.ndarray,
    frame_end: np.ndarray,
) -> None:
    """Fill the RoCEv2 columns of those `rows` whose UDP header at `udp` has its port; UDP and BTH were captured
    whole."""
    header = _windows(buffer, udp, _UDP_BTH.itemsize).view(_UDP_BTH)[:, 0]
    is_roce = header["dport"] == ROCE_PORT
    rows, udp, udp_bytes, frame_end, header = (values[is_roce] for values in (rows, udp, udp_bytes, frame_end, header))
    for name in ("sport", "dport", "opcode"):
        columns[name][rows] = header[name]
    columns["qpn"][rows], columns["psn"][rows] = header["qpn"] & _24_BITS, header["psn"] & _24_BITS
    columns["ack_request"][rows] = header["psn"] & _ACK_REQUEST > 0
    overhead = _UDP_BTH.itemsize + _EXTENSION_BYTES[header["opcode"]] + (header["pad"] >> 4 & 3) + _ICRC_BYTES
    carried = np.where(header["opcode"] <= _HIGHEST_RELIABLE, udp_bytes - overhead, 0)
    columns["payload_bytes"][rows] = np.maximum(carried, 0)
    told = np.isin(header["opcode"], _WITH_AETH) & (udp + _UDP_BTH.itemsize < frame_end)
    columns["syndrome"][rows[told]] = buffer[udp[told] + _UDP_BTH.itemsize]


def _decode_tcp(
    buffer: np.ndarray,
    columns: dict[str, np.ndarray],
    rows: np.ndarray,
    tcp: np.ndarray,
    tcp_bytes: np.ndarray,
    frame_end: np.ndarray,
) -> None:
    """Fill the TCP columns of `rows`, whose fixed headers begin at `tcp` and were captured whole."""
    header = _windows(buffer, tcp, _TCP.itemsize).view(_TCP)[:, 0]
    for name in _TCP_COLUMNS:
        columns[name][rows] = header[name]
    header_bytes = (header["offset"] >> 4).astype(np.int64) * 4
    columns["payload_bytes"][rows] = np.maximum(tcp_bytes - header_bytes, 0)
    _decode_options(buffer, columns, rows, tcp + _TCP.itemsize, np.minimum(tcp + header_bytes, frame_end))


def _decode_options(
    buffer: np.ndarray, columns: dict[str, np.ndarray], rows: np.ndarray, at: np.ndarray, end: np.ndarray
) -> None:
    """Walk the TCP options of all `rows` in step: those of each packet lie in [at, end)."""
    while True:
        kind, length = buffer[at], buffer[at + 1].astype(np.int64)
        inside = (at < end) & (kind != _OPTION_END)
        inside &= (kind == _OPTION_NOP) | ((length >= 2) & (at + length <= end))
        if not inside.any():
            return
        rows, at, end, kind, length = (values[inside] for values in (rows, at, end, kind, length))
        _take_timestamps(buffer, columns, rows, at, (kind == _OPTION_TIMESTAMPS) & (length == 10))
        sack = kind == _OPTION_SACK
        columns["sack_blocks"][rows[sack]] = (length[sack] - 2) // 8
        at = at + np.where(kind == _OPTION_NOP, 1, length)


def _take_timestamps(
    buffer: np.ndarray, columns: dict[str, np.ndarray], rows: np.ndarray, at: np.ndarray, which: np.ndarray
) -> None:
    """Fill the timestamp columns of those `rows` whose option at `at` is a timestamps option."""
    values = _windows(buffer, at[which] + 2, 8).view(">u4")
    columns["timestamp_value"][rows[which]] = values[:, 0]
    columns["timestamp_echo"][rows[which]] = values[:, 1]
