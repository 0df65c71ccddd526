"""Soft-RoCE: an RDMA device (rdma_rxe) on the hosts' first interfaces, made by RDMA netlink, and what the kernel tells
of its queue pairs and counters.

Devices are seen by all network namespaces alike unless the kernel is told otherwise, and each would have a shadow in
every namespace: N hosts would have N x N. `isolate` says that a device belongs to one namespace; the kernel takes that
only before there are any. A device is born in the first namespace whatever its interface, and is then moved.

Message and attribute numbers are those of rdma/rdma_netlink.h; see also drivers/infiniband/core/nldev.c and
drivers/infiniband/sw/rxe in Linux.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from topologies.namespaces import entered
from topologies.netlink import NLM_F_DUMP, Netlink, NetlinkError, Request, attribute, attributes, number, text
from topologies.units import BadRequest

HEADER_BYTES = 80  # of IPv4, UDP and the longest RoCE headers with ICRC, as soft-RoCE counts (rdma_user_rxe.h)
MTUS_BYTES = (256, 512, 1024, 2048, 4096)
MOST_UNACKED_PACKETS = 513  # of a queue pair (RXE_MAX_UNACKED_PSNS in rxe_param.h, lab/patches/0011)
_PORT = 1
_ROCE_UDP_PORT = 4791
_FAMILY, _NLDEV = 20, 5 << 10  # NETLINK_RDMA; RDMA_NL_NLDEV as the upper bits of a message type
_INTERFACE = "eth0"
_GET, _SET, _NEWLINK, _DELLINK, _SYS_GET, _SYS_SET, _RES_QP_GET, _STAT_GET = (
    _NLDEV | operation for operation in (1, 2, 3, 4, 6, 7, 10, 17)
)
_DEV_INDEX, _DEV_NAME, _PORT_INDEX, _RES_QP, _LQPN, _RQPN = 1, 2, 3, 19, 21, 22
_NDEV_NAME, _LINK_TYPE, _NETNS_MODE, _NET_NS_FD = 51, 65, 66, 68
_COUNTERS, _COUNTER_NAME, _COUNTER_VALUE = 80, 82, 83
_EXCLUSIVE = b"\0"


class _RdmaNetlink(Netlink):
    """An RDMA netlink socket. Raises BadRequest when the kernel knows no RDMA."""

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _FAMILY)
        except OSError as error:
            raise _unfit("CONFIG_INFINIBAND and CONFIG_RDMA_RXE") from error
        self._socket.bind((0, 0))
        self._sequence = 0


def _unfit(needed: str) -> BadRequest:
    return BadRequest(f"transport: roce needs soft-RoCE; allowed: tcp, or a kernel with {needed}")


def device_name(host: str) -> str:
    """The RDMA device of a host: "rxe-h3"."""
    return f"rxe-{host}"


def largest_mtu_bytes(mtu_bytes: int) -> int:
    """The largest RoCE MTU on a link whose IP MTU is `mtu_bytes`; the least there is where even that does not fit
    (rxe_param.h)."""
    return max((mtu for mtu in MTUS_BYTES if mtu + HEADER_BYTES <= mtu_bytes), default=MTUS_BYTES[0])


def isolate() -> None:
    """Have every RDMA device belong to one network namespace from now on; to be called before there are any. Where it
    is too late, devices stay shared, which works and costs time. Raises BadRequest when the kernel knows no RDMA."""
    with _RdmaNetlink() as netlink:
        try:
            body = attribute(_NETNS_MODE, _EXCLUSIVE)
            netlink.execute([Request(_SYS_SET, 0, body, "give RDMA devices to network namespaces")])
        except NetlinkError as error:
            if error.errno != errno.EBUSY:
                raise


@contextmanager
def attached(namespaces: Mapping[str, int]) -> Iterator[None]:
    """Every host (name -> open descriptor of its namespace) has a soft-RoCE device on its eth0, removed at the
    end. Raises BadRequest when the kernel has no soft-RoCE, or one that is deaf in namespaces."""
    with ExitStack() as stack:
        first = stack.enter_context(_RdmaNetlink())
        is_exclusive = _is_exclusive(first)
        for host, namespace in namespaces.items():
            _add(host, namespace)
            if is_exclusive:
                _move(first, host, namespace)
            stack.callback(_remove, host, namespace)
        yield


def _add(host: str, namespace: int) -> None:
    name = device_name(host)
    body = text(_DEV_NAME, name) + text(_LINK_TYPE, "rxe") + text(_NDEV_NAME, _INTERFACE)
    with entered(namespace), _RdmaNetlink() as netlink:
        try:
            netlink.execute([Request(_NEWLINK, 0, body, f"add RDMA device {name} on {_INTERFACE}")])
        except NetlinkError as error:
            if error.errno == errno.EINVAL:  # it does not know the type of link
                raise _unfit("CONFIG_RDMA_RXE") from error
            raise
        _check_listens()


def _check_listens() -> None:
    """Soft-RoCE of older kernels opens its UDP port in the first namespace alone."""
    with open("/proc/thread-self/net/udp") as table:
        if not any(line.split()[1].endswith(f":{_ROCE_UDP_PORT:04X}") for line in list(table)[1:]):
            raise _unfit("soft-RoCE in network namespaces (Linux 7)")


def _is_exclusive(netlink: Netlink) -> bool:
    (answer,) = netlink.query(Request(_SYS_GET, 0, b"", "ask who sees RDMA devices"))
    return attributes(answer)[_NETNS_MODE] == _EXCLUSIVE


def _move(netlink: Netlink, host: str, namespace: int) -> None:
    """The device of a host into the namespace of its interface."""
    body = number(_DEV_INDEX, _index(netlink, host)) + number(_NET_NS_FD, namespace)
    netlink.execute([Request(_SET, 0, body, f"move RDMA device {device_name(host)}")])


def _remove(host: str, namespace: int) -> None:
    """A device that is gone already, with its interface, is none to remove."""
    with entered(namespace), _RdmaNetlink() as netlink:
        index = _indexes(netlink).get(device_name(host))
        if index is not None:
            netlink.execute([Request(_DELLINK, 0, number(_DEV_INDEX, index), f"remove {device_name(host)}")])


def _indexes(netlink: Netlink) -> dict[str, int]:
    """Name -> index of every RDMA device that the socket's namespace sees."""
    found = map(attributes, netlink.query(Request(_GET, NLM_F_DUMP, b"", "list RDMA devices")))
    return {each[_DEV_NAME].rstrip(b"\0").decode(): _number(each[_DEV_INDEX]) for each in found}


def _number(payload: bytes) -> int:
    return int.from_bytes(payload, "little")


def queue_pairs(host: str, namespace: int) -> dict[int, int]:
    """Own queue pair number -> the peer's, of every connected queue pair of a host, whichever program made it."""
    with entered(namespace), _RdmaNetlink() as netlink:
        body = number(_DEV_INDEX, _index(netlink, host))
        answers = netlink.query(Request(_RES_QP_GET, NLM_F_DUMP, body, f"list queue pairs of {host}"))
        entries = [attributes(entry) for answer in answers for entry in _entries(attributes(answer)[_RES_QP])]
    return {_number(entry[_LQPN]): _number(entry[_RQPN]) for entry in entries if _RQPN in entry}


def counters(host: str, namespace: int) -> dict[str, int]:
    """Counter -> value since the device was made (rxe_hw_counters.c): "sent_pkts", "rcvd_pkts", "out_of_seq_request",
    "duplicate_request", "completer_retry_err", "rcvd_seq_err", "retry_exceeded_err", ..."""
    with entered(namespace), _RdmaNetlink() as netlink:
        body = number(_DEV_INDEX, _index(netlink, host)) + number(_PORT_INDEX, _PORT)
        (answer,) = netlink.query(Request(_STAT_GET, 0, body, f"read RDMA counters of {host}"))
    entries = map(attributes, _entries(attributes(answer)[_COUNTERS]))
    return {each[_COUNTER_NAME].rstrip(b"\0").decode(): _number(each[_COUNTER_VALUE]) for each in entries}


def _index(netlink: Netlink, host: str) -> int:
    name, found = device_name(host), _indexes(netlink)
    if name not in found:
        raise OSError(errno.ENODEV, f"{host} has no RDMA device {name}")
    return found[name]


def _entries(data: bytes) -> Iterable[bytes]:
    """Payloads of a list of attributes of one kind."""
    offset = 0
    while offset + 4 <= len(data):
        (length,) = struct.unpack_from("=H", data, offset)
        yield data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
