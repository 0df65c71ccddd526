"""Netlink messages against bytes packed by hand, and the conversation with the kernel against a fake one."""

from __future__ import annotations

import errno
import os
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import netlink
from topologies.netlink import (
    NLM_F_DUMP,
    RTM_GETQDISC,
    Netlink,
    NetlinkError,
    Port,
    Request,
    RouteTcp,
    attribute,
    attributes,
    delete_link,
    link_down,
    link_up,
    nested,
    new_address,
    new_route,
    new_veth,
    number,
    text,
)


def hexed(*parts: str) -> bytes:
    """Bytes of hex texts; blanks are for the eye."""
    return bytes.fromhex("".join(parts))


# --- packing (all numbers little-endian, as on the only architecture of the lab)


def test_an_attribute_is_padded_to_four_bytes() -> None:
    assert attribute(3, b"abc") == hexed("0700 0300 616263 00")
    assert attribute(3, b"abcd") == hexed("0800 0300 61626364")
    assert attribute(3, b"") == hexed("0400 0300")


def test_texts_numbers_and_nests() -> None:
    assert text(1, "veth") == hexed("0900 0100 7665746800 000000")
    assert number(4, 1500) == hexed("0800 0400 dc050000")
    assert nested(2, number(1, 7), text(3, "x")) == hexed("1400 0280", "0800 0100 07000000", "0600 0300 7800 0000")


@given(st.dictionaries(st.integers(0, 0x3FFF), st.binary(max_size=50), max_size=8))
def test_attributes_are_read_back(values: dict[int, bytes]) -> None:
    assert attributes(b"".join(attribute(kind, payload) for kind, payload in values.items())) == values


def test_flags_of_an_attribute_are_not_part_of_its_number() -> None:
    assert attributes(nested(18, number(1, 7))) == {18: number(1, 7)}


@given(st.binary(max_size=64))
def test_any_bytes_can_be_read_as_attributes(data: bytes) -> None:
    assert sum(map(len, attributes(data).values())) <= len(data)


def test_link_up() -> None:
    request = link_up(0x102)
    assert (request.kind, request.flags) == (16, 0)  # RTM_NEWLINK
    assert request.body == hexed("00 00 0000", "02010000", "01000000", "01000000")


def test_link_down() -> None:
    request = link_down(0x102)
    assert (request.kind, request.flags) == (16, 0)
    assert request.body == hexed("00 00 0000", "02010000", "00000000", "01000000")  # IFF_UP off, and no other flag


def test_delete_link() -> None:
    request = delete_link(5)
    assert (request.kind, request.body) == (17, hexed("00 00 0000", "05000000", "00000000", "00000000"))


def test_new_address() -> None:
    request = new_address(3, "10.0.0.7", 8)
    assert (request.kind, request.flags) == (20, 0x600)  # RTM_NEWADDR, CREATE | EXCL
    assert request.body == hexed(
        "02 08 00 00", "03000000",  # AF_INET, /8, interface 3
        "0800 0200 0a000007",  # IFA_LOCAL
        "0800 0100 0a000007",  # IFA_ADDRESS
        "0800 0800 00020000",  # IFA_FLAGS: no prefix route
    )  # fmt: skip


def test_new_route_on_the_link() -> None:
    request = new_route(3, "10.0.0.0", 8, RouteTcp(200, 10))
    assert (request.kind, request.flags) == (24, 0x600)  # RTM_NEWROUTE, CREATE | EXCL
    assert request.body == hexed(
        "02 08 00 00 fe 03 fd 01", "00000000",  # AF_INET, /8, main table, boot, link scope, unicast
        "0800 0100 0a000000",  # RTA_DST
        "0800 0400 03000000",  # RTA_OIF
        "1c00 0880",  # RTA_METRICS
        "0800 0100 00200000",  # RTAX_LOCK: bit 13
        "0800 0b00 0a000000",  # RTAX_INITCWND, in packets
        "0800 0d00 c8000000",  # RTAX_RTO_MIN, in milliseconds
    )  # fmt: skip


def test_new_route_through_a_gateway() -> None:
    request = new_route(3, "10.0.0.0", 8, RouteTcp(1, 2), "10.255.255.254")
    assert (request.kind, request.flags) == (24, 0x600)
    assert request.body == hexed(
        "02 08 00 00 fe 03 00 01", "04000000",  # universe scope; RTNH_F_ONLINK: no other route leads to the gateway
        "0800 0100 0a000000",
        "0800 0400 03000000",
        "0800 0500 0afffffe",  # RTA_GATEWAY
        "1c00 0880",
        "0800 0100 00200000",
        "0800 0b00 02000000",
        "0800 0d00 01000000",
    )  # fmt: skip


def test_new_veth() -> None:
    request = new_veth(Port("eth0", "00:00:00:00:00:01", 7), Port("leaf1-eth1", "02:01:00:00:00:01"), 1500)
    assert (request.kind, request.flags) == (16, 0x600)
    assert request.body == hexed(
        "00 00 0000 00000000 00000000 00000000",  # struct ifinfomsg
        "0900 0300 6574683000 000000",  # IFLA_IFNAME eth0
        "0800 0400 dc050000",  # IFLA_MTU
        "0a00 0100 000000000001 0000",  # IFLA_ADDRESS
        "0800 1c00 07000000",  # IFLA_NET_NS_FD
        "4c00 1280",  # IFLA_LINKINFO
        "0900 0100 7665746800 000000",  # IFLA_INFO_KIND veth
        "3c00 0280",  # IFLA_INFO_DATA
        "3800 0100",  # VETH_INFO_PEER
        "00 00 0000 00000000 00000000 00000000",
        "0f00 0300 6c656166312d6574683100 00",  # leaf1-eth1
        "0800 0400 dc050000",
        "0a00 0100 020100000001 0000",
    )  # fmt: skip


# --- the conversation


class FakeSocket:
    """Answers each datagram by a function of its messages (sequence, flags, request type)."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.sent, self.waiting = answer, [], []  # type: ignore[var-annotated]

    def __call__(self, *arguments: object) -> FakeSocket:
        return self

    def setsockopt(self, *arguments: object) -> None: ...

    bind = setsockopt
    close = setsockopt

    def sendall(self, data: bytes) -> None:
        messages, offset = [], 0
        while offset < len(data):
            length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", data, offset)
            messages.append((sequence, flags, kind, data[offset + 16 : offset + length]))
            offset += (length + 3) & ~3
        self.sent.append(messages)
        self.waiting += self.answer(messages)

    def recv(self, size: int) -> bytes:
        return self.waiting.pop(0)


def message(kind: int, sequence: int, payload: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(payload), kind, 0, sequence, 0) + payload


def error(sequence: int, code: int) -> bytes:
    return message(2, sequence, struct.pack("=i", -code) + bytes(16))


def acknowledge(messages: list[Any]) -> list[bytes]:
    return [error(sequence, 0) for sequence, flags, _, _ in messages if flags & 4]


def connected(monkeypatch: pytest.MonkeyPatch, answer: Any) -> tuple[Netlink, FakeSocket]:
    fake = FakeSocket(answer)
    monkeypatch.setattr(netlink.socket, "socket", fake)
    return Netlink(), fake


def requests(count: int, size: int = 100) -> list[Request]:
    return [Request(100, 0x600, bytes(size), f"do thing {index}") for index in range(count)]


def test_a_batch_is_one_datagram_and_asks_for_one_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    link, fake = connected(monkeypatch, acknowledge)
    link.execute(requests(10))
    link.execute(requests(1))
    first, second = fake.sent
    assert [sequence for sequence, *_ in first + second] == list(range(1, 12))
    assert [bool(flags & 4) for _, flags, *_ in first] == 9 * [False] + [True]
    assert all(flags & 1 and flags & 0x600 == 0x600 and kind == 100 for _, flags, kind, _ in first)


def test_large_batches_are_split_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    link, fake = connected(monkeypatch, acknowledge)
    link.execute(requests(3000, 101))
    assert len(fake.sent) > 1
    assert sum(map(len, fake.sent)) == 3000
    assert max(sum(16 + len(body) for *_, body in messages) for messages in fake.sent) < 128 * 1024
    assert {len(body) for messages in fake.sent for *_, body in messages} == {101}


def test_no_request_is_no_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    link, fake = connected(monkeypatch, acknowledge)
    link.execute([])
    assert fake.sent == []


def test_a_refusal_names_the_request_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    link, _ = connected(monkeypatch, lambda messages: [error(messages[3][0], errno.EEXIST), *acknowledge(messages)])
    with pytest.raises(NetlinkError, match=f"do thing 3: {os.strerror(errno.EEXIST)}") as found:
        link.execute(requests(10))
    assert found.value.errno == errno.EEXIST


def test_a_dump_ends_with_done_and_skips_what_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(messages: list[Any]) -> list[bytes]:
        mine = messages[0][0]
        return [
            message(36, mine + 7, b"foreign!") + message(36, mine, b"one1"),
            message(36, mine, b"two2") + message(3, mine, bytes(4)),
        ]

    link, _ = connected(monkeypatch, answer)
    assert list(link.query(Request(RTM_GETQDISC, NLM_F_DUMP, b"", "list"))) == [b"one1", b"two2"]


def test_a_refused_query_says_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    link, _ = connected(monkeypatch, lambda messages: [error(messages[0][0], errno.ENODEV)])
    with pytest.raises(NetlinkError, match="read it: No such device"):
        list(link.query(Request(RTM_GETQDISC, 0, b"", "read it")))


def test_the_real_kernel_refuses_what_is_not_there() -> None:
    with Netlink() as link, pytest.raises(NetlinkError, match=f"^.*delete interface {2**30 + 1}: "):
        link.execute([delete_link(2**30 + 1), delete_link(2**30 + 2)])
