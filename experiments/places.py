"""Where a run takes place: in the lab kernel, or on this machine's own; what that needs, and what its kernel lacks.

The virtual clock is the lab kernel's alone. On the real clock a run takes place on this machine's own kernel where the
user is root and all is there, else in the lab kernel without time travel.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.spec import Spec, refuse
from lab import boot, host, ledger
from lab.kernel import Kernel
from lab.session import Event, Job, Outcome, Stop
from topologies import trial
from topologies.ground import HOST, LAB, NETDEV, Ground
from topologies.units import BadRequest, format_duration

VIRTUAL_INSTEAD = "or --clock virtual, which needs none of it"
_OPEN_VSWITCH = ("ovs-vswitchd", "ovs-vsctl", "ovsdb-server", "ovsdb-tool")
_MININETS_MARK = b"mininet:"  # Mininet names the shells of its nodes so (node.py)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Obstacle:
    """What keeps runs from this machine's own kernel, and what mends it."""

    what: str
    fix: str


def host_obstacles() -> list[Obstacle]:
    """Everything that keeps runs from this machine's own kernel, whatever they are."""
    if platform.system() != "Linux":
        return [Obstacle(f"this is {platform.system()}", "the VM: vagrant up (docs/vm.md)")]
    if os.geteuid():
        return [Obstacle("this user is not root", "sudo"), *_no_open_vswitch()]
    return [*_no_open_vswitch(), *_no_namespaces(), *_no_compiler(), *_other_mininet(), *_names_taken()]


def _no_open_vswitch() -> Iterator[Obstacle]:
    missing = [tool for tool in _OPEN_VSWITCH if not shutil.which(tool, path=_PATH)]
    if missing:
        yield Obstacle(f"there is no Open vSwitch here ({', '.join(missing)})", "apt-get install openvswitch-switch")


def _no_namespaces() -> Iterator[Obstacle]:
    """By trial; looks no further where there are none."""
    try:
        trial.here()
    except OSError as error:
        yield Obstacle(f"namespaces cannot be made here ({error})", "a container with CAP_SYS_ADMIN, or the VM")


def _no_compiler() -> Iterator[Obstacle]:
    """Without its module Open vSwitch needs a library of ours, built on the spot (topologies/send_all.c)."""
    try:
        needed = trial.here().datapath == NETDEV
    except OSError:  # told above
        return
    if needed and shutil.which("gcc", path=_PATH) is None:
        yield Obstacle("there is neither Open vSwitch's kernel module nor gcc here", "apt-get install gcc")


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
            yield Obstacle(f"another Mininet is running (process {process.name}, {node})", "after its end")
            return


def _names_taken() -> Iterator[Obstacle]:
    """Another session, or names like ours that no ledger tells of; a killed session's own are removed before the
    next."""
    if ledger.FOLDER.is_dir():
        try:
            with ledger.locked(ledger.FOLDER, ledger.NAMES):
                return
        except ledger.Busy as error:
            yield Obstacle(str(error), "after its end")
            return
    found = sorted(ledger.NAMES.glob(f"{ledger.PREFIX}*"))
    if found:
        yield Obstacle(
            f"the network name {found[0].name} is taken, not by a run of ours", f"ip netns delete {found[0].name}"
        )


def unfit(spec: Spec, ground: Ground) -> Iterator[tuple[str, str, str]]:
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


def real_place(asked: str | None, specs: Sequence[Spec], kernel: Kernel | None) -> tuple[str, str]:
    """The place of runs of `specs` on the real clock, and a line that tells why it is not this machine's own kernel (or
    an empty one). Raises BadRequest when they cannot run where they are asked to, or anywhere."""
    if asked == LAB:
        return _lab(kernel, "--on: lab is given"), ""
    why = next(_against_host(specs), None)
    if why is None:
        return HOST, ""
    if asked == HOST or kernel is None:
        instead = "--on lab, " if kernel is not None else ""
        raise BadRequest(f"{why}, {instead}{VIRTUAL_INSTEAD}")
    return LAB, f"real clock: in the lab kernel ({why})"


def _against_host(specs: Iterable[Spec]) -> Iterator[str]:
    """Why specs cannot run on this machine's own kernel, each as key, what is and what is allowed."""
    for obstacle in host_obstacles():
        yield f"clock: real is given, and {obstacle.what}; allowed: {obstacle.fix}"
        return  # a machine that cannot be looked at tells no more
    ground = trial.here()
    for spec in specs:
        for key, given, allowed in unfit(spec, ground):
            yield f"{key}: {given}; allowed: {allowed}"


def _lab(kernel: Kernel | None, given: str) -> str:
    if kernel is None:
        raise BadRequest(f"{given}, and there is no lab kernel; allowed: host, or after ./run_experiment kernel build")
    return LAB


def check_virtual(kernel: Kernel | None) -> Kernel:
    """The lab kernel, which the virtual clock needs; raises BadRequest where no machine of this kind runs one,
    RuntimeError with the command that builds it."""
    seen = f"{platform.system()} {platform.machine()}"
    if kernel is None and seen != "Linux x86_64":
        refuse(
            "clock",
            f"virtual is given on {seen}, and the lab kernel runs on Linux x86_64 alone",
            "sudo ... --clock real where this is Linux, or the VM (vagrant up, docs/vm.md)",
        )
    if kernel is None:
        raise RuntimeError(
            "there is no lab kernel yet: build it once with `./run_experiment kernel build` (about ten CPU-minutes)"
        )
    return kernel


def run_job(
    place: str,
    kernel: Kernel | None,
    job: Job,
    on_event: Callable[[Event, float], None] = lambda event, wall_s: None,
    stop: Stop | None = None,
    **streams: Any,
) -> Outcome:
    """Run `job` there (see lab.boot.run and lab.host.run); raises RuntimeError when it cannot be begun."""
    if place == HOST:
        return host.run(job, on_event, stop=stop, **streams)
    return boot.run(check_virtual(kernel).path, job, on_event, stop=stop, **streams)
