"""TCP of the host's kernel: sockets made inside the hosts' namespaces, all driven from one process.

Payload that nobody reads is not copied: it is sent from a sparse memory file (sendfile) and dropped on arrival
(MSG_TRUNC, tcp(7)).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from topologies.emulate import Fabric
from topologies.namespaces import entered
from workloads.patterns import Pair, flow_names

PORT = 5000
FIRST_SOURCE_PORT = 20_000  # fixed, so that equal runs have equal packets
_PAYLOAD_BYTES = 4 << 20
# A receiver wakes for a short rest as a whole: a system call costs more than a packet. Of a long transfer it takes
# pieces that are small against any window: what it has not taken is missing in the window that it offers.
_WHOLE_REST_BYTES, _PIECE_BYTES = 256 << 10, 64 << 10
_HANDSHAKE_LIMIT_S = 300.0  # a SYN is given up after two minutes (tcp_syn_retries)
_SCRATCH = bytearray(4 << 20)
_SO_MAX_PACING_RATE, _U64 = 47, struct.Struct("=Q")  # asm-generic/socket.h; Python has no name for it
_DSCP_SHIFT = 2  # in the TOS byte, above the two bits of ECN, which are TCP's own (RFC 3168)
_TCP_INFO_U32 = {
    "rto_us": 8,
    "snd_mss": 16,
    "lost": 32,
    "rtt_us": 68,
    "rttvar_us": 72,
    "snd_cwnd": 80,
    "reordering": 88,
    "total_retrans": 100,
    "segs_out": 136,
    "segs_in": 140,
    "min_rtt_us": 148,
    "data_segs_in": 152,
    "data_segs_out": 156,
    "delivered": 192,
    "delivered_ce": 196,
}
_TCP_INFO_U64 = {
    "bytes_acked": 120,
    "busy_us": 168,
    "rwnd_limited_us": 176,
    "sndbuf_limited_us": 184,
    "bytes_sent": 200,
    "bytes_retrans": 208,
}


@dataclass(frozen=True)
class Steady:
    """How a flow sends that goes on for long: it takes at most `unsent_bytes` that its window does not let it send yet
    (TCP_NOTSENT_LOWAT, tcp(7)), so that it ends when it should; and no more than `payload_bps` leave it
    (SO_MAX_PACING_RATE, socket(7)), what its NIC can send.

    Without that limit the window of a flow that nothing else slows down grows and grows, and stands in front of the NIC
    (see topologies/qdisc.py): milliseconds pass until such a flow makes room for another. On a host whose NIC accounts
    for its packets TCP limits itself (TSQ).
    """

    unsent_bytes: int
    payload_bps: int


class TcpConnection:
    """An established TCP connection; see `base.DataConnection`."""

    def __init__(
        self, name: str, sender: str, receiver: str, sending: socket.socket, receiving: socket.socket, payload: int
    ) -> None:
        self.name, self.sender, self.receiver = name, sender, receiver
        self._sending, self._receiving, self._payload = sending, receiving, payload
        self._source, self._destination = _end(sending.getsockname()), _end(sending.getpeername())
        self.send_descriptor, self.receive_descriptor = sending.fileno(), receiving.fileno()
        self._wake_bytes = 1

    def send(self, limit_bytes: int) -> int:
        """Hand up to `limit_bytes` of zeros to the kernel; 0 when the send buffer is full."""
        try:
            return os.sendfile(self.send_descriptor, self._payload, 0, limit_bytes)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._dead(error) from error

    def _dead(self, error: OSError) -> ConnectionError:
        return ConnectionError(f"flow {self.sender} to {self.receiver} has died: {error.strerror}")

    def expect(self, remaining_bytes: int) -> None:
        """Set SO_RCVLOWAT (socket(7)) to what is worth waking for."""
        wake_bytes = remaining_bytes if remaining_bytes <= _WHOLE_REST_BYTES else _PIECE_BYTES
        if wake_bytes != self._wake_bytes:
            self._receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_bytes)
            self._wake_bytes = wake_bytes

    def receive(self) -> int:
        """Drop what has arrived and say how much it was."""
        return self._received(_SCRATCH, socket.MSG_TRUNC)

    def put(self, data: memoryview) -> int:
        """Hand bytes to the kernel, which copies them; 0 when the send buffer is full."""
        try:
            return self._sending.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._dead(error) from error

    def take(self, into: memoryview) -> int:
        """Fill `into`, which is not empty, from the receive buffer."""
        return self._received(into)

    def _received(self, into: bytearray | memoryview, flags: int = 0) -> int:
        try:
            count = self._receiving.recv_into(into, 0, flags)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._dead(error) from error
        if count == 0:
            raise ConnectionError(f"{self.sender} closed its connection to {self.receiver}")
        return count

    def describe(self) -> dict[str, object]:
        """End points and the sender's TCP_INFO (linux/tcp.h)."""
        data = self._sending.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256).ljust(256, b"\0")
        info = {name: struct.unpack_from("=I", data, offset)[0] for name, offset in _TCP_INFO_U32.items()}
        info.update({name: struct.unpack_from("=Q", data, offset)[0] for name, offset in _TCP_INFO_U64.items()})
        return {
            "flow": self.name,
            "sender": self.sender,
            "receiver": self.receiver,
            "source": self._source,
            "destination": self._destination,
            "tcp_info": info,
        }

    def close(self) -> None:
        """Close both sockets."""
        self._sending.close()
        self._receiving.close()


def _end(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


@contextmanager
def connected(
    fabric: Fabric,
    pairs: Sequence[Pair],
    on_connected: Callable[[], None] = lambda: None,
    dscp: int = 0,
    steady: Steady | None = None,
) -> Iterator[list[TcpConnection]]:
    """One established connection per (sender, receiver), in order; `on_connected` is called after each handshake.

    Flows are named as `patterns.flow_names` says. All packets of a connection, acknowledgements too, carry `dscp`: the
    class that must not lose data must not lose them either. Without `steady` senders take what their buffers hold and
    send as fast as their windows let them. Raises OSError naming the pair that cannot connect.
    """
    with ExitStack() as stack:
        payload = os.memfd_create("payload")
        stack.callback(os.close, payload)
        os.ftruncate(payload, _PAYLOAD_BYTES)
        receivers = dict.fromkeys(receiver for _, receiver in pairs)
        listeners = {receiver: stack.enter_context(_listener(fabric, receiver, dscp)) for receiver in receivers}
        connections = []
        for index, ((sender, receiver), name) in enumerate(zip(pairs, flow_names(pairs))):
            ends = _handshake(fabric, sender, receiver, listeners[receiver], FIRST_SOURCE_PORT + index, dscp)
            connections.append(TcpConnection(name, sender, receiver, *ends, payload))
            if steady is not None:
                ends[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, steady.unsent_bytes)
                ends[0].setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, _U64.pack(steady.payload_bps // 8))
            stack.callback(connections[-1].close)
            on_connected()
        yield connections


def _socket_of(fabric: Fabric, host: str, dscp: int) -> socket.socket:
    """A socket stays in the namespace it was made in; those that it accepts inherit its DSCP."""
    with entered(fabric.namespaces[host]):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << _DSCP_SHIFT)
    return made


def _listener(fabric: Fabric, host: str, dscp: int) -> socket.socket:
    listener = _socket_of(fabric, host, dscp)
    listener.bind((fabric.nameToNode[host].IP(), PORT))
    listener.listen(1024)
    listener.settimeout(_HANDSHAKE_LIMIT_S)
    return listener


def _handshake(
    fabric: Fabric, sender: str, receiver: str, listener: socket.socket, source_port: int, dscp: int
) -> tuple[socket.socket, socket.socket]:
    """Both sockets of a new connection, not blocking."""
    sending = _socket_of(fabric, sender, dscp)
    sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sending.bind((fabric.nameToNode[sender].IP(), source_port))
    try:
        sending.connect(listener.getsockname())
    except OSError as error:
        sending.close()
        raise OSError(error.errno, f"{sender} cannot connect to {receiver}: {error.strerror}") from error
    try:
        receiving, _ = listener.accept()
    except socket.timeout as error:  # the handshake's last packets were lost: only one end thinks that it stands
        sending.close()
        raise OSError(
            errno.ETIMEDOUT, f"{sender} cannot connect to {receiver}: half of a handshake was lost"
        ) from error
    for end in (sending, receiving):
        end.setblocking(False)
    return sending, receiving
