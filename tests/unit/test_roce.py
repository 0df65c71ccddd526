"""RoCE without a kernel: how a flow cuts and counts its bytes, against ends that acknowledge as a test likes; what the
kernel's RDMA netlink is told and tells; and what is refused."""

from __future__ import annotations

import errno
import io
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import rdma
from topologies.netlink import NetlinkError, Request, attribute, nested, number, text
from topologies.units import BadRequest
from workloads.transport import roce
from workloads.transport.roce import Completion, Piece, QueuePairs, RoceConnection

KIB, MIB = 1 << 10, 1 << 20

# --- ends that a test moves


class Wire:
    """Two ends; what the sending one has posted arrives, and is acknowledged, when the test says so."""

    def __init__(self) -> None:
        self.under_way: deque[tuple[Piece, bool]] = deque()
        self.posted: list[list[Piece]] = []
        self.sending, self.receiving = FakeEnd(17, self), FakeEnd(18, self)

    def post(self, pieces: Sequence[Piece], is_write: bool) -> None:
        self.posted.append(list(pieces))
        self.under_way.extend((piece, is_write) for piece in pieces)

    @property
    def under_way_bytes(self) -> int:
        return sum(size for (size, _), _ in self.under_way)

    def deliver(self, count: int) -> int:
        """The next `count` work requests arrive and are acknowledged; returns the bytes."""
        delivered = 0
        for _ in range(min(count, len(self.under_way))):
            (size, announced), is_write = self.under_way.popleft()
            if announced or not is_write:
                self.receiving.take(("", size, announced), wakes=bool(announced))
            self.sending.complete(("", size, 0))
            delivered += size
        return delivered


class FakeEnd:
    """See `roce.End`; its descriptor is a pipe with a byte for an event."""

    def __init__(self, number: int, wire: Wire) -> None:
        self.number, self._wire = number, wire
        self.descriptor, self._writer = os.pipe()
        self.receives = 0
        self._found: list[Completion] = []
        self._armed = True

    def connect(self, *asked: Any) -> None:
        raise NotImplementedError  # no test of the flow alone connects

    def write(self, peer: roce.End, pieces: Sequence[Piece]) -> None:
        self._wire.post(pieces, is_write=True)

    def send(self, pieces: Sequence[Piece]) -> None:
        self._wire.post(pieces, is_write=False)

    def post_receives(self, count: int) -> None:
        self.receives += count

    def take(self, completion: Completion, wakes: bool) -> None:
        """A message needs a receive that waits for it."""
        assert self.receives > 0, "receiver not ready"
        self.receives -= 1
        self.complete(completion, wakes)

    def complete(self, completion: Completion, wakes: bool = True) -> None:
        self._found.append(completion)
        if self._armed and wakes:
            os.write(self._writer, b"x")
            self._armed = False

    def rearm(self) -> None:
        assert os.read(self.descriptor, 1) == b"x"
        self._armed = True

    def completed(self) -> list[Completion]:
        found, self._found = self._found, []
        return found

    def psns(self) -> tuple[int, int]:
        return 7, 9

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._writer)


@contextmanager
def flow(asked: QueuePairs) -> Iterator[tuple[RoceConnection, Wire]]:
    wire = Wire()
    connection = RoceConnection("h2", ("h2", "h1"), ("10.0.0.2", "10.0.0.1"), wire.sending, wire.receiving, asked)
    try:
        yield connection, wire
    finally:
        connection.close()


def is_writable(descriptor: int) -> bool:
    return bool(select.select([], [descriptor], [], 0)[1])


def is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


# --- what is posted


@pytest.mark.parametrize(
    ("asked", "size", "pieces"),
    [
        (QueuePairs(), 300_000, [(300_000, 300_000)]),
        (QueuePairs(), 2 * MIB + 5, [(MIB, MIB), (MIB, MIB), (5, 5)]),
        (QueuePairs(message_bytes=1000), 2500, [(1000, 1000), (1000, 1000), (500, 500)]),
        # A quarter of the window is 2 packets; what is over the window waits.
        (QueuePairs(mtu_bytes=1024, window_bytes=8 * KIB), 9 * KIB, 4 * [(2048, 0)]),
        (QueuePairs(mtu_bytes=1024, window_bytes=8 * KIB), 5 * KIB, [(2048, 0), (2048, 0), (1024, 5120)]),
        (
            QueuePairs(mtu_bytes=1024, window_bytes=8 * KIB, message_bytes=3000),
            5000,
            [(2048, 0), (952, 3000), (2000, 2000)],
        ),
        (QueuePairs(mtu_bytes=4096, window_bytes=10_000), 12_000, [(4096, 0), (4096, 0)]),
    ],
)
def test_pieces(asked: QueuePairs, size: int, pieces: list[Piece]) -> None:
    with flow(asked) as (connection, wire):
        assert connection.send(size) == size
        assert wire.posted == [pieces]  # in one call


def test_a_message_that_waited_for_the_window_ends_as_it_would_have() -> None:
    with flow(QueuePairs(mtu_bytes=1024, window_bytes=8 * KIB)) as (connection, wire):
        connection.send(9 * KIB)
        wire.deliver(1)
        assert connection.receive() == 0
        assert wire.posted[1:] == [[(1024, 9 * KIB)]]
        wire.deliver(4)
        assert connection.receive() == 9 * KIB


@pytest.mark.parametrize("verb", roce.VERBS)
def test_the_receiver_wakes_for_whole_messages(verb: str) -> None:
    with flow(QueuePairs(verb=verb, mtu_bytes=1024, window_bytes=8 * KIB)) as (connection, wire):
        connection.send(8 * KIB)
        wire.sending._armed = False  # only the receiver's events are watched here
        wire.deliver(3)
        assert not is_readable(connection.receive_descriptor)
        wire.deliver(1)
        assert is_readable(connection.receive_descriptor)
        assert connection.receive() == 8 * KIB
        assert not is_readable(connection.receive_descriptor)


def test_a_full_flow_is_not_writable_until_half_is_acknowledged() -> None:
    with flow(QueuePairs(queue_bytes=4 * MIB)) as (connection, wire):
        assert is_writable(connection.send_descriptor)
        assert connection.send(3 * MIB) == 3 * MIB
        assert is_writable(connection.send_descriptor)
        assert connection.send(3 * MIB) == MIB
        assert connection.send(1) == 0
        assert not is_writable(connection.send_descriptor)
        wire.deliver(1)
        assert connection.receive() == MIB
        assert not is_writable(connection.send_descriptor)
        wire.deliver(1)
        assert connection.receive() == MIB
        assert is_writable(connection.send_descriptor)
        assert connection.send(3 * MIB) == 2 * MIB


QUEUE_PAIRS = st.builds(
    lambda packets, window, **rest: QueuePairs(
        window_bytes=None if window is None else packets * rest["mtu_bytes"] + window, **rest
    ),
    packets=st.integers(1, 40),
    window=st.none() | st.integers(0, 5000),
    verb=st.sampled_from(roce.VERBS),
    mtu_bytes=st.sampled_from(rdma.MTUS_BYTES),
    message_bytes=st.integers(1000, 50_000),
    queue_bytes=st.integers(4096, 1_000_000),
)


@given(QUEUE_PAIRS, st.lists(st.tuples(st.integers(1, 200_000), st.integers(0, 30)), min_size=1, max_size=20))
def test_every_byte_arrives_and_no_limit_is_passed(asked: QueuePairs, steps: list[tuple[int, int]]) -> None:
    """Bytes are offered and acknowledged in turn, the flow is only seen to when it says so."""
    with flow(asked) as (connection, wire):
        taken = arrived = 0
        for offered, acknowledged in steps:
            taken += connection.send(offered)
            wire.deliver(acknowledged)
            arrived += seen_to(connection)
            check_limits(asked, wire, taken - arrived)
        while wire.under_way:
            wire.deliver(1)
            arrived += seen_to(connection)
            check_limits(asked, wire, taken - arrived)
        assert arrived == taken
        assert is_writable(connection.send_descriptor)
        assert wire.receiving.receives == roce._DEPTH


def seen_to(connection: RoceConnection) -> int:
    return connection.receive() if is_readable(connection.receive_descriptor) else 0


def check_limits(asked: QueuePairs, wire: Wire, missing_bytes: int) -> None:
    assert len(wire.under_way) <= roce._DEPTH
    assert wire.under_way_bytes <= (asked.window_bytes or asked.queue_bytes)
    assert missing_bytes <= asked.queue_bytes + asked.message_bytes
    for pieces in wire.posted:
        assert all(0 < size <= asked.message_bytes and announced <= asked.message_bytes for size, announced in pieces)


# --- what is told


@pytest.mark.parametrize(("end", "host"), [("sending", "h2"), ("receiving", "h1")])
def test_death_names_the_flow_the_host_and_the_reason(end: str, host: str) -> None:
    with flow(QueuePairs()) as (connection, wire):
        connection.send(MIB)
        getattr(wire, end).complete(("transport retry counter exceeded", 0, 0))
        assert is_readable(connection.receive_descriptor)
        with pytest.raises(
            ConnectionError, match=f"^flow h2 to h1 has died at {host}: transport retry counter exceeded$"
        ):
            connection.receive()


def test_description() -> None:
    with flow(QueuePairs(verb="send", mtu_bytes=1024)) as (connection, _):
        assert (connection.source, connection.destination) == (("10.0.0.2", 17), ("10.0.0.1", 18))
        assert connection.describe() == {
            "flow": "h2",
            "sender": "h2",
            "receiver": "h1",
            "source": "10.0.0.2:17",
            "destination": "10.0.0.1:18",
            "roce": {"verb": "send", "mtu_bytes": 1024, "window_bytes": None, "sender_psn": 7, "receiver_psn": 9},
        }


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"window_bytes": 4095}, "window: 4095 B; allowed: at least one packet, 4096 B"),
        ({"retries": 8}, "retries: 8; allowed: 0 to 6, or 7 for ever"),
    ],
)
def test_refusals(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=f"^{said}$"):
        QueuePairs(**asked)


def test_without_pyverbs(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(
        BadRequest, match=r"^transport: roce needs pyverbs; allowed: tcp, or the package python3-pyverbs$"
    ):
        roce.connected(None, [("h2", "h1")]).__enter__()  # type: ignore[arg-type]


# --- RDMA netlink


@pytest.mark.parametrize(
    ("link_bytes", "roce_bytes"),
    [(9000, 4096), (4176, 4096), (4175, 2048), (1500, 1024), (1103, 512), (336, 256), (68, 256)],
)
def test_largest_mtu(link_bytes: int, roce_bytes: int) -> None:
    assert rdma.largest_mtu_bytes(link_bytes) == roce_bytes


class FakeKernel:
    """Stands where an RDMA netlink socket would: answers queries from `answers`, refuses what is in `refusals`."""

    def __init__(self, answers: dict[int, list[bytes]] | None = None, refusals: dict[int, int] | None = None) -> None:
        self.answers, self.refusals = answers or {}, refusals or {}
        self.executed: list[Request] = []

    def __call__(self) -> FakeKernel:
        return self

    def __enter__(self) -> FakeKernel:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def execute(self, requests: Any) -> None:
        for request in requests:
            self.executed.append(request)
            if request.kind in self.refusals:
                raise NetlinkError(self.refusals[request.kind], request.says)

    def query(self, request: Request) -> list[bytes]:
        return self.answers[request.kind]


UDP_TABLE = "  sl  local_address rem_address\n   53: 00000000:12B7 00000000:0000 07\n"
EXCLUSIVE, SHARED = [attribute(66, b"\0")], [attribute(66, b"\1")]
DEVICES = [number(1, 4) + text(2, "rxe-h1"), number(1, 9) + text(2, "rxe-h2")]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(kernel: FakeKernel, udp_table: str = UDP_TABLE) -> FakeKernel:
        monkeypatch.setattr(rdma, "_RdmaNetlink", kernel)
        monkeypatch.setattr(rdma, "entered", lambda namespace: nullcontext())
        monkeypatch.setattr("builtins.open", lambda path: io.StringIO(udp_table))
        return kernel

    return use


def test_devices_are_made_moved_and_removed(use: Any) -> None:
    kernel = use(FakeKernel({rdma._GET: DEVICES, rdma._SYS_GET: EXCLUSIVE}))
    with rdma.attached({"h1": 11, "h2": 12}):
        made = [request.kind for request in kernel.executed]
        assert made == 2 * [rdma._NEWLINK, rdma._SET]
        assert [request.body for request in kernel.executed[1::2]] == [
            number(1, 4) + number(68, 11),
            number(1, 9) + number(68, 12),
        ]
        assert kernel.executed[0].body == text(2, "rxe-h1") + text(65, "rxe") + text(51, "eth0")
    assert [request.body for request in kernel.executed[4:]] == [number(1, 9), number(1, 4)]


def test_shared_devices_are_not_moved(use: Any) -> None:
    kernel = use(FakeKernel({rdma._GET: DEVICES, rdma._SYS_GET: SHARED}))
    with rdma.attached({"h1": 11}):
        assert [request.kind for request in kernel.executed] == [rdma._NEWLINK]


def test_a_device_that_is_gone_is_none_to_remove(use: Any) -> None:
    kernel = use(FakeKernel({rdma._GET: DEVICES, rdma._SYS_GET: SHARED}))
    with rdma.attached({"h1": 11}):
        kernel.answers[rdma._GET] = []
    assert len(kernel.executed) == 1


def test_a_kernel_without_rdma(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_family(*arguments: Any) -> Any:
        raise OSError(errno.EPROTONOSUPPORT, "Protocol not supported")

    monkeypatch.setattr(socket, "socket", no_family)
    said = "^transport: roce needs soft-RoCE; allowed: tcp, or a kernel with CONFIG_INFINIBAND and CONFIG_RDMA_RXE$"
    with pytest.raises(BadRequest, match=said):
        rdma.isolate()


def test_a_kernel_without_soft_roce(use: Any) -> None:
    use(FakeKernel({rdma._SYS_GET: SHARED}, {rdma._NEWLINK: errno.EINVAL}))
    with pytest.raises(BadRequest, match=r"allowed: tcp, or a kernel with CONFIG_RDMA_RXE$"):
        rdma.attached({"h1": 11}).__enter__()


def test_another_refusal_is_not_taken_for_that(use: Any) -> None:
    use(FakeKernel({rdma._SYS_GET: SHARED}, {rdma._NEWLINK: errno.EEXIST}))
    with pytest.raises(NetlinkError, match="add RDMA device rxe-h1 on eth0"):
        rdma.attached({"h1": 11}).__enter__()


def test_soft_roce_that_is_deaf_in_namespaces(use: Any) -> None:
    use(FakeKernel({rdma._GET: DEVICES, rdma._SYS_GET: SHARED}), udp_table=UDP_TABLE.replace("12B7", "12B5"))
    with pytest.raises(BadRequest, match=r"a kernel with soft-RoCE in network namespaces \(Linux 7\)$"):
        rdma.attached({"h1": 11}).__enter__()


def test_isolation_that_comes_too_late_is_done_without(use: Any) -> None:
    use(FakeKernel(refusals={rdma._SYS_SET: errno.EBUSY}))
    rdma.isolate()
    use(FakeKernel(refusals={rdma._SYS_SET: errno.EPERM}))
    with pytest.raises(NetlinkError):
        rdma.isolate()


def test_queue_pairs(use: Any) -> None:
    """A dump in two parts; the queue pair of the management datagrams has no peer."""
    entries = [nested(20, number(21, own), number(22, peer)) for own, peer in ((17, 23), (18, 24), (19, 17))]
    management = nested(20, number(21, 1))
    parts = [nested(19, management, *entries[:2]), nested(19, entries[2])]
    use(FakeKernel({rdma._GET: DEVICES, rdma._RES_QP_GET: parts}))
    assert rdma.queue_pairs("h2", 12) == {17: 23, 18: 24, 19: 17}


def test_counters(use: Any) -> None:
    entries = [
        nested(81, text(82, name), attribute(83, struct.pack("=Q", value)))
        for name, value in (("sent_pkts", 1 << 40), ("rcvd_pkts", 7))
    ]
    use(FakeKernel({rdma._GET: DEVICES, rdma._STAT_GET: [number(1, 9) + number(3, 1) + nested(80, *entries)]}))
    assert rdma.counters("h2", 12) == {"sent_pkts": 1 << 40, "rcvd_pkts": 7}


def test_a_host_without_a_device(use: Any) -> None:
    use(FakeKernel({rdma._GET: DEVICES}))
    with pytest.raises(OSError, match="h3 has no RDMA device rxe-h3"):
        rdma.counters("h3", 13)
