"""DCQCN in a NIC where timers are late, as they are on the real clock: the agent and its loop, between two sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from controller.dcqcn import Dcqcn
from controller.loop import Loop
from controller.nic_agent import Nic, NicAgent, Record
from controller.roce_packet import CNP, HEADER_BYTES, parse
from tests.unit.test_roce_packet import MARKED, frame

INTERVAL_NS, PEER = 200_000_000, 42
NIC = Nic(namespace=-1, interface="eth0", ifindex=2, rate_bps=100_000_000, delay_ns=0)


class Wired:
    """An agent at one end of a pair of sockets; what is sent at the `far` end comes in by its NIC."""

    def __init__(self, loop: Loop) -> None:
        self.far, near = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        near.setblocking(False)
        self.far.setblocking(False)
        self.loop = loop
        parameters = replace(Dcqcn(), cnp_interval_ns=INTERVAL_NS)
        self.agent = NicAgent(loop, NIC, parameters, lambda: {MARKED.queue_pair: PEER}, Record())
        self.agent._socket = near  # in place of a packet socket, which needs a network of its own
        self.agent._apply_filter()
        loop.watch(near.fileno(), self.agent._heard)

    def sends_marked(self) -> None:
        """A marked packet of the one queue pair."""
        self.far.send(frame(MARKED))

    def runs_for(self, span_ns: int) -> None:
        self.loop.call_at(time.time_ns() + span_ns, self.loop.stop)
        self.loop.run()

    def cnps(self) -> int:
        """How many have come back since the last look."""
        count = 0
        while True:
            try:
                packet = parse(self.far.recv(HEADER_BYTES))
            except BlockingIOError:
                return count
            assert packet is not None
            assert (packet.opcode, packet.queue_pair) == (CNP, PEER)
            count += 1

    def close(self) -> None:
        self.agent._socket.close()
        self.far.close()


@pytest.fixture
def wired() -> Iterator[Wired]:
    with Loop() as loop:
        wired = Wired(loop)
        yield wired
        wired.close()


def test_a_packet_from_before_the_filter_is_answered_before_a_late_timer_and_both_end_well(wired: Wired) -> None:
    """Two packets wait when the agent comes to the first, and it comes to the second only when the mute is over and
    its timer due: the packet is served first, and the queue pair is muted anew."""
    wired.sends_marked()
    wired.sends_marked()
    wired.agent._heard()
    time.sleep(2 * INTERVAL_NS / 1e9)
    wired.runs_for(INTERVAL_NS // 20)
    assert wired.cnps() == 2
    wired.sends_marked()
    wired.runs_for(INTERVAL_NS // 20)
    assert wired.cnps() == 0  # the first timer has not ended the second mute
    wired.runs_for(2 * INTERVAL_NS)
    wired.sends_marked()
    wired.runs_for(INTERVAL_NS // 20)
    assert wired.cnps() == 1


def test_a_muted_queue_pair_costs_no_system_call(wired: Wired) -> None:
    """What the filter holds back never comes to the socket."""
    wired.sends_marked()
    wired.agent._heard()
    wired.sends_marked()
    with pytest.raises(BlockingIOError):
        wired.agent._socket.recv(HEADER_BYTES)
    assert wired.cnps() == 1
