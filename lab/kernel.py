"""What a lab kernel is: the recipe it is built from, the finished kernel, and how finished ones are found."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.cache import cache_folders
from lab.source import SECCOMP_SINCE, version_key

_HERE = Path(__file__).parent
_HZ = 1000  # a tick of 1 ms: with the default of 100 no TCP timer could be shorter than 10 ms
_RECORD = "kernel.json"


@dataclass(frozen=True)
class Recipe:
    """All of ours that makes the kernel: configuration asked for, source changes by name, tick rate."""

    config: str
    patches: tuple[tuple[str, str], ...]
    hz: int = _HZ

    def digest(self) -> str:
        """Twelve hex digits over the content alone, so that every machine names the same kernel alike."""
        content = hashlib.sha256(f"HZ={self.hz}\n".encode())
        for symbol, value in sorted(parse_config(self.config).items()):
            content.update(f"{symbol}={value}\n".encode())
        for name, patch in self.patches:
            content.update(f"{name}\n{patch}".encode())
        return content.hexdigest()[:12]


@dataclass(frozen=True)
class Features:
    """What not every kernel can do: run processes under seccomp, run soft-RoCE in network namespaces."""

    has_seccomp: bool
    has_soft_roce: bool


@dataclass(frozen=True)
class Kernel:
    """A finished lab kernel: its binary, version ("7.3.4"), how it was built, and what it lacks.

    missing: configuration symbols that were asked for and did not take, as "CONFIG_NAME=asked".
    warnings: one line each, for a person.
    """

    path: Path
    version: str
    config_hash: str
    features: Features
    warnings: tuple[str, ...]
    missing: tuple[str, ...]
    source: str
    built: str
    compiler: str


def lab_recipe() -> Recipe:
    """The recipe in this folder: lab.config and patches/*.patch by name."""
    patches = sorted((_HERE / "patches").glob("*.patch"))
    return Recipe((_HERE / "lab.config").read_text(), tuple((path.name, path.read_text()) for path in patches))


def find_kernel(recipe: Recipe | None = None, version: str | None = None) -> Kernel | None:
    """The newest finished kernel of a recipe (default: the lab's) in all caches; None if there is none.

    version: only this one.
    """
    digest = (recipe or lab_recipe()).digest()
    folders = [path for cache in cache_folders() for path in _folders(cache, f"{version or '*'}-{digest}")]
    kernels = [kernel for kernel in map(load, folders) if kernel]
    return max(kernels, key=lambda kernel: version_key(kernel.version), default=None)


def _folders(cache: Path, pattern: str) -> list[Path]:
    try:
        return list((cache.absolute() / "kernels").glob(pattern))
    except PermissionError:  # another user's cache
        return []


def load(folder: Path) -> Kernel | None:
    """The kernel in a folder of the cache; None when the folder holds no complete one."""
    try:
        record = json.loads((folder / _RECORD).read_text())
        kernel = Kernel(
            **{
                **record,
                "path": folder / "linux",
                "features": Features(**record["features"]),
                "warnings": tuple(record["warnings"]),
                "missing": tuple(record["missing"]),
            }
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return kernel if os.access(kernel.path, os.X_OK) else None


def save(kernel: Kernel, folder: Path) -> None:
    """Write the kernel's record beside its binary; the path is left out, for it is where the record is."""
    record: dict[str, Any] = asdict(kernel)
    del record["path"]
    (folder / _RECORD).write_text(json.dumps(record, indent=2) + "\n")


def parse_config(text: str) -> dict[str, str]:
    """The symbols of a kernel configuration and their values; "is not set" reads as n, as in Kconfig."""
    config = {}
    for line in map(str.strip, text.splitlines()):
        if line.startswith("CONFIG_") and "=" in line:
            symbol, value = line.split("=", 1)
            config[symbol] = value
        elif line.startswith("# CONFIG_") and line.endswith(" is not set"):
            config[line.split()[1]] = "n"
    return config


def not_taken(asked: dict[str, str], took: dict[str, str]) -> dict[str, str]:
    """The symbols whose value in the final configuration is another one, with the value asked for."""
    return {symbol: value for symbol, value in asked.items() if took.get(symbol, "n") != value}


def warnings_for(version: str, features: Features) -> tuple[str, ...]:
    """What is slow or cannot run with a kernel of these features, a line each."""
    warnings = []
    if not features.has_seccomp:
        warnings.append(f"Linux {version} is older than {SECCOMP_SINCE}: system calls take twice as long (no seccomp)")
    if not features.has_soft_roce:
        warnings.append(
            f"this Linux {version} has no soft-RoCE in network namespaces (that takes about 7.x and RDMA_RXE)"
        )
    return tuple(warnings)


def describe(kernel: Kernel) -> str:
    """A kernel for a person to read, one fact per line."""
    facts = {
        "kernel": kernel.path,
        "version": kernel.version,
        "configuration": kernel.config_hash,
        "source": kernel.source,
        "built": f"{kernel.built} by {kernel.compiler}",
        "seccomp": _yes(kernel.features.has_seccomp),
        "soft-RoCE": _yes(kernel.features.has_soft_roce),
        "not taken": ", ".join(kernel.missing) or "nothing",
    }
    lines = [f"{name:<14}{value}" for name, value in facts.items()]
    return "\n".join(lines + [f"warning: {warning}" for warning in kernel.warnings])


def _yes(value: bool) -> str:
    return "yes" if value else "no"
