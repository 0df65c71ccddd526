"""The halves of lab tests that run inside the lab: `python -m tests.emulation.inside NAME ARGUMENTS` (JSON).

Each builds a fabric from spec keys, does something on it, and says what it saw; the test judges that on the host.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Callable

from experiments import limits
from experiments.spec import Spec, known, parse
from experiments.stage import staged
from topologies import hosts, live_queues
from topologies.emulate import Fabric
from topologies.namespaces import entered
from topologies.netlink import Netlink
from topologies.qdisc import LOSSLESS_DSCP
from workloads import counters
from workloads.capture import Capture, Point
from workloads.transport import tcp

_PR_SET_TIMERSLACK = 29
_SEND_BUFFER_BYTES = 64 << 20
_IP_UDP_BYTES = 28
_SINK_PORT, _ROCE_PORT = 9, 4791
_QUIET_S = 0.01


@contextmanager
def fabric_of(keys: Mapping[str, Any]) -> Iterator[tuple[Spec, Fabric]]:
    spec = limits.resolve(parse(keys))
    with staged(spec) as stage:
        yield spec, stage.fabric


def queues(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The queues of every port and NIC, as read back and as iproute2's tc tells them."""
    with fabric_of(keys) as (_, fabric):
        ports = {name: [item.as_json() for item in stack] for name, stack in fabric.port_qdiscs().items()}
        nics = {host.name: [item.as_json() for item in fabric.host_qdiscs(host.name)] for host in fabric.hosts}
        tc = {name: _output("tc", "-details", "qdisc", "show", "dev", name) for name in ports}
        tc["h1"] = fabric["h1"].cmd("tc -details qdisc show dev eth0")
        return {"ports": ports, "nics": nics, "tc": tc}


def _output(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def classes(keys: Mapping[str, Any], dscps: Sequence[int]) -> list[dict[str, int]]:
    """How many packets each qdisc of the hot port passed on, per DSCP: ten datagrams each."""
    with fabric_of(keys) as (_, fabric):
        (sending,) = _datagram_sockets(fabric, ["h2"], _QUIET_S)
        seen = []
        for dscp in dscps:
            sending.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
            before = _passed(fabric)
            for _ in range(10):
                sending.send(bytes(100))
            time.sleep(_QUIET_S)
            seen.append({handle: count - before[handle] for handle, count in _passed(fabric).items()})
        return seen


def _passed(fabric: Fabric) -> dict[str, int]:
    return {str(item.as_json()["handle"]): item.statistics["packets"] for item in fabric.port_qdiscs()["leaf1-eth1"]}


def many_queue_pairs(count: int, paced: Sequence[int]) -> list[list[int | None]]:
    """[queue pair number, rate, bytes sent] as h2's NIC tells of `count` queue pairs that have sent a packet each; of
    those in `paced` the rate was set."""
    with fabric_of({"senders": 1, "rate": "100Gbps"}) as (_, fabric):
        receiver, ifindex = fabric["h1"].IP(), fabric["h2"].ifindexes["eth0"]
        with entered(fabric.namespaces["h2"]):
            netlink = Netlink()
            sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, LOSSLESS_DSCP << 2)
        netlink.execute([live_queues.pace(ifindex, receiver, number, 10**9) for number in paced])
        for number in range(1, count + 1):
            sending.sendto(struct.pack("!BBHII", 10, 0, 0xFFFF, number, 0), (receiver, _ROCE_PORT))
        time.sleep(_QUIET_S)
        told = live_queues.read_queue_pairs(netlink, ifindex)
        return [[number, pair.rate_bps, pair.sent_bytes] for (_, number), pair in told.items()]


def bursts(
    keys: Mapping[str, Any], folder: str, sizes: Sequence[int], stagger_ns: int, gap_s: float = 0
) -> dict[str, Any]:
    """Every sender sends h1 one frame of each size (IP bytes, numbered, ECN-capable); `pcap` files go to `folder`.

    Sender h<i> begins (i - 2) x stagger_ns after h2. With `gap_s` a sender waits that long after each frame. Tells
    when each frame was handed over and the hot port's counters.
    """
    with fabric_of(keys) as (spec, fabric):
        quiet_s = _QUIET_S + 4 * spec.rtt_ns / 1e9
        senders = [host.name for host in fabric.hosts[1:]]
        points = [Point(f"{host.name}-eth0", "eth0", tuple(host.enter_command()), 32 << 10) for host in fabric.hosts]
        sockets = _datagram_sockets(fabric, senders, quiet_s)
        lab_folder = Path(tempfile.mkdtemp(dir="/dev/shm"))  # an ordinary user's own folder does not suit tcpdump
        with Capture([Point("leaf1-eth1", "leaf1-eth1", (), 64 << 10), *points], lab_folder) as capture:
            begin_ns = time.time_ns() + 1_000_000
            sent_ns = [
                _send(sending, number, begin_ns + index * stagger_ns, sizes, gap_s)
                for index, (number, sending) in enumerate(zip(range(2, 2 + len(senders)), sockets))
            ]
            time.sleep(quiet_s)
        for file in lab_folder.iterdir():
            shutil.copyfile(file, Path(folder, file.name))
        ports = fabric.port_qdiscs()
        return {
            "sent_ns": sent_ns,
            "losses": capture.losses,
            "hot": [item.as_json() for item in ports["leaf1-eth1"]],
        }


def _send(sending: socket.socket, sender: int, begin_ns: int, sizes: Sequence[int], gap_s: float) -> list[int]:
    _sleep_until(begin_ns)
    times_ns = []
    for number, size in enumerate(sizes):
        payload = struct.pack("!HI", sender, number).ljust(size - _IP_UDP_BYTES, b"\0")
        times_ns.append(time.time_ns())
        sending.send(payload)
        if gap_s:
            time.sleep(gap_s)
    return times_ns


def _sleep_until(deadline_ns: int) -> None:
    while (left_ns := deadline_ns - time.time_ns()) > 0:
        time.sleep(left_ns / 1e9)


def _datagram_sockets(fabric: Fabric, senders: Sequence[str], quiet_s: float) -> list[socket.socket]:
    """One per sender, connected to a sink on h1, ARP and flow tables warm."""
    with entered(fabric.namespaces["h1"]):
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sink.bind(("", _SINK_PORT))
    fabric.test_sink = sink  # it lives as long as the fabric
    sockets = []
    for name in senders:
        with entered(fabric.namespaces[name]):
            sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)  # ECT(0), RFC 3168
        sending.connect((fabric["h1"].IP(), _SINK_PORT))
        sending.send(bytes(8))
        sockets.append(sending)
    time.sleep(quiet_s)
    return sockets


def reach(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Connect every sender to h1 and let each send a little, over links that are up from the first moment on."""
    with fabric_of(keys) as (spec, fabric), ExitStack() as exit_stack:
        hosts.await_carriers(fabric.port_index, deadline_s=0.0)
        for namespace in fabric.namespaces.values():
            with entered(namespace):
                hosts.await_carriers(["eth0"], deadline_s=0.0)
        pairs = [(f"h{number}", "h1") for number in range(2, known(spec.hosts) + 1)]
        connections = exit_stack.enter_context(tcp.connected(fabric, pairs))
        sent = [connection.send(100) for connection in connections]
        time.sleep(_QUIET_S)
        received = [connection.receive() for connection in connections]
        described = [connection.describe() for connection in connections]
        return {
            "sent": sent,
            "received": received,
            "sources": [entry["source"] for entry in described],
            "retransmits": sum(each.get("RetransSegs", 0) for each in counters.read(fabric.namespaces).values()),
        }


def long_flow(keys: Mapping[str, Any], size_bytes: int, window_s: float) -> dict[str, float]:
    """One TCP flow of `size_bytes`; bytes that the hot port sent in the last `window_s` seconds before its end."""
    from workloads import rounds

    with fabric_of(keys) as (spec, fabric), ExitStack() as exit_stack:
        connections = exit_stack.enter_context(tcp.connected(fabric, [("h2", "h1")]))
        samples: list[tuple[int, int]] = []

        class Watched(tcp.TcpConnection):
            """Notes how much has arrived when."""

            def receive(self) -> int:
                count = super().receive()
                samples.append((time.time_ns(), count))
                return count

        connections[0].__class__ = Watched
        done = rounds.run(rounds.Rounds(size_bytes, 1, 0, spec.seed), connections)
        end_ns = done[0].end_ns
        last = [count for at_ns, count in samples if at_ns > end_ns - window_s * 1e9]
        info = connections[0].describe()["tcp_info"]
        return {"last_bytes": sum(last), "seconds": (end_ns - done[0].start_ns) / 1e9, "info": info}  # type: ignore[dict-item]


NAMES: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (queues, classes, many_queue_pairs, bursts, reach, long_flow)
}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(NAMES[sys.argv[1]](**json.loads(sys.argv[2]))))
