"""Route netlink in as few system calls as possible: messages are packed by hand and sent in batches.

A fabric of 1,024 hosts is some 20,000 messages; a general netlink library spends about a millisecond on each.
Message and attribute numbers are those of linux/netlink.h, linux/rtnetlink.h, linux/if_link.h and linux/veth.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

RTM_NEWLINK, RTM_DELLINK = 16, 17
RTM_NEWADDR = 20
RTM_NEWROUTE = 24
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTFILTER = 44
NLM_F_REQUEST, NLM_F_ACK, NLM_F_ECHO, NLM_F_DUMP = 1, 4, 8, 0x300
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_BATCH_BYTES = 96 * 1024
# The kernel sends no more than 32 KiB at once (af_netlink.c); a larger buffer would be mapped anew for each answer.
_RECEIVE_BYTES = 1 << 16
_NESTED = 0x8000


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded to four bytes (struct nlattr)."""
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def text(kind: int, value: str) -> bytes:
    """An attribute that holds a zero-terminated string."""
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    """An attribute that holds an unsigned 32-bit number."""
    return attribute(kind, struct.pack("=I", value))


def nested(kind: int, *attributes: bytes) -> bytes:
    """An attribute that holds attributes."""
    return attribute(kind | _NESTED, b"".join(attributes))


def attributes(data: bytes) -> dict[int, bytes]:
    """Attribute number -> payload of a packed attribute list (the last of equal numbers wins)."""
    found = {}
    offset = 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


@dataclass(frozen=True)
class Request:
    """One netlink request: message type, flags beyond REQUEST, fixed header and attributes packed, and what it
    does (for the error line)."""

    kind: int
    flags: int
    body: bytes
    says: str


class NetlinkError(OSError):
    """The kernel refused a request; the message says which."""


class Netlink:
    """A netlink socket, by default route netlink's; it stays in the network namespace in which it was made."""

    def __init__(self, protocol: int = socket.NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def execute(self, requests: Iterable[Request]) -> None:
        """Carry out all requests in order, many to a system call; raises NetlinkError at the first refusal,
        naming it."""
        batch: list[Request] = []
        size = 0
        for request in requests:
            batch.append(request)
            size += 16 + len(request.body)
            if size > _BATCH_BYTES:
                self._execute_batch(batch)
                batch, size = [], 0
        if batch:
            self._execute_batch(batch)

    def _execute_batch(self, batch: list[Request]) -> None:
        """Errors always answer; only the last request asks for an acknowledgement, so that its arrival ends the
        wait."""
        first = self._sequence + 1
        self._sequence += len(batch)
        last = len(batch) - 1
        self._socket.sendall(
            b"".join(
                self._pack(request, first + index, NLM_F_ACK if index == last else 0)
                for index, request in enumerate(batch)
            )
        )
        for sequence, kind, payload in self._messages():
            if kind == _NLMSG_ERROR and first <= sequence <= self._sequence:
                self._check(payload, batch[sequence - first])
                if sequence == self._sequence:
                    return

    def query(self, request: Request) -> Iterator[bytes]:
        """Bodies (fixed header and attributes) of the answers to one request, a dump or a single object."""
        self._sequence += 1
        self._socket.sendall(self._pack(request, self._sequence, 0))
        for sequence, kind, payload in self._messages():
            if sequence != self._sequence:
                continue
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                self._check(payload, request)
                return
            yield payload
            if not request.flags & NLM_F_DUMP:
                return

    def prepare(self, request: Request) -> bytes:
        """A request as bytes for `exchange`."""
        return self._pack(request, self._sequence, 0)

    def exchange(self, prepared: bytes) -> bytes:
        """Send prepared bytes and return the next datagram unparsed: for reading one object ten thousand times."""
        self._socket.send(prepared)
        return self._socket.recv(_RECEIVE_BYTES)

    @staticmethod
    def _pack(request: Request, sequence: int, extra_flags: int) -> bytes:
        padded = request.body + bytes(-len(request.body) % 4)
        return (
            _HEADER.pack(16 + len(request.body), request.kind, request.flags | NLM_F_REQUEST | extra_flags, sequence, 0)
            + padded
        )

    def _messages(self) -> Iterator[tuple[int, int, bytes]]:
        while True:
            data = self._socket.recv(_RECEIVE_BYTES)
            offset = 0
            while offset + 16 <= len(data):
                length, kind, _, sequence, _ = _HEADER.unpack_from(data, offset)
                yield sequence, kind, data[offset + 16 : offset + length]
                offset += (length + 3) & ~3

    @staticmethod
    def _check(payload: bytes, request: Request) -> None:
        code = -struct.unpack_from("=i", payload)[0]
        if code:
            raise NetlinkError(code, f"{request.says}: {os.strerror(code)}")


_IFF_UP = 1
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_LINKINFO, _IFLA_NET_NS_FD, _IFLA_GSO_MAX_SEGS = 1, 3, 4, 18, 28, 40
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_LOCAL, _IFA_ADDRESS, _IFA_FLAGS, _IFA_F_NOPREFIXROUTE = 2, 1, 8, 0x200
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_METRICS = 1, 4, 5, 8
_RTAX_LOCK, _RTAX_INITCWND, _RTAX_RTO_MIN, _RTAX_CC_ALGO = 1, 11, 13, 16
_RTNH_F_ONLINK, _SCOPE_UNIVERSE, _SCOPE_LINK = 4, 0, 253


@dataclass(frozen=True)
class Port:
    """One end of a link: interface name, MAC, and the namespace it lives in (an open descriptor; None: the
    current one)."""

    name: str
    mac: str
    namespace: int | None = None


def _link_message(port: Port, mtu_bytes: int, *extra: bytes) -> bytes:
    """struct ifinfomsg and what describes one end (down: a veth cannot go up before it has its peer)."""
    parts = [
        text(_IFLA_IFNAME, port.name),
        number(_IFLA_MTU, mtu_bytes),
        attribute(_IFLA_ADDRESS, bytes.fromhex(port.mac.replace(":", ""))),
    ]
    if port.namespace is not None:
        parts.append(number(_IFLA_NET_NS_FD, port.namespace))
    return struct.pack("=BxHiII", 0, 0, 0, 0, 0) + b"".join(parts) + b"".join(extra)


def new_veth(one: Port, other: Port, mtu_bytes: int) -> Request:
    """A veth pair, both ends down, `one` in the socket's namespace or its own."""
    peer = attribute(_VETH_INFO_PEER, _link_message(other, mtu_bytes))
    info = nested(_IFLA_LINKINFO, text(_IFLA_INFO_KIND, "veth"), nested(_IFLA_INFO_DATA, peer))
    return Request(
        RTM_NEWLINK,
        NLM_F_CREATE | NLM_F_EXCL,
        _link_message(one, mtu_bytes, info),
        f"create link {one.name} - {other.name}",
    )


def link_up(ifindex: int) -> Request:
    """Set one interface up."""
    return Request(
        RTM_NEWLINK, 0, struct.pack("=BxHiII", 0, 0, ifindex, _IFF_UP, _IFF_UP), f"set interface {ifindex} up"
    )


def link_down(ifindex: int) -> Request:
    """Set one interface down: what it queues is lost, and its peer loses the carrier."""
    return Request(RTM_NEWLINK, 0, struct.pack("=BxHiII", 0, 0, ifindex, 0, _IFF_UP), f"set interface {ifindex} down")


def one_segment(ifindex: int) -> Request:
    """Have TCP hand this interface single segments, and no super-packets (tcp_tso_segs in net/ipv4/tcp_output.c)."""
    body = struct.pack("=BxHiII", 0, 0, ifindex, 0, 0) + number(_IFLA_GSO_MAX_SEGS, 1)
    return Request(RTM_NEWLINK, 0, body, f"no super-packets on interface {ifindex}")


def delete_link(ifindex: int) -> Request:
    """Remove one interface (a veth's peer goes with it)."""
    return Request(RTM_DELLINK, 0, struct.pack("=BxHiII", 0, 0, ifindex, 0, 0), f"delete interface {ifindex}")


def new_address(ifindex: int, address: str, prefix_length: int) -> Request:
    """An IPv4 address without the automatic subnet route."""
    packed = socket.inet_aton(address)
    body = struct.pack("=BBBBi", socket.AF_INET, prefix_length, 0, 0, ifindex)
    body += attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed) + number(_IFA_FLAGS, _IFA_F_NOPREFIXROUTE)
    return Request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body, f"add address {address}/{prefix_length}")


@dataclass(frozen=True)
class RouteTcp:
    """What a route says of the TCP connections over it: their RTO minimum (metric rto_min, tcp_rto_min in
    include/net/tcp.h), which is also the most that they delay an acknowledgement (tcp_delack_max in
    net/ipv4/tcp_output.c); the packets that they begin with, and begin again with when they were idle (initcwnd,
    tcp_init_cwnd in net/ipv4/tcp_input.c); and their congestion control (None: the namespace's)."""

    rto_min_ms: int
    initial_window_packets: int
    cc: str | None = None

    def metrics(self) -> list[bytes]:
        """The attributes within RTA_METRICS."""
        return [
            number(_RTAX_LOCK, 1 << _RTAX_RTO_MIN),  # TCP heeds the metric only when it is locked
            number(_RTAX_INITCWND, self.initial_window_packets),
            number(_RTAX_RTO_MIN, self.rto_min_ms),
            *([text(_RTAX_CC_ALGO, self.cc)] if self.cc else []),
        ]


def new_route(ifindex: int, subnet: str, prefix_length: int, tcp: RouteTcp, gateway: str | None = None) -> Request:
    """The route to a subnet, on the link or through a gateway on it."""
    scope, flags = (_SCOPE_UNIVERSE, _RTNH_F_ONLINK) if gateway else (_SCOPE_LINK, 0)
    protocol_boot, table_main, unicast = 3, 254, 1
    body = struct.pack(
        "=BBBBBBBBI", socket.AF_INET, prefix_length, 0, 0, table_main, protocol_boot, scope, unicast, flags
    )
    body += attribute(_RTA_DST, socket.inet_aton(subnet)) + number(_RTA_OIF, ifindex)
    body += attribute(_RTA_GATEWAY, socket.inet_aton(gateway)) if gateway else b""
    body += nested(_RTA_METRICS, *tcp.metrics())
    return Request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body, f"add route {subnet}/{prefix_length}")
