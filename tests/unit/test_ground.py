"""Kernels with fewer queues than ours: what a port and a NIC are there, what is refused, and how a kernel is tried."""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topologies import hosts, live_queues, packet_sockets, qdisc, qdisc_kinds, trial
from topologies.ground import LAB_REAL, LAB_VIRTUAL, MACHINE, NETDEV, OWN_KINDS, STOCK_KINDS, SYSTEM, Ground, own_kernel
from topologies.netlink import NetlinkError, Request, RouteTcp, attributes, new_route, one_segment
from topologies.profiles import HostProfile, LinkProfile, Lossless, Marking, SwitchProfile

STOCK = own_kernel(STOCK_KINDS, tick_ns=4_000_000, datapath=SYSTEM)
BARE = replace(STOCK, kinds=frozenset(("tbf", "bfifo")), datapath=NETDEV)
LINK = LinkProfile(100_000_000, 0, 1500)
SLOW_WAY = replace(LINK, delay_ns=500)
SWITCH = SwitchProfile(0, 64_000)
MARKED = replace(SWITCH, marking=Marking(10_000, 20_000, 0.5))


def layout(stack: tuple[qdisc.Qdisc, ...]) -> list[tuple[Any, ...]]:
    return [tuple(item.as_json()[name] for name in ("kind", "handle", "parent")) for item in stack]


# --- stacks


def test_a_stock_kernel_has_plain_queues_where_ours_are() -> None:
    assert layout(qdisc.switch_port(SLOW_WAY, MARKED, ground=STOCK)) == [
        ("netem", "1:", "root"),
        ("tbf", "2:", "1:1"),
        ("prio", "3:", "2:1"),
        ("bfifo", "4:", "3:1"),
        ("red", "5:", "3:2"),
        ("bfifo", "6:", "5:1"),
        ("red", "7:", "3:3"),
        ("bfifo", "8:", "7:1"),
    ]
    assert layout(qdisc.nic(SLOW_WAY, STOCK)) == [
        ("netem", "1:", "root"),
        ("tbf", "2:", "1:1"),
        ("prio", "3:", "2:1"),
        ("bfifo", "4:", "3:1"),
        ("bfifo", "6:", "3:2"),
        ("bfifo", "8:", "3:3"),
    ]


def test_a_bare_kernel_has_a_rate_and_a_buffer() -> None:
    assert layout(qdisc.switch_port(LINK, SWITCH, ground=BARE)) == [("tbf", "2:", "root"), ("bfifo", "8:", "2:1")]
    assert layout(qdisc.nic(LINK, BARE)) == [("tbf", "2:", "root"), ("bfifo", "8:", "2:1")]


def test_marking_needs_no_classes() -> None:
    found = qdisc.switch_port(LINK, MARKED, ground=replace(BARE, kinds=BARE.kinds | {"red"}))
    assert layout(found) == [("tbf", "2:", "root"), ("red", "7:", "2:1"), ("bfifo", "8:", "7:1")]


def test_the_lossless_class_of_a_stock_kernel_drops_at_the_buffer_s_end() -> None:
    options = {item.as_json()["handle"]: item.options for item in qdisc.switch_port(LINK, SWITCH, ground=STOCK)}
    assert options["6:"] == options["8:"] == {"limit_bytes": 64_000}


@pytest.mark.parametrize(
    ("ground", "link", "switch", "lacks"),
    [
        (BARE, SLOW_WAY, SWITCH, "no netem"),
        (BARE, replace(LINK, loss=0.1), SWITCH, "no netem"),
        (BARE, LINK, replace(SWITCH, delay_ns=1), "no netem"),
        (BARE, LINK, MARKED, "no red"),
        (STOCK, LINK, replace(SWITCH, lossless=Lossless(10_000, 5_000, 20_000)), "no pfc"),
        (BARE, LINK, replace(SWITCH, lossless=Lossless(10_000, 5_000, 20_000)), "no pfc"),
    ],
)
def test_what_is_asked_for_and_not_there_is_refused(
    ground: Ground, link: LinkProfile, switch: SwitchProfile, lacks: str
) -> None:
    with pytest.raises(ValueError, match=lacks):
        qdisc.switch_port(link, switch, ground=ground)


def test_a_nic_without_delay_lines_is_refused_a_delay() -> None:
    with pytest.raises(ValueError, match="no netem"):
        qdisc.nic(SLOW_WAY, BARE)


def test_virtual_time_has_the_stacks_that_it_had() -> None:
    assert qdisc.switch_port(SLOW_WAY, MARKED, 3) == qdisc.switch_port(SLOW_WAY, MARKED, 3, LAB_VIRTUAL)
    assert qdisc.nic(SLOW_WAY) == qdisc.nic(SLOW_WAY, LAB_VIRTUAL)
    assert all("spaced" not in item.options for item in qdisc.switch_port(SLOW_WAY, MARKED))


@pytest.mark.parametrize("rate_bps", [10_000_000, 100_000_000, 10_000_000_000])
def test_the_bucket_holds_what_passes_while_a_timer_is_late(rate_bps: int) -> None:
    link = replace(LINK, rate_bps=rate_bps)
    for ground in (LAB_REAL, STOCK, BARE):
        late_bytes = rate_bps * ground.timer_lateness_ns // 8_000_000_000
        assert link.frame_bytes + late_bytes <= qdisc.burst_bytes(link, ground) <= link.frame_bytes + late_bytes + 1


# --- marks of a stock kernel


def sent_flags(options: bytes) -> tuple[int, int]:
    """Value and selector of TCA_RED_FLAGS; (0, 0) without."""
    return struct.unpack("=II", attributes(attributes(options)[2]).get(4, bytes(8)))


@pytest.mark.parametrize(("drops", "value"), [(False, 1 | 8), (True, 0)])
def test_a_stock_kernel_is_not_asked_for_what_only_ours_knows(drops: bool, value: int) -> None:
    switch = replace(MARKED, marking=replace(MARKED.marking, drop=drops))  # type: ignore[type-var]
    stack = qdisc.switch_port(LINK, switch, ground=STOCK)
    options = next(item.options for item in stack if item.kind == "red")
    assert sent_flags(qdisc_kinds.FORMATS["red"].encode(options)) == (value, 1 | 8)


def test_how_a_stock_kernel_marks_is_read_back() -> None:
    stack = qdisc.switch_port(LINK, MARKED, ground=STOCK)
    red = next(item for item in stack if item.kind == "red")
    told = attributes(qdisc_kinds.FORMATS["red"].encode(red.options))[2]
    assert qdisc_kinds.FORMATS["red"].decode(told) == red.options
    assert red.options["spaced"] is True


def test_another_curve_leaves_how_a_port_marks() -> None:
    """A stock kernel knows ECN alone of the flags that the curve's own structure may hold."""
    body = live_queues.change_marking(9, False, Marking(7, 70, 0.25)).body[20:]
    parameters = attributes(attributes(body)[2])
    assert 4 not in parameters
    assert parameters[1][15] == 1


# --- hosts


def test_a_route_names_the_congestion_control() -> None:
    plain, named = (new_route(3, "10.0.0.0", 8, RouteTcp(200, 10, cc)) for cc in (None, "cubic"))
    metrics = attributes(attributes(named.body[12:])[8])
    assert metrics.pop(16) == b"cubic\0"
    assert metrics == attributes(attributes(plain.body[12:])[8])


def test_another_s_kernel_is_not_told_a_congestion_control() -> None:
    profile = HostProfile("cubic", 200_000_000)
    ours, others = hosts.tcp_sysctls(profile), hosts.tcp_sysctls(profile, is_ours=False)
    assert ours == {"tcp_congestion_control": "cubic", **others}


def test_super_packets_are_forbidden_by_the_interface() -> None:
    body = one_segment(7).body
    assert struct.unpack_from("=BxHiII", body) == (0, 0, 7, 0, 0)
    assert attributes(body[16:]) == {40: struct.pack("=I", 1)}


def test_a_kernel_without_ipv6_needs_nothing_turned_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hosts, "_IPV6", tmp_path / "none")
    monkeypatch.setattr(hosts, "apply_sysctls", lambda *arguments, **keys: pytest.fail("written"))
    hosts.ipv6_off()


# --- trials


class Lacking:
    """A kernel that refuses some kinds of queues."""

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds
        self.installed: list[str] = []

    def execute(self, requests: Any) -> None:
        for request in requests:
            self._carry_out(request)

    def _carry_out(self, request: Request) -> None:
        words = request.says.split()
        if words[0] == "remove":
            self.installed.append("removed")
        elif words[0] == "add":
            if words[1] in self._kinds:
                raise NetlinkError(errno.ENOENT, request.says)
            self.installed.append(words[1])


def test_every_kind_is_tried_and_removed_again() -> None:
    kernel = Lacking("netem", "pfc")
    took = [each.kind for each in trial._tried() if trial._takes(kernel, 2, each)]  # type: ignore[arg-type]
    assert set(took) == (STOCK_KINDS | OWN_KINDS) - {"netem", "pfc"}
    assert kernel.installed == [word for kind in took for word in (kind, "removed")]


def test_kinds_are_tried_at_the_root() -> None:
    assert {each.parent for each in trial._tried()} == {qdisc.ROOT}
    assert next(each.options for each in trial._tried() if each.kind == "red")["spaced"] is True


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces of networks are made")
def test_this_kernel_is_looked_at_and_left_as_it_was() -> None:
    before = Path("/proc/thread-self/net/dev").read_text().count(":")
    found = trial.here()
    assert (found.place, found.is_virtual, found.is_ours) == (MACHINE, False, False)
    assert found.kinds >= {"tbf", "bfifo"}
    assert 1_000_000 <= found.tick_ns <= 10_000_000
    assert Path("/proc/thread-self/net/dev").read_text().count(":") == before


def test_an_algorithm_is_tried() -> None:
    assert trial.has_algorithm("reno")  # it cannot be left out of a kernel (net/ipv4/tcp_cong.c)
    assert not trial.has_algorithm("none_such")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: packet sockets are made")
def test_the_packet_sockets_of_a_process_are_widened() -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as one, socket.socket() as other:
        before = other.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert packet_sockets.widen(os.getpid(), 32 << 20, 16 << 20) == 1
        rooms = [one.getsockopt(socket.SOL_SOCKET, which) for which in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
        assert rooms == [64 << 20, 32 << 20]  # the kernel doubles what it is asked for (socket(7))
        assert other.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == before
