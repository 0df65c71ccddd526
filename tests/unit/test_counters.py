"""The kernel's TCP counters from its own text."""

from __future__ import annotations

import socket

import pytest

from workloads.counters import difference, parse, read_transmitted, transmitted

# /proc/net/snmp and /proc/net/netstat of Linux 7.3, some columns left out.
RECORDED = """\
Ip: Forwarding DefaultTTL InReceives
Ip: 2 64 1310
Icmp: InMsgs InErrors
Icmp: 0 0
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens RetransSegs InErrs
Tcp: 1 200 120000 -1 2 57 0
Udp: InDatagrams NoPorts
Udp: 7 0
TcpExt: SyncookiesSent TCPLossProbes TCPTimeouts TCPFastRetrans
TcpExt: 0 4 6 47
IpExt: InNoRoutes InOctets
IpExt: 0 8774378
MPTcpExt: MPCapableSYNRX RetransSegs
MPTcpExt: 0 999
"""


def test_tcp_counters_are_read_and_others_are_not() -> None:
    assert parse(RECORDED) == {
        "RtoAlgorithm": 1, "RtoMin": 200, "RtoMax": 120_000, "MaxConn": -1, "ActiveOpens": 2, "RetransSegs": 57,
        "InErrs": 0, "SyncookiesSent": 0, "TCPLossProbes": 4, "TCPTimeouts": 6, "TCPFastRetrans": 47,
    }  # fmt: skip


def test_no_text_is_no_counters() -> None:
    assert parse("") == {}


def test_this_kernels_counters_are_read() -> None:
    with open("/proc/self/net/snmp") as snmp, open("/proc/self/net/netstat") as netstat:
        found = parse(snmp.read() + netstat.read())
    assert {"RetransSegs", "InSegs", "TCPTimeouts", "TCPLossProbes", "TCPFastRetrans"} <= set(found)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"h1": {"a": 1}}, {"h1": {"a": 1}}, {"h1": {}}),
        ({"h1": {"a": 1, "b": 5}}, {"h1": {"a": 4, "b": 5}}, {"h1": {"a": 3}}),
        ({"h1": {}}, {"h1": {"new": 2, "zero": 0}}, {"h1": {"new": 2}}),
        ({"h1": {"a": 1}, "h2": {"a": 1}}, {"h1": {"a": 2}, "h2": {"a": 3}}, {"h1": {"a": 1}, "h2": {"a": 2}}),
    ],
)
def test_what_grew(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]], expected: object) -> None:
    assert difference(before, after) == expected


# As in /proc/net/dev (net/core/net-procfs.c), its heading cut short; no two columns of the first interface are alike.
DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets ...
    lo:  1880      20    1    2    3     4          5         6     1880      21    7    8    9    10      11         12
leaf1-eth12:123456789012 98765432 0 0 0 0 0 0 66 3 0 0 0 0 0 0
ovs-system: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""


def test_packets_sent_of_every_interface() -> None:
    assert transmitted(DEV) == {"lo": 21, "leaf1-eth12": 3, "ovs-system": 0}


def test_this_kernels_interfaces_are_read() -> None:
    found = read_transmitted()
    assert found["lo"] >= 0
    assert found.keys() == {name for _, name in socket.if_nameindex()}
