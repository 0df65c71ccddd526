"""The halves of the fabrics' tests that run inside the lab: `python -m tests.emulation.fabric_inside NAME ARGUMENTS`.

Each stages a fabric with its controller from spec keys, does something on it, and says what it saw; the test judges
that on the host.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from controller import process
from controller.policy import Orders
from controller.process import Controller, ControllerFailed
from experiments import drive, drive_datagrams, fabrics, limits
from experiments.spec import Spec, parse
from experiments.stage import Stage, staged
from topologies.describe import describe
from topologies.emulate import emulate
from topologies.namespaces import entered
from workloads import counters, datagrams, patterns
from workloads.capture import Capture, Point

_PR_SET_TIMERSLACK = 29
_QUIET_S = 0.01
_MULTICAST, _BROADCAST = "239.1.2.3", "10.255.255.255"
_ETH_P_ARP = 0x0806
_RULES_SETTLE_S = 0.1
_CARRIER_S = 2  # a kernel notices a link's carrier within a second (net/core/link_watch.c)
_OPENFLOW_PORT = 6653
_ARP_GIVES_UP_S = 4  # three requests, a second apart: then the next packet asks anew (arp(7))


def resolved(keys: Mapping[str, Any]) -> Spec:
    return limits.resolve(parse(keys))


def _probes(where: Stage, pairs: Sequence[patterns.Pair]) -> list[tuple[str, str, int | None]]:
    """Sender, receiver, and how many switches the second of two datagrams passed (None: it did not arrive)."""
    found = datagrams.probe(where.fabric, pairs, drive_datagrams.wait_s(where))
    return [(each.sender, each.receiver, each.switches) for each in found]


# --- who reaches whom, and what else is to be seen


def pairs(keys: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """A datagram between every two hosts under capture at every host interface, then packets that nobody may get.

    `pcap` files go to `folder` as HOST-INTERFACE.pcap; `transmitted`: how many packets switch ports sent for the
    probes, and for what nobody may get.
    """
    with staged(resolved(keys)) as where:
        fabric = where.fabric
        points = [
            Point(f"{host.name}-{interface}", interface, tuple(host.enter_command()))
            for host in fabric.hosts
            for interface in host.ifindexes
        ]
        lab_folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        with Capture(points, lab_folder) as capture:
            before = _transmitted(where)
            probes = _probes(where, patterns.all_to_all(where.hosts))
            after, probed_ns = _transmitted(where), time.time_ns()
            strays = _send_strays(where)
            at_last = _transmitted(where)
        for file in lab_folder.iterdir():
            shutil.copyfile(file, Path(folder, file.name))
        return {
            "fabric": where.description.as_json(),
            "probes": probes,
            "probed_ns": probed_ns,
            "transmitted": [after - before, at_last - after],
            "strays": strays,
            "losses": capture.losses,
            "neighbours": {host.name: host.cmd("ip neigh show").splitlines() for host in fabric.hosts},
            "controller": where.controller.events if where.controller else [],
        }


def _transmitted(where: Stage) -> int:
    sent = counters.read_transmitted()
    return sum(sent[name] for name in where.switch_ports)


def _send_strays(where: Stage) -> int:
    """From every host a datagram to nobody in its rack, to nobody in any rack, to everybody and to a group; how many
    were sent."""
    sent = 0
    with datagrams.sockets(where.fabric, where.hosts) as ours:
        for host, sending in ours.items():
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, datagrams.SENT_TTL)
            own = where.fabric.nameToNode[host].IP()
            sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
            for target in (f"{own.rpartition('.')[0]}.250", "10.200.200.200", _BROADCAST, _MULTICAST):
                sending.sendto(bytes(36), (target, datagrams.SINK_PORT))
                sent += 1
        time.sleep(_QUIET_S)
    return sent


def sample(keys: Mapping[str, Any]) -> dict[str, Any]:
    """A datagram from every host to the next, and to the one half of all hosts further on."""
    with staged(resolved(keys)) as where:
        hosts = where.hosts
        neighbours = [(host, hosts[(index + 1) % len(hosts)]) for index, host in enumerate(hosts)]
        return {
            "fabric": where.description.as_json(),
            "probes": _probes(where, [*neighbours, *patterns.permutation(hosts)]),
        }


# --- ARP, and hosts that move


def arp(keys: Mapping[str, Any], asked: Sequence[str]) -> dict[str, Any]:
    """What host h1 is answered when it asks who has each address of `asked`, and when it says who it is (gratuitous
    ARP): lists of (sender MAC, sender address, target MAC, target address)."""
    with staged(resolved(keys)) as where:
        with entered(where.fabric.namespaces["h1"]):
            line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ARP))
        line.bind(("eth0", _ETH_P_ARP))
        line.setblocking(False)
        own = where.fabric.nameToNode["h1"]
        answers = {address: _ask(line, own.MAC(), own.IP(), address) for address in asked}
        return {"answers": answers, "gratuitous": _ask(line, own.MAC(), own.IP(), own.IP())}


def _ask(line: socket.socket, mac: str, address: str, wanted: str) -> list[list[str]]:
    own, broadcast = bytes.fromhex(mac.replace(":", "")), b"\xff" * 6
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + own + socket.inet_aton(address)
    line.send(broadcast + own + struct.pack("!H", _ETH_P_ARP) + body + bytes(6) + socket.inet_aton(wanted))
    time.sleep(_QUIET_S)
    found = []
    with suppress(BlockingIOError):
        while True:
            frame = line.recv(100)
            (operation,) = struct.unpack_from("!H", frame, 20)
            if operation == 2:  # a reply
                found.append([_mac(frame[22:28]), _ip(frame[28:32]), _mac(frame[32:38]), _ip(frame[38:42])])
    return found


def _mac(packed: bytes) -> str:
    return packed.hex(":")


def _ip(packed: bytes) -> str:
    return socket.inet_ntoa(packed)


def move(keys: Mapping[str, Any], host: str, places: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Plug the cable of `host` into each of `places` (switch, port) in turn; probes from it and to it there."""
    with staged(resolved(keys)) as where:
        assert where.controller is not None
        cable = where.port_towards(host)
        here, seen = cable.partition("-")[0], []
        for switch, port in places:
            where.fabric.set_ports([cable], up=False)
            words = (
                f"del-port {here} {cable} -- add-port {switch} {cable} -- set interface {cable} ofport_request={port}"
            )
            where.fabric.openvswitch.configure(words.split())
            where.fabric.set_ports([cable], up=True)
            here = switch
            time.sleep(_CARRIER_S)
            where.controller.news()
            with datagrams.sockets(where.fabric, [host]) as speaking:
                datagrams.warm_up(where.fabric, speaking)  # it asks for its gateway
            time.sleep(_RULES_SETTLE_S)
            others = [other for other in where.hosts if other != host]
            events = where.controller.news()
            probes = _probes(where, [*((host, other) for other in others), *((other, host) for other in others)])
            seen.append({"events": events, "probes": probes, "later_events": where.controller.news()})
        return seen


# --- what fails


def run(keys: Mapping[str, Any], flows: int = 200) -> dict[str, Any]:
    """The workload of the spec with its failures, between two looks at the switches' rules; afterwards `flows` random
    datagrams, and which ports they left by."""
    with staged(resolved(keys)) as where:
        before = rules(where)
        facts: dict[str, Any] = {}
        drive.drive(where, facts, lambda done: None)
        time.sleep(_CARRIER_S)
        after = rules(where)
        count_before = counters.read_transmitted()
        asked = patterns.random_flows(where.hosts, flows, seed=1)
        arrived = datagrams.scatter(where.fabric, asked)
        count_after = counters.read_transmitted()
        return {
            "facts": facts,
            "rules_as_before": before == after,
            "rules": sum(map(len, before.values())),
            "flows": [flows, arrived],
            "port_packets": {name: count_after[name] - count_before[name] for name in where.switch_ports},
            "framework": where.controller.framework if where.controller else "",
        }


def rules(where: Stage) -> dict[str, list[str]]:
    """Every flow and group of every switch, without counters, as Open vSwitch tells them."""
    folder, found = where.fabric.openvswitch.folder, {}
    for switch in where.fabric.switches:
        lines = []
        for words in (["dump-flows", "--no-stats"], ["dump-groups"]):
            words = ["ovs-ofctl", "-O", "OpenFlow15", words[0], f"unix:{folder}/{switch.name}.mgmt", *words[1:]]
            lines += subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        found[switch.name] = sorted(line.strip() for line in lines if "OFPST" not in line)
    return found


def unattended(keys: Mapping[str, Any]) -> dict[str, Any]:
    """A fabric whose controller comes after its switches: probes and packets sent by switches before and after."""
    spec = resolved(keys)
    topo = fabrics.topology(spec)
    description = describe(topo)
    target = f"tcp:127.0.0.1:{_OPENFLOW_PORT}"
    with emulate(topo, limits.host_profile(spec), openflow_controller=target) as fabric:
        where = Stage(spec, description, fabric, None)
        pairs = patterns.all_to_all(where.hosts)
        before = _transmitted(where)
        alone = _probes(where, pairs)
        sent_alone = _transmitted(where) - before
        controller = Controller(fabrics.orders(spec, describe(fabrics.topology(spec))))
        controller.port = _OPENFLOW_PORT
        with controller:
            controller.wait_for("discovered")
            time.sleep(_ARP_GIVES_UP_S)
            attended = _probes(where, pairs)
        protocols = fabric.openvswitch.configure(["get", "bridge", fabric.switches[0].name, "protocols"])
        return {"alone": alone, "sent_alone": sent_alone, "attended": attended, "protocols": protocols}


# --- a controller that does not come up


@contextmanager
def _other_orders(change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """The controller is started with orders that `change` has been at."""
    whole = Orders.as_json

    def changed(self: Orders) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(json.dumps(whole(self)))
        change(document)
        return document

    Orders.as_json = changed  # type: ignore[method-assign]
    try:
        yield
    finally:
        Orders.as_json = whole  # type: ignore[method-assign]


def _no_fabric(document: dict[str, Any]) -> None:
    del document["fabric"]


def _impossible_port(document: dict[str, Any]) -> None:
    """A port number above OFPP_MAX, which Open vSwitch refuses."""
    for wire in document["fabric"]["wires"]:
        if wire["a"] == "h1":
            wire["b_port"] = 0xFFFFFF01


@contextmanager
def _taken_port() -> Iterator[None]:
    """Somebody else listens on the controller's port."""
    free = process._free_port
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        process._free_port = lambda: int(other.getsockname()[1])
        try:
            yield
        finally:
            process._free_port = free


_TROUBLES: dict[str, Callable[[], Any]] = {
    "orders": lambda: _other_orders(_no_fabric),
    "rule": lambda: _other_orders(_impossible_port),
    "port": _taken_port,
}


def trouble(keys: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Stage a fabric whose controller has some trouble: what is said, and what the machine has more of afterwards."""
    before = _left()
    said = ""
    with _TROUBLES[kind]():
        try:
            with staged(resolved(keys)):
                pass
        except ControllerFailed as error:
            said = str(error)
    return {"said": said, "left": _more(before)}


def twice(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The same fabric two times in one machine: probes of the second, and what the machine has more of afterwards."""
    spec, before = resolved(keys), _left()
    with staged(spec):
        pass
    with staged(spec) as where:
        probes = _probes(where, patterns.all_to_all(where.hosts))
    return {"probes": probes, "left": _more(before)}


def _more(before: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: sorted(set(found) - set(before[name])) for name, found in _left().items()}


def _left() -> dict[str, list[str]]:
    """Processes, links, namespaces, files for the time of a run, and those of an Open vSwitch at its usual place."""
    usual = [path for folder in ("/run/openvswitch", "/etc/openvswitch") for path in Path(folder).glob("*")]
    return {
        "usual_openvswitch": list(map(str, usual)),
        "processes": [_command(path) for path in Path("/proc").glob("[0-9]*") if _command(path)],
        "links": [path.name for path in Path("/sys/class/net").iterdir()],
        "namespaces": [path.name for path in Path("/run/netns").glob("*")],
        "files": [path.name for path in Path(tempfile.gettempdir()).iterdir()],
    }


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


_FUNCTIONS = (pairs, sample, arp, move, run, unattended, trouble, twice)
NAMES: dict[str, Callable[..., Any]] = {each.__name__: each for each in _FUNCTIONS}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(NAMES[sys.argv[1]](**json.loads(sys.argv[2]))))
