"""From rules to OpenFlow messages, by the parser of whichever version a switch speaks.

OpenFlow 1.3's groups cannot carry a hash seed: Open vSwitch then hashes alike on every switch, which polarises. 1.5
gives a group properties, and Open vSwitch reads its selection method there (the Netronome extension, ovs-ofctl(8),
"selection_method"): a hash over the five-tuple with a seed.

Packets that leave by a table of their own (see `rules`) get there with Open vSwitch's resubmit, from flows and groups
alike: it implements no egress tables of OpenFlow 1.5, and a group cannot send on to a table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from controller.failover import Bucket, Group
from controller.rules import (
    PORT_REGISTER,
    THE_PORT,
    Action,
    AnswerArp,
    Change,
    Drop,
    Flow,
    GoTo,
    Leave,
    Match,
    Output,
    ToController,
    ToGroup,
)
from topologies.addresses import GATEWAY, ROUTER_MAC

_WIRE_1_5 = 6
_NETRONOME, _SELECTION_METHOD = 0x0000154D, 1
_METHOD_BYTES = 16
# The five-tuple as OXM fields (OpenFlow 1.5.1, table 12) with their sizes: IPv4 source and destination, protocol, TCP
# and UDP source and destination ports. In the property each has all its bits set: all of them are hashed.
_HASHED_FIELDS = {11: 4, 12: 4, 10: 1, 13: 2, 14: 2, 15: 2, 16: 2}
_OXM_BASIC = 0x8000
_SELECT, _FAILOVER = "select", "failover"
_PORT_BITS = 16  # of the numbers that ports here have
_CE = 3  # Congestion Experienced, RFC 3168
_ADD_OR_MODIFY = 0x8000  # Open vSwitch's OFPGC_ADD_OR_MOD: a group that is there already is no error


def messages(datapath: Any, change: Change) -> Iterator[Any]:
    """The messages that carry out `change` on the switch of `datapath`, in order."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    for number, group in change.new_groups.items():
        yield _group_mod(datapath, number, group, change.by_table)
    for flow in change.new_flows:
        yield _flow_mod(datapath, ofproto.OFPFC_ADD, flow, change.by_table)
    for flow in change.old_flows:
        yield _flow_mod(datapath, ofproto.OFPFC_DELETE_STRICT, flow, change.by_table)
    for number in change.old_groups:
        yield parser.OFPGroupMod(datapath, command=ofproto.OFPGC_DELETE, group_id=number)


def clean_slate(datapath: Any) -> Iterator[Any]:
    """The messages that empty a switch of flows and groups."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    yield parser.OFPFlowMod(
        datapath,
        table_id=ofproto.OFPTT_ALL,
        command=ofproto.OFPFC_DELETE,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
    )
    yield parser.OFPGroupMod(datapath, command=ofproto.OFPGC_DELETE, group_id=ofproto.OFPG_ALL)


def packet_out(datapath: Any, port: int, data: bytes) -> Any:
    """A packet to be sent out of a port."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    source = (
        {"match": parser.OFPMatch(in_port=ofproto.OFPP_CONTROLLER)}
        if ofproto.OFP_VERSION >= _WIRE_1_5
        else {"in_port": ofproto.OFPP_CONTROLLER}
    )
    actions = [parser.OFPActionOutput(port)]
    return parser.OFPPacketOut(datapath, buffer_id=ofproto.OFP_NO_BUFFER, actions=actions, data=data, **source)


def _flow_mod(datapath: Any, command: int, flow: Flow, by_table: bool) -> Any:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    return parser.OFPFlowMod(
        datapath,
        table_id=flow.table,
        command=command,
        priority=flow.priority,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        match=parser.OFPMatch(**_match(flow.match)),
        instructions=list(_instructions(datapath, flow.action, by_table)),
    )


def _match(match: Match) -> dict[str, Any]:
    return {name: value if mask == -1 else (value, mask) for name, value, mask in match}


def _instructions(datapath: Any, action: Action, by_table: bool) -> Iterator[Any]:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    if isinstance(action, GoTo):
        yield parser.OFPInstructionGotoTable(action.table)
    elif not isinstance(action, Drop):
        yield parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, list(_actions(datapath, action, by_table)))


def _actions(datapath: Any, action: Action, by_table: bool) -> Iterator[Any]:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    if isinstance(action, ToController):
        yield parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, ofproto.OFPCML_NO_BUFFER)
    elif isinstance(action, AnswerArp):
        yield from _arp_answer(parser, action)
        yield parser.OFPActionOutput(ofproto.OFPP_IN_PORT)
    elif isinstance(action, ToGroup):
        yield parser.OFPActionDecNwTtl()
        yield parser.OFPActionGroup(action.group_id)
    elif isinstance(action, Output):
        yield parser.OFPActionDecNwTtl()
        if action.macs:
            source, destination = action.macs
            yield parser.OFPActionSetField(eth_src=source)
            yield parser.OFPActionSetField(eth_dst=destination)
        yield from _out(parser, action.port, by_table)
    elif isinstance(action, Leave):
        if action.marked:
            yield parser.OFPActionSetField(ip_ecn=_CE)
        yield parser.OFPActionOutput(action.port)


def _out(parser: Any, port: int, by_table: bool) -> Iterator[Any]:
    """Out of a port, at once or by table THE_PORT."""
    if by_table:
        yield parser.OFPActionSetField(**{PORT_REGISTER: port})
        yield parser.NXActionResubmitTable(table_id=THE_PORT)
    else:
        yield parser.OFPActionOutput(port)


def _arp_answer(parser: Any, action: AnswerArp) -> Iterator[Any]:
    """A request for the gateway made into its answer (RFC 826)."""
    fields = {
        "eth_src": ROUTER_MAC,
        "eth_dst": action.host_mac,
        "arp_op": 2,
        "arp_sha": ROUTER_MAC,
        "arp_spa": GATEWAY,
        "arp_tha": action.host_mac,
        "arp_tpa": action.host_ip,
    }
    for name, value in fields.items():
        yield parser.OFPActionSetField(**{name: value})


def _group_mod(datapath: Any, number: int, group: Group, by_table: bool) -> Any:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    kind = {_SELECT: ofproto.OFPGT_SELECT, _FAILOVER: ofproto.OFPGT_FF}[group.kind]
    if ofproto.OFP_VERSION < _WIRE_1_5:
        plain = [_bucket_1_3(datapath, group, bucket, by_table) for bucket in group.buckets]
        return parser.OFPGroupMod(datapath, _ADD_OR_MODIFY, kind, number, plain)
    buckets = [_bucket(datapath, group, place, by_table) for place in range(len(group.buckets))]
    properties = [_Selection(group.seed)] if group.kind == _SELECT else []
    return parser.OFPGroupMod(
        datapath, command=_ADD_OR_MODIFY, type_=kind, group_id=number, buckets=buckets, properties=properties
    )


def _bucket_1_3(datapath: Any, group: Group, bucket: Bucket, by_table: bool) -> Any:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    return parser.OFPBucket(
        weight=int(group.kind == _SELECT),
        watch_port=ofproto.OFPP_ANY if bucket.watch is None else bucket.watch,
        watch_group=ofproto.OFPG_ANY,
        actions=list(_out(parser, bucket.port, by_table)),
    )


def _bucket(datapath: Any, group: Group, place: int, by_table: bool) -> Any:
    """A bucket is called by its port, so that the hash keeps its choice for the ports that stay when one goes; the
    second of one port by another name, and so on."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    bucket = group.buckets[place]
    properties = (
        []
        if bucket.watch is None
        else [parser.OFPGroupBucketPropWatch(type_=ofproto.OFPGBPT_WATCH_PORT, watch=bucket.watch)]
    )
    if group.kind == _SELECT:
        properties.append(parser.OFPGroupBucketPropWeight(type_=ofproto.OFPGBPT_WEIGHT, weight=1))
    bucket_id = place
    if group.kind == _SELECT:
        bucket_id = bucket.port + (group.buckets[:place].count(bucket) << _PORT_BITS)
    return parser.OFPBucket(bucket_id, list(_out(parser, bucket.port, by_table)), properties)


class _Selection:
    """The group property that chooses the hash: struct ntr_group_prop_selection_method of Open vSwitch's
    netronome-ext.h. It has a 64-bit parameter and OXM fields, which the framework's own experimenter property cannot
    hold."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def serialize(self) -> bytes:
        """The property, padded to eight bytes."""
        method = b"hash".ljust(_METHOD_BYTES, b"\0")
        body = struct.pack("!II", _NETRONOME, _SELECTION_METHOD) + bytes(4) + method + struct.pack("!Q", self.seed)
        for field, size in _HASHED_FIELDS.items():
            body += struct.pack("!HBB", _OXM_BASIC, field << 1, size) + b"\xff" * size
        length = 4 + len(body)
        return struct.pack("!HH", 0xFFFF, length) + body + bytes(-length % 8)
