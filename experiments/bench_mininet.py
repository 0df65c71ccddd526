"""The bench's fat-trees in stock Mininet, for scale: how long its own classes take for the same Topo in the same lab.

The bench calls `measure`. As a program in the lab, `python -m experiments.bench_mininet K` builds, starts and stops
the fabric once and prints a line wherever a phase begins or ends, for the host to time: in virtual time computing
takes none. Links are TCLink with a rate, a delay and a queue, switches OVSSwitch on the kernel datapath without a
controller, in an Open vSwitch that runs before the first phase. Deviations from ours: a port has an htb and a netem
where ours has the stack of `topologies.qdisc`, and no rules forward anything.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mininet.link import TCIntf, TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import OVSSwitch

from experiments.timing import timed
from lab.kernel import Kernel
from topologies.fat_tree import FatTree
from topologies.openvswitch import OpenVSwitch

# The highest rate that stock Mininet sets (others it ignores); its queue is counted in packets: 600 KB of full frames.
_LINK = partial(TCLink, bw=TCIntf.bwParamMax, delay="500us", max_queue_size=400)
_QUEUES = ("htb", "netem")
_OPENVSWITCH = Path("/run/openvswitch")  # where ovs-vsctl looks when it is told nothing
_OFPORTS = ("ovs-vsctl", "--format=csv", "--no-headings", "--columns=name,ofport", "list", "interface")
_MEMORY_BYTES = 2 << 30
# tc says it of every htb faster than 16 Mb/s, and Mininet reports whatever tc says as an error.
_REMARK = "quantum of class"
_PHASES = {"build_s": ("building", "built"), "start_s": ("built", "started"), "stop_s": ("stopping", "stopped")}


def measure(kernel: Kernel, k: int, timeout_s: float = 900.0) -> dict[str, float]:
    """Wall seconds build_s, start_s and stop_s of one run with k ports a switch; RuntimeError, one line, if it fails,
    or if what it started is not the whole fabric."""
    module = "experiments.bench_mininet"
    seconds = timed(kernel, module, str(k), memory_bytes=_MEMORY_BYTES, timeout_s=timeout_s, remark=_REMARK)
    return {name: seconds[end] - seconds[begin] for name, (begin, end) in _PHASES.items()}


def not_done(ports: Mapping[str, int], ofports: str, qdiscs: str) -> list[str]:
    """What is missing of a fabric that Mininet started: it goes on when tc or ovs-vsctl fails.

    ports: interface -> port number, 0 for a host's. ofports: "interface,number" lines of Open vSwitch. qdiscs: what
    `tc qdisc show` says in all namespaces.
    """
    added = set(ofports.split())
    queued = {(words[1], words[4]) for words in map(str.split, qdiscs.splitlines()) if len(words) > 4}
    return [f"{name} is not port {port}" for name, port in ports.items() if port and f"{name},{port}" not in added] + [
        f"{name} has no {kind}" for name in ports for kind in _QUEUES if (kind, name) not in queued
    ]


def _not_done(net: Any) -> list[str]:
    """`not_done` of a running network."""
    nodes = (*net.hosts, *net.switches)
    ports = {intf.name: node.ports[intf] for node in nodes for intf in node.intfList() if intf.link}
    qdiscs = [_output("tc", "qdisc", "show"), *(host.cmd("tc qdisc show") for host in net.hosts)]
    return not_done(ports, _output(*_OFPORTS), "\n".join(qdiscs))


def _output(*words: str) -> str:
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def main(k: int) -> str | None:
    """Build, start and stop the fabric once; returns what was missing of it, in a line."""
    setLogLevel("error")
    with OpenVSwitch(_OPENVSWITCH):
        print("building", flush=True)
        net = Mininet(FatTree(k=k), switch=OVSSwitch, link=_LINK, controller=None, autoSetMacs=True)
        print("built", flush=True)
        net.start()
        print("started", flush=True)
        missing = _not_done(net)
        print("stopping", flush=True)
        net.stop()
        print("stopped", flush=True)
    return f"{len(missing)} faults: {'; '.join(missing[:3])}" if missing else None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
