"""TCP of the host's kernel: sockets made inside the hosts' namespaces, all driven from one process.

Payload that nobody reads is not copied: it is sent from a sparse memory file (sendfile) and dropped on arrival
(MSG_TRUNC, tcp(7)).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from topologies.emulate import Fabric
from topologies.namespaces import entered

PORT = 5000
FIRST_SOURCE_PORT = 20_000  # fixed, so that equal runs have equal packets
_PAYLOAD_BYTES = 4 << 20
# A receiver wakes for a short rest as a whole: a system call costs more than a packet. Of a long transfer it takes
# pieces that are small against any window: what it has not taken is missing in the window that it offers.
_WHOLE_REST_BYTES, _PIECE_BYTES = 256 << 10, 64 << 10
_SCRATCH = bytearray(4 << 20)
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


class TcpConnection:
    """An established TCP connection; see `base.Connection`."""

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
        try:
            count = self._receiving.recv_into(_SCRATCH, 0, socket.MSG_TRUNC)
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
    fabric: Fabric, pairs: Sequence[tuple[str, str]], on_connected: Callable[[], None] = lambda: None
) -> Iterator[list[TcpConnection]]:
    """One established connection per (sender, receiver), in order; `on_connected` is called after each handshake.

    A flow is named by its sender where all go to one receiver, else by both ends. Raises OSError naming the pair that
    cannot connect.
    """
    with ExitStack() as stack:
        payload = os.memfd_create("payload")
        stack.callback(os.close, payload)
        os.ftruncate(payload, _PAYLOAD_BYTES)
        receivers = dict.fromkeys(receiver for _, receiver in pairs)
        listeners = {receiver: stack.enter_context(_listener(fabric, receiver)) for receiver in receivers}
        connections = []
        for index, (sender, receiver) in enumerate(pairs):
            name = sender if len(receivers) == 1 else f"{sender}>{receiver}"
            ends = _handshake(fabric, sender, receiver, listeners[receiver], FIRST_SOURCE_PORT + index)
            connections.append(TcpConnection(name, sender, receiver, *ends, payload))
            stack.callback(connections[-1].close)
            on_connected()
        yield connections


def _socket_of(fabric: Fabric, host: str) -> socket.socket:
    """A socket stays in the namespace it was made in."""
    with entered(fabric.namespaces[host]):
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def _listener(fabric: Fabric, host: str) -> socket.socket:
    listener = _socket_of(fabric, host)
    listener.bind((fabric.nameToNode[host].IP(), PORT))
    listener.listen(1024)
    return listener


def _handshake(
    fabric: Fabric, sender: str, receiver: str, listener: socket.socket, source_port: int
) -> tuple[socket.socket, socket.socket]:
    """Both sockets of a new connection, not blocking."""
    sending = _socket_of(fabric, sender)
    sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sending.bind((fabric.nameToNode[sender].IP(), source_port))
    try:
        sending.connect(listener.getsockname())
    except OSError as error:
        sending.close()
        raise OSError(error.errno, f"{sender} cannot connect to {receiver}: {error.strerror}") from error
    receiving, _ = listener.accept()
    for end in (sending, receiving):
        end.setblocking(False)
    return sending, receiving
