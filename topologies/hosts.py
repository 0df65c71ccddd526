"""What makes a namespace a host: its TCP, set in the namespace's own sysctls, and interfaces without offloads."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from topologies.profiles import HostProfile

_SIOCETHTOOL = 0x8946
_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40
_CARRIER_POLL_S = 0.02
_ETHTOOL_STXCSUM, _ETHTOOL_STSO, _ETHTOOL_SGSO, _ETHTOOL_SGRO = 0x17, 0x1F, 0x24, 0x2C
_IPV6 = Path("/proc/sys/net/ipv6")
SOCKET_BUFFER_BYTES = 64 << 20  # what a program may ask for itself
# Linux begins with 128 KiB to receive and 16 KiB to send: autotuning would limit the first round.
_LEAST_BUFFER_BYTES, _FIRST_BUFFER_BYTES = 4096, 1 << 20
# Pages that TCP may hold in all. The kernel's own limit follows from the machine's memory, and past it windows shrink
# to two packets: in a lab of a few hundred MiB a few fast flows would meet it.
_TCP_PAGES = 1 << 22


def tcp_sysctls(profile: HostProfile, is_ours: bool = True) -> dict[str, str]:
    """sysctl -> value below net/ipv4 (Documentation/networking/ip-sysctl.rst). In a kernel that `is_ours` congestion
    control is among them; elsewhere a namespace may choose among those that are allowed to everybody only, and its
    routes say it (`netlink.new_route`), which may name any."""
    buffer = f"{_LEAST_BUFFER_BYTES} {_FIRST_BUFFER_BYTES} {profile.socket_buffer_bytes}"
    return {
        **({"tcp_congestion_control": profile.cc} if is_ours else {}),
        "tcp_sack": str(int(profile.sack)),
        "tcp_early_retrans": "3" if profile.tlp else "0",  # tail loss probe, RFC 8985 section 7
        "tcp_recovery": "1" if profile.rack else "0",  # RACK, RFC 8985
        "tcp_ecn": "1" if profile.ecn else "0",
        "tcp_no_metrics_save": "1",  # a connection must not inherit what an earlier one learned
        "tcp_rmem": buffer,
        "tcp_wmem": buffer,
    }


def ease_limits() -> None:
    """Lift what the first namespace limits for all: socket buffers that programs ask for, TCP's memory, and algorithms
    (outside the first namespace only allowed ones may be set, tcp_cong.c)."""
    apply_sysctls(dict.fromkeys(("rmem_max", "wmem_max"), str(SOCKET_BUFFER_BYTES)), below="net/core")
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as file:
        algorithms = file.read().strip()
    pages = " ".join(3 * [str(_TCP_PAGES)])
    apply_sysctls({"tcp_mem": pages, "tcp_allowed_congestion_control": algorithms})


def apply_sysctls(values: dict[str, str], below: str = "net/ipv4") -> None:
    """Write sysctls in the current network namespace; raises OSError naming the one that the kernel refuses."""
    for name, value in values.items():
        try:
            with open(f"/proc/sys/{below}/{name}", "w") as knob:
                knob.write(value)
        except OSError as error:
            raise OSError(error.errno, f"sysctl {below}/{name} = {value}: {error.strerror}") from error


def ipv6_off() -> None:
    """No IPv6 on any interface of the current namespace, where the kernel has it: its address chatter would be noise in
    captures."""
    if _IPV6.exists():
        apply_sysctls({"all/disable_ipv6": "1", "default/disable_ipv6": "1"}, below="net/ipv6/conf")


def offloads_off(interfaces: Iterable[str], checksums: bool = False) -> None:
    """Turn TSO, GSO and GRO off: on a packet-level testbed a packet is a packet (linux/ethtool.h). TCP still hands its
    NIC larger segments, which the rate limiter cuts (lab/patches/0005), or which `netlink.one_segment` forbids.
    `checksums`: the kernel sums too, for a switch that is a process and gets frames as they are."""
    commands = (_ETHTOOL_STSO, _ETHTOOL_SGSO, _ETHTOOL_SGRO, *([_ETHTOOL_STXCSUM] if checksums else []))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for interface in interfaces:
            for command in commands:
                value = ctypes.create_string_buffer(struct.pack("=II", command, 0))
                fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), ctypes.addressof(value)))


def await_carriers(interfaces: Iterable[str], deadline_s: float) -> None:
    """Wait until each interface of the current namespace is running (netdevice(7)); raises RuntimeError naming one that
    is not at `deadline_s` of the monotonic clock."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for interface in interfaces:
            while not _flags(control, interface) & _IFF_RUNNING:
                if time.monotonic() > deadline_s:
                    raise RuntimeError(f"{interface} has no carrier")
                time.sleep(_CARRIER_POLL_S)


def _flags(control: socket.socket, interface: str) -> int:
    answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sH22x", interface.encode(), 0))
    return int(struct.unpack_from("=H", answer, 16)[0])
