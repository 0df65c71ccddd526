"""The project's modules in compiled form, before a lab reads them.

In virtual time a call that fails costs a nanosecond (patches/0006), and Python asks for a module's compiled form before
it reads its source: a run in a clone that lacks some would not be the same as the next one. A guest leaves none behind.
"""

from __future__ import annotations

import compileall
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from py_compile import PycInvalidationMode

_PACKAGES = ("analysis", "controller", "experiments", "lab", "topologies", "workloads")
_ROOT = Path(__file__).resolve().parents[1]


@cache
def compile_modules(root: Path = _ROOT) -> None:
    """Compile what is missing or older than its source, once in a process; in somebody else's clone only as root, who
    gives the files to the clone's owner."""
    owner, user = root.stat().st_uid, os.geteuid()
    if user not in (owner, 0):
        return
    for package in _PACKAGES:
        compileall.compile_dir(root / package, quiet=2, invalidation_mode=PycInvalidationMode.TIMESTAMP)
    if user != owner:
        _give(root, owner)


def _give(root: Path, owner: int) -> None:
    for package in _PACKAGES:
        for folder in (root / package).rglob("__pycache__"):
            for path in (folder, *folder.iterdir()):
                with suppress(FileNotFoundError):  # half written by another run a moment ago
                    if path.stat().st_uid != owner:
                        os.chown(path, owner, -1)
