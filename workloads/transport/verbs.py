"""The few RDMA verbs that a flow needs, by pyverbs (ibv_post_send(3) and its neighbours): a host's device opened in its
namespace, and one end of a reliable connection. Nothing here waits or polls.

Importing pyverbs takes a tenth of a second: only `roce.connected` does it, when it is called.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from pyverbs import enums
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

Piece = tuple[int, int]  # as in `roce`
Completion = tuple[str, int, int]

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(4 * [ctypes.c_int]))
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000
_STATUS_TEXT = ctypes.CDLL("libibverbs.so.1").ibv_wc_status_str
_STATUS_TEXT.restype = ctypes.c_char_p

_PORT = 1
_ALL = 1 << 20
_GIDS = 16  # a host has a link-local one and one per IPv4 address
_HOP_LIMIT = 64
_BLOCK_BYTES = 64 << 10
_NO_READS = 1  # outstanding reads: none is ever made, and zero is not taken
_RNR_TIMER = 12  # 0.64 ms (IBA 9.7.5.2.8); receives are there before they are needed
_RNR_RETRIES = 7  # without end
_WRITE, _WRITE_WITH_IMM, _SEND = enums.IBV_WR_RDMA_WRITE, enums.IBV_WR_RDMA_WRITE_WITH_IMM, enums.IBV_WR_SEND
_PATH_MTU = {
    256: enums.IBV_MTU_256,
    512: enums.IBV_MTU_512,
    1024: enums.IBV_MTU_1024,
    2048: enums.IBV_MTU_2048,
    4096: enums.IBV_MTU_4096,
}


class Payload:
    """`size_bytes` of addresses that all messages are sent from and written to: one block of memory, mapped again and
    again, which stays in the processor's cache. Nobody reads what arrives: it is the zeros that were there."""

    def __init__(self, size_bytes: int) -> None:
        blocks = -(-size_bytes // _BLOCK_BYTES)
        self.size_bytes = blocks * _BLOCK_BYTES
        file = os.memfd_create("payload")
        try:
            os.ftruncate(file, _BLOCK_BYTES)
            free = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
            self.address = _map(None, self.size_bytes, 0, free, -1)
            for block in range(blocks):
                place, access = self.address + block * _BLOCK_BYTES, mmap.PROT_READ | mmap.PROT_WRITE
                _map(place, _BLOCK_BYTES, access, mmap.MAP_SHARED | _MAP_FIXED, file)
        finally:
            os.close(file)

    def close(self) -> None:
        """Give the addresses back."""
        _LIBC.munmap(self.address, self.size_bytes)


def _map(place: int | None, size_bytes: int, access: int, flags: int, file: int) -> int:
    """mmap(2) at a place, which Python's own cannot choose."""
    address: int = _LIBC.mmap(place, size_bytes, access, flags, file, 0)
    if address == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OSError(code, f"mmap: {os.strerror(code)}")
    return address


class Nic:
    """The RDMA device `name` with address `ip`, open; made in its host's namespace, usable from any. Raises OSError
    when there is none."""

    def __init__(self, name: str, ip: str, payload: Payload) -> None:
        self.ip, self.payload = ip, payload
        with ExitStack() as stack:
            self.context = _opened(name)
            stack.callback(self.context.close)
            self.gid_index = self._find_gid()
            self.domain = PD(self.context)
            self.region = self.registered(payload.address, payload.size_bytes)
            self._cleanup = stack.pop_all()

    def _find_gid(self) -> int:
        for entry in self.context.query_gid_table(_GIDS):
            if entry.gid_str() == _gid(self.ip):
                return int(entry.gid_index)
        raise OSError(f"no GID of {self.ip}")

    def registered(self, address: int, size_bytes: int) -> MR:
        """Memory that the device may read and its peers may write, until the device is closed."""
        access = enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE
        return MR(self.domain, size_bytes, access, address=address)

    def end(self, depth: int, solicited: bool) -> End:
        """One end of a new connection; see `End`."""
        return End(self, depth, solicited)

    def close(self) -> None:
        """Close the device and all that was made of it."""
        self._cleanup.close()


def _channel(context: Context) -> tuple[CompChannel, int]:
    """A completion channel and its descriptor, which pyverbs keeps to itself: a new descriptor is the lowest that is
    free (open(2))."""
    lowest = os.dup(context.cmd_fd)
    os.close(lowest)
    channel = CompChannel(context)
    if "infinibandevent" not in str(Path(f"/proc/self/fd/{lowest}").readlink()):
        raise OSError("another thread opened a file while a completion channel was made")
    return channel, lowest


def _opened(name: str) -> Context:
    try:
        return Context(name=name)
    except PyverbsError as error:
        raise OSError(errno.ENODEV, f"RDMA device {name} cannot be opened: {error}") from error


def _gid(ip: str) -> str:
    """An IPv4 address as a GID: ::ffff:a.b.c.d, all eight groups written out."""
    return "0000:0000:0000:0000:0000:ffff:" + socket.inet_aton(ip).hex(":", 2)


class End:
    """One end of a connection: a queue pair with its completion queue and channel, at most `depth` work requests each
    way."""

    def __init__(self, nic: Nic, depth: int, solicited: bool) -> None:
        """`solicited`: only messages whose sender asks for it make `descriptor` readable (errors do not: soft-RoCE
        deviates from IBA 11.4.2.2 there, and the sender notices them)."""
        self.nic, self._solicited = nic, solicited
        self._channel, self.descriptor = _channel(nic.context)
        self._queue = CQ(nic.context, 2 * depth, None, self._channel, 0)
        asked = QPInitAttr(
            enums.IBV_QPT_RC, scq=self._queue, rcq=self._queue, cap=QPCap(depth, depth, 1, 1), sq_sig_all=0
        )
        self._pair = QP(nic.domain, asked)
        self.number: int = self._pair.qp_num
        self._queue.req_notify(solicited)
        whole = SGE(nic.payload.address, nic.payload.size_bytes, nic.region.lkey)
        self._receive = RecvWR(num_sge=1, sg=[whole])

    def connect(
        self, peer: End, traffic_class: int, mtu_bytes: int, first_psn: int, ack_timeout: int, retries: int
    ) -> None:
        """Ready to send to `peer` with this traffic class (the TOS byte), path MTU and first packet sequence number,
        and to receive from it; it gives up `retries` ACK timeouts of 4.096 us x 2^ack_timeout after the first (IBA
        9.7.6.1.3). Raises OSError when the way there cannot be found."""
        route = GlobalRoute(GID(_gid(peer.nic.ip)), 0, self.nic.gid_index, _HOP_LIMIT, traffic_class)
        asked = QPAttr(port_num=_PORT)
        asked.qp_access_flags = enums.IBV_ACCESS_REMOTE_WRITE
        asked.path_mtu, asked.dest_qp_num = _PATH_MTU[mtu_bytes], peer.number
        asked.rq_psn = asked.sq_psn = first_psn
        asked.max_rd_atomic = asked.max_dest_rd_atomic = _NO_READS
        asked.timeout, asked.retry_cnt = ack_timeout, retries
        asked.min_rnr_timer, asked.rnr_retry = _RNR_TIMER, _RNR_RETRIES
        asked.ah_attr = AHAttr(gr=route, is_global=1, port_num=_PORT)
        try:
            self._pair.to_rts(asked)
        except PyverbsRDMAError as error:
            raise OSError(error.error_code, os.strerror(error.error_code)) from error

    def write(self, peer: End, pieces: Sequence[Piece]) -> None:
        """RDMA WRITEs, in order; those that announce carry the count as immediate data."""
        requests = []
        for size_bytes, announced_bytes in pieces:
            request = self._request(_WRITE_WITH_IMM if announced_bytes else _WRITE, size_bytes, announced_bytes)
            request.set_wr_rdma(peer.nic.region.rkey, peer.nic.payload.address)
            requests.append(request)
        self._post(requests)

    def send(self, pieces: Sequence[Piece]) -> None:
        """SENDs, in order."""
        self._post([self._request(_SEND, size_bytes, announced_bytes) for size_bytes, announced_bytes in pieces])

    def _request(self, opcode: int, size_bytes: int, announced_bytes: int) -> SendWR:
        flags = enums.IBV_SEND_SIGNALED | (enums.IBV_SEND_SOLICITED if announced_bytes else 0)
        buffer = SGE(self.nic.payload.address, size_bytes, self.nic.region.lkey)
        return SendWR(opcode=opcode, num_sge=1, sg=[buffer], send_flags=flags, imm_data=socket.htonl(announced_bytes))

    def _post(self, requests: Sequence[SendWR]) -> None:
        """All in one system call."""
        for request, following in zip(requests, requests[1:]):
            request.next_wr = following
        self._pair.post_send(requests[0])

    def post_receives(self, count: int) -> None:
        """Room for `count` more messages."""
        for _ in range(count):
            self._pair.post_recv(self._receive)

    def rearm(self) -> None:
        """Take the event that made `descriptor` readable and ask for the next; what has completed is to be looked at
        after that."""
        self.forget()
        self.ask()

    def ask(self) -> None:
        """Ask for an event when something completes from now on."""
        self._queue.req_notify(self._solicited)

    def forget(self) -> None:
        """Take the event that made `descriptor` readable."""
        self._channel.get_cq_event(self._queue)
        self._queue.ack_events(1)

    def completed(self) -> list[Completion]:
        """What has completed since the last look, in order."""
        _, found = self._queue.poll(_ALL)
        return [(trouble(each.status), each.byte_len, socket.ntohl(each.imm_data)) for each in found]

    def psns(self) -> tuple[int, int]:
        """Sequence numbers of the next packet that it sends and of the next that it expects."""
        seen, _ = self._pair.query(enums.IBV_QP_SQ_PSN | enums.IBV_QP_RQ_PSN)
        return seen.sq_psn, seen.rq_psn

    def close(self) -> None:
        """End it without a word to the peer, as a queue pair ends."""
        self._pair.close()
        self._queue.close()
        self._channel.close()


def trouble(status: int) -> str:
    """A status in words, as libibverbs has them."""
    if status == enums.IBV_WC_SUCCESS:
        return ""
    text: bytes = _STATUS_TEXT(status)
    return text.decode()
