"""The halves of the control loop's tests that run inside the lab: `python -m tests.emulation.control_inside NAME
ARGUMENTS`.

Each builds a fabric with its controller, does something on it, and says what it saw; captures go to a folder.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mininet.topo import Topo

from controller.agents import Agents
from controller.commands import Mark, Pause, Switches
from controller.policy import CONTROLLER, ECMP, UP_DOWN, Orders, Policy
from controller.process import Controller
from controller.queue_watch import QueueWatch, watched_ports
from topologies import qdisc
from topologies.describe import FabricDescription, describe
from topologies.dumbbell import Dumbbell
from topologies.emulate import Fabric, emulate
from topologies.fat_tree import FatTree
from topologies.leaf_spine import LeafSpine
from topologies.namespaces import entered
from topologies.profiles import HostProfile, LinkProfile, Marking, SwitchProfile
from topologies.ring import Ring
from workloads.capture import Capture, Point

_PR_SET_TIMERSLACK = 29
_HOST = HostProfile(cc="reno", rto_min_ns=1_000_000)
_LINK, _UPLINK = LinkProfile(10_000_000_000, 1_000, 1500), LinkProfile(40_000_000_000, 1_000, 1500)
_SWITCH = SwitchProfile(delay_ns=500, buffer_bytes=1_000_000)
FABRICS: dict[str, Callable[..., Topo]] = {
    "dumbbell": partial(Dumbbell, hosts=4),
    "leaf_spine": partial(LeafSpine, leaves=2, spines=2, hosts_per_leaf=2),
    "fat_tree": partial(FatTree, k=4),
    "ring": partial(Ring, switches=5),
}
_PORT, _INTERVAL_NS = 7000, 10_000
_LEAD_NS, _DRAIN_S = 1_000_000, 0.005


class _Staged:
    """A running fabric and its controller."""

    def __init__(self, description: FabricDescription, controller: Controller, fabric: Fabric) -> None:
        self.description, self.controller, self.fabric = description, controller, fabric

    @property
    def control(self) -> Path:
        """The control socket of the switches."""
        return self.fabric.openvswitch.folder / "ovs-vswitchd.ctl"

    def host_socket(self, stack: ExitStack, host: str, tos: int = 0) -> socket.socket:
        """A UDP socket on a host whose datagrams carry this type of service; receivers have it at _PORT."""
        with entered(self.fabric.namespaces[host]):
            made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        return made

    def address(self, host: str) -> tuple[str, int]:
        return next(each.ip for each in self.description.hosts if each.name == host), _PORT


@contextmanager
def staged(name: str, policy: Policy, openflow: str = "1.5", switch: SwitchProfile = _SWITCH) -> Iterator[_Staged]:
    """One of FABRICS, ready."""
    topo = FABRICS[name](link=_LINK, uplink=_UPLINK, switch=switch)
    description = describe(topo)
    with ExitStack() as stack:
        controller = stack.enter_context(Controller(Orders(description, policy), openflow))
        fabric = stack.enter_context(emulate(topo, _HOST, openflow_controller=controller.target))
        assert controller.wait_for("discovered")["wrong_links"] == []
        yield _Staged(description, controller, fabric)


@contextmanager
def _captured(folder: str, *points: Point) -> Iterator[None]:
    """tcpdump at each point, its files in `folder` afterwards."""
    here = Path(tempfile.mkdtemp(dir="/dev/shm"))
    with Capture(points, here):
        yield
    for file in here.iterdir():
        shutil.copyfile(file, Path(folder, file.name))


def _host_point(where: _Staged, host: str) -> Point:
    return Point(host, "eth0", tuple(where.fabric.nameToNode[host].enter_command()))


def _told(where: _Staged, *events: str) -> list[dict[str, Any]]:
    where.controller.news()
    return [each for each in where.controller.events if each["event"] in events]


def _sleep_until(time_ns: int) -> None:
    time.sleep(max(0, time_ns - time.time_ns()) / 1e9)


# --- marks that are ordered


def marks(
    fabric: str, pair: Sequence[str], ports: Sequence[tuple[str, int]], on: int, off: int, count: int, folder: str,
    openflow: str = "1.5",
) -> dict[str, Any]:  # fmt: skip
    """Every 10 us a datagram that is not ECT, one of ECT(1) and one of ECT(0), numbered, from one host to another;
    just after number `on` was sent `ports` are to mark, just after number `off` they are not. A capture at the receiver
    goes to `folder`."""
    sender, receiver = pair
    policy = Policy(routing=UP_DOWN if fabric == "ring" else ECMP, marking=CONTROLLER)
    with staged(fabric, policy, openflow) as where, ExitStack() as stack:
        sink = where.host_socket(stack, receiver)
        sink.bind(where.address(receiver))
        sending = [where.host_socket(stack, sender, tos) for tos in (0, 1, 2)]
        orders = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        orders.connect(str(where.controller.commands))
        orders.send(Switches(str(where.control)).encode())
        for each in sending:
            each.sendto(b"warm", where.address(receiver))
        time.sleep(_DRAIN_S)
        with _captured(folder, _host_point(where, receiver)):
            begin_ns = time.time_ns() + _LEAD_NS
            for number in range(count):
                _sleep_until(begin_ns + number * _INTERVAL_NS)
                for each in sending:
                    each.sendto(number.to_bytes(4, "big"), where.address(receiver))
                if number in (on, off):
                    for switch, port in ports:
                        orders.send(Mark(switch, port, number == on).encode())
            time.sleep(_DRAIN_S)
        return {"begin_ns": begin_ns, "told": _told(where, "marking", "error")}


# --- pauses that are ordered


def pauses(quanta: Sequence[int], folder: str, openflow: str = "1.5") -> dict[str, Any]:
    """Pause frames by the controller, 100 us apart, out of the port of leaf1 to h1 and out of its first uplink;
    captures of both other ends go to `folder`."""
    with staged("leaf_spine", Policy(), openflow) as where, ExitStack() as stack:
        orders = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        orders.connect(str(where.controller.commands))
        sent: list[int] = []
        with _captured(folder, _host_point(where, "h1"), Point("spine1-eth1", "spine1-eth1")):
            for each in quanta:
                sent.append(time.time_ns())
                for port in (1, 3):
                    orders.send(Pause("leaf1", port, each).encode())
                time.sleep(100e-6)
            time.sleep(_DRAIN_S)
        macs = {name: where.fabric.nameToNode["leaf1"].nameToIntf[name].mac for name in ("leaf1-eth1", "leaf1-eth3")}
        return {"sent": sent, "macs": macs, "told": _told(where, "paused", "error")}


def nonsense(lines: Sequence[str]) -> list[dict[str, Any]]:
    """What the controller tells of commands that it cannot obey, and of one after them that it can."""
    with staged("leaf_spine", Policy()) as where, ExitStack() as stack:
        orders = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        orders.connect(str(where.controller.commands))
        for line in (*lines, "pause leaf1 1 0"):
            orders.send(line.encode())
        time.sleep(_DRAIN_S)
        return _told(where, "error", "paused")


# --- the loop closed


def closed_loop(latency_ns: int, datagrams: int, threshold_bytes: int, folder: str) -> dict[str, Any]:
    """Two hosts send `datagrams` of 1,500 bytes each to a third as fast as their links allow, under a controller that
    marks above the threshold after `latency_ns`."""
    curves = tuple((link.rate_bps, Marking(threshold_bytes, threshold_bytes, 1.0)) for link in (_LINK, _UPLINK))
    policy = Policy(marking=CONTROLLER, thresholds=curves)
    with staged("leaf_spine", policy) as where, ExitStack() as stack:
        sink = where.host_socket(stack, "h1")
        sink.bind(where.address("h1"))
        sending = [where.host_socket(stack, host, tos=2) for host in ("h3", "h4")]
        for each in sending:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 20)
            each.sendto(b"warm", where.address("h1"))
        time.sleep(_DRAIN_S)
        watched = watched_ports(where.description, where.fabric.port_index, policy, qdisc.LOSSY, _LINK.mtu_bytes)
        start = partial(
            QueueWatch, ports=tuple(watched), latency_ns=latency_ns, controller=where.controller.commands,
            switches=where.control,
        )  # fmt: skip
        with Agents([start], Path(folder)) as agents, _captured(folder, _host_point(where, "h1")):
            payload = bytes(_LINK.mtu_bytes - 28)
            for _ in range(datagrams):
                for each in sending:
                    each.sendto(payload, where.address("h1"))
            time.sleep(_DRAIN_S)
        return {**agents.facts, "told": _told(where, "marking", "error")}


# --- thresholds


def thresholds(curves: Sequence[tuple[int, dict[str, Any]]], first: dict[str, Any]) -> dict[str, Any]:
    """What a controller with such curves tells of them, and each port's markers, with what is behind them, as the
    kernel holds them then; the fabric itself was built with the curve `first`."""
    policy = Policy(thresholds=tuple((rate_bps, Marking(**curve)) for rate_bps, curve in curves))
    switch = SwitchProfile(_SWITCH.delay_ns, _SWITCH.buffer_bytes, Marking(**first))
    with staged("leaf_spine", policy, switch=switch) as where:
        time.sleep(0.01)
        markers = {
            name: {each.handle: each.options for each in stack if each.kind == "red"}
            for name, stack in where.fabric.port_qdiscs().items()
        }
        behind = {
            name: sorted((each.kind, each.parent) for each in stack if each.handle in (qdisc.LOSSLESS, qdisc.LOSSY))
            for name, stack in where.fabric.port_qdiscs().items()
        }
        return {"told": _told(where, "thresholds", "error"), "markers": markers, "behind": behind}


_FUNCTIONS = (marks, pauses, nonsense, closed_loop, thresholds)
NAMES: dict[str, Callable[..., Any]] = {each.__name__: each for each in _FUNCTIONS}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(NAMES[sys.argv[1]](**json.loads(sys.argv[2]))))
