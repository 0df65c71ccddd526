"""Messages as a framework writes them, read back by it or, where it cannot, by hand (OpenFlow 1.3.5 and 1.5.1)."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import framework, openflow, policy
from controller.failover import IN_PORT, Bucket, Group, bounce, bounce_back, select
from controller.rules import (
    AnswerArp,
    Change,
    Drop,
    Flow,
    GoTo,
    Leave,
    Output,
    ToController,
    ToGroup,
    change,
    exact,
    marks,
    nothing,
)
from tests.unit.walk import planned
from topologies.addresses import GATEWAY, ROUTER_MAC
from topologies.fat_tree import FatTree

protocol = import_module(f"{framework.NAME}.ofproto.ofproto_protocol")
V1_3, V1_5 = 4, 6  # on the wire
ANY = 0xFFFFFFFF
VERSIONS = pytest.mark.parametrize("version", [V1_3, V1_5])
MATCH = (exact("in_port", 3), exact("eth_type", 0x0800), ("ipv4_dst", 0x0A010200, 0xFFFFFF00))


def datapath(version: int) -> Any:
    """What the framework gives a handler, as far as messages are concerned."""
    return protocol.ProtocolDesc(version=version)


def written(message: Any) -> bytes:
    """The message's bytes; their header tells their length."""
    message.xid = 7
    message.serialize()
    data = bytes(message.buf)
    assert struct.unpack_from("!BxHI", data) == (message.datapath.ofproto.OFP_VERSION, len(data), 7)
    return data


def read_back(message: Any) -> Any:
    data = written(message)
    return type(message).parser(message.datapath, *struct.unpack_from("!BBHI", data), data)


def hexed(*parts: str) -> bytes:
    """Bytes of hex texts; blanks are for the eye."""
    return bytes.fromhex("".join(parts))


def sent(version: int, **what: Any) -> list[Any]:
    """Messages of a change."""
    empty: dict[str, Any] = {"new_groups": {}, "new_flows": (), "old_flows": (), "old_groups": ()}
    return list(openflow.messages(datapath(version), Change(**{**empty, **what})))


# --- flows


def actions(message: Any) -> list[dict[str, Any]]:
    """Of a flow, in order: class and what it holds."""
    (applied,) = message.instructions
    assert applied.type == message.datapath.ofproto.OFPIT_APPLY_ACTIONS
    return [_said(action) for action in applied.actions]


def _said(action: Any) -> dict[str, Any]:
    kind = type(action).__name__.replace("OFPAction", "")
    if kind == "SetField":
        return {"set": action.key, "to": action.value}
    return {"do": kind, **{name: getattr(action, name) for name in ("port", "group_id") if hasattr(action, name)}}


MINUS_TTL = {"do": "DecNwTtl"}


@VERSIONS
@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Output(5), [MINUS_TTL, {"do": "Output", "port": 5}]),
        (
            Output(5, ("02:00:00:00:00:01", "00:00:00:00:00:09")),
            [
                MINUS_TTL,
                {"set": "eth_src", "to": "02:00:00:00:00:01"},
                {"set": "eth_dst", "to": "00:00:00:00:00:09"},
                {"do": "Output", "port": 5},
            ],
        ),
        (ToGroup(0x7FFFFFFF), [MINUS_TTL, {"do": "Group", "group_id": 0x7FFFFFFF}]),
        (ToController(), [{"do": "Output", "port": 0xFFFFFFFD}]),
        (
            AnswerArp("00:00:00:00:00:09", "10.0.1.9"),
            [
                {"set": "eth_src", "to": ROUTER_MAC},
                {"set": "eth_dst", "to": "00:00:00:00:00:09"},
                {"set": "arp_op", "to": 2},
                {"set": "arp_sha", "to": ROUTER_MAC},
                {"set": "arp_spa", "to": GATEWAY},
                {"set": "arp_tha", "to": "00:00:00:00:00:09"},
                {"set": "arp_tpa", "to": "10.0.1.9"},
                {"do": "Output", "port": IN_PORT},
            ],
        ),
    ],
)
def test_every_action(version: int, action: Any, expected: list[dict[str, Any]]) -> None:
    (message,) = sent(version, new_flows=(Flow(1, 148, MATCH, action),))
    found = read_back(message)
    assert (found.table_id, found.priority, found.command) == (1, 148, 0)  # OFPFC_ADD
    assert dict(found.match.items()) == {"in_port": 3, "eth_type": 0x0800, "ipv4_dst": ("10.1.2.0", "255.255.255.0")}
    assert actions(found) == expected


@VERSIONS
def test_a_packet_for_the_controller_comes_whole(version: int) -> None:
    (message,) = sent(version, new_flows=(Flow(0, 1000, (), ToController()),))
    assert read_back(message).instructions[0].actions[0].max_len == 0xFFFF  # OFPCML_NO_BUFFER


@VERSIONS
def test_on_to_a_table_and_nowhere(version: int) -> None:
    onward, nowhere = map(read_back, sent(version, new_flows=(Flow(0, 5, (), GoTo(2)), Flow(0, 4, (), Drop()))))
    assert [(type(each).__name__, each.table_id) for each in onward.instructions] == [("OFPInstructionGotoTable", 2)]
    assert nowhere.instructions == []


@VERSIONS
def test_an_old_flow_goes_alone(version: int) -> None:
    """Strictly: the one with this priority and match, whatever ports and groups it leads to."""
    (message,) = sent(version, old_flows=(Flow(1, 148, MATCH, Output(5)),))
    found = read_back(message)
    assert found.command == 4  # OFPFC_DELETE_STRICT
    assert (found.table_id, found.priority, found.out_port, found.out_group) == (1, 148, ANY, ANY)
    assert dict(found.match.items()) == {"in_port": 3, "eth_type": 0x0800, "ipv4_dst": ("10.1.2.0", "255.255.255.0")}


@VERSIONS
@given(st.integers(0, ANY), st.integers(0, ANY))
def test_any_mask_is_kept(version: int, value: int, mask: int) -> None:
    """D-mod-k's have a gap: the network's bits and the destination's number."""
    (message,) = sent(
        version, new_flows=(Flow(1, 1, (exact("eth_type", 0x0800), ("ipv4_dst", value & mask, mask)), Drop()),)
    )
    texts = tuple(socket.inet_ntoa(number.to_bytes(4, "big")) for number in (value & mask, mask))
    assert read_back(message).match["ipv4_dst"] in (texts, texts[0] if mask == ANY else texts)


# --- ports that are left by a table


RESUBMIT = hexed("ffff 0010 00002320 000e fff8 03 000000")  # struct nx_action_resubmit: NXAST_RESUBMIT_TABLE, table 3


def into_register(port: int) -> bytes:
    """struct ofp_action_set_field of reg0: NXM class 1, field 0, without a mask, 4 bytes."""
    return struct.pack("!HHHBBI4x", 25, 16, 1, 0, 4, port)


@VERSIONS
@pytest.mark.parametrize("macs", [None, ("02:00:00:00:00:01", "00:00:00:00:00:09")])
@pytest.mark.parametrize("port", [5, IN_PORT])
def test_a_port_is_written_into_the_register_and_left_by_its_table(version: int, macs: Any, port: int) -> None:
    (message,) = sent(version, new_flows=(Flow(1, 148, MATCH, Output(port, macs)),), by_table=True)
    first = [MINUS_TTL, *({"set": name, "to": mac} for name, mac in zip(("eth_src", "eth_dst"), macs or ()))]
    found = actions(read_back(message))
    assert found[:-2] == first
    assert found[-2:] == [{"set": "reg0", "to": port}, {"do": "NXActionResubmitTable"}]
    assert written(message).endswith(into_register(port) + RESUBMIT)


@VERSIONS
@pytest.mark.parametrize(("marked", "first"), [(False, []), (True, [{"set": "ip_ecn", "to": 3}])])
def test_the_table_lets_packets_leave_marked_or_as_they_are(version: int, marked: bool, first: list[Any]) -> None:
    """Their TTL was lowered before."""
    (message,) = sent(version, new_flows=(Flow(3, 20, MATCH, Leave(7, marked)),), by_table=True)
    found = read_back(message)
    assert found.table_id == 3
    assert actions(found) == [*first, {"do": "Output", "port": 7}]


@VERSIONS
def test_marks_match_the_register_and_what_can_be_marked(version: int) -> None:
    found = [read_back(each) for each in sent(version, new_flows=tuple(marks(7)), by_table=True)]
    ipv4 = {"eth_type": 0x0800}
    assert [dict(each.match.items()) for each in found] == [
        {"reg0": 7, **ipv4, "ip_ecn": 2},
        {"reg0": 7, **ipv4, "ip_ecn": 1},
        {"reg0": IN_PORT, "in_port": 7, **ipv4, "ip_ecn": 2},
        {"reg0": IN_PORT, "in_port": 7, **ipv4, "ip_ecn": 1},
    ]


def test_groups_leave_by_the_table_too() -> None:
    """Their buckets have two actions instead of one."""
    ways = select((3, 4), 9, True)
    (old,) = sent(V1_3, new_groups={0x1234: ways}, by_table=True)
    buckets = [struct.pack("!HHII4x", 48, 1, port, ANY) + into_register(port) + RESUBMIT for port in (3, 4)]
    assert written(old)[8:] == struct.pack("!HBxI", ADD_OR_MODIFY, SELECT, 0x1234) + b"".join(buckets)
    (new,) = sent(V1_5, new_groups={0x1234: ways}, by_table=True)
    tail = b"".join(
        struct.pack("!HHI", 8 + 32 + 16, 32, port) + into_register(port) + RESUBMIT + watch(port) + WEIGHT_1
        for port in (3, 4)
    )
    head = struct.pack("!HBxIH2xI", ADD_OR_MODIFY, SELECT, 0x1234, len(tail), ANY)
    assert written(new)[8:] == head + tail + property_by_hand(9)


# --- groups


def bucket_1_3(port: int, weight: int, watch: int) -> bytes:
    """struct ofp_bucket with one output action."""
    return struct.pack("!HHII4x", 32, weight, watch, ANY) + output(port)


def bucket_1_5(number: int, port: int, *properties: bytes) -> bytes:
    """struct ofp_bucket of 1.5 with one output action."""
    tail = b"".join(properties)
    return struct.pack("!HHI", 8 + 16 + len(tail), 16, number) + output(port) + tail


def output(port: int) -> bytes:
    """struct ofp_action_output; max_len is for the controller alone."""
    return struct.pack("!HHIH6x", 0, 16, port, 0xFFE5)


def watch(port: int) -> bytes:
    return struct.pack("!HHI", 1, 8, port)  # OFPGBPT_WATCH_PORT


WEIGHT_1 = struct.pack("!HHH2x", 0, 8, 1)  # OFPGBPT_WEIGHT
SELECT, FAST_FAILOVER = 1, 3
ADD_OR_MODIFY = 0x8000  # Open vSwitch's OFPGC_ADD_OR_MOD


@pytest.mark.parametrize(
    ("group", "kind", "buckets"),
    [
        (select((3, 4), 9, True), SELECT, [bucket_1_3(3, 1, 3), bucket_1_3(4, 1, 4)]),
        (select((3, 4), 9, False), SELECT, [bucket_1_3(3, 1, ANY), bucket_1_3(4, 1, ANY)]),
        (bounce(1, 2), FAST_FAILOVER, [bucket_1_3(1, 0, 1), bucket_1_3(2, 0, 2)]),
        (bounce_back(1, 2), FAST_FAILOVER, [bucket_1_3(1, 0, 1), bucket_1_3(IN_PORT, 0, 2)]),
    ],
)
def test_every_group_of_1_3(group: Group, kind: int, buckets: list[bytes]) -> None:
    (message,) = sent(V1_3, new_groups={0x1234: group})
    assert written(message)[8:] == struct.pack("!HBxI", ADD_OR_MODIFY, kind, 0x1234) + b"".join(buckets)


def property_by_hand(seed: int) -> bytes:
    """struct ntr_group_prop_selection_method of Open vSwitch's netronome-ext.h, then OXM fields, then padding."""
    return hexed(
        "ffff 0055",  # type: experimenter; length: 40 and 45 bytes of fields, without the padding
        "0000154d 00000001 00000000",  # Netronome, NTRT_SELECTION_METHOD, pad
        "68617368 00000000 00000000 00000000",  # "hash"
        f"{seed:016x}",
        "8000 16 04 ffffffff",  # OXM: basic class, field 11 without a mask, 4 bytes: ipv4_src
        "8000 18 04 ffffffff",  # ipv4_dst
        "8000 14 01 ff",  # ip_proto
        "8000 1a 02 ffff 8000 1c 02 ffff",  # tcp_src, tcp_dst
        "8000 1e 02 ffff 8000 20 02 ffff",  # udp_src, udp_dst
        "000000",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("group", "kind", "buckets", "properties"),
    [
        (
            select((3, 4), 0x0123456789ABCDEF, True),
            SELECT,
            [bucket_1_5(3, 3, watch(3), WEIGHT_1), bucket_1_5(4, 4, watch(4), WEIGHT_1)],
            property_by_hand(0x0123456789ABCDEF),
        ),
        (
            select((3, 4), 2**64 - 1, False),
            SELECT,
            [bucket_1_5(3, 3, WEIGHT_1), bucket_1_5(4, 4, WEIGHT_1)],
            property_by_hand(2**64 - 1),
        ),
        (bounce(1, 2), FAST_FAILOVER, [bucket_1_5(0, 1, watch(1)), bucket_1_5(1, 2, watch(2))], b""),
        (bounce_back(1, 2), FAST_FAILOVER, [bucket_1_5(0, 1, watch(1)), bucket_1_5(1, IN_PORT, watch(2))], b""),
    ],
)
def test_every_group_of_1_5(group: Group, kind: int, buckets: list[bytes], properties: bytes) -> None:
    (message,) = sent(V1_5, new_groups={0x1234: group})
    tail = b"".join(buckets)
    head = struct.pack("!HBxIH2xI", ADD_OR_MODIFY, kind, 0x1234, len(tail), ANY)
    assert written(message)[8:] == head + tail + properties


@given(st.integers(0, 2**64 - 1))
def test_the_property_ends_on_eight_bytes_and_holds_any_seed(seed: int) -> None:
    (message,) = sent(V1_5, new_groups={1: Group("select", (Bucket(1, None),), seed)})
    data = written(message)
    assert len(data) % 8 == 0
    assert data.endswith(property_by_hand(seed))
    assert len(property_by_hand(seed)) == 88


@VERSIONS
def test_an_old_group_goes(version: int) -> None:
    (message,) = sent(version, old_groups=(0x1234,))
    assert written(message)[8:16] == struct.pack("!HBxI", 2, 0, 0x1234)  # OFPGC_DELETE


# --- what is sent in all


@VERSIONS
def test_groups_come_before_the_flows_that_use_them_and_go_after(version: int) -> None:
    found = sent(
        version,
        new_groups={2: bounce(1, 2)},
        new_flows=(Flow(0, 1, (), ToGroup(2)),),
        old_flows=(Flow(0, 2, (), ToGroup(1)),),
        old_groups=(1,),
    )
    assert [(type(each).__name__, each.command) for each in found] == [
        ("OFPGroupMod", 0x8000),  # Open vSwitch's ADD_OR_MOD
        ("OFPFlowMod", 0),
        ("OFPFlowMod", 4),
        ("OFPGroupMod", 2),
    ]


@VERSIONS
@pytest.mark.parametrize("routing", ["ecmp", "d_mod_k"])
def test_a_whole_fabric_can_be_written_and_read_back(version: int, routing: str) -> None:
    """Every flow of the switches of one pod, as priorities, tables and matches."""
    state = planned(FatTree(k=4), routing=routing)
    for switch in ("edge1", "agg1", "core1"):
        rules = state.wanted[switch]
        found = list(openflow.messages(datapath(version), change(nothing(), rules)))
        groups, flows = found[: len(rules.groups)], [read_back(each) for each in found[len(rules.groups) :]]
        assert [each.group_id for each in groups] == list(rules.groups)
        assert all(written(each) for each in groups)
        assert [(flow.table_id, flow.priority) for flow in flows] == [
            (each.table, each.priority) for each in rules.flows
        ]
        assert [{name for name, _ in flow.match.items()} for flow in flows] == [
            {name for name, _, _ in each.match} for each in rules.flows
        ]


@VERSIONS
def test_a_clean_slate_names_every_table_and_group(version: int) -> None:
    flows, groups = openflow.clean_slate(datapath(version))
    found = read_back(flows)
    assert (found.table_id, found.command, dict(found.match.items())) == (0xFF, 3, {})  # OFPTT_ALL, OFPFC_DELETE
    assert (found.out_port, found.out_group) == (ANY, ANY)
    assert written(groups)[8:16] == struct.pack("!HBxI", 2, 0, 0xFFFFFFFC)  # OFPGC_DELETE, OFPG_ALL


def test_a_packet_out() -> None:
    """struct ofp_packet_out: 1.3 tells the port it came by, 1.5 a match of it."""
    frame = bytes(range(60))
    old, new = (written(openflow.packet_out(datapath(version), 6, frame)) for version in (V1_3, V1_5))
    assert old[8:] == struct.pack("!IIH6x", ANY, 0xFFFFFFFD, 16) + output(6) + frame
    in_port = hexed("0001 000c 80000004 fffffffd 00000000")  # OFPMT_OXM: in_port = OFPP_CONTROLLER
    assert new[8:] == struct.pack("!IH2x", ANY, 16) + in_port + output(6) + frame


# --- the other framework


OTHERS = [
    pytest.param(name, marks=pytest.mark.skipif(not find_spec(name), reason=f"needs {distribution}"))
    for name, distribution in framework.FRAMEWORKS.items()
    if name != framework.NAME
]


@pytest.mark.skipif(
    policy.FRAMEWORK_VARIABLE in os.environ, reason=f"{policy.FRAMEWORK_VARIABLE} says which framework is to be tested"
)
@pytest.mark.parametrize("name", OTHERS)
def test_the_same_on_the_other_framework(name: str) -> None:
    """These tests again: which framework there is, is settled when it is imported."""
    root = Path(openflow.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).resolve())],
        env={**os.environ, policy.FRAMEWORK_VARIABLE: name},
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_a_framework_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(policy.FRAMEWORK_VARIABLE, "pox")
    with pytest.raises(ImportError, match="no OpenFlow framework is installed: pox is needed"):
        framework._choose()
