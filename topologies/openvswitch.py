"""One private Open vSwitch for all bridges of a fabric: its own run directory, database and daemons.

The kernel's datapath cannot be its own: there is one in each network namespace, and a second ovs-vswitchd would take
the ports of the first. Where there is one already, none is started, so that it is never touched; in the lab there is
none. Where the kernel has none, the switch is a process, ovs-vswitchd itself: each of its ports is a packet socket.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from topologies import packet_sockets
from topologies.ground import NETDEV, SYSTEM

_DATAPATH = Path("/sys/class/net/ovs-system")
_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
_DAEMONS = ("ovs-vswitchd", "ovsdb-server")
# One core: more threads would only add switches between them. Nobody reads the statistics that it would copy to its
# database every 5 s, one system call for each port.
_OPTIONS = ("n-handler-threads=1", "n-revalidator-threads=1", "stats-update-interval=86400000")
# A busy controller is not a dead one, and the one that comes back is found within a second; a host that talks nonsense
# costs the controller no more than this many packets a second.
_CONTROLLER_OPTIONS = ("inactivity_probe=0", "max_backoff=1000", "controller_rate_limit=1000")
PROTOCOLS = "OpenFlow13,OpenFlow15"
_STOP_WAIT_S = 30.0
_SEND_ALL = Path(__file__).with_name("send_all.c")
COMPILER = "gcc"  # where the switch is a process
# Measured: bridges made before the monotonic clock is at 10 s do not forward (Open vSwitch 3.1).
_BLIND_S = 10.5
# As much as all queues of a fabric, and as 10 ms of a port of 10 Gb/s, small frames included; it is taken when used.
_SEND_ROOM_BYTES, _RECEIVE_ROOM_BYTES = 1 << 29, 64 << 20
# To an address of nobody, of an ethertype for experiments (RFC 9542).
_NOBODYS_FRAME = bytes.fromhex("02ffffffffff02fffffffffe88b5") + bytes(46)


@dataclass(frozen=True)
class Bridge:
    """One switch: bridge name, 64-bit datapath id, and its port interfaces by OpenFlow port number."""

    name: str
    dpid: int
    ports: dict[int, str]


class OpenVSwitch:
    """The daemons of one fabric, as a context manager; `folder` holds the database, sockets, process numbers
    and logs. `datapath`: SYSTEM or NETDEV."""

    def __init__(self, folder: Path, datapath: str = SYSTEM) -> None:
        self.folder = folder
        self._datapath = datapath
        self._socket = f"unix:{folder}/db.sock"

    def __enter__(self) -> OpenVSwitch:
        if _DATAPATH.exists():
            raise RuntimeError(
                "Open vSwitch: its kernel datapath is in use already; allowed: a lab, or a namespace, without one"
            )
        self.folder.mkdir(parents=True)
        # Just after boot it would never forward; in virtual time waiting is free.
        time.sleep(max(0.0, _BLIND_S - time.monotonic()))
        database = str(self.folder / "conf.db")
        self._call("ovsdb-tool", "create", database, str(_SCHEMA))
        self._call("ovsdb-server", database, f"--remote=p{self._socket}", *self._daemon_options("ovsdb-server"))
        try:
            self._start_switch()
        except BaseException:
            self.__exit__()  # the database is running already
            raise
        return self

    def _start_switch(self) -> None:
        self.configure(["init"], wait=False)
        self.configure(["set", "Open_vSwitch", ".", *(f"other_config:{option}" for option in _OPTIONS)], wait=False)
        more = {"LD_PRELOAD": self._built(_SEND_ALL)} if self._datapath == NETDEV else {}
        self._call("ovs-vswitchd", self._socket, *self._daemon_options("ovs-vswitchd"), **more)

    def _built(self, source: Path) -> str:
        """The shared library of a C file; raises RuntimeError without a compiler."""
        if not shutil.which(COMPILER):
            raise RuntimeError(f"Open vSwitch: as a process it needs {COMPILER}, and this kernel lacks its module")
        library = str(self.folder / source.with_suffix(".so").name)
        self._call(COMPILER, "-O2", "-shared", "-fPIC", "-o", library, str(source))
        return library

    def __exit__(self, *exc: object) -> None:
        switch, database = (self.folder / f"{daemon}.pid" for daemon in _DAEMONS)
        with suppress(RuntimeError):  # it may not have come up, or have died
            self.control("exit", "--cleanup")  # a signal would leave the datapath in the kernel
            self._await_end(switch)
        for pidfile in (switch, database):
            self._send(pidfile, signal.SIGTERM)
            self._await_end(pidfile)

    def create(self, bridges: Sequence[Bridge], controller: str | None = None) -> None:
        """All bridges with all ports in one transaction.

        With a `controller` (such as "tcp:127.0.0.1:6653") each bridge asks it how to forward, forwards nothing until
        told, and goes on as told when the controller is gone (fail mode secure). Without, each is a learning switch.
        """
        words: list[str] = []
        for bridge in bridges:
            words += self._bridge_words(bridge, controller)
            for number, interface in bridge.ports.items():
                words += _port_words(bridge, number, interface)
        self.configure(words)
        if self._datapath == NETDEV:
            self._widen_ports(bridges[0])

    def _bridge_words(self, bridge: Bridge, controller: str | None) -> list[str]:
        """The commands that make a bridge, and tell it its controller."""
        name = bridge.name
        settings = [
            f"other-config:datapath-id={bridge.dpid:016x}",
            "other-config:disable-in-band=true",
            *(["datapath_type=netdev"] if self._datapath == NETDEV else []),
            f"fail_mode={'secure' if controller else 'standalone'}",
            f"protocols={PROTOCOLS}",
        ]
        words = ["--", "add-br", name, "--", "set", "bridge", name, *settings]
        if controller:
            words += ["--", "set-controller", name, controller]
            words += ["--", "set", "controller", name, *_CONTROLLER_OPTIONS]
        return words

    def _widen_ports(self, bridge: Bridge) -> None:
        """By default all ports together could hold some 90 frames, whatever their queues may hold, and a port as many
        that the switch has not looked at yet; more would be lost, and nobody would count it.

        The one socket by which all ports send is made for the first frame: one is sent, which no host takes.
        """
        port = next(iter(bridge.ports))
        frame = f"packet={_NOBODYS_FRAME.hex()}, actions=output:{port}"
        self._call("ovs-ofctl", "-O", "OpenFlow15", "packet-out", bridge.name, frame)
        switch = int((self.folder / f"{_DAEMONS[0]}.pid").read_text())
        packet_sockets.widen(switch, _SEND_ROOM_BYTES, _RECEIVE_ROOM_BYTES)

    def configure(self, words: Sequence[str], wait: bool = True) -> str:
        """One ovs-vsctl transaction; returns what it prints."""
        return self._call("ovs-vsctl", f"--db={self._socket}", *([] if wait else ["--no-wait"]), *words)

    def control(self, *words: str) -> str:
        """One command to the running switch (ovs-vswitchd(8), "runtime management commands"); returns its answer."""
        return self._call("ovs-appctl", f"--target={self.folder}/ovs-vswitchd.ctl", *words)

    def forget_cached_flows(self) -> None:
        """Look the next packet of every flow up again. Open vSwitch itself goes through its cached flows after a
        change, but not within 5 ms of the last time (ofproto-dpif-upcall.c): until then packets run into a dead
        port."""
        self.control("revalidator/purge")

    def version(self) -> str:
        """Version of the running switch."""
        return self._call("ovs-vswitchd", "--version").splitlines()[0].split()[-1]

    def _daemon_options(self, name: str) -> list[str]:
        return [
            "--detach",
            "--no-chdir",
            f"--pidfile={self.folder}/{name}.pid",
            f"--log-file={self.folder}/{name}.log",
            f"--unixctl={self.folder}/{name}.ctl",
        ]

    def _call(self, *words: str, **more: str) -> str:
        """Run it, with `more` in its environment; returns what it prints."""
        environment = {**os.environ, "OVS_RUNDIR": str(self.folder), **more}
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(
                f"{words[0]} failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"
            )
        return done.stdout

    def _await_end(self, pidfile: Path) -> None:
        """Until the daemon has ended, which removes its pidfile unless it was killed; one that does not is killed."""
        deadline_s = time.monotonic() + _STOP_WAIT_S
        while self._runs(pidfile):
            if time.monotonic() > deadline_s:
                self._send(pidfile, signal.SIGKILL)
                return
            time.sleep(0.005)

    @staticmethod
    def _runs(pidfile: Path) -> bool:
        try:
            os.kill(int(pidfile.read_text()), 0)
        except (FileNotFoundError, ValueError, ProcessLookupError):
            return False
        return True

    @staticmethod
    def _send(pidfile: Path, number: signal.Signals) -> None:
        with suppress(FileNotFoundError, ValueError, ProcessLookupError):
            os.kill(int(pidfile.read_text()), number)


def _port_words(bridge: Bridge, number: int, interface: str) -> list[str]:
    """The commands that make an interface the port of that number."""
    words = ["--", "add-port", bridge.name, interface]
    return [*words, "--", "set", "interface", interface, f"ofport_request={number}"]
