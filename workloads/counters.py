"""The kernel's own counters of each host: of TCP (nstat's names, /proc/net/snmp and /proc/net/netstat), and of its RDMA
device."""

from __future__ import annotations

from collections.abc import Mapping

from topologies import rdma
from topologies.namespaces import entered

_FILES = ("/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat")
_GROUPS = ("Tcp", "TcpExt")

Counters = dict[str, int]


def parse(content: str) -> Counters:
    """Counter -> value of the Tcp and TcpExt groups: lines come in pairs, names then values."""
    found: Counters = {}
    lines = content.splitlines()
    for names, values in zip(lines[::2], lines[1::2]):
        group = names.partition(":")[0]
        if group in _GROUPS:
            found.update(zip(names.split()[1:], map(int, values.split()[1:])))
    return found


def read(namespaces: Mapping[str, int]) -> dict[str, Counters]:
    """Host -> its TCP counters now; `namespaces` maps hosts to open descriptors."""
    found = {}
    for host, namespace in namespaces.items():
        with entered(namespace):
            content = ""
            for path in _FILES:
                with open(path) as file:
                    content += file.read()
        found[host] = parse(content)
    return found


def read_roce(namespaces: Mapping[str, int]) -> dict[str, Counters]:
    """Host -> the counters of its RDMA device now (see `topologies.rdma.counters`)."""
    return {host: rdma.counters(host, namespace) for host, namespace in namespaces.items()}


def difference(before: Mapping[str, Counters], after: Mapping[str, Counters]) -> dict[str, Counters]:
    """Host -> what its counters grew by; zeros left out."""
    return {
        host: {
            name: value - before[host].get(name, 0)
            for name, value in counters.items()
            if value != before[host].get(name, 0)
        }
        for host, counters in after.items()
    }


def transmitted(content: str) -> dict[str, int]:
    """Interface -> packets sent, from the text of /proc/net/dev."""
    found = {}
    for line in content.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        found[name.strip()] = int(numbers.split()[9])
    return found


def read_transmitted() -> dict[str, int]:
    """Interface of the current namespace -> packets sent so far."""
    with open("/proc/thread-self/net/dev") as file:
        return transmitted(file.read())
