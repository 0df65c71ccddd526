"""The half of the pause tests that runs inside the lab: `python -m tests.emulation.pfc_inside NAME ARGUMENTS` (JSON).

Each builds fabrics, sends datagrams and pause frames through them, and says what it saw; the test judges that.
"""

from __future__ import annotations

import ctypes
import json
import random
import shutil
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from controller.agents import Agents
from controller.pause import COLUMNS, headroom_bytes, reaction_ns
from controller.policy import Orders, Policy
from controller.port_agent import RECORD, PausePolicy, PortAgent, Stuck
from controller.process import Controller
from topologies.describe import describe
from topologies.dumbbell import Dumbbell
from topologies.emulate import Fabric, emulate
from topologies.leaf_spine import LeafSpine
from topologies.namespaces import entered
from topologies.profiles import HostProfile, LinkProfile, Lossless, SwitchProfile
from topologies.qdisc import LOSSLESS_DSCP
from topologies.star import Star
from workloads.capture import Capture, Point

_PR_SET_TIMERSLACK = 29
_SINK_PORT = 9
_IP_UDP_BYTES = 28
_SOCKET_BYTES = 64 << 20
_SO_RCVBUFFORCE = 33
_SETTLE_S, _LEAD_NS = 0.01, 10**9
_RING_KIB = 32 << 10
_HEADER = struct.Struct("!HI")  # sender, DSCP
_TOPOLOGIES = {"star": Star, "dumbbell": Dumbbell, "leaf_spine": LeafSpine}


def play(
    folder: str | None,
    link: Mapping[str, int],
    switch: Mapping[str, int],
    lossless: Mapping[str, Any] | None,
    policy: Mapping[str, Any],
    sends: Sequence[Mapping[str, Any]],
    shape: Mapping[str, Any],
    forged: Sequence[Mapping[str, Any]] = (),
    cables: Sequence[tuple[int, str, bool]] = (),
    capture: Sequence[str] = (),
    span_s: float = 0.01,
) -> dict[str, Any]:
    """One fabric with PFC at work.

    Each of `sends` is {sender, receiver, dscp, at_ns, count, ip_bytes, gap_ns}: datagrams from `at_ns` on, each gap_ns
    after the other; each of `forged` is {host, at_ns, frame (hex)}, sent by a host's NIC as it is; each of `cables`
    says when a switch port goes down or (True) up. Times count from "begin_ns". `capture` names ports whose pcap goes
    to `folder`. Afterwards all is still for `span_s`.
    """
    topo = _topology(shape, LinkProfile(**link), switch, lossless)
    with ExitStack() as stack:
        controller = stack.enter_context(_controller(topo)) if shape["topology"] == "leaf_spine" else None
        target = controller.target if controller else None
        fabric = stack.enter_context(emulate(topo, HostProfile("cubic", 200_000_000), openflow_controller=target))
        if controller:
            controller.wait_for("discovered")
        sinks = _sinks(fabric, sends, stack)
        sockets = _sockets(fabric, sends, stack)
        _warm(sockets, sinks)
        lab_folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        begin_ns = time.time_ns() + _LEAD_NS
        with Capture([_point(fabric, name) for name in capture], lab_folder) as captured:
            ordered_by = controller.commands if controller and policy.get("control_latency_ns") is not None else None
            agent = partial(PortAgent, fabric=fabric, policy=_policy(policy, begin_ns), controller=ordered_by)
            agents = Agents([agent], lab_folder)
            with agents:
                acts = [*_acts(fabric, sockets, sends, forged)]
                acts += [(at_ns, partial(fabric.set_ports, [name], up)) for at_ns, name, up in cables]
                for at_ns, act in sorted(acts, key=lambda each: each[0]):
                    _sleep_until(begin_ns + at_ns)
                    act()
                time.sleep(span_s)
                ports = {name: _lossless(found) for name, found in fabric.port_qdiscs().items()}
                nics = {host.name: _lossless(fabric.host_qdiscs(host.name)) for host in fabric.hosts}
        for file in lab_folder.glob("*.pcap") if folder else []:
            shutil.copyfile(file, Path(folder or "", file.name))
        return {
            "begin_ns": begin_ns,
            "received": [[host, *key, count] for host, sink in sinks.items() for key, count in _drain(sink).items()],
            "rows": _rows(lab_folder / RECORD),
            "ports": ports,
            "nics": nics,
            "macs": {intf.name: intf.mac for intf, _ in fabric.switch_ports()},
            "losses": captured.losses,
            "controller": controller.news() if controller else [],
            **agents.facts,
        }


def _topology(
    shape: Mapping[str, Any], link: LinkProfile, switch: Mapping[str, int], lossless: Mapping[str, Any] | None
) -> Any:
    asked = None if lossless is None else Lossless(**lossless)
    options = {name: value for name, value in shape.items() if name != "topology"}
    profile = SwitchProfile(switch["delay_ns"], switch["buffer_bytes"], lossless=asked)
    return _TOPOLOGIES[shape["topology"]](link=link, uplink=link, switch=profile, **options)


def _controller(topo: Any) -> Controller:
    return Controller(Orders(describe(topo), Policy()))


def _policy(asked: Mapping[str, Any], begin_ns: int) -> PausePolicy:
    stuck = tuple(
        Stuck(host, begin_ns + from_ns, begin_ns + until_ns) for host, from_ns, until_ns in asked.get("stuck", ())
    )
    return PausePolicy(**{**asked, "stuck": stuck})


Way = tuple[str, str, int]  # sender, receiver, DSCP


def _way(send: Mapping[str, Any]) -> Way:
    return send["sender"], send["receiver"], send["dscp"]


def _sockets(fabric: Fabric, sends: Sequence[Mapping[str, Any]], stack: ExitStack) -> dict[Way, socket.socket]:
    """A connected one for each way."""
    made = {}
    for way in sorted(set(map(_way, sends))):
        sender, receiver, dscp = way
        with entered(fabric.namespaces[sender]):
            made[way] = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made[way].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        made[way].setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        made[way].connect((fabric[receiver].IP(), _SINK_PORT))
    return made


def _sinks(fabric: Fabric, sends: Sequence[Mapping[str, Any]], stack: ExitStack) -> dict[str, socket.socket]:
    made = {}
    for receiver in sorted({each["receiver"] for each in sends}):
        with entered(fabric.namespaces[receiver]):
            made[receiver] = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made[receiver].bind(("", _SINK_PORT))
        made[receiver].setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _SOCKET_BYTES)
        made[receiver].setblocking(False)
    return made


def _warm(sockets: Mapping[Way, socket.socket], sinks: Mapping[str, socket.socket]) -> None:
    """Addresses are learned and flows cached before anything is measured."""
    for _ in range(2):
        for sending in sockets.values():
            sending.send(bytes(_HEADER.size))
            time.sleep(_SETTLE_S)
    assert all(map(_drain, sinks.values()))


def _drain(sink: socket.socket) -> Counter[tuple[int, int]]:
    """(sender, DSCP) -> datagrams that have arrived."""
    found: Counter[tuple[int, int]] = Counter()
    while True:
        try:
            found[_HEADER.unpack(sink.recv(_HEADER.size))] += 1
        except BlockingIOError:
            return found


def _acts(
    fabric: Fabric,
    sockets: Mapping[Way, socket.socket],
    sends: Sequence[Mapping[str, Any]],
    forged: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[int, Callable[[], Any]]]:
    """When to do what."""
    for each in sends:
        sending = sockets[_way(each)]
        payload = _HEADER.pack(int(each["sender"][1:]), each["dscp"]).ljust(each["ip_bytes"] - _IP_UDP_BYTES, b"\0")
        for number in range(each["count"]):
            yield each["at_ns"] + number * each.get("gap_ns", 0), partial(sending.send, payload)
    for each in forged:
        yield each["at_ns"], partial(_send_frame, fabric.namespaces[each["host"]], bytes.fromhex(each["frame"]))


def _send_frame(namespace: int, frame: bytes) -> None:
    with entered(namespace), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as line:
        line.bind(("eth0", 0))
        line.send(frame)


def _sleep_until(deadline_ns: int) -> None:
    while (left_ns := deadline_ns - time.time_ns()) > 0:
        time.sleep(left_ns / 1e9)


def _point(fabric: Fabric, name: str) -> Point:
    """A switch's port, or a host's NIC ("h2-eth0")."""
    if name in fabric.port_index:
        return Point(name, name, (), _RING_KIB)
    host, _, interface = name.partition("-")
    return Point(name, interface, tuple(fabric[host].enter_command()), _RING_KIB)


def _lossless(stack: Sequence[Any]) -> dict[str, Any]:
    (found,) = (item for item in stack if item.kind in ("pfc", "rnic"))
    return {**found.statistics, **found.options}


def _rows(file: Path) -> list[list[int]]:
    numbers = [number for (number,) in struct.iter_unpack("=q", file.read_bytes())]
    width = len(COLUMNS)
    return [numbers[begin : begin + width] for begin in range(0, len(numbers), width)]


def many(seed: int, count: int) -> list[dict[str, Any]]:
    """Random fabrics with random bursts into h1, headroom by the formula and a low XOFF: what was sent and arrived, and
    what their ports counted."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        keys = _random(chance)
        told = play(folder=None, **keys)
        sent = sum(each["count"] for each in keys["sends"])
        arrived = sum(number for *_, number in told["received"])
        counted = {
            name: {key: port[key] for key in ("drops", "headroom_drops", "max_headroom_bytes", "xoffs")}
            for name, port in told["ports"].items()
        }
        found.append({"keys": keys, "sent": sent, "arrived": arrived, "ports": counted})
    return found


def _random(chance: random.Random) -> dict[str, Any]:
    """Keys of `play`: rates from 1 to 400 Gb/s, delays up to 5 us, 2 to 8 senders, frames of one size or of many."""
    rate_bps = chance.choice([1, 10, 25, 40, 100, 400]) * 10**9
    delay_ns, switch_delay_ns = chance.randrange(5000), chance.randrange(1000)
    mtu_bytes = chance.choice([1500, 1500, 4200, 9000])
    frame_bytes = mtu_bytes + 14
    xoff_bytes = frame_bytes * chance.randrange(2, 40)
    lossless = {
        "xoff_bytes": xoff_bytes,
        "xon_bytes": xoff_bytes - 2 * frame_bytes,
        "headroom_bytes": headroom_bytes(rate_bps, delay_ns, frame_bytes, reaction_ns(rate_bps, switch_delay_ns)),
    }
    senders = chance.randrange(2, 9)
    sizes = [mtu_bytes] if chance.random() < 0.5 else [64, 576, mtu_bytes]
    sends = [
        {
            "sender": f"h{number}",
            "receiver": "h1",
            "dscp": LOSSLESS_DSCP,
            "at_ns": chance.randrange(20_000),
            "count": chance.randrange(50, 150),
            "ip_bytes": chance.choice(sizes),
            "gap_ns": 0,
        }
        for number in range(2, senders + 2)
        for _ in range(2)
    ]
    return {
        "shape": {"topology": chance.choice(["star", "dumbbell"]), "hosts": senders + 1},
        "link": {"rate_bps": rate_bps, "delay_ns": delay_ns, "mtu_bytes": mtu_bytes},
        "switch": {"delay_ns": switch_delay_ns, "buffer_bytes": 10**6},
        "lossless": lossless,
        "policy": {"quanta": chance.choice([600, 65535])},
        "sends": sends,
        "span_s": 0.2,
    }


_FUNCTIONS = (play, many)
NAMES: dict[str, Callable[..., Any]] = {each.__name__: each for each in _FUNCTIONS}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(NAMES[sys.argv[1]](**json.loads(sys.argv[2]))))
