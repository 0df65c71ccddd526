"""Looks at the kernel that this process runs in, by trial: what is not there is loaded, if there is a module of it."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import replace

from topologies import namespaces, qdisc
from topologies.ground import LAB_VIRTUAL, NETDEV, SYSTEM, Ground, own_kernel
from topologies.netlink import Netlink, NetlinkError, Port, Request, new_veth, text
from topologies.profiles import LinkProfile, Marking, SwitchProfile
from topologies.qdisc import Qdisc

_LINK = LinkProfile(rate_bps=100_000_000, delay_ns=0, mtu_bytes=1500)
_SWITCH = SwitchProfile(delay_ns=0, buffer_bytes=100_000, marking=Marking(10_000, 20_000, 1.0))
_ENDS = (Port("trial0", "02:00:00:00:00:01"), Port("trial1", "02:00:00:00:00:02"))
_CLOCK_MONOTONIC_COARSE = 6  # linux/time.h: it steps with the tick
_NETLINK_GENERIC = 16  # linux/netlink.h
# linux/genetlink.h
_CONTROL_FAMILY, _GET_FAMILY, _FAMILY_NAME = 0x10, 3, 2
_OPENVSWITCH_FAMILY = "ovs_datapath"  # linux/openvswitch.h


def here() -> Ground:
    """This machine's own kernel; needs root (PermissionError). Raises OSError when it has no veth pairs."""
    tick_ns = round(time.clock_getres(_CLOCK_MONOTONIC_COARSE) * 1e9)
    return own_kernel(kinds(), tick_ns, SYSTEM if has_openvswitch() else NETDEV)


def kinds() -> frozenset[str]:
    """Of queueing disciplines, those that an interface in a scratch namespace can be given."""
    with namespaces.scratch(), Netlink() as netlink:
        netlink.execute([new_veth(*_ENDS, _LINK.mtu_bytes)])
        ifindex = socket.if_nametoindex(_ENDS[0].name)
        return frozenset(each.kind for each in _tried() if _takes(netlink, ifindex, each))


def _tried() -> Iterable[Qdisc]:
    """Each kind once, as ports and NICs have it, but at the root; RED as stock kernels know it."""
    stacks = (*qdisc.switch_port(_LINK, _SWITCH, ground=LAB_VIRTUAL), *qdisc.nic(_LINK, LAB_VIRTUAL))
    found = {each.kind: replace(each, parent=qdisc.ROOT) for each in stacks}
    found["red"] = replace(found["red"], options={**found["red"].options, "spaced": True})
    return found.values()


def _takes(netlink: Netlink, ifindex: int, tried: Qdisc) -> bool:
    try:
        netlink.execute(qdisc.install(ifindex, (tried,)))
    except NetlinkError:
        return False
    netlink.execute([qdisc.uninstall(ifindex)])
    return True


def has_openvswitch() -> bool:
    """Whether Open vSwitch's kernel module answers."""
    body = struct.pack("=BBxx", _GET_FAMILY, 1) + text(_FAMILY_NAME, _OPENVSWITCH_FAMILY)
    with Netlink(_NETLINK_GENERIC) as netlink:
        try:
            return bool(list(netlink.query(Request(_CONTROL_FAMILY, 0, body, "look for Open vSwitch's module"))))
        except NetlinkError:
            return False


def has_algorithm(name: str) -> bool:
    """Whether the kernel has this congestion control of TCP."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        try:
            tried.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except FileNotFoundError:
            return False
    return True
