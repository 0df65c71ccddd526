"""The controller as an OpenFlow application: handlers only; what they decide is in `state`, `rules` and `routing`.

It tells what happens as JSON lines in the file it is given: {"event": ..., "time_ns": CLOCK_REALTIME, ...}. Commands
(see `commands`) it obeys at once: the control latency is up to who sends them, for a task here can wait whole
milliseconds only.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from controller import cached_flows, commands, framework, openflow
from controller.pfc_frame import PfcFrame, priority_of
from controller.policy import Orders
from controller.routing import Port
from controller.state import FabricState
from topologies.addresses import ROUTER_MAC, interface
from topologies.live_queues import change_marking
from topologies.netlink import Netlink, NetlinkError, Request
from topologies.qdisc import LOSSLESS_DSCP

_LEAST_REPAIR_NS = 1_000_000
_QUEUES_LIMIT_S, _QUEUES_POLL_S = 60.0, 0.001
_LLDP_TTL_S = 120
_LLDP_WAIT_S = 2.0  # longer than any link is; it ends as soon as all have answered
_LLDP_POLL_S = 0.01
_NO_ADDRESS = "0.0.0.0"
_SET = framework.handler.set_ev_cls
_MAIN, _DEAD = framework.handler.MAIN_DISPATCHER, framework.handler.DEAD_DISPATCHER
_ofp = framework.ofp_event


class FabricController(framework.App):
    """Routes one fabric; `orders`, `report` (a descriptor), `inlet` (where the socket for commands is to be) and
    OFP_VERSIONS are set before it is made."""

    orders: Orders
    report: int
    inlet: str | None = None
    OFP_VERSIONS = [framework.ofproto_v1_3.OFP_VERSION, framework.ofproto_v1_5.OFP_VERSION]  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.state = FabricState(self.orders)
        self.datapaths: dict[str, Any] = {}
        self.unconfirmed: dict[str, int] = {}  # switch -> transaction of the last barrier that it has not answered
        self.uncurved: set[str] = set()  # switches whose markers have not got their curves
        self.ready = False
        self.seen_links: set[tuple[Port, Port]] = set()
        self.known: set[str] = set()  # switches that this process has filled before
        self.repairing = self.untold = False
        self.control = ""  # the switches' control socket
        self.new_marks: dict[str, list[commands.Mark]] = {}  # by switch, sent and not yet in effect
        if self.inlet:
            inlet = framework.sockets.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            inlet.bind(self.inlet)
            framework.hub.spawn(self._guarded(partial(self._listen, inlet)))

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
        if self.state.curves[name]:
            self.uncurved.add(name)
            framework.hub.spawn(self._guarded(partial(self._set_thresholds, name)))
        if any(news):
            self._repair_soon()

    def _set_thresholds(self, name: str) -> None:
        """Give a switch's markers their curves once they are there: a port gets its queues after it has joined its
        switch, and who makes them compares them with what was asked before time goes on."""
        curves = self.state.curves[name]
        requests = [
            change_marking(socket.if_nametoindex(each), is_lossless, curve)
            for each, curve in curves.items()
            for is_lossless in ((False,) if curve.drop else (False, True))  # nothing drops early in the lossless class
        ]
        deadline_s = time.monotonic() + _QUEUES_LIMIT_S
        with Netlink() as netlink:
            framework.hub.sleep(_QUEUES_POLL_S)
            while not _carried_out(netlink, requests, time.monotonic() > deadline_s):
                framework.hub.sleep(_QUEUES_POLL_S)
        self.tell("thresholds", switch=name, ports={each: asdict(curve) for each, curve in curves.items()})
        self.uncurved.discard(name)
        self._tell_when_settled()

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
            self._tell_marks(name)
            self._tell_when_settled()

    def _tell_when_settled(self) -> None:
        if self.unconfirmed or self.uncurved or self.repairing:
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
            latency_ns = max(self.state.policy.latency_ns, _LEAST_REPAIR_NS)
            framework.hub.spawn_after(latency_ns / 1e9, self._guarded(self._repair))

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

    def _listen(self, inlet: Any) -> None:
        while True:
            line = inlet.recv(commands.LONGEST_BYTES)
            try:
                self._obey(commands.parse(line))
            except ValueError as error:
                self.tell("error", switch="?", what=str(error))

    def _obey(self, command: commands.Command) -> None:
        if isinstance(command, commands.Pause):
            self._pause(command)
        elif isinstance(command, commands.Switches):
            self.control = command.control
        elif self.state.mark((command.switch, command.port), command.on):
            self.new_marks.setdefault(command.switch, []).append(command)
            self._update(command.switch)

    def _pause(self, command: commands.Pause) -> None:
        """A pause frame (IEEE 802.1Qbb) as if the port had sent it."""
        datapath = self.datapaths.get(command.switch)
        if datapath is None or command.port not in datapath.ports:
            raise ValueError(f"port {command.port} of switch {command.switch} cannot send: it is not there")
        source = datapath.ports[command.port].hw_addr
        frame = PfcFrame(source, ((priority_of(LOSSLESS_DSCP), command.quanta),)).encode()
        self._send(datapath, [openflow.packet_out(datapath, command.port, frame)])
        self.tell("paused", switch=command.switch, port=command.port, quanta=command.quanta)

    def _tell_marks(self, name: str) -> None:
        """The switch has the new entries for its marks: from now on they act."""
        marks = self.new_marks.pop(name, [])
        try:
            if marks and self.control:
                cached_flows.forget(self.control)
        except OSError as error:
            self.tell("error", switch=name, what=f"cached flows: {error}")
        for mark in marks:
            self.tell("marking", switch=name, port=mark.port, on=mark.on)

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


def _carried_out(netlink: Netlink, requests: list[Request], is_last: bool) -> bool:
    """Whether the markers were there; raises NetlinkError for any other refusal, and for this one the last time."""
    try:
        netlink.execute(requests)
    except NetlinkError as error:
        if error.errno != errno.ENOENT or is_last:
            raise
        return False
    return True


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
