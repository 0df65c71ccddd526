"""UDP datagrams that ask the fabric something: how far is it, which way, does it still work."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from topologies.emulate import Fabric
from topologies.namespaces import entered
from workloads.patterns import Pair

SINK_PORT = 7000
SOURCE_PORT = 20_000  # fixed, so that equal specs take equal ways
PROBE_BYTES = 64  # of IP: a small frame, as a latency is quoted for
SENT_TTL = 64
_IP_UDP_BYTES = 28
_RECEIVE_BUFFER_BYTES = 64 << 20
_SETTLE_S = 0.01
_AT_A_TIME = 64  # what Open vSwitch can look up for the first time at once without losing any
_IP_RECVTTL, _SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 12, 35, 33
_NUMBER = struct.Struct("!IQ")


@contextmanager
def sockets(fabric: Fabric, hosts: Sequence[str], port: int = 0) -> Iterator[dict[str, socket.socket]]:
    """Host -> a bound UDP socket that tells TTL and arrival time (ip(7), socket(7)); not blocking."""
    with ExitStack() as stack:
        made = {}
        for host in dict.fromkeys(hosts):
            with entered(fabric.namespaces[host]):
                made[host] = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            made[host].bind((fabric.nameToNode[host].IP(), port))
            made[host].setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
            made[host].setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            made[host].setsockopt(socket.IPPROTO_IP, _IP_RECVTTL, 1)
            made[host].setblocking(False)
        yield made


@dataclass(frozen=True)
class Arrival:
    """A datagram as received: its payload, TTL, and the kernel's time of arrival (CLOCK_REALTIME ns)."""

    payload: bytes
    ttl: int
    time_ns: int


def receive_all(sink: socket.socket) -> Iterator[Arrival]:
    """Everything that has arrived so far, in order."""
    while True:
        try:
            payload, ancillary, _, _ = sink.recvmsg(PROBE_BYTES, 128)
        except BlockingIOError:
            return
        found = {kind: data for _, kind, data in ancillary}
        seconds, nanoseconds = struct.unpack("=qq", found[_SO_TIMESTAMPNS])
        yield Arrival(payload, struct.unpack("=i", found[socket.IP_TTL])[0], seconds * 10**9 + nanoseconds)


def warm_up(fabric: Fabric, senders: dict[str, socket.socket]) -> None:
    """Let every host learn its gateway's MAC address, so that what follows is not held up by ARP."""
    for host, sending in senders.items():
        first = next(other for other in fabric.hosts if other.name != host)
        sending.sendto(b"", (first.IP(), SINK_PORT - 1))
    time.sleep(_SETTLE_S)


@dataclass(frozen=True)
class Probe:
    """What one datagram saw of the way from sender to receiver: TTL left, and time one way in ns; both None when it did
    not arrive."""

    sender: str
    receiver: str
    ttl: int | None
    delay_ns: int | None

    @property
    def switches(self) -> int | None:
        """Switches passed: each takes one from the TTL."""
        return None if self.ttl is None else SENT_TTL - self.ttl


def probe(fabric: Fabric, pairs: Sequence[Pair], wait_s: float) -> list[Probe]:
    """One datagram for each pair, alone in the fabric; `wait_s` is longer than any way through it."""
    with (
        sockets(fabric, [to for _, to in pairs], SINK_PORT) as sinks,
        sockets(fabric, [by for by, _ in pairs], SOURCE_PORT) as senders,
    ):
        warm_up(fabric, senders)
        return [
            _probe(fabric, senders[sender], sinks[receiver], sender, receiver, wait_s) for sender, receiver in pairs
        ]


def _probe(
    fabric: Fabric, sending: socket.socket, sink: socket.socket, sender: str, receiver: str, wait_s: float
) -> Probe:
    """The second of two datagrams: the first of a flow is held up at each Open vSwitch, which looks it up in its tables
    and then makes a cache entry of it; a switch of silicon has no such first packet."""
    target = (fabric.nameToNode[receiver].IP(), SINK_PORT)
    found: list[Arrival] = []
    for _ in range(2):
        sent_ns = time.time_ns()
        sending.sendto(bytes(PROBE_BYTES - _IP_UDP_BYTES), target)
        time.sleep(wait_s)
        found = list(receive_all(sink))
    if not found:
        return Probe(sender, receiver, None, None)
    return Probe(sender, receiver, found[0].ttl, found[0].time_ns - sent_ns)


def count_arrivals(fabric: Fabric, pairs: Sequence[Pair]) -> dict[Pair, int]:
    """How often the one datagram of each pair arrived at its receiver, many under way at a time."""
    hosts = [host for pair in pairs for host in pair]
    counts = dict.fromkeys(pairs, 0)
    with sockets(fabric, hosts, SINK_PORT) as ours:
        warm_up(fabric, ours)
        for number, (sender, receiver) in enumerate(pairs, start=1):
            ours[sender].sendto(sender.encode(), (fabric.nameToNode[receiver].IP(), SINK_PORT))
            if number % _AT_A_TIME == 0:
                time.sleep(_SETTLE_S)
        time.sleep(_SETTLE_S)
        for receiver, sink in ours.items():
            for arrival in receive_all(sink):
                counts[arrival.payload.decode(), receiver] += 1
    return counts


def scatter(fabric: Fabric, flows: Sequence[tuple[str, str, int]]) -> int:
    """One datagram of each flow (sender, receiver, source port), one after the other; returns how many arrived."""
    with sockets(fabric, [receiver for _, receiver, _ in flows], SINK_PORT) as sinks:
        arrived = 0
        for number, (sender, receiver, source_port) in enumerate(flows, start=1):
            with entered(fabric.namespaces[sender]), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
                sending.bind((fabric.nameToNode[sender].IP(), source_port))
                sending.sendto(bytes(PROBE_BYTES - _IP_UDP_BYTES), (fabric.nameToNode[receiver].IP(), SINK_PORT))
            if number % _AT_A_TIME == 0 or number == len(flows):
                time.sleep(_SETTLE_S)
                arrived += sum(1 for sink in sinks.values() for _ in receive_all(sink))
        return arrived


@dataclass(frozen=True)
class Stream:
    """What became of one stream of numbered datagrams, `interval_ns` apart from `first_ns` on: the numbers of those
    that were lost, how many came twice or after a later one, and the longest time in ns without an arrival, from the
    first datagram sent to the last."""

    sender: str
    receiver: str
    first_ns: int
    interval_ns: int
    sent: int
    lost: tuple[int, ...]
    duplicates: int
    reordered: int
    longest_gap_ns: int


def stream(
    fabric: Fabric,
    pairs: Sequence[Pair],
    interval_ns: int,
    count: int,
    begin_ns: int,
    wait_s: float,
    account: Callable[[list[Stream]], None],
) -> None:
    """`count` datagrams of each pair, all pairs at the same times, the first at `begin_ns`; `wait_s` is longer than any
    way through the fabric. Each receiver has one sender. `account` is given what became of them, also when the streams
    are interrupted."""
    arrivals: dict[Pair, list[tuple[int, int]]] = {pair: [] for pair in pairs}
    sent = 0
    with (
        sockets(fabric, [to for _, to in pairs], SINK_PORT) as sinks,
        sockets(fabric, [by for by, _ in pairs], SOURCE_PORT) as ours,
    ):
        for sender, receiver in pairs:
            ours[sender].connect((fabric.nameToNode[receiver].IP(), SINK_PORT))
        try:
            for sent in range(1, count + 1):
                number = sent - 1
                _sleep_until(begin_ns + number * interval_ns)
                for sender, _ in pairs:
                    ours[sender].send(_NUMBER.pack(number, begin_ns))
                if number % _AT_A_TIME == 0:
                    _drain(pairs, sinks, arrivals)
            time.sleep(wait_s)
        finally:
            _drain(pairs, sinks, arrivals)
            account([_account(pair, arrivals[pair], begin_ns, interval_ns, sent) for pair in pairs])


def _drain(pairs: Sequence[Pair], sinks: dict[str, socket.socket], arrivals: dict[Pair, list[tuple[int, int]]]) -> None:
    for pair in pairs:
        for arrival in receive_all(sinks[pair[1]]):
            arrivals[pair].append((_NUMBER.unpack(arrival.payload)[0], arrival.time_ns))


def _sleep_until(deadline_ns: int) -> None:
    while (left_ns := deadline_ns - time.time_ns()) > 0:
        time.sleep(left_ns / 1e9)


def _account(pair: Pair, arrivals: Sequence[tuple[int, int]], first_ns: int, interval_ns: int, count: int) -> Stream:
    numbers = [number for number, _ in arrivals]
    times_ns = [time_ns for _, time_ns in arrivals]
    silences_ns = [after - before for before, after in zip([first_ns, *times_ns], times_ns)]
    silences_ns.append(first_ns + (count - 1) * interval_ns - (times_ns[-1] if times_ns else first_ns))
    seen = set(numbers)
    latest, reordered = -1, 0
    for number in numbers:
        reordered += number < latest
        latest = max(latest, number)
    return Stream(
        *pair,
        first_ns=first_ns,
        interval_ns=interval_ns,
        sent=count,
        lost=tuple(sorted(set(range(count)) - seen)),
        duplicates=len(numbers) - len(seen),
        reordered=reordered,
        longest_gap_ns=max(silences_ns),
    )
