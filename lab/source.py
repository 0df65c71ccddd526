"""Finds, downloads and unpacks the kernel source: a package, a tarball or a folder."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from lab.archive import DAMAGE, BadSource, top_makefile, unpack_archive
from lab.progress import Progress
from lab.tools import ToolError, complaint_in, output_of, running

SECCOMP_SINCE = "6.16"  # since then User-Mode Linux can run its processes under seccomp instead of ptrace
INSTALLED_SOURCES = Path("/usr/src")
BACKPORTS = "trixie-backports"
_KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
_PACKAGE = re.compile(r"linux-source-(\d+(?:\.\d+)*)")
_MAKEFILE_LINE = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *= *(\S*) *$", re.MULTILINE)
_FORMS = "a linux-source .deb, a .tar.xz, .tar.gz or .tar.bz2 of Linux, or a folder with its source"
_TARGET = "$(SITE)|$(ORIGIN)|$(LABEL)"
_POLL_S = 0.2


class NoSourceError(RuntimeError):
    """No kernel source could be found or downloaded; the message is one line."""


@dataclass(frozen=True)
class Source:
    """A kernel source: where the .deb, tarball or folder is, and the version that its top Makefile states."""

    path: Path
    version: str

    def identity(self) -> str:
        """Text that changes when the source does: path, number of files, their size, the newest change."""
        paths = [self.path] if self.path.is_file() else _files_below(self.path)
        states = [os.lstat(path) for path in paths]
        size_bytes = sum(state.st_size for state in states)
        newest_ns = max(state.st_mtime_ns for state in states)
        return f"{self.path.resolve()} {len(states)} {size_bytes} {newest_ns}"


def version_key(version: str) -> tuple[tuple[int, ...], bool, str]:
    """Sorts versions as the kernel numbers them: 6.9 < 6.16 < 7.0.0-rc1 < 7.0 < 7.0.1."""
    extra = version.lstrip("0123456789.")
    parts = [int(part) for part in version[: len(version) - len(extra)].split(".") if part]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts), not extra.startswith("-rc"), extra


def version_of(makefile: str) -> str:
    """The version in a kernel's top Makefile, as "7.3.4" or "7.4.0-rc1"; ValueError when it states none."""
    stated = dict(_MAKEFILE_LINE.findall(makefile))
    numbers = [stated.get(name, "") for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    if not all(number.isdigit() for number in numbers):
        raise ValueError("no kernel version in the top Makefile")
    return ".".join(numbers) + stated.get("EXTRAVERSION", "")


def open_source(path: Path) -> Source:
    """The source at `path`, its version read; raises BadSource when there is none that can be read."""
    if not path.exists():
        raise BadSource(f"{path} does not exist (allowed: {_FORMS})")
    try:
        return Source(path, version_of(top_makefile(path)))
    except (ValueError, ToolError, *DAMAGE) as error:
        raise BadSource(f"{path} holds no kernel source that can be read: {error} (allowed: {_FORMS})") from error


def find_source(folder: Path, progress: Progress) -> Source:
    """The newest source that can be had, at or above SECCOMP_SINCE if possible; downloads go to `folder`.

    In this order: one at hand (installed, or downloaded before); Debian's backports; an older one at hand;
    the distribution's own package. Raises NoSourceError with what was tried and the way out.
    """
    complaints: list[str] = []
    for attempt in (_recent_at_hand, _from_backports, _at_hand, _from_distribution):
        try:
            found = open_source(attempt(folder, progress))
        except (BadSource, NoSourceError, ToolError, OSError) as error:
            complaints.append(str(error))
            continue
        if version_key(found.version) < version_key(SECCOMP_SINCE):
            progress.say(f"no newer kernel source: {'; '.join(complaints)}")
        return found
    raise NoSourceError(f"no kernel source: {'; '.join(complaints)}: give one with --source FILE ({_FORMS})")


def unpack(source: Source, target: Path, progress: Progress) -> None:
    """Fill the new folder `target` with what a build reads of the source; BadSource if that is damaged."""
    progress.stage(f"unpacking Linux {source.version}", source.path.stat().st_size if source.path.is_file() else None)
    unpack_archive(source.path, target, progress)


def package_key(name: str) -> tuple[tuple[int, ...], bool, str]:
    """version_key of a package or file, as linux-source-6.12.tar.xz; lowest without a version."""
    found = _PACKAGE.match(name)
    return version_key(found.group(1) if found else "")


def debian_site(targets: str) -> str | None:
    """The system's mirror, from apt-get indextargets in the form _TARGET; None when it is no Debian."""
    rows = [line.split("|") for line in targets.splitlines()]
    return next((row[0] for row in rows if row[1:] == ["Debian", "Debian"]), None)


def apt_configuration(folder: Path) -> str:
    """An apt.conf(5) with source list, lists and cache below `folder`, and none of the system's hooks."""
    lines = [
        f'Dir::Etc::SourceList "{folder}/source.list"',
        'Dir::Etc::SourceParts "-"',
        f'Dir::State::Lists "{folder}/lists"',
        f'Dir::Cache "{folder}/cache"',
        'APT::Sandbox::User "root"',  # apt's own user may not enter a home folder
        "#clear APT::Update::Pre-Invoke",
        "#clear APT::Update::Post-Invoke",
        "#clear APT::Update::Post-Invoke-Success",
    ]
    return "".join(f"{line};\n" for line in lines)


def _recent_at_hand(folder: Path, progress: Progress) -> Path:
    best = _at_hand(folder, progress)
    if not _is_recent(best.name):
        raise NoSourceError(f"{best} is older than {SECCOMP_SINCE}")
    return best


def _is_recent(name: str) -> bool:
    return package_key(name) >= version_key(SECCOMP_SINCE)


def _at_hand(folder: Path, _progress: Progress) -> Path:
    """The newest source that is installed or was downloaded before."""
    paths = [*INSTALLED_SOURCES.glob("linux-source-*.tar.*"), *folder.glob("linux-source-*.deb")]
    if not paths:
        raise NoSourceError(f"none in {INSTALLED_SOURCES}")
    return max(paths, key=lambda path: package_key(path.name))


def _from_backports(folder: Path, progress: Progress) -> Path:
    """Download the newest linux-source of Debian's backports, through a list folder of our own."""
    site = debian_site(output_of(["apt-get", "indextargets", "--format", _TARGET, "Identifier: Packages"]))
    if site is None:
        raise NoSourceError("apt knows no Debian archive")
    configuration = _write_apt_folder(folder / "apt", site)
    progress.stage(f"asking {BACKPORTS} for its kernel source", None)
    output_of(["apt-get", "-c", configuration, "-q", "-o", "APT::Update::Error-Mode=any", "update"])
    return _download(folder, ["-c", str(configuration)], progress)


def _write_apt_folder(folder: Path, site: str) -> Path:
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    keyring = next((path for path in _KEYRINGS if path.exists()), _KEYRINGS[0])
    (folder / "source.list").write_text(
        f"deb [signed-by={keyring} target=Packages lang=none] {site} {BACKPORTS} main\n"
    )
    configuration = folder / "apt.conf"
    configuration.write_text(apt_configuration(folder))
    return configuration


def _from_distribution(folder: Path, progress: Progress) -> Path:
    """Download the distribution's own newest linux-source package (no privilege needed)."""
    return _download(folder, [], progress)


def _download(folder: Path, options: list[str], progress: Progress) -> Path:
    """Run apt-get download in a folder of its own, so that what lies in `folder` is always complete."""
    names = output_of(["apt-cache", *options, "pkgnames", "linux-source-"]).split()
    package = max((name for name in names if _PACKAGE.fullmatch(name)), key=package_key, default=None)
    if package is None:
        raise NoSourceError("apt knows no linux-source package (sudo apt-get update)")
    _, name, size, *_ = output_of(["apt-get", *options, "download", "--print-uris", package]).split()
    partial = folder / "partial"
    partial.mkdir(parents=True, exist_ok=True)
    progress.stage(f"downloading {package}", int(size))
    command = ["apt-get", *options, "-q", "download", package]
    with running(command, cwd=partial, stdout=subprocess.DEVNULL) as apt:
        _watch(apt, partial, progress)
        complaint = cast("IO[bytes]", apt.stderr).read()
    if apt.returncode:
        raise ToolError(f"downloading {package} failed: {complaint_in(complaint)}")
    return (partial / name).replace(folder / name)


def _watch(apt: subprocess.Popen[bytes], partial: Path, progress: Progress) -> None:
    while apt.poll() is None:
        progress.advance(sum(path.stat().st_size for path in partial.iterdir()))
        time.sleep(_POLL_S)


def _files_below(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        yield from (Path(root, name) for name in names)
