"""This machine's own kernel as a place of runs on the real clock: what keeps them from it, and what it lacks."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.spec import Spec
from lab import ledger
from topologies import trial
from topologies.ground import NETDEV, Ground
from topologies.openvswitch import COMPILER
from topologies.units import format_duration

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of the tools of every run
_OPEN_VSWITCH = ("ovs-vswitchd", "ovs-vsctl", "ovsdb-server", "ovsdb-tool")
_MININETS_MARK = b"mininet:"  # Mininet names the shells of its nodes so (node.py)


@dataclass(frozen=True)
class Obstacle:
    """What keeps runs from this machine's own kernel, what mends it, and whether it is only that others run there."""

    what: str
    fix: str
    is_passing: bool = False


def machine_obstacles() -> list[Obstacle]:
    """Everything that keeps runs from this machine's own kernel, whatever they are."""
    if platform.system() != "Linux":
        return [Obstacle(f"this is {platform.system()}", "the VM: vagrant up (docs/vm.md)")]
    if os.geteuid():
        return [Obstacle("this user is not root", "sudo"), *_no_open_vswitch()]
    return [*_no_open_vswitch(), *_no_ground(), *_other_mininet(), *_names_taken()]


def _no_open_vswitch() -> Iterator[Obstacle]:
    missing = [tool for tool in _OPEN_VSWITCH if not shutil.which(tool, path=SEARCH_PATH)]
    if missing:
        yield Obstacle(f"there is no Open vSwitch here ({', '.join(missing)})", "apt-get install openvswitch-switch")


def _no_ground() -> Iterator[Obstacle]:
    """By trial: namespaces, and the compiler of a library of ours that Open vSwitch needs where its module is missing
    (topologies/send_all.c)."""
    try:
        ground = trial.here()
    except OSError as error:
        yield Obstacle(f"namespaces cannot be made here ({error})", "a container with CAP_SYS_ADMIN, or the VM")
        return
    if ground.datapath == NETDEV and shutil.which(COMPILER, path=SEARCH_PATH) is None:
        yield Obstacle(
            f"there is neither Open vSwitch's kernel module nor {COMPILER} here", f"apt-get install {COMPILER}"
        )


def _other_mininet() -> Iterator[Obstacle]:
    """Mininet's nodes share the processor with ours, and its `mn -c` ends by name what looks like it."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        mark = next((word for word in words if word.startswith(_MININETS_MARK)), None)
        if mark is not None:
            node = mark.decode(errors="replace")
            yield Obstacle(f"another Mininet is running (process {process.name}, {node})", "after its end", True)
            return


def _names_taken() -> Iterator[Obstacle]:
    """Another session, or names like ours that no ledger tells of; a killed session's own are removed before the
    next."""
    ours: set[str] = set()
    if os.path.lexists(ledger.FOLDER) or not os.access(ledger.FOLDER.parent, os.W_OK):
        try:
            with ledger.locked(ledger.FOLDER, ledger.NAMES) as left:
                ours = left.noted_names()
        except ledger.Busy as error:
            yield Obstacle(str(error), "after its end", True)
            return
        except ledger.Unusable as error:
            yield Obstacle(str(error), f"a folder {ledger.FOLDER}, or none, on a file system that can be written")
            return
    for path in [path for path in ledger.names_like_ours() if path.name not in ours][:1]:
        yield Obstacle(f"the network name {path.name} is taken, not by a run of ours", f"ip netns delete {path.name}")


def beyond(spec: Spec, ground: Ground) -> Iterator[tuple[str, str, str]]:
    """Key, what is given and what is allowed, for all that `ground` cannot do of the spec."""
    delays_ns = spec.delay_ns + spec.switch_delay_ns
    if "netem" not in ground.kinds and (delays_ns or spec.lossy_links):
        yield (
            "delay, switch_delay",
            f"{format_duration(spec.delay_ns)}, {format_duration(spec.switch_delay_ns)} given where no netem is",
            "modprobe sch_netem (Debian: linux-image-amd64 has it), or both 0ns and no lossy_link",
        )
    if "pfc" not in ground.kinds and spec.pfc == "on":
        yield ("pfc", "on is given on this machine's own kernel", "off (the queue that pauses is in the lab kernel)")
    if "rnic" not in ground.kinds and spec.transport == "roce":
        yield (
            "transport",
            "roce is given on this machine's own kernel",
            "tcp (the queues of NICs are in the lab kernel)",
        )
    if "prio" not in ground.kinds and spec.traffic_class == "lossless":
        yield ("traffic_class", "lossless is given where no prio is", "modprobe sch_prio, or lossy")
    if "red" not in ground.kinds and spec.queue != "droptail":
        yield ("queue", f"{spec.queue} is given where no red is", "modprobe sch_red, or droptail")
    if spec.rto_min_ns % ground.tick_ns:
        tick = format_duration(ground.tick_ns)
        yield (
            "rto_min",
            f"{format_duration(spec.rto_min_ns)} is given",
            f"whole timer ticks of this kernel, {tick} each",
        )
    if spec.transport == "tcp" and not trial.has_algorithm(spec.cc):
        yield ("cc", f"{spec.cc} is given, which this kernel lacks", f"modprobe tcp_{spec.cc}, or one of its own")
