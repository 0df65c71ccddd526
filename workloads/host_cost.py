"""What sending and receiving cost a host's processor, which in virtual time would cost nothing (pure).

A host has one processor for its communication. Each message that it sends or receives keeps it busy for a system call
(or a posted verb), each packet for its way through the stack with its share of an interrupt, and each byte for its
copies; it does one thing after the other. Waking up a sleeping receiver takes time besides, in which the processor is
free.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostCost:
    """Per message, per packet and per wake-up in ns, per byte in ps (1 ps a byte: 1 TB/s)."""

    message_ns: int
    packet_ns: int
    byte_ps: int
    wake_ns: int

    def busy_ns(self, size_bytes: int, packet_bytes: int) -> int:
        """How long a message of `size_bytes` in packets of `packet_bytes` payload keeps the processor busy."""
        packets = -(-size_bytes // packet_bytes)
        return self.message_ns + packets * self.packet_ns + size_bytes * self.byte_ps // 1000


# The path of the kernel's TCP: one processor core carries about 42 Gb/s of jumbo frames, 190 ps a byte, about half of
# it the copy (Cai et al., Understanding Host Network Stack Overheads, SIGCOMM 2021): 93 ps a byte copied, and 97 ps for
# each of the 8,948 bytes of a packet, whatever its size. A system call and a wake-up are those of a usual server. An
# RDMA NIC does all of that by itself: a work request posted and a completion taken for each message are left.
COSTS = {
    "tcp": HostCost(message_ns=1_000, packet_ns=870, byte_ps=93, wake_ns=5_000),
    "rdma": HostCost(message_ns=300, packet_ns=0, byte_ps=0, wake_ns=0),
}


class Processor:
    """A host's processor: who charges it for a message learns when it is through with it."""

    def __init__(self, cost: HostCost, packet_bytes: int) -> None:
        self._cost, self._packet_bytes = cost, packet_bytes
        self._free_ns = 0
        self.busy_ns = 0

    def charge(self, now_ns: int, size_bytes: int, woken: bool = False) -> int:
        """When a message of `size_bytes` that comes at `now_ns` is done with; `woken`: a receiver slept for it."""
        busy_ns = self._cost.busy_ns(size_bytes, self._packet_bytes)
        begin_ns = max(now_ns + (self._cost.wake_ns if woken else 0), self._free_ns)
        self._free_ns = begin_ns + busy_ns
        self.busy_ns += busy_ns
        return self._free_ns
