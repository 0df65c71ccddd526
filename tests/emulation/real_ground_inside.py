"""The half of the tests of other kernels that runs where the fabric is: `python -m tests.emulation.real_ground_inside
ARGUMENTS` (JSON).

A kernel with fewer kinds of queues than the lab's own stands for a stock or a bare one, on the real clock.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments import limits
from experiments.spec import Spec, known, parse
from experiments.stage import Stage, staged
from topologies import trial
from topologies.ground import LAB_REAL, NETDEV, STOCK_KINDS, Ground, own_kernel
from topologies.namespaces import entered
from workloads import counters, patterns, rounds
from workloads.capture import Capture, Point
from workloads.transport import tcp

_STOCK = own_kernel(STOCK_KINDS, LAB_REAL.tick_ns, LAB_REAL.datapath)
_BARE = own_kernel(frozenset(("tbf", "bfifo")), LAB_REAL.tick_ns, NETDEV)


def ground(name: str) -> Ground:
    """By name: a "stock" kernel, a "bare" one, or "here", the one that this process runs in."""
    return trial.here() if name == "here" else {"stock": _STOCK, "bare": _BARE}[name]


def incast(name: str, keys: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Senders to h1 in rounds, captured at every NIC and at the hot port; `pcap` files go to `folder`, which is new."""
    spec = limits.resolve(parse(keys))
    with staged(spec, ground(name)) as stage:
        pairs = patterns.incast(stage.hosts, known(spec.senders))
        points = [Point(f"{host.name}-eth0", "eth0", tuple(host.enter_command())) for host in stage.fabric.hosts]
        with tcp.connected(stage.fabric, pairs) as connections:
            lab_folder = Path(tempfile.mkdtemp())
            before = counters.read(stage.fabric.namespaces)
            with Capture([Point("leaf1-eth1", "leaf1-eth1"), *points], lab_folder) as capture:
                done = rounds.run(_asked(spec), connections)
            shutil.copytree(lab_folder, folder)
            told = [connection.describe() for connection in connections]
        after = counters.read(stage.fabric.namespaces)
        return {
            "rounds": [[each.end_ns - each.start_ns, each.bytes] for each in done],
            "retransmits": sum(each.get("RetransSegs", 0) for each in counters.difference(before, after).values()),
            "mss": [flow["tcp_info"]["snd_mss"] for flow in told],  # type: ignore[index]
            "losses": capture.losses,
            **_facts(stage),
        }


def _asked(spec: Spec) -> rounds.Rounds:
    return rounds.Rounds(spec.sru_bytes, spec.rounds, spec.jitter_ns, spec.seed)


def _facts(stage: Stage) -> dict[str, Any]:
    fabric = stage.fabric
    return {
        "kinds": sorted(stage.ground.kinds),
        "datapath": stage.ground.datapath,
        "port": [item.as_json() for item in fabric.port_qdiscs()["leaf1-eth1"]],
        "nic": [item.as_json() for item in fabric.host_qdiscs("h2")],
        "chosen": [_chosen(stage, host) for host in ("h1", "h2")],
        "datapath_type": fabric.openvswitch.configure(["get", "bridge", "leaf1", "datapath_type"]).strip().strip('"'),
    }


def _chosen(stage: Stage, host: str) -> str:
    """The congestion control that a program on `host` gets which asks for none, on a connection to its neighbour."""
    fabric = stage.fabric
    other = "h3" if host != "h3" else "h2"
    with entered(fabric.namespaces[other]):
        listener = socket.create_server((fabric.nameToNode[other].IP(), 0))
    with entered(fabric.namespaces[host]):
        connection = socket.create_connection(listener.getsockname())
    with listener, connection:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def incasts(asked: Mapping[str, tuple[str, Mapping[str, Any]]], folder: str) -> dict[str, Any]:
    """`incast` of each label's ground and spec keys, one after the other; `limits`: those of all namespaces, before and
    after."""
    before = _limits()
    found = {label: incast(name, keys, str(Path(folder, label))) for label, (name, keys) in asked.items()}
    return {**found, "limits": [before, _limits()]}


def _limits() -> list[str]:
    names = ("core/rmem_max", "core/wmem_max", "ipv4/tcp_mem", "ipv4/tcp_allowed_congestion_control")
    paths = [Path("/proc/sys/net", name) for name in names]
    return [path.read_text() for path in paths if path.exists()]  # only the first namespace shows all


if __name__ == "__main__":
    print(json.dumps(incasts(**json.loads(sys.argv[1]))))
