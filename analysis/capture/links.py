"""Link layers: what each frame carries, and where that begins.

Ethernet with VLAN tags (IEEE 802.3, 802.1Q), Linux "cooked" captures of both versions, raw IP, and BSD's null and
loopback headers, by the numbers of https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

from typing import Callable

import numpy as np

from analysis.capture.frames import Frames, Headers

IPV4, IPV6, MAC_CONTROL = 0x0800, 0x86DD, 0x8808  # ethertypes
_TAGS = (0x8100, 0x88A8, 0x9100)  # of VLANs: IEEE 802.1Q, 802.1ad, and what was used before that
_MOST_TAGS = 8  # frames made of nothing but tags must not take long
_WORD = np.dtype(">u4")
_ETHERNET = np.dtype([("dst_mac", "V6"), ("src_high", ">u2"), ("src_low", ">u4"), ("ethertype", ">u2")])
_COOKED = np.dtype(
    [
        ("kind", ">u2"),
        ("hardware", ">u2"),
        ("address_bytes", ">u2"),
        ("src_high", ">u2"),
        ("src_low", ">u4"),
        ("padding", ">u2"),
        ("ethertype", ">u2"),
    ]
)
_COOKED_2 = np.dtype(
    [
        ("ethertype", ">u2"),
        ("reserved", ">u2"),
        ("device", ">u4"),
        ("hardware", ">u2"),
        ("kind", "u1"),
        ("address_bytes", "u1"),
        ("src_high", ">u2"),
        ("src_low", ">u4"),
        ("padding", ">u2"),
    ]
)
_MAC_BYTES = 6
_NULL_IPV4, _NULL_IPV6 = (2,), (10, 23, 24, 28, 30)  # AF_INET6 of Linux, Windows, and three kinds of BSD

Carried = tuple[Headers, np.ndarray]


def carried(frames: Frames, link_type: int | np.ndarray) -> tuple[list[Carried], int]:
    """What the frames carry, by link type: headers, each with its ethertype; and how many frames are of a link type
    that is not read."""
    if not isinstance(link_type, np.ndarray):
        return _carried(frames, frames.all(), link_type)
    found, foreign = [], 0
    for each in np.unique(link_type):
        carried_here, foreign_here = _carried(frames, frames.all().keep(link_type == each), int(each))
        found += carried_here
        foreign += foreign_here
    return found, foreign


def _carried(frames: Frames, headers: Headers, link_type: int) -> tuple[list[Carried], int]:
    headers = headers.keep(headers.end > headers.at)  # an empty record is told of by itself
    read = _READERS.get(link_type)
    return ([], len(headers.rows)) if read is None else ([read(frames, headers)], 0)


def _ethernet(frames: Frames, headers: Headers) -> Carried:
    headers = frames.whole(headers, _ETHERNET.itemsize)
    header = frames.read(headers, _ETHERNET)
    frames.put("src_mac", headers, _mac(header))
    return _untagged(frames, headers.behind(_ETHERNET.itemsize), header["ethertype"])


def _cooked(frames: Frames, headers: Headers) -> Carried:
    return _any_cooked(frames, headers, _COOKED)


def _cooked_2(frames: Frames, headers: Headers) -> Carried:
    return _any_cooked(frames, headers, _COOKED_2)


def _any_cooked(frames: Frames, headers: Headers, layout: np.dtype) -> Carried:
    headers = frames.whole(headers, layout.itemsize)
    header = frames.read(headers, layout)
    frames.put("src_mac", headers, np.where(header["address_bytes"] == _MAC_BYTES, _mac(header), 0))
    return _untagged(frames, headers.behind(layout.itemsize), header["ethertype"])


def _mac(header: np.ndarray) -> np.ndarray:
    return header["src_high"].astype(np.int64) << 32 | header["src_low"]


def _untagged(frames: Frames, headers: Headers, ethertype: np.ndarray) -> Carried:
    """Behind several VLAN tags; the inner-most one's number is noted."""
    for _ in range(_MOST_TAGS):
        is_tagged = np.isin(ethertype, _TAGS)
        if not is_tagged.any():
            break
        tags = frames.whole(headers.keep(is_tagged), 4)
        tag = frames.read(tags, _WORD)
        frames.put("vlan", tags, tag >> 16 & 0x0FFF)
        still = ~is_tagged
        others, types = headers.keep(still), ethertype[still]
        headers, ethertype = _merged(others, types, tags.behind(4), (tag & 0xFFFF).astype(np.uint16))
    return headers, ethertype


def _merged(one: Headers, types: np.ndarray, other: Headers, other_types: np.ndarray) -> Carried:
    rows = np.concatenate([one.rows, other.rows])
    order = np.argsort(rows, kind="stable")
    at, end, ethertype = (
        np.concatenate(each)[order] for each in ((one.at, other.at), (one.end, other.end), (types, other_types))
    )
    return Headers(rows[order], at, end), ethertype


def _raw_ip(frames: Frames, headers: Headers) -> Carried:
    version = frames.data[headers.at] >> 4
    return headers, np.select([version == 4, version == 6], [IPV4, IPV6], 0)


def _null(frames: Frames, headers: Headers) -> Carried:
    """The address family is in the byte order of the machine that captured, which is not told."""
    headers = frames.whole(headers, 4)
    family = frames.read(headers, _WORD)
    family = np.where(family > 0xFFFF, family.byteswap(), family)
    kinds = [np.isin(family, _NULL_IPV4), np.isin(family, _NULL_IPV6)]
    return headers.behind(4), np.select(kinds, [IPV4, IPV6], 0)


_READERS: dict[int, Callable[[Frames, Headers], Carried]] = {
    0: _null,
    1: _ethernet,
    108: _null,
    113: _cooked,
    276: _cooked_2,
    **dict.fromkeys((12, 14, 101, 228, 229), _raw_ip),
}
