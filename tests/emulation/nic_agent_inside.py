"""The half of the NIC agents' test that runs inside the lab: `python -m tests.emulation.nic_agent_inside ARGUMENTS`
(JSON).

h2 sends h1 frames of one RoCE queue pair, built by hand, so that their marks are known; agents work in both NICs.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from controller.dcqcn import Dcqcn
from controller.loop import Loop
from controller.nic_agent import Nic, NicAgent, Record
from controller.roce_packet import UDP_PORT
from topologies import live_queues, qdisc
from topologies.emulate import Fabric, emulate
from topologies.namespaces import entered
from topologies.netlink import Netlink
from topologies.profiles import HostProfile, LinkProfile, SwitchProfile
from topologies.star import Star
from workloads.capture import Capture, Point

_PR_SET_TIMERSLACK = 29
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_LINK, _SWITCH = LinkProfile(100_000_000_000, 1_000, 4_300), SwitchProfile(500, 1_000_000)
_RTO_NS = 200_000_000
# Queue pairs of h2 and h1 that are connected to each other, and one of h1 that is not.
SENDER, RECEIVER, ALONE = 42, 17, 99
WRITE_MIDDLE, ACKNOWLEDGE, ECT, CE = 0x07, 0x11, 2, 3


def marks(
    ecn: Sequence[int], gap_ns: int, opcode: int, queue_pair: int, dscp: int, settle_ms: int, folder: str
) -> dict[str, Any]:
    """A frame every `gap_ns`, with these ECN bits, to a queue pair of h1; then `settle_ms` of quiet. The NIC of h2 is
    captured to `folder`. Tells the record, in ns since the first frame, and what the kernel holds."""
    profile = HostProfile("cubic", _RTO_NS, roce=True)
    with emulate(Star(2, _LINK, _SWITCH), profile) as fabric, Loop() as loop:
        record = Record()
        receiver = NicAgent(loop, _nic(fabric, "h1"), Dcqcn(), lambda: {RECEIVER: SENDER}, record)
        sender = NicAgent(loop, _nic(fabric, "h2"), Dcqcn(), lambda: {SENDER: RECEIVER}, record)
        sinks, sending = _sinks(fabric), _learnt(fabric)
        lab_folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        point = Point("h2-eth0", "eth0", tuple(fabric["h2"].enter_command()), 256)
        with Capture([point], lab_folder), sender, receiver:
            begin_ns = time.time_ns() + 1_000_000
            for number, bits in enumerate(ecn):
                frame = _frame(fabric, opcode, queue_pair, dscp << 2 | bits)
                loop.call_at(begin_ns + number * gap_ns, partial(sending.send, frame))
            loop.call_at(begin_ns + len(ecn) * gap_ns + settle_ms * 1_000_000, loop.stop)
            loop.run()
            heard, _ = struct.unpack("=II", receiver._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        for sink in sinks:
            sink.close()
        for file in lab_folder.iterdir():
            shutil.copyfile(file, Path(folder, file.name))
        rows = [record.rows[start : start + 6].tolist() for start in range(0, len(record.rows), 6)]
        return {
            "begin_ns": begin_ns,
            "rows": [[row[0] - begin_ns, *row[1:]] for row in rows],
            "queue_pairs": record.queue_pairs,
            "heard": heard,
            "rates_bps": _rates_bps(fabric),
            "control_packets": _control_packets(fabric),
        }


def _nic(fabric: Fabric, host: str) -> Nic:
    ifindex = fabric[host].ifindexes["eth0"]
    return Nic(fabric.namespaces[host], "eth0", ifindex, _LINK.rate_bps, _LINK.delay_ns)


def _sinks(fabric: Fabric) -> list[socket.socket]:
    """RoCE's port is open at both hosts: what comes there would be answered by ICMP errors else."""
    sinks = []
    for host in fabric.hosts:
        with entered(fabric.namespaces[host.name]):
            sinks.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sinks[-1].bind(("", UDP_PORT))
    return sinks


def _learnt(fabric: Fabric) -> socket.socket:
    """A socket at h2's NIC, once the switch knows where both hosts are."""
    fabric["h2"].cmd(f"ping -c 1 {fabric['h1'].IP()}")
    with entered(fabric.namespaces["h2"]):
        sending = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        sending.bind(("eth0", 0x0800))
    return sending


def _frame(fabric: Fabric, opcode: int, queue_pair: int, tos: int) -> bytes:
    ethernet = Ether(dst=fabric["h1"].MAC(), src=fabric["h2"].MAC())
    ip = IP(src=fabric["h2"].IP(), dst=fabric["h1"].IP(), tos=tos, flags="DF")
    bth = BTH(opcode=opcode, dqpn=queue_pair)
    return bytes(ethernet / ip / UDP(sport=50_000, dport=UDP_PORT, chksum=0) / bth / Raw(bytes(1024)))


def _rates_bps(fabric: Fabric) -> dict[str, int | None]:
    """What the NIC of h2 holds of each queue pair."""
    with entered(fabric.namespaces["h2"]), Netlink() as netlink:
        found = live_queues.read_queue_pairs(netlink, fabric["h2"].ifindexes["eth0"])
    return {f"{ip}:{queue_pair}": paced.rate_bps for (ip, queue_pair), paced in found.items()}


def _control_packets(fabric: Fabric) -> int:
    """How many packets of the control class h2 has got from its switch."""
    stack = {each.handle: each for each in fabric.port_qdiscs()["leaf1-eth2"]}
    return stack[qdisc.CONTROL].statistics["packets"]


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(marks(**json.loads(sys.argv[1]))))
