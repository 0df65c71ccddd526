"""The half of make.py that runs inside the lab: `python -m tests.golden.inside CASE ARGUMENTS` (JSON).

Each case plays one piece of TCP on a fabric, captures it, and tells what others than the captures saw: the kernels'
counters of both hosts, the filters and queues that dropped, the sockets, and the program itself.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from tests.emulation.inside import fabric_of
from tests.golden.scene import (
    FIRST_NUMBER,
    HEADERS,
    QUIET_S,
    SEGMENT_BYTES,
    Cooked,
    CookedOld,
    Losses,
    Scene,
    blocks,
    delay,
    drained,
    info,
    lab_folder,
    recorded,
    shut,
)
from topologies import hosts
from topologies.emulate import Fabric
from topologies.namespaces import entered
from topologies.netlink import Netlink, Port, link_up, new_veth
from workloads import counters, rounds
from workloads.capture import Capture, Point
from workloads.transport import tcp

_PR_SET_TIMERSLACK = 29
SEGMENT_BYTES_V6 = 1428
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 1, 0x1000
_TUN_DELAY_S = 200e-6
_VLAN = 100


def _transfer(scene: Scene, told: dict[str, Any], pieces: Sequence[tuple[int, float]], size: int) -> None:
    """Send pieces of so many blocks, each followed by so many seconds of nothing, and wait until all have come."""
    sending, receiving = scene.connect()
    sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reading = drained(receiving, sum(count for count, _ in pieces) * size)
    first = 0
    for count, pause_s in pieces:
        scene.note("send", first=first, blocks=count)
        sending.sendall(blocks(first, count, size))
        first += count
        time.sleep(pause_s)
    reading.join()
    scene.note("arrived", bytes=first * size)
    time.sleep(QUIET_S)
    told["tcp_info"] = info(sending, receiving)
    shut(sending, receiving)


# --- cases


def losses(
    keys: Mapping[str, Any],
    folder: str,
    points: Sequence[str],
    pieces: Sequence[tuple[int, float]],
    lost: Mapping[str, int],
) -> dict[str, Any]:
    """Pieces of so many blocks, the blocks of `lost` taken away so many times."""
    told: dict[str, Any] = {}
    with recorded(keys, folder, told, points) as scene:
        with Losses({int(block): times for block, times in lost.items()}, scene.family) as taken:
            _transfer(scene, told, pieces, SEGMENT_BYTES)
        told["taken"] = taken.dropped
    return told


def cooked(keys: Mapping[str, Any], folder: str, old: bool, lost: Mapping[str, int]) -> dict[str, Any]:
    """As `losses`, captured on all interfaces of h2 at once."""
    told: dict[str, Any] = {}
    with recorded(keys, folder, told, ("h2-eth0",), CookedOld if old else Cooked) as scene:
        with Losses({int(block): times for block, times in lost.items()}, scene.family) as taken:
            _transfer(scene, told, [(40, 0.0)], SEGMENT_BYTES)
        told["taken"] = taken.dropped
    return told


def ipv6(keys: Mapping[str, Any], folder: str, points: Sequence[str], lost: Mapping[str, int]) -> dict[str, Any]:
    """As `losses`, over IPv6."""
    told: dict[str, Any] = {}
    with recorded(keys, folder, told, points) as scene:
        scene.family = socket.AF_INET6
        for host, address in zip(("h1", "h2"), scene.addresses[socket.AF_INET6]):
            with entered(scene.fabric.namespaces[host]):
                hosts.apply_sysctls({"all/disable_ipv6": "0", "eth0/disable_ipv6": "0"}, below="net/ipv6/conf")
                words = ["ip", "-6", "address", "add", f"{address}/64", "dev", "eth0", "nodad"]
                subprocess.run(words, check=True)
        time.sleep(1.0)  # until the link-local addresses are settled
        with Losses({int(block): times for block, times in lost.items()}, scene.family) as taken:
            _transfer(scene, told, [(40, 0.0)], SEGMENT_BYTES_V6)
        told["taken"] = taken.dropped
    return told


def vlan(keys: Mapping[str, Any], folder: str, lost: Mapping[str, int]) -> dict[str, Any]:
    """As `losses`; the way between the hosts leads over a cable on which frames carry a VLAN tag, captured there."""
    told: dict[str, Any] = {}
    with fabric_of({"senders": 1, **keys}) as (_, fabric):
        ports = ("trunk0", "trunk1")
        with Netlink() as netlink:
            netlink.execute([new_veth(Port(ports[0], "02:ee:00:00:00:00"), Port(ports[1], "02:ee:00:00:00:01"), 1500)])
            netlink.execute([link_up(socket.if_nametoindex(name)) for name in ports])
        hosts.offloads_off(ports)
        hosts.await_carriers(ports, time.monotonic() + 10)
        for number, name in enumerate(ports, 11):
            words = ["add-port", "leaf1", name, "--", "set", "interface", name, f"ofport_request={number}"]
            fabric.openvswitch.configure(words)
        _tagged(fabric, "leaf1")
        scene = Scene(fabric)
        with lab_folder(folder) as captures, Capture([Point("trunk0", "trunk0")], captures):
            before = counters.read(fabric.namespaces)
            with Losses({int(block): times for block, times in lost.items()}, scene.family) as taken:
                _transfer(scene, told, [(40, 0.0)], SEGMENT_BYTES)
            time.sleep(QUIET_S)
            told["kernel"] = counters.difference(before, counters.read(fabric.namespaces))
        told["taken"], told["script"], told["vlan"] = taken.dropped, scene.script, _VLAN
    return told


def _tagged(fabric: Fabric, bridge: str) -> None:
    """What h2 sends gets a tag on its way to port 11, and loses it at port 12; the same the other way round."""
    tag = f"push_vlan:0x8100,set_field:{_VLAN | 0x1000}->vlan_vid"
    off = "vlan_vid=0x1000/0x1000,actions=pop_vlan"
    ways = (f"2,actions={tag},output:11", f"12,{off},output:1", f"1,actions={tag},output:12", f"11,{off},output:2")
    socket_of = f"unix:{fabric.openvswitch.folder}/{bridge}.mgmt"
    for way in ways:
        words = ["ovs-ofctl", "-O", "OpenFlow15", "add-flow", socket_of, f"priority=9,in_port={way}"]
        subprocess.run(words, check=True)
    fabric.openvswitch.forget_cached_flows()


def late(keys: Mapping[str, Any], folder: str, points: Sequence[str], jump_us: int, overtaken: bool) -> dict[str, Any]:
    """Twenty blocks of which nothing is lost; the second ten take `jump_us` to h1, or, overtaken, the first of them
    does, and what is sent behind it arrives before it."""
    told: dict[str, Any] = {}
    usual_us = 650
    with recorded(keys, folder, told, points) as scene:
        sending, receiving = scene.connect()
        sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reading = drained(receiving, 20 * SEGMENT_BYTES)
        scene.note("send", first=0, blocks=10)
        sending.sendall(blocks(0, 10))
        time.sleep(0.02)
        delay(scene, jump_us)
        if overtaken:
            sending.sendall(blocks(10, 1))
            time.sleep(1e-3)  # it has left its NIC and is on its long way
            delay(scene, usual_us)
        scene.note("send", first=11 if overtaken else 10, blocks=9 if overtaken else 10)
        sending.sendall(blocks(11, 9) if overtaken else blocks(10, 10))
        reading.join()
        scene.note("arrived", bytes=20 * SEGMENT_BYTES)
        time.sleep(1.0)
        told["tcp_info"] = info(sending, receiving)
        shut(sending, receiving)
    return told


def requests(keys: Mapping[str, Any], folder: str, points: Sequence[str], count: int) -> dict[str, Any]:
    """Requests of two small writes each, answered when both have come: Nagle's rule holds the second back until the
    first is acknowledged (RFC 896), and the server delays that (RFC 1122, section 4.2.3.2)."""
    told: dict[str, Any] = {}
    with recorded(keys, folder, told, points) as scene:
        client, server = scene.connect()

        def answer() -> None:
            for _ in range(count):
                _exactly(server, 200)
                server.sendall(bytes(100))

        answering = threading.Thread(target=answer)
        answering.start()
        for number in range(count):
            begin_ns = time.time_ns()
            client.sendall(bytes(100))
            client.sendall(bytes(100))
            _exactly(client, 100)
            scene.note("answered", number=number, begin_ns=begin_ns, took_ns=time.time_ns() - begin_ns)
        answering.join()
        time.sleep(QUIET_S)
        told["tcp_info"] = info(client, server)
        shut(client, server)
    return told


def _exactly(stream: socket.socket, count: int) -> None:
    while count and (data := stream.recv(count)):
        count -= len(data)


def deaf(keys: Mapping[str, Any], folder: str, points: Sequence[str], sleep_s: float) -> dict[str, Any]:
    """A receiver with a small buffer that reads nothing for `sleep_s`, while a hundred blocks want to come."""
    told: dict[str, Any] = {}
    with recorded(keys, folder, told, points) as scene:
        sending, receiving = scene.connect(receive_buffer=32 << 10)
        sender = threading.Thread(target=sending.sendall, args=(blocks(0, 100),))
        scene.note("send", first=0, blocks=100)
        sender.start()
        time.sleep(sleep_s)
        scene.note("read")
        drained(receiving, 100 * SEGMENT_BYTES).join()
        sender.join()
        scene.note("arrived", bytes=100 * SEGMENT_BYTES)
        time.sleep(QUIET_S)
        told["tcp_info"] = info(sending, receiving)
        shut(sending, receiving)
    return told


def incast(keys: Mapping[str, Any], folder: str, size_bytes: int, count: int) -> dict[str, Any]:
    """`count` rounds of `size_bytes` from every sender to h1, captured at all NICs and at the hot port."""
    told: dict[str, Any] = {}
    points = [*(f"h{number}-eth0" for number in range(1, int(keys["senders"]) + 2)), "leaf1-eth1"]
    with recorded(keys, folder, told, points) as scene:
        with tcp.connected(scene.fabric, [(point[:-5], "h1") for point in points[1:-1]]) as connections:
            asked = rounds.Rounds(size_bytes, count, int(keys.get("jitter_ns", 0)), 1)
            done = rounds.run(asked, connections)
            time.sleep(QUIET_S)
            told["flows"] = [connection.describe() for connection in connections]
        told["rounds"] = [
            {"start_ns": each.start_ns, "end_ns": each.end_ns, "spans_ns": each.spans_ns} for each in done
        ]
        told["marked"] = {
            port: sum(item.statistics.get("marked", 0) for item in stack)
            for port, stack in scene.fabric.port_qdiscs().items()
        }
    return told


def tunnel(keys: Mapping[str, Any], folder: str, lost: Mapping[str, int]) -> dict[str, Any]:
    """As `losses`, over a pair of TUN devices, whose packets have no link layer; a thread carries them, and drops."""
    told: dict[str, Any] = {}
    left = {FIRST_NUMBER + int(block): times for block, times in lost.items()}
    dropped: list[int] = []
    with fabric_of({"senders": 1, **keys}) as (_, fabric), ExitStack() as stack:
        ends = [_tun(fabric, host, f"10.9.0.{number}") for number, host in ((1, "h1"), (2, "h2"))]
        for end in ends:
            stack.callback(os.close, end)
        for source, sink in (ends, ends[::-1]):
            threading.Thread(target=_carry, args=(source, sink, left, dropped), daemon=True).start()
        scene = Scene(fabric)
        scene.addresses[socket.AF_INET] = ("10.9.0.1", "10.9.0.2")
        point = Point("h2-tun0", "tun0", tuple(fabric["h2"].enter_command()))
        with lab_folder(folder) as captures, Capture([point], captures):
            before = counters.read(fabric.namespaces)
            _transfer(scene, told, [(40, 0.0)], SEGMENT_BYTES)
            time.sleep(QUIET_S)
            told["kernel"] = counters.difference(before, counters.read(fabric.namespaces))
        told["taken"], told["script"] = {number - FIRST_NUMBER: dropped.count(number) for number in left}, scene.script
    return told


def _tun(fabric: Fabric, host: str, address: str) -> int:
    """A TUN device of a host (Documentation/networking/tuntap.rst): its descriptor."""
    with entered(fabric.namespaces[host]):
        descriptor = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", b"tun0", _IFF_TUN | _IFF_NO_PI))
        for words in (f"address add {address}/24 dev tun0", "link set tun0 mtu 1500 up"):
            subprocess.run(["ip", *words.split()], check=True)
    return descriptor


def _carry(source: int, sink: int, left: dict[int, int], dropped: list[int]) -> None:
    while True:
        try:
            packet = os.read(source, 1 << 16)
            time.sleep(_TUN_DELAY_S)
            at = HEADERS[socket.AF_INET]
            number = struct.unpack_from("!I", packet, at)[0] if len(packet) >= at + 4 else -1
            if left.get(number, 0):
                left[number] -= 1
                dropped.append(number)
                continue
            os.write(sink, packet)
        except OSError:  # the devices are gone: the case is over
            return


_FUNCTIONS = (losses, cooked, ipv6, vlan, late, requests, deaf, incast, tunnel)
NAMES: dict[str, Callable[..., Any]] = {each.__name__: each for each in _FUNCTIONS}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(NAMES[sys.argv[1]](**json.loads(sys.argv[2]))))
    sys.stdout.flush()
    os._exit(0)  # threads that wait for packets of a fabric that is gone
