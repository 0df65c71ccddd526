"""The controller as an OpenFlow application: handlers only; what they decide is in `state`, `rules` and `routing`.

It tells what happens as JSON lines in the file it is given: {"event": ..., "time_ns": CLOCK_REALTIME, ...}.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from controller import framework, openflow
from controller.policy import Orders
from controller.routing import Port
from controller.state import FabricState
from topologies.addresses import ROUTER_MAC, interface

_LLDP_TTL_S = 120
_LLDP_WAIT_S = 2.0  # longer than any link is; it ends as soon as all have answered
_LLDP_POLL_S = 0.01
_NO_ADDRESS = "0.0.0.0"
_SET = framework.handler.set_ev_cls
_MAIN, _DEAD = framework.handler.MAIN_DISPATCHER, framework.handler.DEAD_DISPATCHER
_ofp = framework.ofp_event


class FabricController(framework.App):
    """Routes one fabric; `orders`, `report` (a descriptor) and OFP_VERSIONS are set before it is made."""

    orders: Orders
    report: int
    OFP_VERSIONS = [framework.ofproto_v1_3.OFP_VERSION, framework.ofproto_v1_5.OFP_VERSION]  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.state = FabricState(self.orders)
        self.datapaths: dict[str, Any] = {}
        self.unconfirmed: dict[str, int] = {}  # switch -> transaction of the last barrier that it has not answered
        self.ready = False
        self.seen_links: set[tuple[Port, Port]] = set()
        self.known: set[str] = set()  # switches that this process has filled before
        self.repairing = self.untold = False

    def tell(self, event: str, **facts: Any) -> None:
        """One event, with its time."""
        document = {"event": event, "time_ns": time.time_ns(), **facts}
        os.write(self.report, json.dumps(document).encode() + b"\n")

    @_SET(_ofp.EventOFPStateChange, [_MAIN, _DEAD])
    def on_state(self, event: Any) -> None:
        """A switch has come, or gone."""
        datapath = event.datapath
        name = self.state.by_dpid.get(datapath.id)
        if name is None:
            return
        if event.state == _MAIN:
            self._welcome(name, datapath)
        elif self.datapaths.get(name) is datapath:
            del self.datapaths[name]
            self.unconfirmed.pop(name, None)
            self.tell("lost_switch", switch=name)
            self._tell_when_settled()

    def _welcome(self, name: str, datapath: Any) -> None:
        """A switch that we do not know is emptied first. One that has lost us for a while keeps what it does, and is
        sent everything again."""
        self.datapaths[name] = datapath
        if name not in self.known:
            self._send(datapath, [*openflow.clean_slate(datapath), datapath.ofproto_parser.OFPBarrierRequest(datapath)])
            self.known.add(name)
        self.state.forgotten(name)
        ports = datapath.ports
        news = [
            self.state.port_is((name, number), number in ports and _alive(datapath, ports[number]))
            for number in self.state.network.trunks[name]
        ]
        self._update(name)
        if any(news):
            self._repair_soon()

    def _update(self, name: str) -> None:
        """Send a switch what it lacks, and a barrier behind it."""
        change, datapath = self.state.pending(name), self.datapaths.get(name)
        if datapath is None or not change:
            return
        barrier = datapath.ofproto_parser.OFPBarrierRequest(datapath)
        datapath.set_xid(barrier)
        self.unconfirmed[name] = barrier.xid
        self.state.sent(name)
        self._send(datapath, [*openflow.messages(datapath, change), barrier])

    @staticmethod
    def _send(datapath: Any, messages: list[Any]) -> None:
        """All messages in one write."""
        data = bytearray()
        for message in messages:
            if message.xid is None:
                datapath.set_xid(message)
            message.serialize()
            data += message.buf
        datapath.send(data)

    @_SET(_ofp.EventOFPBarrierReply, _MAIN)
    def on_barrier(self, event: Any) -> None:
        """A switch has carried out what it was sent; when all have, the fabric is as wanted."""
        name = self.state.by_dpid.get(event.msg.datapath.id, "")
        if self.unconfirmed.get(name) == event.msg.xid:
            del self.unconfirmed[name]
            self._tell_when_settled()

    def _tell_when_settled(self) -> None:
        if self.unconfirmed or self.repairing:
            return
        if self.ready and self.untold:
            self.untold = False
            self.tell("repaired")
        elif not self.ready and len(self.datapaths) == len(self.state.network.switches):
            self.ready = True
            framework_said = f"{framework.NAME} {framework.VERSION}"
            self.tell("ready", switches=len(self.datapaths), framework=framework_said)
            framework.hub.spawn(self._guarded(self._check_links))

    @_SET(_ofp.EventOFPPortStatus, _MAIN)
    def on_port(self, event: Any) -> None:
        """A port has died or come back."""
        message = event.msg
        name = self.state.by_dpid.get(message.datapath.id)
        alive = message.reason != message.datapath.ofproto.OFPPR_DELETE and _alive(message.datapath, message.desc)
        if name and self.state.port_is((name, message.desc.port_no), alive):
            self.tell("port_up" if alive else "port_down", switch=name, port=message.desc.port_no)
            self._repair_soon()

    def _repair_soon(self) -> None:
        """Repair after the control latency; news that comes until then is repaired along with it."""
        if not self.repairing:
            self.repairing = True
            framework.hub.spawn_after(self.state.policy.latency_ns / 1e9, self._guarded(self._repair))

    def _repair(self) -> None:
        self.repairing, self.untold = False, True
        self.state.decide()
        for name in self.state.from_the_top():
            self._update(name)
        self._tell_when_settled()

    @_SET(_ofp.EventOFPPacketIn, _MAIN)
    def on_packet(self, event: Any) -> None:
        """LLDP of a neighbour, or ARP that the switch could not answer by itself."""
        message = event.msg
        name = self.state.by_dpid.get(message.datapath.id)
        if name is None:
            return
        port = (name, message.match["in_port"])
        packet = framework.packet.Packet(message.data)
        neighbour = packet.get_protocol(framework.lldp.lldp)
        if neighbour is not None and port[1] in self.state.network.trunks[name]:
            self._note_link(neighbour, port)
        request = packet.get_protocol(framework.arp.arp)
        if request is not None and port[1] not in self.state.network.trunks[name]:
            self._note_host(message.datapath, request, port)

    def _note_host(self, datapath: Any, request: Any, port: Port) -> None:
        """Whoever speaks from a new port, with an address and a MAC of the fabric, has moved there; whoever asks is
        answered, for every address is behind us. A host that asks whether its address is free (RFC 5227) is not."""
        if request.src_ip == _NO_ADDRESS:
            return
        moved = self.state.host_is_at(request.src_ip, request.src_mac, port)
        if moved:
            self.tell("host_moved", host=moved, switch=port[0], port=port[1])
            self._repair_soon()
        if request.opcode == framework.arp.ARP_REQUEST and request.src_ip != request.dst_ip:
            self._send(datapath, [openflow.packet_out(datapath, port[1], _arp_reply(request))])

    def _check_links(self) -> None:
        """Send LLDP out of every trunk port once, and tell how what arrives compares with the plan."""
        expected = {
            ((switch, port), peer)
            for switch, ports in self.state.network.trunks.items()
            for port, peer in ports.items()
            if (switch, port) not in self.state.dead and peer not in self.state.dead
        }
        for switch, port in self.state.trunk_ports():
            datapath = self.datapaths.get(switch)
            if datapath is not None:
                self._send(datapath, [openflow.packet_out(datapath, port, _lldp(switch, port))])
        deadline_s = time.monotonic() + _LLDP_WAIT_S
        while expected - self.seen_links and time.monotonic() < deadline_s:
            framework.hub.sleep(_LLDP_POLL_S)
        wrong = [f"{interface(*a)} leads to {interface(*b)}" for a, b in sorted(self.seen_links - expected)]
        missing = [f"{interface(*a)} does not lead to {interface(*b)}" for a, b in sorted(expected - self.seen_links)]
        self.tell(
            "discovered",
            discovered_links=len(self.seen_links),
            expected_links=len(expected),
            wrong_links=wrong + missing,
        )

    def _note_link(self, neighbour: Any, port: Port) -> None:
        chassis, number = (bytes(tlv) for tlv in (neighbour.tlvs[0].chassis_id, neighbour.tlvs[1].port_id))
        self.seen_links.add(((chassis.decode(), int(number)), port))

    def _guarded(self, work: Callable[[], None]) -> Callable[[], None]:
        """`work`, whose exception is told: the framework would only log it."""

        def run() -> None:
            try:
                work()
            except Exception as error:
                self.tell("error", switch="?", what=f"{type(error).__name__}: {error}")
                raise

        return run

    @_SET(_ofp.EventOFPErrorMsg, [framework.handler.CONFIG_DISPATCHER, _MAIN])
    def on_error(self, event: Any) -> None:
        """A switch refuses something: told, because nothing may be refused."""
        message = event.msg
        name = self.state.by_dpid.get(message.datapath.id, "?")
        self.tell("error", switch=name, what=f"OpenFlow error {message.type}, {getattr(message, 'code', None)}")


def _alive(datapath: Any, port: Any) -> bool:
    ofproto = datapath.ofproto
    return not (port.state & ofproto.OFPPS_LINK_DOWN or port.config & ofproto.OFPPC_PORT_DOWN)


def _frame(protocols: list[Any]) -> bytes:
    packet = framework.packet.Packet()
    for protocol in protocols:
        packet.add_protocol(protocol)
    packet.serialize()
    return bytes(packet.data)


def _lldp(switch: str, port: int) -> bytes:
    """A frame that tells the neighbour which port it came from (IEEE 802.1AB)."""
    lldp = framework.lldp
    tlvs = (
        lldp.ChassisID(subtype=lldp.ChassisID.SUB_LOCALLY_ASSIGNED, chassis_id=switch.encode()),
        lldp.PortID(subtype=lldp.PortID.SUB_LOCALLY_ASSIGNED, port_id=str(port).encode()),
        lldp.TTL(ttl=_LLDP_TTL_S),
        lldp.End(),
    )
    header = framework.ethernet.ethernet(lldp.LLDP_MAC_NEAREST_BRIDGE, ROUTER_MAC, 0x88CC)
    return _frame([header, lldp.lldp(tlvs)])


def _arp_reply(request: Any) -> bytes:
    header = framework.ethernet.ethernet(request.src_mac, ROUTER_MAC, 0x0806)
    arp = framework.arp
    reply = arp.arp(
        opcode=arp.ARP_REPLY,
        src_mac=ROUTER_MAC,
        src_ip=request.dst_ip,
        dst_mac=request.src_mac,
        dst_ip=request.src_ip,
    )
    return _frame([header, reply])
