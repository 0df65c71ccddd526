"""IPv4 (RFC 791) and IPv6 (RFC 8200) with its extension headers: the fields of each, and where what they carry
begins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.capture.addresses import AddressTable
from analysis.capture.frames import Frames, Headers

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
_IPV6 = np.dtype(
    [
        ("version_class_flow", ">u4"),
        ("payload_bytes", ">u2"),
        ("next_header", "u1"),
        ("hop_limit", "u1"),
        ("src_ip", "V16"),
        ("dst_ip", "V16"),
    ]
)
_EXTENSION = np.dtype([("next_header", "u1"), ("length", "u1"), ("fragment", ">u2"), ("rest", "V4")])
_MOST_EXTENSIONS = 32  # a chain made to be long must not take long
_OFFSET_IPV4, _OFFSET_IPV6 = 0x1FFF, 0xFFF8  # where in its datagram a fragment lies
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_WALKED = (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION, 135, 139, 140)


class Datagrams(NamedTuple):
    """What IP carries, unless it is a later fragment: where it begins, its protocol, and its bytes as the IP header
    tells."""

    headers: Headers
    protocol: np.ndarray
    room_bytes: np.ndarray

    def of(self, protocol: int) -> tuple[Headers, np.ndarray]:
        """Headers of one protocol, and their bytes."""
        which = self.protocol == protocol
        return self.headers.keep(which), self.room_bytes if which.all() else self.room_bytes[which]


def ipv4(frames: Frames, headers: Headers) -> Datagrams:
    """Fill the columns of IPv4; a header that is none of it is left alone."""
    headers = frames.whole(headers, _IPV4.itemsize)
    header = frames.read(headers, _IPV4)
    header_bytes = (header["version_ihl"] & 0x0F).astype(np.int64) * 4
    sound = (header["version_ihl"] >> 4 == 4) & (header_bytes >= _IPV4.itemsize)
    if not sound.all():
        headers, header, header_bytes = headers.keep(sound), header[sound], header_bytes[sound]
    is_later = header["fragment"] & _OFFSET_IPV4 > 0
    for name in ("protocol", "ttl", "src_ip", "dst_ip"):
        frames.put(name, headers, header[name])
    frames.put("ip_version", headers, 4)
    frames.put("ip_id", headers, header["id"])
    _put_class(frames, headers, header["tos"])
    _put_later(frames, headers, is_later)
    # A total length of 0 is what a sender's capture shows for a segment that the NIC will cut up (TSO).
    told, on_wire = header["total_bytes"].astype(np.int64), frames.wire_end[headers.rows] - headers.at
    total_bytes = np.where(told > 0, told, on_wire)
    return _carried(headers, total_bytes, header_bytes, header["protocol"], ~is_later)


def _put_class(frames: Frames, headers: Headers, traffic_class: np.ndarray) -> None:
    frames.put("ecn", headers, traffic_class & 3)
    frames.put("dscp", headers, traffic_class >> 2)


def _put_later(frames: Frames, headers: Headers, is_later: np.ndarray) -> None:
    if is_later.any():
        frames.put("is_fragment", headers, is_later)


def _carried(
    headers: Headers, total_bytes: np.ndarray, header_bytes: np.ndarray, protocol: np.ndarray, begins: np.ndarray
) -> Datagrams:
    """What lies behind IP headers, no further than the datagram's own end: a short frame is padded."""
    end = np.minimum(headers.end, headers.at + total_bytes)
    behind = Headers(headers.rows, headers.at + header_bytes, end)
    room_bytes = np.maximum(total_bytes - header_bytes, 0)
    if begins.all():
        return Datagrams(behind, protocol, room_bytes)
    return Datagrams(behind.keep(begins), protocol[begins], room_bytes[begins])


def ipv6(frames: Frames, headers: Headers, addresses: AddressTable) -> Datagrams:
    """Fill the columns of IPv6, its addresses as their places in `addresses`."""
    headers = frames.whole(headers, _IPV6.itemsize)
    header = frames.read(headers, _IPV6)
    sound = header["version_class_flow"] >> 28 == 6
    if not sound.all():
        headers, header = headers.keep(sound), header[sound]
    frames.put("ip_version", headers, 6)
    frames.put("ttl", headers, header["hop_limit"])
    _put_class(frames, headers, header["version_class_flow"] >> 20 & 0xFF)
    for name in ("src_ip", "dst_ip"):
        frames.put(name, headers, addresses.numbers(np.ascontiguousarray(header[name])))
    # A payload length of 0 is that of a jumbogram, or of a segment that the NIC will cut up.
    told, on_wire = header["payload_bytes"].astype(np.int64), frames.wire_end[headers.rows] - headers.at
    total_bytes = np.where(told > 0, told + _IPV6.itemsize, on_wire)
    found = _carried(headers, total_bytes, np.full(len(told), _IPV6.itemsize), header["next_header"], told >= 0)
    protocol, at, is_later = _behind_extensions(frames, found)
    frames.put("protocol", headers, protocol)
    _put_later(frames, headers, is_later)
    behind, room_bytes = found.headers._replace(at=at), found.room_bytes - (at - found.headers.at)
    begins = ~is_later
    return Datagrams(behind.keep(begins), protocol[begins], np.maximum(room_bytes[begins], 0))


def _behind_extensions(frames: Frames, found: Datagrams) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Walk the extension headers of all datagrams in step: the protocol behind them (0 where they were not captured
    whole, or are too many), where that begins, and which are later fragments, whose chain ends with that."""
    rows, at, end = found.headers.rows, found.headers.at.copy(), found.headers.end
    protocol, is_later = found.protocol.copy(), np.zeros(len(rows), np.bool_)
    walked = np.flatnonzero(np.isin(protocol, _WALKED))
    for _ in range(_MOST_EXTENSIONS):
        if not len(walked):
            break
        here = Headers(rows[walked], at[walked], end[walked])
        fits = frames.fits(here, _EXTENSION.itemsize)
        protocol[walked[~fits]] = 0
        walked, extension = walked[fits], frames.read(here.keep(fits), _EXTENSION)
        kind, length = protocol[walked], extension["length"].astype(np.int64)
        is_later[walked] = (kind == _FRAGMENT) & (extension["fragment"] & _OFFSET_IPV6 > 0)
        protocol[walked] = extension["next_header"]
        at[walked] += np.select([kind == _FRAGMENT, kind == _AUTHENTICATION], [8, 4 * (length + 2)], 8 * (length + 1))
        walked = walked[np.isin(protocol[walked], _WALKED) & ~is_later[walked]]
    protocol[walked] = 0
    return protocol, at, is_later
