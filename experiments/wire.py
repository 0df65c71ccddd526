"""Bytes that hosts put on their links and got from them, as the switch ports at the other end count them.

One read tells of all hosts. Counted are whole frames (Ethernet header, no FCS) of everything that crosses a cable,
acknowledgements and what is sent again too; what a lossy cable loses has not crossed it.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.stage import Stage

_RECEIVED, _SENT = 0, 8  # columns of /proc/net/dev: bytes

NicBytes = dict[str, dict[str, int]]  # host -> "sent", "received"


class Wire:
    """The links of all hosts; a host of a gpu_pod has a second one, to the NVSwitch of its server (`interface` 1)."""

    def __init__(self, stage: Stage) -> None:
        ends = [(name, end) for name, end in stage.switch_ports.items() if not stage.tiers[end.peer]]
        self._ports = {(end.peer, end.peer_port): name for name, end in ends}
        self._order = [(host, interface) for interface in (0, 1) for host in stage.hosts]

    def read(self) -> dict[str, NicBytes]:
        """What has crossed so far: "nic_bytes", and on a gpu_pod "nvlink_bytes"."""
        with open("/proc/thread-self/net/dev") as file:
            counted = port_bytes(file.read())
        found: dict[str, NicBytes] = {}
        for host, interface in self._order:
            port = self._ports.get((host, interface))
            if port is not None:
                received, sent = counted[port]
                found.setdefault(("nic_bytes", "nvlink_bytes")[interface], {})[host] = {
                    "sent": received,
                    "received": sent,
                }
        return found


def port_bytes(content: str) -> dict[str, tuple[int, int]]:
    """Interface -> bytes received and sent, from the text of /proc/net/dev."""
    found = {}
    for line in content.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        columns = numbers.split()
        found[name.strip()] = (int(columns[_RECEIVED]), int(columns[_SENT]))
    return found


def grown(before: Mapping[str, NicBytes], after: Mapping[str, NicBytes]) -> dict[str, NicBytes]:
    """What has crossed between two readings."""
    return {
        link: {
            host: {way: count - before[link][host][way] for way, count in counts.items()}
            for host, counts in hosts.items()
        }
        for link, hosts in after.items()
    }
