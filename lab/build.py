"""Builds the lab kernel once per version and configuration: User-Mode Linux, `lab.config` and our patches.

A finished kernel is in <cache>/kernels/<version>-<hash>/: `linux`, `kernel.json`, `config`, `build.log`.
One in the making is in <cache>/build/<version>-<hash>/, so that an interrupted build can go on.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from subprocess import STDOUT
from typing import IO, cast

from lab import kernel as kernels
from lab.cache import own_cache
from lab.kernel import Features, Kernel, Recipe
from lab.preflight import KernelBuildError, check_folder, check_machine
from lab.progress import Progress
from lab.source import (
    SECCOMP_SINCE,
    BadSource,
    NoSourceError,
    Source,
    find_source,
    open_source,
    unpack,
    version_key,
)
from lab.tools import ToolError, environment, exclusive, guarded, output_of, running

REQUIRED = {
    "CONFIG_UML_TIME_TRAVEL_SUPPORT": "y",
    "CONFIG_HIGH_RES_TIMERS": "y",
    "CONFIG_HOSTFS": "y",
    "CONFIG_OVERLAY_FS": "y",
    "CONFIG_VETH": "y",
    "CONFIG_OPENVSWITCH": "y",
    "CONFIG_NET_SCH_NETEM": "y",
    "CONFIG_NET_SCH_TBF": "y",
    "CONFIG_NET_SCH_PRIO": "y",
    "CONFIG_NET_SCH_RED": "y",
    "CONFIG_NET_SCH_PFC": "y",
    "CONFIG_NET_SCH_RNIC": "y",
}
_HZ_DEFAULT = re.compile(r"(^config HZ\n(?:[ \t]+.*\n)*?[ \t]+default )\d+", re.MULTILINE)
_COMPILED = re.compile(rb" +(?:HOST)?(?:CC|AS) ")
_WOULD_COMPILE = re.compile(rb"echo ' +(?:HOST)?(?:CC|AS) ")
_ERROR = re.compile(
    r"\berror: |undefined reference|No space left|[Cc]annot (?:find|open)|not found|No rule to make|\*\*\* "
)
_ERRORS_SHOWN = 3
_OURS = "fabriclab"  # a folder in the tree: the recipe, and the identity of the source


@dataclass(frozen=True)
class _Site:
    """One build: what from, and where its tree and log are."""

    source: Source
    recipe: Recipe
    cache: Path

    @property
    def key(self) -> str:
        return f"{self.source.version}-{self.recipe.digest()}"

    @property
    def tree(self) -> Path:
        return self.cache / "build" / self.key

    @property
    def log(self) -> Path:
        return self.cache / "build" / f"{self.key}.log"


def build_kernel(
    source: Path | None, progress: Progress, jobs: int | None = None, recipe: Recipe | None = None
) -> Kernel:
    """The finished kernel of the recipe (default: the lab's), built now if the caches hold none.

    source: a .deb, a tarball or a folder, never changed; None takes any version that is ready, else the
    newest source to be found. jobs: compilers at once, default one per core. Raises BadSource for a `source`
    that cannot be used, KernelBuildError for whatever fails.
    """
    recipe = recipe or kernels.lab_recipe()
    given = open_source(source.resolve()) if source else None
    try:
        return _ready(given, recipe, progress) or _build_in_turn(given, recipe, progress, jobs)
    except BadSource as error:
        if given:
            raise
        raise KernelBuildError(str(error)) from error  # nobody asked for that source
    except (ToolError, NoSourceError) as error:
        raise KernelBuildError(str(error)) from error
    except OSError as error:
        raise KernelBuildError(f"the lab kernel cannot be built in {own_cache()}: {error}") from error


def _ready(given: Source | None, recipe: Recipe, progress: Progress) -> Kernel | None:
    kernel = kernels.find_kernel(recipe, given.version if given else None)
    if kernel and given:
        progress.say(
            f"Linux {kernel.version} is there already, built from {kernel.source} "
            f"(to build it again, remove {kernel.path.parent})"
        )
    return kernel


def _build_in_turn(given: Source | None, recipe: Recipe, progress: Progress, jobs: int | None) -> Kernel:
    check_machine()
    cache = own_cache().absolute()
    (cache / "build").mkdir(parents=True, exist_ok=True)
    lock = cache / "build" / "lock"
    with exclusive(lock, lambda: progress.say(f"waiting for another build of the lab kernel, which holds {lock}")):
        ready = _ready(given, recipe, progress)  # perhaps from the build that we waited for
        if ready:
            return ready
        source = given or find_source(cache / "sources", progress)
        return _build(_Site(source, recipe, cache), progress, jobs or len(os.sched_getaffinity(0)))


def _build(site: _Site, progress: Progress, jobs: int) -> Kernel:
    _sweep(site, progress)
    _prepare(site, progress)
    kernel = _record(site, _configure(site, progress))
    for warning in kernel.warnings:
        progress.say(f"warning: {warning}")
    _compile(site, progress, jobs)
    kernel = replace(kernel, built=datetime.now(timezone.utc).isoformat(timespec="seconds"))
    _install(site, kernel)
    _sweep(site, progress)
    return kernel


def _sweep(site: _Site, progress: Progress) -> None:
    """Remove all of this and earlier builds, except what an unfinished one can go on with."""
    finished = kernels.find_kernel(site.recipe, site.source.version)
    keep = {"lock"} if finished else {"lock", site.tree.name, site.log.name}
    leftovers = [path for path in (site.cache / "build").iterdir() if path.name not in keep]
    if leftovers:
        progress.stage("removing what is not needed any more", None)  # tens of thousands of files
    for path in leftovers:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _prepare(site: _Site, progress: Progress) -> None:
    """Make the tree to build in, the source with our changes; it gets its name when it is whole."""
    identity = site.source.identity()
    mark = site.tree / _OURS / "source"
    if mark.exists() and mark.read_text() == identity:
        progress.say(f"going on with the build in {site.tree}")
        return
    shutil.rmtree(site.tree, ignore_errors=True)
    site.log.unlink(missing_ok=True)
    check_folder(site.tree.parent)
    fresh = site.tree.with_name(f"{site.key}.unpacking")
    unpack(site.source, fresh, progress)
    if site.source.path.is_dir():  # it may have been built in, for any architecture
        output_of(["make", "ARCH=um", "mrproper"], fresh)
    _change(site, fresh)
    (fresh / _OURS / "source").write_text(identity)
    fresh.rename(site.tree)


def _change(site: _Site, tree: Path) -> None:
    kconfig = tree / "arch/um/Kconfig"
    if not kconfig.is_file():
        raise BadSource(f"{site.source.path} has no arch/um/Kconfig, so it is no complete Linux source")
    kconfig.write_text(with_hz(kconfig.read_text(), site.recipe.hz))
    (tree / _OURS).mkdir()
    (tree / _OURS / "lab.config").write_text(site.recipe.config)
    for name, patch in site.recipe.patches:
        (tree / _OURS / name).write_text(patch)
        try:
            output_of(["patch", "-p1", "--batch", "--forward", "-i", f"{_OURS}/{name}"], tree)
        except ToolError as error:
            raise KernelBuildError(f"{name} does not apply to Linux {site.source.version}: {error}") from error


def with_hz(kconfig: str, hz: int) -> str:
    """arch/um/Kconfig with another tick rate, which no .config can set; KernelBuildError if it has none."""
    changed, count = _HZ_DEFAULT.subn(rf"\g<1>{hz}", kconfig)
    if count != 1:
        raise KernelBuildError("arch/um/Kconfig has no default of HZ to set")
    return changed


def _configure(site: _Site, progress: Progress) -> dict[str, str]:
    """Write .config and return it; raises KernelBuildError when a required symbol did not take."""
    progress.stage(f"configuring Linux {site.source.version}", None)
    merge = ["sh", "scripts/kconfig/merge_config.sh", "-m", ".config", f"{_OURS}/lab.config"]
    for argv in (["make", "ARCH=um", "allnoconfig"], merge, ["make", "ARCH=um", "olddefconfig"]):
        _logged(argv, site, "could not be configured")
    config = kernels.parse_config((site.tree / ".config").read_text())
    lost = kernels.not_taken({**REQUIRED, "CONFIG_HZ": str(site.recipe.hz)}, config)
    if lost:
        wanted = ", ".join(f"{symbol}={value}" for symbol, value in lost.items())
        raise KernelBuildError(f"Linux {site.source.version} did not take {wanted}, which the lab needs")
    return config


def _record(site: _Site, config: dict[str, str]) -> Kernel:
    """The kernel that this configuration makes, but for when it was built."""
    version = site.source.version
    rxe_namespaces = site.tree / "drivers/infiniband/sw/rxe/rxe_ns.c"  # its sockets per network namespace
    features = Features(
        has_seccomp=version_key(version) >= version_key(SECCOMP_SINCE),
        has_soft_roce=config.get("CONFIG_RDMA_RXE") == "y" and rxe_namespaces.exists(),
    )
    missing = kernels.not_taken(kernels.parse_config(site.recipe.config), config)
    return Kernel(
        path=site.cache / "kernels" / site.key / "linux",
        version=version,
        config_hash=site.recipe.digest(),
        features=features,
        warnings=kernels.warnings_for(version, features),
        missing=tuple(f"{symbol}={value}" for symbol, value in sorted(missing.items())),
        source=site.source.path.name,
        built="",
        compiler=config.get("CONFIG_CC_VERSION_TEXT", "").strip('"'),
    )


def _compile(site: _Site, progress: Progress, jobs: int) -> None:
    done, remaining = _objects(site.tree), _remaining(site.tree)
    total = done + remaining
    progress.stage(f"compiling Linux {site.source.version}, {total} objects", total)
    progress.advance(done)

    def count(line: bytes) -> None:
        nonlocal done
        if _COMPILED.match(line):
            done = min(done + 1, total)
            progress.advance(done)

    _logged(["make", "ARCH=um", f"-j{jobs}", "linux"], site, "did not compile", count)


def _objects(tree: Path) -> int:
    return sum(name.endswith(".o") for _, _, names in os.walk(tree) for name in names)


def _remaining(tree: Path) -> int:
    """How many objects make would compile; its dry run ends in an error where it needs the first of them."""
    with running(["make", "-n", "ARCH=um", "linux"], tree, _make_environment()) as make:
        plan, _ = make.communicate()
    return len(_WOULD_COMPILE.findall(plan))


def _install(site: _Site, kernel: Kernel) -> None:
    """Put the kernel and what explains it into the cache, all at once."""
    target = kernel.path.parent
    fresh = target.with_name(f"{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    output_of(["strip", "--strip-debug", "-o", fresh / "linux", site.tree / "linux"])
    shutil.copyfile(site.tree / ".config", fresh / "config")
    shutil.copyfile(site.log, fresh / "build.log")
    kernels.save(kernel, fresh)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


def _make_environment() -> dict[str, str]:
    """A kernel states who built it and when (uname -v); runs must not differ by it."""
    return {
        **environment(),
        "KBUILD_BUILD_USER": "fabriclab",
        "KBUILD_BUILD_HOST": "fabriclab",
        "KBUILD_BUILD_VERSION": "1",
        "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    }


def _logged(argv: list[str], site: _Site, trouble: str, on_line: Callable[[bytes], None] = lambda line: None) -> None:
    """Run a step of the build, its output added to the log; raises KernelBuildError with the errors in it."""
    output = []
    make = running(guarded(argv), site.tree, _make_environment(), stderr=STDOUT)
    with site.log.open("ab") as log, make as process:
        for line in cast("IO[bytes]", process.stdout):
            output.append(line)
            log.write(line)
            on_line(line)
        process.wait()
    if process.returncode:
        errors = errors_in(b"".join(output).decode(errors="replace")) or [f"exit status {process.returncode}"]
        raise KernelBuildError(f"Linux {site.source.version} {trouble}: {'; '.join(errors)} (log: {site.log})")


def errors_in(output: str) -> list[str]:
    """The first lines that say what went wrong: a tool's, else make's own, else the very last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    causes = [line for line in errors if not line.startswith("make")]
    return (causes or errors or lines[-1:])[:_ERRORS_SHOWN]
