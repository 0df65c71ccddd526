"""What a build of the lab kernel needs from the machine, all that is missing said at once."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from lab.tools import running

TOOLS = {
    "gcc": "gcc",
    "ld": "binutils",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "patch": "patch",
    "tar": "tar",
}
NEEDED_BYTES = 1_600_000_000  # 7.3: 1.0 GB of source, 0.2 GB of objects, 0.2 GB for the package, and some air
_ELSEWHERE = "set FABRICLAB_CACHE to another folder"


class KernelBuildError(RuntimeError):
    """The kernel could not be built; the message is one line: what failed and, if known, what to do."""


def check_machine() -> None:
    """Raise KernelBuildError with everything that this machine lacks, and the command that installs it."""
    if platform.machine() != "x86_64":
        machine = platform.machine()
        raise KernelBuildError(f"the lab kernel runs on x86-64 only, this machine is {machine}: use --clock real")
    missing = missing_tools()
    if missing:
        command = f"apt-get install -y {' '.join(sorted(set(missing.values())))}"
        sudo = "sudo " if os.geteuid() else ""
        raise KernelBuildError(f"the lab kernel cannot be built without {', '.join(missing)}: {sudo}{command}")


def missing_tools() -> dict[str, str]:
    """What a build needs and this machine has not, with the Debian package that brings it."""
    missing = {tool: package for tool, package in TOOLS.items() if not shutil.which(tool)}
    if "gcc" not in missing and not _has_libc_headers():
        missing["the C library's headers"] = "libc6-dev"
    return missing


def check_folder(folder: Path) -> None:
    """Raise KernelBuildError unless a kernel can be built in the folder: a name that suits make, and room."""
    if re.search(r"[\s:]", str(folder)):
        raise KernelBuildError(f"make cannot work in {folder}, for its name has a space or a colon: {_ELSEWHERE}")
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < NEEDED_BYTES:
        needed, free = f"{NEEDED_BYTES / 1e9:.1f} GB", f"{free_bytes / 1e9:.1f} GB"
        raise KernelBuildError(f"the lab kernel's build takes {needed} in {folder}, only {free} are free: {_ELSEWHERE}")


def _has_libc_headers() -> bool:
    with running(["gcc", "-fsyntax-only", "-x", "c", "-"], stdin=subprocess.PIPE) as compiler:
        compiler.communicate(b"#include <stdlib.h>\n#include <sys/ptrace.h>\n")
    return compiler.returncode == 0
