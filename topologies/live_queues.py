"""Queues at work: held and released, paced, given another marking curve, read again and again, and heard when they
cross a threshold. What they are is described in topologies.qdisc.

Sources: linux/pkt_sched.h, linux/rtnetlink.h, lab/patches/0008 and 0009.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from topologies.netlink import (
    NLM_F_ECHO,
    RTM_GETQDISC,
    RTM_NEWQDISC,
    Netlink,
    Request,
    attributes,
    text,
)
from topologies.profiles import Marking
from topologies.qdisc import (
    LOSSLESS,
    LOSSLESS_RED,
    LOSSY_RED,
    TCA_KIND,
    TCA_STATS2,
    TCM,
    handle_text,
    red_options,
    tc_message,
)
from topologies.qdisc_kinds import (
    STATS_APP,
    STATS_QUEUE,
    TCA_OPTIONS,
    pfc_order,
    red_change,
    rnic_hold,
    rnic_pairs,
    rnic_rate,
)


def hold(ifindex: int, held: bool, is_nic: bool) -> Request:
    """Hold back the lossless class of a NIC or a switch port, or release it."""
    options = rnic_hold(held) if is_nic else pfc_order(held=held)
    return _order(ifindex, LOSSLESS, "rnic" if is_nic else "pfc", options, "hold" if held else "release")


def discard(ifindex: int, on: bool) -> Request:
    """Have a switch port throw away its lossless class, what waits and what comes, or no longer."""
    return _order(ifindex, LOSSLESS, "pfc", pfc_order(discards=on), "discard" if on else "discard no more")


def pace(ifindex: int, destination_ip: str, qpn: int, rate_bps: int | None) -> Request:
    """Set the rate of a NIC's queue pair, known by where its packets go; None: as fast as the line."""
    options = rnic_rate(socket.inet_aton(destination_ip), qpn, rate_bps)
    return _order(ifindex, LOSSLESS, "rnic", options, f"rate of the queue pair to {destination_ip}:{qpn}")


def change_marking(ifindex: int, is_lossless: bool, marking: Marking) -> Request:
    """Give a switch port's marker of one class another curve; what waits stays (a limit would make a new queue)."""
    handle = LOSSLESS_RED if is_lossless else LOSSY_RED
    options = red_change(red_options(marking, buffer_bytes=0))
    return _order(ifindex, handle, "red", options, "marking")


def _order(ifindex: int, handle: int, kind: str, options: bytes, what: str) -> Request:
    body = tc_message(ifindex, handle, 0) + text(TCA_KIND, kind) + options
    return Request(RTM_NEWQDISC, 0, body, f"{what} at {kind} {handle_text(handle)} of interface {ifindex}")


@dataclass(frozen=True)
class Crossing:
    """The count of what came in by a switch port has crossed XOFF upwards (`xoff`), or XON downwards."""

    ifindex: int
    xoff: bool
    ingress_bytes: int


class PfcListener:
    """Hears of every crossing in the current namespace, as it happens (RTNLGRP_PFC, lab/patches/0008)."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _LISTENER_BYTES)
        self._socket.bind((0, 0))  # a socket without a port number is taken for the sender, and skipped
        try:
            self._socket.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, _RTNLGRP_PFC)
        except OSError as error:
            self._socket.close()
            raise OSError(error.errno, f"the kernel tells of no PFC crossings: {error.strerror}") from error
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Readable when there is news."""
        return self._socket.fileno()

    def read(self) -> list[Crossing]:
        """The crossings since the last call, in order; raises OSError (ENOBUFS) when some were missed."""
        found: list[Crossing] = []
        while True:
            try:
                message = self._socket.recv(_CROSSING_BYTES)
            except BlockingIOError:
                return found
            _, ifindex, _, _, xoff = TCM.unpack_from(message, _NETLINK_HEADER_BYTES)
            options = attributes(message[_NETLINK_HEADER_BYTES + TCM.size :])[TCA_OPTIONS]
            found.append(Crossing(ifindex, bool(xoff), struct.unpack("=I", options)[0]))

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()


_SO_RCVBUFFORCE, _SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP = 33, 270, 1
_RTNLGRP_PFC = 40
_LISTENER_BYTES = 16 << 20
_CROSSING_BYTES, _NETLINK_HEADER_BYTES = 256, 16


@dataclass(frozen=True)
class Paced:
    """A queue pair in a NIC's rnic: its rate (None: the line's), what it has sent, and what waits."""

    rate_bps: int | None
    sent_bytes: int
    backlog_bytes: int


def read_queue_pairs(netlink: Netlink, ifindex: int) -> dict[tuple[str, int], Paced]:
    """(destination address, destination queue pair number) -> how it fares, for the queue pairs that have sent; at most
    some hundred, as many as a message holds."""
    request = Request(RTM_GETQDISC, NLM_F_ECHO, tc_message(ifindex, LOSSLESS, 0), f"read rnic of interface {ifindex}")
    found = {}
    for body in netlink.query(request):
        for address, qpn, rate_bytes_ps, sent, waiting in rnic_pairs(attributes(body[TCM.size :])[TCA_OPTIONS]):
            found[socket.inet_ntoa(address), qpn] = Paced(rate_bytes_ps * 8 or None, sent, waiting)
    return found


class Probe:
    """Reads one qdisc again and again with as little work as possible: one prepared request, fixed places in
    the answer."""

    def __init__(self, ifindex: int, handle: int) -> None:
        self._netlink = Netlink()
        self._request = self._netlink.prepare(
            Request(RTM_GETQDISC, NLM_F_ECHO, tc_message(ifindex, handle, 0), f"read qdisc {handle_text(handle)}")
        )
        self._length = 0
        self._queue_at = 0
        self._red_at: int | None = None

    def read(self) -> tuple[int, int, int, int]:
        """Queue in bytes and packets, drops and marks since the qdisc was made."""
        answer = self._netlink.exchange(self._request)
        if len(answer) != self._length:
            self._locate(answer)
        packets, backlog_bytes, drops = _QUEUE.unpack_from(answer, self._queue_at)
        marks = _MARKED.unpack_from(answer, self._red_at)[0] if self._red_at is not None else 0
        return backlog_bytes, packets, drops, marks

    def _locate(self, answer: bytes) -> None:
        """Where gnet_stats_queue and tc_red_xstats lie in an answer of this length."""
        top = _places(answer, 16 + TCM.size, len(answer))
        if TCA_STATS2 not in top:
            raise OSError("the kernel does not tell this qdisc's counters")
        inner = _places(answer, *top[TCA_STATS2])
        self._length, self._queue_at = len(answer), inner[STATS_QUEUE][0]
        is_red = answer[slice(*top[TCA_KIND])].startswith(b"red\0")
        self._red_at = inner[STATS_APP][0] + _RED_MARKED_OFFSET if is_red else None

    def close(self) -> None:
        """Close the netlink socket."""
        self._netlink.close()


_QUEUE, _MARKED = struct.Struct("=III"), struct.Struct("=I")
_RED_MARKED_OFFSET = 12


def _places(data: bytes, begin: int, end: int) -> dict[int, tuple[int, int]]:
    """Attribute number -> where its payload begins and ends."""
    found = {}
    while begin + 4 <= end:
        length, kind = struct.unpack_from("=HH", data, begin)
        found[kind & 0x3FFF] = (begin + 4, begin + length)
        begin += max(4, (length + 3) & ~3)
    return found
