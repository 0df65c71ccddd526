"""Building the lab kernel: the pure parts on recorded text, the whole of it on a source of three objects."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from lab import build, kernel, preflight, source
from lab.build import KernelBuildError, build_kernel
from lab.kernel import Features, Kernel, Recipe, find_kernel
from lab.source import BadSource, NoSourceError, Source

ROOT = Path(__file__).resolve().parents[2]
needs_make = pytest.mark.skipif(
    not all(map(shutil.which, ("make", "patch", "strip", "tar"))), reason="needs make, patch, strip and tar"
)

UM_KCONFIG = """\
config NR_CPUS
	int
	default 1

config HZ
	int
	default 100

config UML_SUBARCH_SUPPORTS_SMP
	bool
"""
MAKEFILE = """\
# SPDX-License-Identifier: GPL-2.0
VERSION = 7
PATCHLEVEL = 3
SUBLEVEL = 4
EXTRAVERSION =
NAME = Baby Opossum Posse

allnoconfig:
	@echo '# CONFIG_BLOCK is not set' > .config
olddefconfig:
	@sed -n '/^config HZ/,/default/s/.*default /CONFIG_HZ=/p' arch/um/Kconfig >> .config
mrproper:
	@rm -f linux *.o
linux: first.o second.o third.o
	@echo '  LD      linux'; cp /bin/true linux
%.o: %.c
	@echo '  CC      $@'; {compiler}; echo $@ >> compiled; touch $@
"""
MERGE_CONFIG = 'cat "$3" >> "$2"\n'
FULL_TAR = """\
#!/bin/sh
cat > /dev/null
for number in $(seq 5000); do echo 'tar: a.c: Cannot open: No space left on device' >&2; done
echo 'tar: Exiting with failure status due to previous errors' >&2
exit 2
"""
PATCH = """\
--- a/first.c
+++ b/first.c
@@ -1 +1 @@
-int first;
+int patched;
"""


class Watcher:
    """A Progress that remembers."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.done: dict[str, list[int]] = {}
        self.said: list[str] = []

    def stage(self, title: str, total: int | None) -> None:
        self.stages.append((title, total))
        self.done[title] = []

    def advance(self, done: int) -> None:
        self.done[self.stages[-1][0]].append(done)

    def say(self, line: str) -> None:
        self.said.append(line)


@pytest.fixture()
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FABRICLAB_CACHE", str(folder))
    monkeypatch.setattr(kernel, "cache_folders", lambda: [folder])
    monkeypatch.setattr(build, "check_machine", lambda: None)
    return folder


@pytest.fixture()
def recipe() -> Recipe:
    asked = [*build.REQUIRED, "CONFIG_RDMA_RXE"]
    return Recipe("# wanted\n" + "".join(f"{symbol}=y\n" for symbol in asked), ())


@pytest.fixture()
def tree(tmp_path: Path) -> Path:
    """A kernel source of three objects."""
    return make_tree(tmp_path / "linux-source-7.3")


def make_tree(folder: Path, compiler: str = "true") -> Path:
    files = {
        "Makefile": MAKEFILE.format(compiler=compiler),
        "arch/um/Kconfig": UM_KCONFIG,
        "scripts/kconfig/merge_config.sh": MERGE_CONFIG,
        "drivers/infiniband/sw/rxe/rxe_ns.c": "",
        **{f"{name}.c": f"int {name};\n" for name in ("first", "second", "third")},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def pack(tree: Path, name: str) -> Path:
    archive = tree.parent / name
    subprocess.run(["tar", "-C", tree.parent, "--sort=name", "-caf", archive, tree.name], check=True)
    return archive


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()
    }


# versions and names


def test_versions_sort_as_the_kernel_numbers_them() -> None:
    ordered = [
        "5.15",
        "6.1.192",
        "6.9",
        "6.16.0-rc7",
        "6.16.0",
        "6.16.1",
        "7.0.0-rc1",
        "7.0",
        "7.3.4",
        "7.10",
    ]
    shuffled = ordered[1::2] + ordered[::2]
    assert sorted(shuffled, key=source.version_key) == ordered
    assert source.version_key("6.16") == source.version_key("6.16.0")


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        ("VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\nNAME = Opossum", "7.3.4"),
        ("VERSION = 7\nPATCHLEVEL = 4\nSUBLEVEL = 0\nEXTRAVERSION = -rc1\n", "7.4.0-rc1"),
    ],
)
def test_version_is_read_from_the_top_makefile(lines: str, version: str) -> None:
    assert source.version_of(lines) == version


def test_a_makefile_without_version_is_refused() -> None:
    with pytest.raises(ValueError, match="no kernel version"):
        source.version_of("VERSION = one\nall:\n\tcc -o all all.c\n")


def test_packages_sort_by_version_and_others_come_first() -> None:
    names = [
        "linux-source",
        "linux-source-6.1",
        "linux-source-6.8.0",
        "linux-source-6.12",
        "linux-source-7.3",
    ]
    shuffled = names[1::2] + names[::2]
    assert sorted(shuffled, key=source.package_key) == names
    assert source.package_key("linux-source-6.12.tar.xz") == source.package_key("linux-source-6.12")


# the recipe


def test_digest_depends_on_symbols_not_on_how_they_are_written(recipe: Recipe) -> None:
    lines = recipe.config.splitlines()
    assert Recipe("\n# another comment\n" + "\n".join(reversed(lines)), ()).digest() == recipe.digest()


def test_digest_changes_with_symbol_patch_and_tick(recipe: Recipe) -> None:
    others = [
        replace(recipe, config=recipe.config + "CONFIG_IPV6=y\n"),
        replace(recipe, hz=250),
        replace(recipe, patches=(("0001-first.patch", PATCH),)),
        replace(recipe, patches=(("0001-first.patch", PATCH.replace("patched", "changed")),)),
        replace(recipe, patches=(("0002-first.patch", PATCH),)),
    ]
    assert len({recipe.digest(), *(other.digest() for other in others)}) == 6


def test_the_labs_own_recipe_asks_for_what_the_lab_requires() -> None:
    asked = kernel.parse_config(kernel.lab_recipe().config)
    assert kernel.not_taken(build.REQUIRED, asked) == {}
    assert kernel.lab_recipe().hz == 1000


def test_configuration_is_compared_with_what_was_asked() -> None:
    asked = kernel.parse_config("# base\nCONFIG_VETH=y\nCONFIG_BLOCK=n\nCONFIG_IO_URING=n\nCONFIG_NET_VRF=y\n")
    took = kernel.parse_config('CONFIG_VETH=y\nCONFIG_BLOCK=y\n# CONFIG_NET_VRF is not set\nCONFIG_CC="gcc"\n')
    assert kernel.not_taken(asked, took) == {"CONFIG_BLOCK": "n", "CONFIG_NET_VRF": "y"}


def test_only_the_tick_changes_in_kconfig() -> None:
    assert build.with_hz(UM_KCONFIG, 1000) == UM_KCONFIG.replace("default 100\n", "default 1000\n")


def test_kconfig_without_tick_is_an_error() -> None:
    with pytest.raises(KernelBuildError, match="HZ"):
        build.with_hz(UM_KCONFIG.replace("HZ", "TICKS"), 1000)


# finished kernels


def put(cache: Path, version: str, digest: str) -> Path:
    folder = cache / "kernels" / f"{version}-{digest}"
    folder.mkdir(parents=True)
    binary = folder / "linux"
    binary.write_text("")
    binary.chmod(0o755)
    kernel.save(
        Kernel(
            binary,
            version,
            digest,
            Features(True, False),
            ("slow",),
            ("CONFIG_BLOCK=n",),
            "a.deb",
            "now",
            "gcc",
        ),
        folder,
    )
    return folder


def test_the_newest_finished_kernel_of_all_caches_is_found(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, system = tmp_path / "mine", tmp_path / "system"
    monkeypatch.setattr(kernel, "cache_folders", lambda: [mine, tmp_path / "none", system])
    put(mine, "6.1.192", recipe.digest())
    newest = put(system, "7.3.4", recipe.digest())
    put(mine, "7.9.0", "0123456789ab")
    unfinished = put(mine, "7.4.0", recipe.digest())
    (unfinished / "kernel.json").unlink()
    (put(mine, "7.5.0", recipe.digest()) / "kernel.json").write_text("{}")
    (put(mine, "7.6.0", recipe.digest()) / "linux").chmod(0o644)
    found = find_kernel(recipe)
    assert found == Kernel(
        newest / "linux", "7.3.4", recipe.digest(), Features(True, False), ("slow",), ("CONFIG_BLOCK=n",),
        "a.deb", "now", "gcc",
    )  # fmt: skip
    older = find_kernel(recipe, "6.1.192")
    assert older is not None and older.version == "6.1.192"
    assert find_kernel(recipe, "7.2") is None


def test_the_record_names_no_folder(recipe: Recipe, tmp_path: Path) -> None:
    assert str(tmp_path) not in (put(tmp_path, "7.3.4", recipe.digest()) / "kernel.json").read_text()


def test_warnings_say_what_is_slow_and_what_cannot_run() -> None:
    assert kernel.warnings_for("7.3.4", Features(has_seccomp=True, has_soft_roce=True)) == ()
    seccomp, roce = kernel.warnings_for("6.1.192", Features(has_seccomp=False, has_soft_roce=False))
    assert "6.1.192" in seccomp and "6.16" in seccomp
    assert "soft-RoCE" in roce and "7.x" in roce


def test_a_kernel_is_described_with_its_warnings(recipe: Recipe, cache: Path) -> None:
    put(cache, "7.3.4", recipe.digest())
    found = find_kernel(recipe)
    assert found is not None
    for part in ("7.3.4", recipe.digest(), "CONFIG_BLOCK=n", "warning: slow", "a.deb", str(cache)):
        assert part in kernel.describe(found)


# what the machine lacks


def test_all_missing_tools_are_named_with_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(preflight.shutil, "which", lambda tool: None if tool in ("gcc", "flex", "ld") else tool)
    with pytest.raises(KernelBuildError, match=r"without gcc, ld, flex: .*apt-get install -y binutils flex gcc$"):
        preflight.check_machine()


def test_missing_headers_are_found_by_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.shutil, "which", lambda tool: tool)
    monkeypatch.setattr(preflight, "_has_libc_headers", lambda: False)
    assert list(preflight.missing_tools().values()) == ["libc6-dev"]


def test_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.platform, "machine", lambda: "aarch64")
    with pytest.raises(KernelBuildError, match="x86-64 only, this machine is aarch64"):
        preflight.check_machine()


@needs_make
def test_a_full_disk_is_said_before_unpacking(
    cache: Path, recipe: Recipe, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=1_200_000_000)
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(KernelBuildError, match=r"takes 1.6 GB in .*/build, only 1.2 GB are free"):
        build_kernel(tree, Watcher(), recipe=recipe)
    assert [path.name for path in (cache / "build").iterdir()] == ["lock"]


@needs_make
def test_a_folder_that_make_cannot_use(
    cache: Path, recipe: Recipe, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRICLAB_CACHE", f"{cache} of mine")
    with pytest.raises(KernelBuildError, match="space or a colon"):
        build_kernel(tree, Watcher(), recipe=recipe)


# errors of the build, out of recorded logs

FLEX_MISSING = """\
  HOSTCC  scripts/basic/fixdep
  LEX     scripts/kconfig/lexer.lex.c
/bin/sh: 1: flex: not found
make[2]: *** [scripts/Makefile.host:9: scripts/kconfig/lexer.lex.c] Error 127
make[1]: *** [/build/Makefile:756: allnoconfig] Error 2
"""
BAD_OBJECT = """\
  CC      net/sched/sch_tbf.o
  CC      net/sched/sch_red.o
net/sched/sch_tbf.c: In function 'tbf_dequeue':
net/sched/sch_tbf.c:301:17: error: 'ptoks' undeclared (first use in this function)
net/sched/sch_tbf.c:301:17: note: each undeclared identifier is reported only once
make[4]: *** [scripts/Makefile.build:289: net/sched/sch_tbf.o] Error 1
make: *** [Makefile:248: __sub-make] Error 2
"""
BAD_FOLDER = "Makefile:241: *** source directory cannot contain spaces or colons.  Stop.\n"


@pytest.mark.parametrize(
    ("log", "errors"),
    [
        (FLEX_MISSING, ["/bin/sh: 1: flex: not found"]),
        (BAD_OBJECT, ["net/sched/sch_tbf.c:301:17: error: 'ptoks' undeclared (first use in this function)"]),
        (BAD_FOLDER, [BAD_FOLDER.strip()]),
        ("  CC      a.o\nmake: *** [Makefile:3: a.o] Killed\n", ["make: *** [Makefile:3: a.o] Killed"]),
        ("  CC      a.o\nsomething odd\n\n", ["something odd"]),
        ("", []),
    ],
)
def test_the_cause_is_picked_out_of_the_log(log: str, errors: list[str]) -> None:
    assert build.errors_in(log) == errors


# a whole build


@needs_make
def test_build_from_a_folder(cache: Path, recipe: Recipe, tree: Path) -> None:
    (tree / "first.o").write_text("built for something else")
    before = snapshot(tree)
    watcher = Watcher()
    built = build_kernel(tree, watcher, jobs=1, recipe=recipe)
    assert snapshot(tree) == before
    assert built == find_kernel(recipe)
    assert built.path == cache / "kernels" / f"7.3.4-{recipe.digest()}" / "linux"
    assert subprocess.run([built.path]).returncode == 0
    assert (built.features, built.warnings, built.missing) == (Features(True, True), (), ())
    assert abs(datetime.fromisoformat(built.built).timestamp() - time.time()) < 60
    assert sorted(path.name for path in built.path.parent.iterdir()) == [
        "build.log",
        "config",
        "kernel.json",
        "linux",
    ]
    assert "CONFIG_HZ=1000" in (built.path.parent / "config").read_text()
    assert [path.name for path in (cache / "build").iterdir()] == ["lock"]
    assert ("compiling Linux 7.3.4, 3 objects", 3) in watcher.stages
    assert watcher.done["compiling Linux 7.3.4, 3 objects"] == [0, 1, 2, 3]


@needs_make
@pytest.mark.parametrize("name", ["linux-7.3.4.tar.xz", "linux-7.3.4.tar.gz", "linux-7.3.4.tar.bz2"])
def test_build_from_a_tarball(cache: Path, recipe: Recipe, tree: Path, name: str) -> None:
    archive = pack(tree, name)
    watcher = Watcher()
    assert build_kernel(archive, watcher, recipe=recipe).source == name
    assert watcher.done["unpacking Linux 7.3.4"][-1] == archive.stat().st_size


@needs_make
@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")
def test_build_from_a_package(cache: Path, recipe: Recipe, tree: Path, tmp_path: Path) -> None:
    content = tmp_path / "content"
    (content / "usr/src").mkdir(parents=True)
    shutil.move(pack(tree, "linux-source-7.3.tar.xz"), content / "usr/src")
    (content / "DEBIAN").mkdir()
    (content / "DEBIAN/control").write_text(
        "Package: linux-source-7.3\nVersion: 7.3.4-1\nArchitecture: all\nMaintainer: n\nDescription: source\n"
    )
    package = tmp_path / "linux-source-7.3_7.3.4-1_all.deb"
    subprocess.run(["dpkg-deb", "--build", content, package], check=True, stdout=subprocess.DEVNULL)
    assert build_kernel(package, Watcher(), recipe=recipe).version == "7.3.4"


@needs_make
def test_a_finished_kernel_is_not_built_again(cache: Path, recipe: Recipe, tree: Path) -> None:
    built = build_kernel(tree, Watcher(), recipe=recipe)
    watcher = Watcher()
    assert build_kernel(None, watcher, recipe=recipe) == built
    assert (watcher.stages, watcher.said) == ([], [])
    assert build_kernel(tree, watcher, recipe=recipe) == built
    assert watcher.stages == [] and str(built.path.parent) in watcher.said[0]


@needs_make
def test_patches_are_applied_in_order(cache: Path, recipe: Recipe, tree: Path) -> None:
    first = ("0001-first.patch", PATCH)
    second = ("0002-second.patch", PATCH.replace("patched", "again").replace("int first", "int patched"))
    (tree / "Makefile").write_text(MAKEFILE.format(compiler="cat first.c"))
    built = build_kernel(tree, Watcher(), recipe=replace(recipe, patches=(first, second)))
    assert "int again;" in (built.path.parent / "build.log").read_text()


@needs_make
def test_a_patch_that_does_not_apply_is_named(cache: Path, recipe: Recipe, tree: Path) -> None:
    patch = ("0001-first.patch", PATCH.replace("int first", "int other"))
    with pytest.raises(KernelBuildError, match=r"0001-first\.patch does not apply to Linux 7\.3\.4"):
        build_kernel(tree, Watcher(), recipe=replace(recipe, patches=(patch,)))


@needs_make
def test_a_required_symbol_that_did_not_take_is_named(cache: Path, recipe: Recipe, tree: Path) -> None:
    without = replace(recipe, config=recipe.config.replace("CONFIG_VETH=y", "CONFIG_VETH=n"))
    with pytest.raises(KernelBuildError, match="did not take CONFIG_VETH=y"):
        build_kernel(tree, Watcher(), recipe=without)


@needs_make
def test_other_symbols_that_did_not_take_are_recorded(cache: Path, recipe: Recipe, tree: Path) -> None:
    (tree / "Makefile").write_text(
        MAKEFILE.format(compiler="true").replace("mrproper:", "\t@sed -i /RXE/d .config\nmrproper:")
    )
    watcher = Watcher()
    built = build_kernel(tree, watcher, recipe=recipe)
    assert built.missing == ("CONFIG_RDMA_RXE=y",)
    assert not built.features.has_soft_roce
    assert [f"warning: {warning}" for warning in built.warnings] == watcher.said


@needs_make
def test_a_compiler_error_is_quoted_and_the_build_goes_on_after_it(
    cache: Path, recipe: Recipe, tree: Path, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    broken = f'case $@ in second.o) test -e {ready} || {{ echo "second.c:1: error: odd"; exit 1; }}; esac'
    (tree / "Makefile").write_text(MAKEFILE.format(compiler=broken))
    with pytest.raises(KernelBuildError, match=r"did not compile: second\.c:1: error: odd \(log: .*\.log\)"):
        build_kernel(tree, Watcher(), jobs=1, recipe=recipe)
    ready.touch()
    watcher = Watcher()
    built = build_kernel(tree, watcher, jobs=1, recipe=recipe)
    assert watcher.said == [f"going on with the build in {cache}/build/{built.path.parent.name}"]
    assert watcher.done["compiling Linux 7.3.4, 3 objects"] == [1, 2, 3]
    log = (built.path.parent / "build.log").read_text()
    assert log.count("  CC      first.o") == 1 and log.count("  CC      second.o") == 2


@needs_make
def test_a_changed_source_starts_afresh(cache: Path, recipe: Recipe, tree: Path) -> None:
    (tree / "Makefile").write_text(MAKEFILE.format(compiler="exit 1"))
    with pytest.raises(KernelBuildError):
        build_kernel(tree, Watcher(), recipe=recipe)
    (tree / "Makefile").write_text(MAKEFILE.format(compiler="true"))
    assert build_kernel(tree, Watcher(), recipe=recipe).version == "7.3.4"


@needs_make
def test_only_what_a_build_reads_is_unpacked(tree: Path, tmp_path: Path) -> None:
    read = ["arch/Kconfig", "arch/um/a.c", "arch/x86/um/a.S", "arch/arm/crypto/Kconfig", "tools/include/a.h"]
    read += ["Documentation/Kconfig", "Documentation/devicetree/Makefile"]
    unused = [
        "arch/arm64/kvm/a.h",
        "arch/arm/boot/dts/a/b.dtsi",
        "Documentation/devicetree/a.yaml",
        "tools/perf/a.c",
    ]
    for name in read + unused:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    for number, path in enumerate([tree, pack(tree, "linux-7.3.4.tar.xz")]):
        target = tmp_path / f"unpacked{number}"
        source.unpack(source.open_source(path), target, Watcher())
        assert all((target / name).exists() for name in read)
        assert not any((target / name).exists() for name in unused)


@needs_make
def test_a_disk_that_fills_up_while_unpacking_is_said(
    cache: Path, recipe: Recipe, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "programs"
    full.mkdir()
    (full / "tar").write_text(FULL_TAR)
    (full / "tar").chmod(0o755)
    archive = pack(tree, "linux-7.3.4.tar.xz")
    monkeypatch.setenv("PATH", f"{full}:{os.environ['PATH']}")
    with pytest.raises(KernelBuildError, match=r"unpacking .* failed: tar: a\.c: Cannot open: No space left"):
        build_kernel(archive, Watcher(), recipe=recipe)


# sources that cannot be used


def test_a_source_that_is_not_there(cache: Path, recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(BadSource, match=r"/none does not exist \(allowed: "):
        build_kernel(tmp_path / "none", Watcher(), recipe=recipe)


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"\xfd7zXZ\x00 damaged"])
@pytest.mark.parametrize("name", ["linux.tar.xz", "linux.deb"])
def test_a_source_that_is_no_source(cache: Path, recipe: Recipe, tmp_path: Path, content: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadSource, match=r" holds no kernel source that can be read") as caught:
        build_kernel(tmp_path / name, Watcher(), recipe=recipe)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_source(cache: Path, recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="holds no kernel source"):
        build_kernel(tmp_path, Watcher(), recipe=recipe)


@needs_make
def test_a_source_of_something_else(cache: Path, recipe: Recipe, tree: Path) -> None:
    (tree / "arch/um/Kconfig").unlink()
    with pytest.raises(BadSource, match="no arch/um/Kconfig"):
        build_kernel(tree, Watcher(), recipe=recipe)


@needs_make
def test_a_tarball_that_is_cut_short(cache: Path, recipe: Recipe, tree: Path) -> None:
    (tree / "rest").write_bytes(os.urandom(3_000_000))
    archive = pack(tree, "linux-7.3.4.tar.xz")
    archive.write_bytes(archive.read_bytes()[:1_500_000])
    with pytest.raises(BadSource, match="is damaged"):
        build_kernel(archive, Watcher(), recipe=recipe)


# interruption and two builds at once

BUILDER = """\
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from lab import build
from lab.kernel import Recipe
from lab.progress import shown_progress
build.check_machine = lambda: None
try:
    with shown_progress() as progress:
        print(build.build_kernel(Path({tree!r}), progress, 1, Recipe({config!r}, ())).path)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture()
def builder(cache: Path, recipe: Recipe, tmp_path: Path) -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """Starts builds in processes of their own."""
    started: list[subprocess.Popen[str]] = []

    def start(tree: Path) -> subprocess.Popen[str]:
        script = BUILDER.format(root=str(ROOT), tree=str(tree), config=recipe.config)
        started.append(
            subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def processes_in(folder: Path) -> list[str]:
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink().is_relative_to(folder):
                found.append((link.parent / "cmdline").read_text())
        except OSError:
            continue
    return found


@needs_make
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_leaves_no_process_and_resumes(
    cache: Path,
    recipe: Recipe,
    tmp_path: Path,
    builder: Callable[[Path], subprocess.Popen[str]],
    signal_number: signal.Signals,
) -> None:
    slow = f"case $@ in second.o) test -e {tmp_path}/ready || sleep 60; esac"
    tree = make_tree(tmp_path / "slow", slow)
    working = cache / "build" / f"7.3.4-{recipe.digest()}"
    process = builder(tree)
    wait_for(lambda: any(command.startswith("sleep") for command in processes_in(working)))
    process.send_signal(signal_number)
    _, complaint = process.communicate(timeout=20)
    assert process.returncode == (130 if signal_number == signal.SIGINT else -signal_number), complaint
    wait_for(lambda: not processes_in(cache), seconds=5.0)
    (tmp_path / "ready").touch()
    watcher = Watcher()
    build_kernel(tree, watcher, jobs=1, recipe=recipe)
    assert "going on" in watcher.said[0]
    assert watcher.done["compiling Linux 7.3.4, 3 objects"] == [1, 2, 3]


@needs_make
def test_two_builds_at_once_take_turns(
    cache: Path, recipe: Recipe, tmp_path: Path, builder: Callable[[Path], subprocess.Popen[str]]
) -> None:
    tree = make_tree(tmp_path / "slow", f"until test -e {tmp_path}/go; do sleep 0.05; done")
    working = cache / "build" / f"7.3.4-{recipe.digest()}"
    first = builder(tree)
    wait_for(lambda: processes_in(working))
    second = builder(tree)
    assert second.stderr is not None
    assert "waiting for another build of the lab kernel" in second.stderr.readline()
    (tmp_path / "go").touch()
    (path, log), (same_path, same_log) = first.communicate(timeout=20), second.communicate(timeout=20)
    assert path == same_path and path.strip().endswith("/linux")
    assert "compiling" in log and "compiling" not in same_log


# finding a source: a recorded apt in the place of the real one

FAKE_APT = """\
#!/bin/sh
echo "$(basename $0) $*" >> {calls}
private=; [ "$1" = -c ] && private=1
case "$*" in
*indextargets*) cat {answers}/targets ;;
*update*) test ! -e {answers}/offline || {{
    echo "E: Failed to fetch http://mirror/InRelease  Temporary failure resolving 'mirror'" >&2
    echo "E: Some index files failed to download." >&2; exit 100; }} ;;
*pkgnames*) if [ $private ]; then cat {answers}/backports; else cat {answers}/own; fi ;;
*--print-uris*) for name; do :; done; echo "'http://mirror/$name.deb' ${{name}}_1_all.deb 5 SHA256:00" ;;
*download*) test ! -e {answers}/offline || {{ echo "E: Failed to fetch the package" >&2; exit 100; }}
    for name; do :; done; printf 12345 > ${{name}}_1_all.deb ;;
esac
"""


@pytest.fixture()
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of apt's answers, and `calls` in it; sources are taken by their names."""
    answers, programs = tmp_path / "answers", tmp_path / "programs"
    answers.mkdir()
    programs.mkdir()
    for name in ("apt-get", "apt-cache"):
        (programs / name).write_text(FAKE_APT.format(calls=answers / "calls", answers=answers))
        (programs / name).chmod(0o755)
    (answers / "targets").write_text("http://mirror/security|Debian|Debian-Security\nhttp://mirror|Debian|Debian\n")
    (answers / "backports").write_text("linux-source-7.2\nlinux-source\nlinux-source-7.10\n")
    (answers / "own").write_text("linux-source-6.1\nlinux-source-6.12\nlinux-source\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(source, "INSTALLED_SOURCES", tmp_path / "src")
    monkeypatch.setattr(source, "open_source", lambda path: Source(path, path.name.split("-")[2]))
    (tmp_path / "src").mkdir()
    return answers


def test_an_installed_source_that_is_new_enough_needs_no_network(apt: Path, tmp_path: Path) -> None:
    for version in ("6.12", "6.16", "6.9"):
        (tmp_path / "src" / f"linux-source-{version}.tar.xz").touch()
    assert source.find_source(tmp_path / "sources", Watcher()).path.name == "linux-source-6.16.tar.xz"
    assert not (apt / "calls").exists()


def test_backports_are_asked_through_lists_of_our_own(apt: Path, tmp_path: Path) -> None:
    (tmp_path / "src" / "linux-source-6.12.tar.xz").touch()
    watcher = Watcher()
    found = source.find_source(tmp_path / "sources", watcher)
    assert found.path == tmp_path / "sources" / "linux-source-7.10_1_all.deb"
    assert watcher.said == []
    assert watcher.stages[-1] == ("downloading linux-source-7.10", 5)
    listed = (tmp_path / "sources/apt/source.list").read_text().split()
    assert listed[-3:] == ["http://mirror", "trixie-backports", "main"]
    configuration = (tmp_path / "sources/apt/apt.conf").read_text()
    assert f'Dir::State::Lists "{tmp_path}/sources/apt/lists"' in configuration
    assert "#clear APT::Update::Post-Invoke;" in configuration
    update = next(call for call in (apt / "calls").read_text().splitlines() if " update" in call)
    assert update.startswith(f"apt-get -c {tmp_path}/sources/apt/apt.conf ")
    (apt / "calls").unlink()
    assert source.find_source(tmp_path / "sources", Watcher()) == found
    assert not (apt / "calls").exists()


def test_an_older_source_at_hand_serves_without_network(apt: Path, tmp_path: Path) -> None:
    (apt / "offline").touch()
    (tmp_path / "src" / "linux-source-6.12.tar.xz").touch()
    watcher = Watcher()
    assert source.find_source(tmp_path / "sources", watcher).path.name == "linux-source-6.12.tar.xz"
    assert "Temporary failure resolving" in watcher.said[0]


def test_another_distribution_gives_its_own_source(apt: Path, tmp_path: Path) -> None:
    (apt / "targets").write_text("http://mirror|Ubuntu|Ubuntu\n")
    (apt / "own").write_text("linux-source-6.8.0\nlinux-source-6.11.0\nlinux-source\n")
    found = source.find_source(tmp_path / "sources", Watcher())
    assert found.path.name == "linux-source-6.11.0_1_all.deb"
    assert " update" not in (apt / "calls").read_text()


def test_a_damaged_source_at_hand_is_passed_over(apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src" / "linux-source-7.11.tar.xz").touch()

    def read(path: Path) -> Source:
        if path.stat().st_size == 0:
            raise BadSource(f"source: {path} is damaged")
        return Source(path, "7.10")

    monkeypatch.setattr(source, "open_source", read)
    assert source.find_source(tmp_path / "sources", Watcher()).version == "7.10"


def test_no_network_is_one_line_with_the_way_out(apt: Path, tmp_path: Path) -> None:
    (apt / "offline").touch()
    with pytest.raises(NoSourceError, match=r"Temporary failure resolving .*--source FILE") as caught:
        source.find_source(tmp_path / "sources", Watcher())
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "sources").glob("*.deb")) == []


def test_a_system_without_apt_is_told_the_way_out(apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "no-apt"
    programs.mkdir()
    (programs / "setpriv").symlink_to(str(shutil.which("setpriv")))
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(NoSourceError, match=r"apt-get.*--source FILE"):
        source.find_source(tmp_path / "sources", Watcher())


def test_the_record_is_json_that_a_report_can_quote(recipe: Recipe, tmp_path: Path) -> None:
    record = json.loads((put(tmp_path, "7.3.4", recipe.digest()) / "kernel.json").read_text())
    assert record["version"] == "7.3.4" and record["config_hash"] == recipe.digest()
    assert record["features"] == {"has_seccomp": True, "has_soft_roce": False}
