"""What this machine can run, on either clock: every requirement tried, everything missing told at once, each with its
fix."""

from __future__ import annotations

import io
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from experiments import rundir
from experiments.own_kernel import machine_obstacles
from experiments.runner import guest_environment
from lab.boot import VIRTUAL_START_NS, memory_folder, run
from lab.kernel import find_kernel
from lab.session import Job, LabError
from topologies import trial
from topologies.ground import LAB, MACHINE, STOCK_KINDS, SYSTEM

_TOOLS = {
    "ovs-vswitchd": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-common",
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-common",
    "tcpdump": "tcpdump",
    "mnexec": "mininet",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "chrt": "util-linux",
    "ip": "iproute2",
    "ping": "iputils-ping",
}
BOTH = "both"
_NEEDED_BY = {LAB: "virtual clock, --on lab", MACHINE: "--on machine", BOTH: BOTH}
_LIMITING_KINDS = frozenset(("tbf", "bfifo"))  # no port without a rate, and a buffer of bytes
_SMALLEST_GUEST_BYTES = 256 << 20
_BOOT_LIMIT_S = 60.0
_LAB_YEAR = str(datetime.fromtimestamp(VIRTUAL_START_NS // 10**9, timezone.utc).year)


@dataclass(frozen=True)
class Check:
    """One requirement: what was looked at, runs of which place need it, whether it holds, what was seen, and the
    command or step that mends it.

    place: LAB for the lab kernel, MACHINE for this machine's own, or BOTH. is_needed: nothing runs there without it.
    """

    name: str
    place: str
    holds: bool
    seen: str
    fix: str = ""
    is_needed: bool = True

    @property
    def needed_by(self) -> str:
        """Which runs need it, in words."""
        return _NEEDED_BY[self.place]

    @property
    def mark(self) -> str:
        """How it stands, in a word."""
        return "ok" if self.holds else "MISSING" if self.is_needed else "lacking"


def checks() -> list[Check]:
    """All checks, in the order in which a run needs them."""
    return [*lab_checks(), *_own_kernel()]


def lab_checks() -> list[Check]:
    """What runs in the lab kernel need."""
    return [check() for check in (_tools, _framework, _platform, _kernel, _soft_roce, _memory, _boot)]


def runnable(found: Sequence[Check]) -> list[str]:
    """What can run here, as options of the command line; `found` are all checks."""
    missing = {check.place for check in found if check.is_needed and not check.holds}
    ways = []
    if not missing & {BOTH, LAB}:
        ways += ["--clock virtual", "--clock real --on lab"]
    if not missing & {BOTH, MACHINE}:
        ways.append("--clock real --on machine")
    return ways


def _platform() -> Check:
    seen = f"{platform.system()} {platform.machine()}"
    fix = "the lab kernel runs on Linux on x86-64 only: use --clock real, here or in the VM (docs/vm.md)"
    return Check("platform", LAB, seen == "Linux x86_64", seen, fix)


def _tools() -> Check:
    path = guest_environment()["PATH"]
    missing = [tool for tool in _TOOLS if not shutil.which(tool, path=path)]
    packages = sorted({_TOOLS[tool] for tool in missing})
    seen = f"missing: {', '.join(missing)}" if missing else f"all of {', '.join(_TOOLS)}"
    return Check("tools", BOTH, not missing, seen, f"apt-get install {' '.join(packages)}")


def _framework() -> Check:
    """By trial: the controller's framework can be imported."""
    words = [sys.executable, "-c", "from controller import app, framework; print(framework.NAME, framework.VERSION)"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=rundir.ROOT)
    said = (done.stdout or done.stderr or "nothing").strip().splitlines()[-1]
    fix = "make environment, after removing the broken one"
    return Check("OpenFlow framework", BOTH, done.returncode == 0, said, fix)


def _kernel() -> Check:
    kernel = find_kernel()
    seen = f"{kernel.version} ({kernel.config_hash}) {'; '.join(kernel.warnings)}".strip() if kernel else "none built"
    return Check("lab kernel", LAB, kernel is not None, seen, "./run_experiment kernel build")


def _soft_roce() -> Check:
    """What transport=roce needs of the kernel, as its build has noted."""
    kernel = find_kernel()
    holds = kernel is not None and kernel.features.has_soft_roce
    fix = "./run_experiment kernel build --source FILE, with a source of Linux 7 or newer"
    seen = "in the lab kernel" if holds else "not in the lab kernel: TCP alone"
    return Check("soft-RoCE", LAB, holds, seen, fix, is_needed=False)


def _memory() -> Check:
    try:
        return Check("guest memory", LAB, True, str(memory_folder(_SMALLEST_GUEST_BYTES)))
    except LabError as error:
        fix = "set FABRICLAB_MEMORY to a folder with room that is not mounted noexec"
        return Check("guest memory", LAB, False, str(error), fix)


def _boot() -> Check:
    """By trial: the lab boots, sees a clock of its own, and says so."""
    kernel = find_kernel()
    fix = "run it again with FABRICLAB_MEMORY set to another folder, or build the kernel anew"
    if kernel is None:
        return Check("boot", LAB, False, "no lab kernel to boot", "./run_experiment kernel build")
    output = io.BytesIO()
    with tempfile.TemporaryDirectory() as results:
        job = Job(
            argv=("date", "+%Y"),
            results=Path(results),
            env=guest_environment(),
            memory_bytes=_SMALLEST_GUEST_BYTES,
            watchdog_s=_BOOT_LIMIT_S,
        )
        outcome = run(kernel.path, job, stdout=output, stderr=output)
    said = output.getvalue().decode(errors="replace").strip()
    if outcome.status or said != _LAB_YEAR:
        lines = [*outcome.log, *said.splitlines()]
        return Check("boot", LAB, False, lines[-1] if lines else outcome.ended_as, fix)
    return Check("boot", LAB, True, f"up and down in {outcome.wall_s:.2f} s as user {os.geteuid()}")


def _own_kernel() -> list[Check]:
    """What runs on this machine's own kernel need, beside tools and framework."""
    obstacles = machine_obstacles()
    if obstacles:
        return [Check("own kernel", MACHINE, False, each.what, each.fix) for each in obstacles]
    ground = trial.here()
    switch = "its module" if ground.datapath == SYSTEM else "a process, as the kernel has no module of it"
    seen = f"{platform.release()}, as root; Open vSwitch is {switch}"
    return [Check("own kernel", MACHINE, True, seen), _kinds(ground.kinds)]


def _kinds(kinds: frozenset[str]) -> Check:
    """The queueing disciplines of this machine's own kernel."""
    lacking = sorted(STOCK_KINDS - kinds)
    seen = f"without {', '.join(lacking)}" if lacking else f"all of {', '.join(sorted(STOCK_KINDS))}"
    modules = " ".join(f"sch_{kind}" for kind in lacking)
    fix = f"a kernel with {modules} (Debian: linux-image-amd64 or -arm64), or a spec that does not ask for them"
    return Check("queues", MACHINE, not lacking, seen, fix, is_needed=bool(_LIMITING_KINDS & set(lacking)))
