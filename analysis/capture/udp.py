"""UDP (RFC 768) and RoCEv2 (InfiniBand specification, volume 1, chapter 9, and annex A17)."""

from __future__ import annotations

import numpy as np

from analysis.capture.frames import Frames, Headers
from analysis.capture.packets import ACKNOWLEDGE, ROCE_PORT

_UDP = np.dtype([("sport", ">u2"), ("dport", ">u2"), ("bytes", ">u2"), ("checksum", ">u2")])
_BTH = np.dtype([("opcode", "u1"), ("pad", "u1"), ("pkey", ">u2"), ("qpn", ">u4"), ("psn", ">u4")])
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
_WITH_AETH = np.isin(np.arange(256), (13, 15, 16, ACKNOWLEDGE, 18))
_HIGHEST_RELIABLE = 23


def udp(frames: Frames, headers: Headers, room_bytes: np.ndarray) -> None:
    """Fill the columns of UDP, of datagrams of `room_bytes` with their headers, and those of RoCEv2.

    A packet to RoCEv2's port whose BTH was not captured keeps no ports: it would pass for one of queue pair 0.
    """
    fits = frames.fits(headers, _UDP.itemsize)
    headers, room_bytes = headers.keep(fits), room_bytes[fits]
    header = frames.read(headers, _UDP)
    is_roce = header["dport"] == ROCE_PORT
    _roce(frames, headers.keep(is_roce), header[is_roce], room_bytes[is_roce])
    plain, header, room_bytes = headers.keep(~is_roce), header[~is_roce], room_bytes[~is_roce]
    _put_ports(frames, plain, header)
    # Of a first fragment the length is that of the whole datagram, of a super-packet it may be 0.
    told = np.where(header["bytes"] > 0, np.minimum(header["bytes"], room_bytes), room_bytes)
    frames.put("payload_bytes", plain, np.maximum(told - _UDP.itemsize, 0))


def _put_ports(frames: Frames, headers: Headers, header: np.ndarray) -> None:
    frames.put("sport", headers, header["sport"])
    frames.put("dport", headers, header["dport"])


def _roce(frames: Frames, headers: Headers, header: np.ndarray, room_bytes: np.ndarray) -> None:
    behind = headers.behind(_UDP.itemsize)
    fits = frames.fits(behind, _BTH.itemsize)
    headers, behind, header, room_bytes = headers.keep(fits), behind.keep(fits), header[fits], room_bytes[fits]
    if not len(header):
        return
    bth = frames.read(behind, _BTH)
    _put_ports(frames, headers, header)
    frames.put("opcode", headers, bth["opcode"])
    frames.put("qpn", headers, bth["qpn"] & _24_BITS)
    frames.put("psn", headers, bth["psn"] & _24_BITS)
    frames.put("ack_request", headers, bth["psn"] & _ACK_REQUEST > 0)
    overhead_bytes = _UDP.itemsize + _BTH.itemsize + _EXTENSION_BYTES[bth["opcode"]] + (bth["pad"] >> 4 & 3)
    carried = np.where(bth["opcode"] <= _HIGHEST_RELIABLE, room_bytes - overhead_bytes - _ICRC_BYTES, 0)
    frames.put("payload_bytes", headers, np.maximum(carried, 0))
    told = frames.whole(behind.behind(_BTH.itemsize).keep(_WITH_AETH[bth["opcode"]]), 1)
    frames.put("syndrome", told, frames.data[told.at])
