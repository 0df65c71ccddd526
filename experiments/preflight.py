"""What this machine can run: every requirement tried, everything missing told at once, each with its fix."""

from __future__ import annotations

import io
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from experiments import rundir
from experiments.runner import guest_environment
from lab.boot import VIRTUAL_START_NS, Job, LabError, memory_folder, run
from lab.kernel import find_kernel

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
_SMALLEST_GUEST_BYTES = 256 << 20
_BOOT_LIMIT_S = 60.0
_LAB_YEAR = str(datetime.fromtimestamp(VIRTUAL_START_NS // 10**9, timezone.utc).year)


@dataclass(frozen=True)
class Check:
    """One requirement: what was looked at, whether it holds, what was seen, and the command or step that mends it."""

    name: str
    holds: bool
    seen: str
    fix: str = ""


def checks() -> list[Check]:
    """All checks, in the order in which a run needs them."""
    return [check() for check in (_machine, _tools, _framework, _kernel, _soft_roce, _memory, _boot)]


def _machine() -> Check:
    seen = f"{platform.system()} {platform.machine()}"
    holds = seen == "Linux x86_64"
    return Check("machine", holds, seen, "the lab kernel needs Linux on x86-64: use the Vagrant VM and --clock real")


def _tools() -> Check:
    path = guest_environment()["PATH"]
    missing = [tool for tool in _TOOLS if not shutil.which(tool, path=path)]
    packages = sorted({_TOOLS[tool] for tool in missing})
    seen = f"missing: {', '.join(missing)}" if missing else f"all of {', '.join(_TOOLS)}"
    return Check("tools", not missing, seen, f"apt-get install {' '.join(packages)}")


def _framework() -> Check:
    """By trial: the controller's framework can be imported."""
    words = [sys.executable, "-c", "from controller import app, framework; print(framework.NAME, framework.VERSION)"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=rundir.ROOT)
    said = (done.stdout or done.stderr or "nothing").strip().splitlines()[-1]
    return Check("OpenFlow framework", done.returncode == 0, said, "make environment, after removing the broken one")


def _kernel() -> Check:
    kernel = find_kernel()
    seen = f"{kernel.version} ({kernel.config_hash}) {'; '.join(kernel.warnings)}".strip() if kernel else "none built"
    return Check("lab kernel", kernel is not None, seen, "./run_experiment kernel build")


def _soft_roce() -> Check:
    """What transport=roce needs of the kernel, as its build has noted."""
    kernel = find_kernel()
    holds = kernel is not None and kernel.features.has_soft_roce
    fix = "./run_experiment kernel build --source FILE, with a source of Linux 7 or newer"
    return Check("soft-RoCE", holds, "in the lab kernel" if holds else "not in the lab kernel: TCP alone", fix)


def _memory() -> Check:
    try:
        return Check("guest memory", True, str(memory_folder(_SMALLEST_GUEST_BYTES)))
    except LabError as error:
        return Check(
            "guest memory", False, str(error), "set FABRICLAB_MEMORY to a folder with room that is not mounted noexec"
        )


def _boot() -> Check:
    """By trial: the lab boots, sees a clock of its own, and says so."""
    kernel = find_kernel()
    fix = "run it again with FABRICLAB_MEMORY set to another folder, or build the kernel anew"
    if kernel is None:
        return Check("boot", False, "no lab kernel to boot", "./run_experiment kernel build")
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
        lines = [*outcome.kernel_log, *said.splitlines()]
        return Check("boot", False, lines[-1] if lines else outcome.ended_as, fix)
    return Check("boot", True, f"up and down in {outcome.wall_s:.2f} s as user {os.geteuid()}")
