"""How exact the fabric is, measured inside the lab: rates, delays and buffers against what was configured.

`python -m experiments.accuracy` in the lab prints one JSON document. Packets are UDP datagrams that fill a
frame; times are those that the kernel stamps on them at packet taps.
"""

from __future__ import annotations

import ctypes
import json
import socket
import struct
import sys
import time
from typing import Any

from mininet.topo import Topo

from topologies import live_queues, qdisc
from topologies.emulate import Fabric, emulate
from topologies.namespaces import entered
from topologies.profiles import HostProfile, LinkProfile, SwitchProfile
from topologies.star import Star

RATES_BPS = (10_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000, 400_000_000_000)
DELAYS_NS = (500, 1_000, 75_000_000)
BUFFERS_BYTES = (32_000, 64_000, 256_000, 600_000)
_HOST = HostProfile("cubic", 200_000_000)
_MTU_BYTES = 1500
_PAYLOAD = bytes(_MTU_BYTES - 28)
_PORT = 7000
_ETH_P_ALL = 3
_SO_TIMESTAMPNS, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 35, 32, 33
_BUFFER_BYTES = 256 << 20
_FRAMES = 400
_WARM_UP_S = 1.0
_SLOW_BPS = 8_000_000  # a burst at 400 Gb/s has arrived before this drains a frame


class Funnel(Topo):
    """h2 with a fast link to leaf1, h1 with a slow one: a burst of h2 fills the buffer of leaf1-eth1."""

    def build(self, fast: LinkProfile | None = None, slow: LinkProfile | None = None, switch: Any = None) -> None:
        """Two hosts, one switch."""
        leaf = self.addSwitch("leaf1", dpid="1", profile=switch)
        for name, link, port in (("h1", slow, 1), ("h2", fast, 2)):
            self.addLink(self.addHost(name), leaf, port1=0, port2=port, profile=link)


def measure_rate(rate_bps: int) -> float:
    """Bits per second of frames leaving an access port that is offered more, from the times of full frames at
    the receiver."""
    link, switch = LinkProfile(rate_bps, 1_000, _MTU_BYTES), SwitchProfile(500, 100_000_000)
    with emulate(Star(hosts=3, link=link, switch=switch), _HOST) as fabric:
        stamps = _arrivals_ns(fabric, senders=("h2", "h3"), frames=_FRAMES)
    return (len(stamps) - 1) * link.frame_bytes * 8e9 / (stamps[-1] - stamps[0])


def measure_delay_error_ns(delay_ns: int) -> int:
    """Measured minus configured time of one frame from its sender to the receiver of a star: two links and the
    switch."""
    link, switch = LinkProfile(400_000_000_000, delay_ns, _MTU_BYTES), SwitchProfile(500, 600_000)
    with emulate(Star(hosts=2, link=link, switch=switch), _HOST) as fabric:
        _warm_up(fabric, ("h2",))
        with _tap(fabric, "h1") as tap, _datagram_socket(fabric, "h2") as sender:
            sent_ns = time.time_ns()
            sender.sendto(_PAYLOAD, (fabric.nameToNode["h1"].IP(), _PORT))
            (arrived_ns,) = _stamps_ns(tap, 1)
    return arrived_ns - sent_ns - (2 * delay_ns + 500)


def measure_buffer(buffer_bytes: int) -> tuple[int, int]:
    """Frame bytes queued at an idle port by an endless burst when the first frame is dropped, and the size of a
    frame."""
    fast = LinkProfile(400_000_000_000, 1_000, _MTU_BYTES)
    slow = LinkProfile(_SLOW_BPS, 1_000, _MTU_BYTES)
    with emulate(Funnel(fast=fast, slow=slow, switch=SwitchProfile(500, buffer_bytes)), _HOST) as fabric:
        _warm_up(fabric, ("h2",))
        with _datagram_socket(fabric, "h2") as sender:
            for _ in range(buffer_bytes // fast.frame_bytes + 20):
                sender.sendto(_PAYLOAD, (fabric.nameToNode["h1"].IP(), _PORT))
            time.sleep(100e-6)
        probe = live_queues.Probe(fabric.port_index["leaf1-eth1"], qdisc.LOSSY)
        queued_bytes, _, drops, _ = probe.read()
        probe.close()
    if not drops:
        raise RuntimeError(f"a burst of more than {buffer_bytes} bytes dropped nothing")
    return queued_bytes, fast.frame_bytes


def _arrivals_ns(fabric: Fabric, senders: tuple[str, ...], frames: int) -> list[int]:
    """Arrival times at h1 of the full frames that `senders` send as fast as they can, after a first few that
    fill the queue."""
    _warm_up(fabric, senders)
    with _tap(fabric, "h1") as tap:
        for name in senders:
            with _datagram_socket(fabric, name) as sender:
                for _ in range(frames // len(senders)):
                    sender.sendto(_PAYLOAD, (fabric.nameToNode["h1"].IP(), _PORT))
        return _stamps_ns(tap, frames)[frames // 10 :]


def _warm_up(fabric: Fabric, senders: tuple[str, ...]) -> None:
    """One datagram from each sender: addresses are resolved and the switch has learned its flows."""
    for name in senders:
        with _datagram_socket(fabric, name) as sender:
            sender.sendto(b"", (fabric.nameToNode["h1"].IP(), _PORT))
            time.sleep(_WARM_UP_S)


def _datagram_socket(fabric: Fabric, host: str) -> socket.socket:
    with entered(fabric.namespaces[host]):
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
    return found


def _tap(fabric: Fabric, host: str) -> socket.socket:
    """A packet tap on the host's eth0 whose packets carry the kernel's time stamps."""
    with entered(fabric.namespaces[host]):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        tap.bind(("eth0", _ETH_P_ALL))
    tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return tap


def _stamps_ns(tap: socket.socket, frames: int) -> list[int]:
    """Times of the next `frames` full incoming frames."""
    stamps: list[int] = []
    while len(stamps) < frames:
        data, ancillary, _, address = tap.recvmsg(_MTU_BYTES + 14, 64)
        if len(data) == _MTU_BYTES + 14 and address[2] != socket.PACKET_OUTGOING:
            seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
            stamps.append(seconds * 10**9 + nanoseconds)
    return stamps


def main() -> int:
    """Print all measurements as one JSON document."""
    ctypes.CDLL(None).prctl(29, 1)  # PR_SET_TIMERSLACK
    document = {
        "rates_bps": {str(rate): measure_rate(rate) for rate in RATES_BPS},
        "delay_errors_ns": {str(delay): measure_delay_error_ns(delay) for delay in DELAYS_NS},
        "buffers_bytes": {str(buffer): measure_buffer(buffer) for buffer in BUFFERS_BYTES},
    }
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
