"""Which code a run was made by: a commit says nothing of a work tree that differs from it."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("analysis", "controller", "experiments", "lab", "topologies", "workloads")
_OF_NO_RUN = ("claims", "commands", "explain", "notebooks", "pages", "papers")  # folders that no figure comes from


def code() -> str:
    """A hash of our source as it is now, as far as figures come from it: labs read it anew for each run."""
    every = (path for package in _PACKAGES for path in (ROOT / package).rglob("*.py"))
    paths = sorted(path for path in every if path.parent.name not in _OF_NO_RUN)
    return _hashed(tuple((path, path.stat().st_mtime_ns) for path in paths))


@lru_cache(maxsize=1)
def _hashed(files: tuple[tuple[Path, int], ...]) -> str:
    """Of names and contents; the times are there so that what has changed is read again."""
    found = hashlib.sha256()
    for path, _ in files:
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:12]
