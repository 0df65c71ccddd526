"""Makes a Topo real: Mininet's objects over namespaces, links, queues and switches that are built in batches.

Mininet starts a shell for each node and several commands for each link; at 1,024 hosts that is minutes. Here
nodes are Mininet nodes (`cmd`, `popen`, `pingAll`, the `mininet>` prompt), but their shells start when first
used, and everything below them is made by netlink. The only module that imports mininet.net.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Node, Switch
from mininet.topo import Topo

from topologies import hosts, namespaces, qdisc
from topologies.addresses import GATEWAY, PREFIX_LENGTH, SUBNET, interface
from topologies.ground import LAB_VIRTUAL, NETDEV, Ground
from topologies.netlink import (
    Netlink,
    Port,
    Request,
    RouteTcp,
    delete_link,
    link_down,
    link_up,
    new_address,
    new_route,
    new_veth,
    one_segment,
)
from topologies.openvswitch import Bridge, OpenVSwitch
from topologies.profiles import HostProfile, LinkProfile, SwitchProfile

_LOOPBACK_INDEX = 1
_NOTICED_S = (1e-6, 100e-6)  # by then Open vSwitch has heard of a port's change; one with hundreds of bridges later
_CARRIER_LIMIT_S = 600.0


class LazyShell(Node):
    """A Mininet node that has no process until a command is given to it."""

    inNamespace: bool  # noqa: N815 (Mininet's name)
    namespace_name: str | None = None

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 (Mininet's name)
        """Called by Mininet at birth: too early."""

    def shell_now(self) -> None:
        """Start the shell if it is not running."""
        if self.shell is not None:
            return
        inside: bool = self.inNamespace
        self.inNamespace = False  # the namespace is there: the shell enters it (see _popen) instead of making one
        try:
            Node.startShell(self)
        finally:
            self.inNamespace = inside

    def enter_command(self) -> list[str]:
        """Words that run the command behind them in this node's namespace."""
        return ["nsenter", f"--net=/run/netns/{self.namespace_name}", "--"] if self.namespace_name else []

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        return super()._popen(self.enter_command() + cmd if cmd[0] == "mnexec" else cmd, **params)

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
        """As Mininet's, with a shell."""
        self.shell_now()
        return super().sendCmd(*args, **kwargs)

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """As Mininet's, with a shell."""
        self.shell_now()
        return super().cmd(*args, **kwargs)

    def popen(self, *args: Any, **kwargs: Any) -> Any:
        """As Mininet's; needs no shell."""
        kwargs.setdefault("mncmd", self.enter_command())
        return super().popen(*args, **kwargs)


class FabricHost(LazyShell, Host):
    """A host: a network namespace with interface eth0, of a kernel that is ours alone or one that others use too."""

    is_ours = True


class FabricSwitch(LazyShell, Switch):
    """A switch: one bridge of the fabric's Open vSwitch, in the root namespace."""

    def __init__(self, name: str, dpid: str | None = None, **params: Any) -> None:
        """As Mininet's, but without a control interface, which would be configured by a shell of the switch."""
        Node.__init__(self, name, **params)
        self.dpid, self.opts, self.listenPort, self.controlIntf = self.defaultDpid(dpid), "", None, None

    run_folder = ""  # of the fabric's Open vSwitch

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        """Open vSwitch's tools find the fabric's own in the switch's shell."""
        return super()._popen(cmd, **{**params, "env": {**os.environ, "OVS_RUNDIR": self.run_folder}})

    def dpctl(self, *args: str) -> Any:
        """An ovs-ofctl command about this switch, for `dpctl` of Mininet's prompt."""
        return self.cmd("ovs-ofctl", "-O", "OpenFlow15", args[0], self.name, *args[1:])

    def start(self, controllers: list[Any]) -> None:
        """Nothing to do: all bridges are created in one transaction."""

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803
        """Nothing but the shell: links and bridges go with the fabric."""
        self.terminate()


class FabricIntf(Intf):
    """An interface that netlink configures; Mininet's commands for it are left out."""

    when_up: Callable[[], None] | None = None

    def config(self, **params: Any) -> dict[str, Any]:
        """Nothing to run."""
        return {}

    def ifconfig(self, *args: str) -> Any:
        """As Mininet's, for its `link A B down` and `up`; a host gets back the routes that the kernel has dropped."""
        said = super().ifconfig(*args)
        if args == ("up",) and self.when_up:
            self.when_up()
        return said


class FabricLink(Link):
    """A link described by a LinkProfile; hosts' ends are called eth0, eth1 ..., switches' leaf1-eth3."""

    def __init__(self, node1: Any, node2: Any, profile: LinkProfile | None = None, **params: Any) -> None:
        if profile is None:
            raise ValueError(f"link {node1}-{node2} has no LinkProfile")
        self.profile = profile
        super().__init__(node1, node2, fast=True, **{**params, "intf": FabricIntf})

    def intfName(self, node: Any, n: int) -> str:  # noqa: N802
        """Interface name of end `n` of `node`."""
        return f"eth{n}" if node.inNamespace else interface(node.name, n)

    @classmethod
    def makeIntfPair(cls, *args: Any, **kwargs: Any) -> None:  # noqa: N802
        """Nothing: all links are made in one batch."""

    def stop(self) -> None:
        """Nothing: links go with the fabric."""


class Fabric(Mininet):
    """A running fabric; made by `emulate`."""

    inited = True  # Mininet's own initialisation tunes the whole machine by a dozen processes

    def __init__(
        self,
        topo: Topo,
        host_profile: HostProfile,
        prefix: str = "",
        openflow_controller: str | None = None,
        ground: Ground = LAB_VIRTUAL,
    ) -> None:
        self.host_profile, self.prefix, self.openflow_controller = host_profile, prefix, openflow_controller
        self.ground = ground
        self.namespaces: dict[str, int] = {}
        self._netlinks: dict[str, Netlink] = {}
        self._cleanup = ExitStack()
        self._root = self._cleanup.enter_context(Netlink())
        super().__init__(
            topo=topo,
            switch=FabricSwitch,
            host=FabricHost,
            link=FabricLink,
            controller=None,
            autoSetMacs=True,
            build=False,
        )

    def configHosts(self) -> None:  # noqa: N802
        """Called by Mininet's build once the objects exist: make them real."""
        if self.ground.is_ours:
            hosts.ease_limits()
        for host in self.hosts:
            self._make_namespace(host)
        self._root.execute(self._veths())
        for host in self.hosts:
            self._configure_host(host)
        self._configure_switches()
        self._verify()

    def _make_namespace(self, host: FabricHost) -> None:
        host.namespace_name, host.is_ours = self.prefix + host.name, self.ground.is_ours
        self.namespaces[host.name] = namespaces.create(host.namespace_name)
        self._cleanup.callback(namespaces.remove, host.namespace_name)
        self._cleanup.callback(os.close, self.namespaces[host.name])

    def _veths(self) -> Iterator[Any]:
        for number, link in enumerate(self.links, start=1):
            ends = [self._port(intf, number, side) for side, intf in enumerate((link.intf1, link.intf2))]
            yield new_veth(ends[0], ends[1], link.profile.mtu_bytes)

    def _port(self, intf: FabricIntf, number: int, side: int) -> Port:
        """Host MACs follow the host's number (00:00:00:00:00:05 is h5), switch ports' are locally administered."""
        node = intf.node
        intf.mac = node.params["mac"] if node.inNamespace else f"02:{side:02x}:{number.to_bytes(4, 'big').hex(':')}"
        return Port(intf.name, intf.mac, self.namespaces.get(node.name))

    def _configure_host(self, host: FabricHost) -> None:
        intfs = host.intfList()
        with namespaces.entered(self.namespaces[host.name]):
            self._netlinks[host.name] = netlink = self._cleanup.enter_context(Netlink())
            host.ifindexes = {intf.name: socket.if_nametoindex(intf.name) for intf in intfs}
            hosts.offloads_off(host.ifindexes, checksums=self.ground.datapath == NETDEV)
            hosts.apply_sysctls(hosts.tcp_sysctls(self.host_profile, self.ground.is_ours))
            hosts.ipv6_off()
        requests: list[Request] = [link_up(_LOOPBACK_INDEX)]
        for intf in intfs:
            index = host.ifindexes[intf.name]
            requests += [link_up(index), *qdisc.install(index, self._nic(intf), is_nic=True)]
            if not self.ground.is_patched:
                requests.append(one_segment(index))
        first = intfs[0]
        first.ip, first.prefixLen = host.params["ip"].split("/")
        address = new_address(host.ifindexes[first.name], first.ip, PREFIX_LENGTH)
        netlink.execute([*requests, address, *self._routes(host, intfs)])
        for intf in intfs:
            intf.when_up = partial(self._restore_routes, host, intf)

    def _restore_routes(self, host: FabricHost, intf: FabricIntf) -> None:
        self._netlinks[host.name].execute(self._routes(host, [intf]))

    def _routes(self, host: FabricHost, intfs: Sequence[FabricIntf]) -> Iterator[Request]:
        """A host's routes by these interfaces: everything by eth0, through the gateway where switches route; by each
        further one the hosts on the switch behind it."""
        gateway = GATEWAY if self.openflow_controller else None
        tcp = self._route_tcp()
        for intf in intfs:
            index = host.ifindexes[intf.name]
            if intf is host.intfList()[0]:
                yield new_route(index, SUBNET, PREFIX_LENGTH, tcp, gateway)
                continue
            for peer in self._behind(intf):
                yield new_route(index, peer, 32, tcp, gateway)

    def _route_tcp(self) -> RouteTcp:
        profile = self.host_profile
        rto_min_ms, rest_ns = divmod(profile.rto_min_ns, 1_000_000)
        if rest_ns:
            raise ValueError(f"rto_min_ns {profile.rto_min_ns}: the kernel takes whole milliseconds")
        return RouteTcp(rto_min_ms, profile.initial_window_packets, None if self.ground.is_ours else profile.cc)

    @staticmethod
    def _behind(intf: FabricIntf) -> Iterator[str]:
        """Addresses of the other hosts on the switch that `intf` leads to."""
        switch = intf.link.intf2.node
        for link in (port.link for port in switch.intfList() if port.link is not None):
            if link.intf1.node is not intf.node:
                yield link.intf1.node.params["ip"].partition("/")[0]

    def _configure_switches(self) -> None:
        """Links are up before a bridge has them, so that a controller hears of no dead ports; ports join their bridges
        before they get queues: Open vSwitch deletes the root qdisc of a port that it is given."""
        ports = list(self.switch_ports())
        self.port_index = {intf.name: socket.if_nametoindex(intf.name) for intf, _ in ports}
        # Undone in reverse: links go once Open vSwitch has ended, which would look at all ports for each.
        self._cleanup.callback(self._delete_links)
        hosts.offloads_off(intf.name for intf, _ in ports)
        self._root.execute(link_up(index) for index in self.port_index.values())
        self._await_carriers()
        folder = Path(tempfile.mkdtemp(prefix="fabriclab-ovs-"))
        self._cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        self.openvswitch = self._cleanup.enter_context(OpenVSwitch(folder / "run", self.ground.datapath))
        for switch in self.switches:
            switch.run_folder = str(self.openvswitch.folder)
        bridges = [
            Bridge(switch.name, int(switch.dpid, 16), {number: intf.name for number, intf in switch.intfs.items()})
            for switch in self.switches
        ]
        self.openvswitch.create(bridges, self.openflow_controller)
        self._root.execute(
            request
            for intf, profile in ports
            for request in qdisc.install(self.port_index[intf.name], self._stack(intf, profile))
        )

    def switch_ports(self) -> Iterator[tuple[FabricIntf, SwitchProfile]]:
        """Every switch port with its switch's profile."""
        for switch in self.switches:
            for intf in switch.intfList():
                yield intf, switch.params["profile"]

    def _stack(self, intf: FabricIntf, profile: SwitchProfile) -> tuple[qdisc.Qdisc, ...]:
        """The queues of a switch port; ports of one switch share its memory."""
        return qdisc.switch_port(intf.link.profile, profile, int(intf.node.dpid, 16), self.ground)

    def _nic(self, intf: FabricIntf) -> tuple[qdisc.Qdisc, ...]:
        """The queues of a host's NIC."""
        return qdisc.nic(intf.link.profile, self.ground)

    def _await_carriers(self) -> None:
        """A link carries nothing until the kernel has noticed the carriers of both its ends, a hundred of them a second
        (net/core/link_watch.c)."""
        deadline_s = time.monotonic() + _CARRIER_LIMIT_S
        for host in self.hosts:
            with namespaces.entered(self.namespaces[host.name]):
                hosts.await_carriers(host.ifindexes, deadline_s)
        hosts.await_carriers(self.port_index, deadline_s)

    def _delete_links(self) -> None:
        """Of each link the switch's end (both ends go together); links are stored host first."""
        self._root.execute(delete_link(self.port_index[link.intf2.name]) for link in self.links)

    def _verify(self) -> None:
        """Compare every queue with what was asked for; a fabric that differs is not run."""
        got = qdisc.read_all(self._root)
        lines = [
            f"{intf.name}: {line}"
            for intf, profile in self.switch_ports()
            for line in qdisc.differences(
                self._stack(intf, profile),
                got.get(self.port_index[intf.name], []),
                intf.link.profile,
            )
        ]
        for host in self.hosts:
            found = qdisc.read_all(self._netlinks[host.name])
            for intf in host.intfList():
                link, stack = intf.link.profile, found.get(host.ifindexes[intf.name], [])
                lines += [
                    f"{host.name}-{intf.name}: {line}" for line in qdisc.differences(self._nic(intf), stack, link)
                ]
        if lines:
            raise RuntimeError(
                f"queues are not as asked: {'; '.join(lines[:3])}"
                + (f" and {len(lines) - 3} more" if len(lines) > 3 else "")
            )

    def host_qdiscs(self, name: str, interface: str = "eth0") -> list[qdisc.Qdisc]:
        """The NIC's queue stack of a host as the kernel holds it now."""
        return qdisc.read(self._netlinks[name], self.nameToNode[name].ifindexes[interface])

    def port_qdiscs(self) -> dict[str, list[qdisc.Qdisc]]:
        """Interface name -> queue stack of every switch port as the kernel holds it now."""
        by_index = qdisc.read_all(self._root)
        return {name: by_index.get(index, []) for name, index in self.port_index.items()}

    def set_ports(self, interfaces: Sequence[str], up: bool) -> None:
        """Take switch ports down, or bring them up again; a port that is down has lost what it held."""
        change = link_up if up else link_down
        self._root.execute(change(self.port_index[name]) for name in interfaces)
        for pause_s in _NOTICED_S:
            time.sleep(pause_s)
            self.openvswitch.forget_cached_flows()

    def held_packets(self, interfaces: Sequence[str]) -> dict[str, int]:
        """How many packets each of these switch ports holds now, in its queues and on its wire."""
        stacks = self.port_qdiscs()
        return {name: stacks[name][0].statistics["backlog_packets"] for name in interfaces}

    def stop(self) -> None:
        """Remove everything this fabric made, and nothing else."""
        for node in (*self.hosts, *self.switches):
            node.terminate()
        self._cleanup.close()


@contextmanager
def emulate(
    topo: Topo,
    host_profile: HostProfile,
    prefix: str = "",
    openflow_controller: str | None = None,
    ground: Ground = LAB_VIRTUAL,
) -> Iterator[Fabric]:
    """A running fabric of `topo` on `ground` whose links and switches carry profiles; everything is removed at the end.

    Switches ask `openflow_controller` (such as "tcp:127.0.0.1:6653") how to forward; without one they learn, which only
    a fabric without loops survives. Needs root (the lab's will do).
    """
    fabric = Fabric(topo, host_profile, prefix, openflow_controller, ground)
    try:
        fabric.build()
        yield fabric
    finally:
        fabric.stop()
