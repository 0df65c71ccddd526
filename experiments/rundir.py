"""A run directory: made, described and completed here; its format is described in docs/run-directory.md."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import time
from contextlib import suppress
from datetime import datetime, timezone
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from experiments import source
from experiments.spec import Spec, parse
from topologies.plugins import located
from topologies.units import BadRequest

FORMAT = 1
ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("numpy", "pyarrow", "matplotlib", "scapy", "ryu", "PyYAML")
FULL = (errno.ENOSPC, errno.EDQUOT)  # the disk, or what of it is the user's
OWN = "own"  # the folder of code of the user's own
TIME_SCALE = "time_scale"
DESCRIBING_KEYS = ("experiment", "label", "clock", TIME_SCALE)  # in spec.yaml beside the spec's own keys


def create(out: Path | None, name: str) -> Path:
    """A new run directory: `out` when given (new or empty), else results/NAME-DATE-TIME below the current folder.

    Raises BadRequest when it exists with something in it or cannot be written. Under sudo it belongs to the
    invoking user.
    """
    folder = out or Path("results")
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise BadRequest(f"out: {str(folder)!r} is not UTF-8; allowed: a name in UTF-8") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if out is None:
            folder = _make_default_folder(name)
        if any(folder.iterdir()):
            raise BadRequest(f"out: {folder} is not empty; allowed: a new or an empty folder")
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise BadRequest(
            f"out: {folder} cannot be written ({error.strerror}); allowed: a folder that you may write"
        ) from None
    return folder.resolve()


def _make_default_folder(name: str) -> Path:
    """results/NAME-DATE-TIME, with a number behind it when that is taken; never one that another process has made."""
    stem = Path("results") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in count(1):
        folder = stem if number == 1 else Path(f"{stem}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            break
    return folder


def case_folder(folder: Path, label: str) -> Path:
    """Where the run `label` of an experiment lies: the main run is the directory itself, the others are
    cases/LABEL in it."""
    found = folder if label == "main" else folder / "cases" / label
    found.mkdir(parents=True, exist_ok=True)
    return found


def lock(path: Path, taken: str) -> int:
    """Hold a lock file, which even kill -9 frees (flock(2)), until what is returned, its descriptor, is closed; raises
    BadRequest in the words `taken` while another process holds it, and where there can be no such file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise BadRequest(
            f"out: {path.parent} cannot be written ({error.strerror}); allowed: a folder that you may write"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise BadRequest(taken) from None
    return descriptor


def discard_if_unused(folder: Path) -> bool:
    """Remove a folder that holds nothing but its spec, and what belongs to that; says whether it did."""
    unused = {path.name for path in folder.iterdir()} <= {"spec.yaml", OWN}
    if unused:
        shutil.rmtree(folder)
    return unused


def has_rounds(folder: Path) -> bool:
    """Whether the run in `folder` came far enough to be summarised."""
    try:
        return bool(json.loads((folder / "measured.json").read_text())["rounds"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def hand_over(folder: Path) -> None:
    """Under sudo, give everything in `folder` (and results/ above it) to the user who called sudo."""
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() or not (user.isdecimal() and group.isdecimal()):
        return
    owner = int(user), int(group)
    for path in (folder, *folder.rglob("*"), *([folder.parent] if folder.parent.name == "results" else [])):
        os.chown(path, *owner, follow_symlinks=False)


def write_spec(folder: Path, spec: Spec, **meta: Any) -> None:
    """spec.yaml: the resolved spec and what it belongs to (experiment, label, clock, and how many times slower it has
    been made, if it was)."""
    told = {**meta, **spec.as_text(), **_kept_plugs(folder, spec)}
    (folder / "spec.yaml").write_text(yaml.safe_dump(told, sort_keys=False))


def _kept_plugs(folder: Path, spec: Spec) -> dict[str, str]:
    """Key -> code of the user's own as spec.yaml has it, whose text is kept beside it."""
    for key, plug in spec.own.items():
        (folder / OWN).mkdir(exist_ok=True)
        (folder / OWN / f"{key}.py").write_bytes(plug.text.encode())
    return {key: f"{OWN}/{key}.py:{plug.name}" for key, plug in spec.own.items()}


def write_fabric(folder: Path, document: dict[str, Any]) -> None:
    """fabric.json: every switch, host and link of the run's fabric."""
    (folder / "fabric.json").write_text(json.dumps(document) + "\n")


def write_host(folder: Path, document: dict[str, Any]) -> None:
    """host.json: what an experiment measured on this machine itself, on the real clock."""
    (folder / "host.json").write_text(json.dumps(document, indent=1) + "\n")


def read_spec(folder: Path) -> Spec:
    """The spec that `write_spec` wrote."""
    values = yaml.safe_load((folder / "spec.yaml").read_text())
    own_keys = {name: value for name, value in values.items() if name not in DESCRIBING_KEYS}
    return parse(located(own_keys, folder))


def read_clock(folder: Path) -> str:
    """The clock that `write_spec` wrote."""
    return str(yaml.safe_load((folder / "spec.yaml").read_text())["clock"])


def write_provenance(folder: Path, facts: dict[str, Any]) -> None:
    """provenance.json: what made this run and how it ended; `facts` adds to what is the same for every run."""
    document = {
        "format": FORMAT,
        "fabriclab": version(),
        "git_commit": git_commit(),
        "code": source.code(),
        "python": platform.python_version(),
        "packages": _package_versions(),
        "machine": platform.platform(),
        **facts,
    }
    part = folder / "provenance.part"
    try:
        part.write_text(json.dumps(document, indent=1) + "\n")
        part.replace(folder / "provenance.json")
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def version() -> str:
    """fabriclab's version, from setup.cfg."""
    match = re.search(r"^version\s*=\s*(\S+)", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    return match.group(1) if match else "unknown"


def now() -> str:
    """The host's time, ISO 8601 in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _package_versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_commit() -> str:
    """The repository's commit, marked when the work tree differs from it; "unknown" outside a repository."""
    try:
        words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
