"""The set-up: locks, cache folders, the start of `run_experiment`, `provision.sh`, Mininet, Ryu."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import cache

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"
OFPT_HELLO, OFPT_FEATURES_REQUEST, OFP13 = 0, 5, 4


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()  # PEP 503


def names(lines: list[str]) -> set[str]:
    return {normal(re.split(r"[ ;=<>!]", line)[0]) for line in lines if line and line[0] not in "# "}


def locked() -> set[str]:
    return {name for lock in REQUIREMENTS.glob("*.txt") for name in names(lock.read_text().splitlines())}


# --- locks


@pytest.mark.parametrize("lock", sorted(REQUIREMENTS.glob("*.txt")), ids=lambda path: path.name)
def test_every_locked_package_has_one_version_and_hashes(lock: Path) -> None:
    text = lock.read_text()
    for entry in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[\w.-]+==[\w.]+( ; .+)? \\\n( +--hash=sha256:[0-9a-f]{64}( \\\n)?)+$", entry), entry
    assert "://" not in text


@pytest.mark.parametrize("wanted", sorted(REQUIREMENTS.glob("*.in")), ids=lambda path: path.name)
def test_every_wanted_package_is_locked(wanted: Path) -> None:
    lock = wanted.with_suffix(".txt")
    assert names(wanted.read_text().splitlines()) <= names(lock.read_text().splitlines())


def test_every_package_of_the_metadata_is_locked() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    wanted = [metadata["options"]["install_requires"], *metadata["options.extras_require"].values()]
    assert names("\n".join(wanted).splitlines()) <= locked()


# --- cache folders


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("FABRICLAB_CACHE", "XDG_CACHE_HOME", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    return monkeypatch


def test_cache_is_in_the_users_home(bare: pytest.MonkeyPatch) -> None:
    assert cache.cache_folders() == [Path("/home/someone/.cache/fabriclab"), Path("/var/cache/fabriclab")]


def test_cache_follows_xdg(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("XDG_CACHE_HOME", "/caches")
    assert cache.own_cache() == Path("/caches/fabriclab")


def test_under_sudo_the_invoking_users_cache_is_read_too(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("SUDO_USER", "root")
    assert cache.cache_folders()[1:] == [Path("/root/.cache/fabriclab"), Path("/var/cache/fabriclab")]


def test_an_unknown_invoking_user_is_no_failure(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("SUDO_USER", "user-of-another-machine")
    assert len(cache.cache_folders()) == 2


def test_the_named_cache_replaces_the_users(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("SUDO_USER", "root")
    bare.setenv("FABRICLAB_CACHE", "relative")
    bare.chdir(tmp_path)
    assert cache.cache_folders() == [tmp_path / "relative", Path("/var/cache/fabriclab")]


def test_only_a_finished_environment_is_found(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("FABRICLAB_CACHE", str(tmp_path))
    bare.setattr(cache, "_SYSTEM_CACHE", tmp_path / "system")
    finished = cache.own_environment()
    make_python(finished.with_name(finished.name + ".building"), "true")
    assert cache.environment_python() is None
    python = make_python(finished, "true")
    assert cache.environment_python() == python


def test_another_lock_is_another_environment(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(REQUIREMENTS, tmp_path / "locks")
    bare.setattr(cache, "_LOCKS", tmp_path / "locks")
    before = cache.environment_name()
    with (tmp_path / "locks" / "sources.txt").open("a") as lock:
        lock.write("more==1\n")
    assert cache.environment_name() != before


# --- run_experiment


def make_python(environment: Path, commands: str) -> Path:
    """An environment whose interpreter is a shell script of these commands."""
    python = environment / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{commands}\n")
    python.chmod(0o755)
    return python


class Clone:
    """A clone with a lock of its own, so that no environment of this machine fits it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache, self.temporary = folder / "clone", folder / "cache", folder / "tmp"
        self.temporary.mkdir()
        (self.folder / "lab").mkdir(parents=True)
        (self.folder / "requirements").mkdir()
        (self.folder / "requirements" / "requirements.txt").write_text("nothing==1\n")
        for name in ("run_experiment", "provision.sh", "lab/cache.py"):
            shutil.copy(ROOT / name, self.folder / name)

    def run(self, *command: str | Path, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
        changed = {"FABRICLAB_CACHE": str(self.cache), "TMPDIR": str(self.temporary), "PATH": path}
        return subprocess.run(
            command, env={**os.environ, **changed}, cwd="/", capture_output=True, text=True, timeout=60
        )

    def make_python(self, commands: str) -> Path:
        own = self.run(cache.SYSTEM_PYTHON, self.folder / "lab/cache.py", "--own").stdout.strip()
        return make_python(Path(own), commands)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@pytest.mark.parametrize("name", ["run_experiment", "lab/cache.py"])
def test_old_pythons_can_read(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text(), feature_version=(3, 6))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "__future__" not in imported  # annotations came with 3.7


def test_without_an_environment_one_line_says_what_to_run(clone: Clone) -> None:
    done = clone.run(clone.folder / "run_experiment", "incast")
    expected = f'fabriclab is not set up on this machine: run "make setup" in {clone.folder}\n'
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)


def test_run_experiment_enters_the_environment_from_anywhere(clone: Clone, tmp_path: Path) -> None:
    clone.make_python("printf '%s\\n' \"$@\"; exit 7")
    (tmp_path / "link").symlink_to(clone.folder / "run_experiment")
    done = clone.run(sys.executable, tmp_path / "link", "incast", "--set", "a b")
    assert done.returncode == 7
    script = str(clone.folder / "run_experiment")
    assert done.stdout.splitlines() == ["-s", script, "incast", "--set", "a b"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give the clone to another user")
def test_in_somebody_elses_clone_no_bytecode_is_written(clone: Clone) -> None:
    clone.make_python("printf '%s\\n' \"$@\"")
    os.chown(clone.folder, 65534, 65534)
    assert clone.run(clone.folder / "run_experiment").stdout.splitlines()[:2] == ["-s", "-B"]


@pytest.mark.skipif(sys.version_info < (3, 10), reason="this Python does not tell its modules' names")
@pytest.mark.parametrize("name", ["token.py", "runpy.py", "queue/__init__.py"])
def test_a_file_that_hides_a_module_of_pythons_own_is_named(clone: Clone, name: str) -> None:
    (clone.folder / name).parent.mkdir(exist_ok=True)
    (clone.folder / name).write_text("not Python\n")
    done = clone.run(clone.folder / "run_experiment", "list")
    given = clone.folder / Path(name).parts[0]
    expected = (
        f"run_experiment: {given} hides Python's own module {given.stem}; allowed: any other name, or another folder"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected + "\n")


def test_packages_that_are_missing_are_told_in_a_line(clone: Clone) -> None:
    """An environment, and no Mininet in sight of it."""
    own = Path(clone.run(cache.SYSTEM_PYTHON, clone.folder / "lab/cache.py", "--own").stdout.strip())
    subprocess.run([cache.SYSTEM_PYTHON, "-m", "venv", "--without-pip", str(own)], check=True)
    done = clone.run(clone.folder / "run_experiment", "list")
    expected = f'packages of this machine are missing (Mininet): run "make setup" in {clone.folder}\n'
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)


def test_starting_leaves_nothing_in_the_clone(clone: Clone) -> None:
    before = sorted(clone.folder.rglob("*"))
    clone.run(clone.folder / "run_experiment")
    assert sorted(clone.folder.rglob("*")) == before


# --- provision.sh

APT_GET = """\
echo "$@" >> {log}
case "$*" in
    *update*) rm -f {old_lists} ;;
    *--download-only*) [ ! -e {old_lists} ] && [ ! -e {no_network} ] ;;
    *install*) for word; do case $word in DPkg::Path=*) path=${{word#*=}} ;; esac; done
        [ "$(PATH=$path command -v invoke-rc.d)" -ef /bin/true ] && echo services denied >> {log} ;;
esac
"""


class Machine:
    """A search path with a package manager of paper: what it was asked for is in the log."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bin"
        self.log = folder / "log"
        self.old_lists, self.no_network = folder / "old_lists", folder / "no_network"
        self.path.mkdir()
        self.log.touch()
        for tool in ("bash", "dirname", "env", "ln", "mktemp", "readlink", "rm"):
            (self.path / tool).symlink_to(str(shutil.which(tool)))
        self.put("apt-get", APT_GET.format(**vars(self)))
        self.put("update-rc.d", f'echo update-rc.d "$@" >> {self.log}')
        self.put("id", "echo 0")
        self.system()
        self.install("*")

    def put(self, name: str, commands: str) -> None:
        (self.path / name).write_text(f"#!/bin/sh\n{commands}\n")
        (self.path / name).chmod(0o755)

    def system(self, name: str = "Linux", processor: str = "x86_64") -> None:
        """What uname tells of the machine."""
        self.put("uname", f"case $1 in -s) echo {name} ;; -m) echo {processor} ;; -r) echo 6.1.0 ;; esac")

    def install(self, pattern: str) -> None:
        """Only the packages that fit the pattern of the shell are installed."""
        self.put("dpkg-query", f"case $3 in {pattern}) echo installed ;; *) exit 1 ;; esac")

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def provision(clone: Clone, machine: Machine, *steps: str) -> subprocess.CompletedProcess[str]:
    done = clone.run(clone.folder / "provision.sh", *steps, path=str(machine.path))
    assert list(clone.temporary.iterdir()) == []
    return done


def test_installed_packages_are_left_alone(clone: Clone, machine: Machine) -> None:
    done = provision(clone, machine, "packages")
    assert re.fullmatch(r"packages: all \d+ are installed already\n", done.stdout)
    assert (done.returncode, machine.asked) == (0, [])


def test_only_missing_packages_are_installed_and_no_service_starts(clone: Clone, machine: Machine) -> None:
    machine.install("[!ot]*")
    done = provision(clone, machine, "packages")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("packages: installing with apt-get: openvswitch-switch tcpdump tshark\n")
    download, install, denied, disabled = machine.asked
    assert "--download-only install openvswitch-switch tcpdump tshark" in download
    assert install.endswith("--no-install-recommends install openvswitch-switch tcpdump tshark")
    assert (denied, disabled) == ("services denied", "update-rc.d openvswitch-switch disable")


def test_package_lists_are_renewed_when_they_are_old(clone: Clone, machine: Machine) -> None:
    machine.install("[!t]*")
    machine.old_lists.touch()
    assert provision(clone, machine, "packages").returncode == 0
    words = ("--download-only", "update", "denied")
    asked = [word for line in machine.asked for word in words if word in line]
    assert asked == ["--download-only", "update", "--download-only", "denied"]


def failure(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def test_packages_that_cannot_be_downloaded(clone: Clone, machine: Machine) -> None:
    machine.install("[!t]*")
    machine.no_network.touch()
    line = failure(provision(clone, machine, "packages"))
    assert "check the network" in line and f"then run {clone.folder}/provision.sh packages" in line


def test_neither_root_nor_sudo_names_the_command(clone: Clone, machine: Machine) -> None:
    machine.install("[!t]*")
    machine.put("id", "echo 1000")
    line = failure(provision(clone, machine, "packages"))
    assert line.endswith("as root run: apt-get install --no-install-recommends tcpdump tshark")


def test_sudo_is_used_when_not_root(clone: Clone, machine: Machine) -> None:
    machine.install("[!t]*")
    machine.put("id", "echo 1000")
    machine.put("true", "")
    machine.put("sudo", 'exec "$@"')
    done = provision(clone, machine, "packages")
    assert done.stdout.startswith("packages: installing with sudo apt-get: tcpdump tshark\n")
    assert "services denied" in machine.asked


def test_a_distribution_without_apt_is_told_what_to_install(clone: Clone, machine: Machine) -> None:
    for tool in ("apt-get", "dpkg-query"):
        (machine.path / tool).unlink()
    assert "not Debian or Ubuntu" in failure(provision(clone, machine, "packages"))


def test_a_ready_environment_is_left_alone(clone: Clone) -> None:
    python = clone.make_python("exit 1")
    done = clone.run(clone.folder / "provision.sh", "environment")
    assert (done.returncode, done.stdout) == (0, f"environment: already at {python.parent.parent}\n")


def test_a_cache_that_cannot_be_written(clone: Clone) -> None:
    clone.cache = Path("/proc/fabriclab")
    assert "set FABRICLAB_CACHE" in failure(clone.run(clone.folder / "provision.sh", "environment"))


def test_an_unknown_step_is_a_bad_request(clone: Clone) -> None:
    done = clone.run(clone.folder / "provision.sh", "packages", "kernels")
    assert (done.returncode, done.stdout) == (2, "")
    assert "kernels is no step: packages, environment and kernel are" in done.stderr


# --- machines that cannot run all of it


@pytest.fixture
def darwin(clone: Clone, machine: Machine) -> Machine:
    shutil.copy(ROOT / "Makefile", clone.folder / "Makefile")
    machine.system("Darwin", "arm64")
    return machine


@pytest.mark.parametrize("command", [("provision.sh",), ("provision.sh", "vm")])
def test_where_no_linux_is_provision_names_the_vm(clone: Clone, darwin: Machine, command: tuple[str, ...]) -> None:
    line = failure(clone.run(clone.folder / command[0], *command[1:], path=str(darwin.path)))
    assert line.startswith("provision.sh: this is Darwin") and 'type "vagrant up", then "vagrant ssh"' in line


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("target", ["", "demo", "help"])
def test_where_no_linux_is_make_names_the_vm(clone: Clone, darwin: Machine, target: str) -> None:
    words = [str(shutil.which("make")), "-C", str(clone.folder), "--no-print-directory"]
    done = clone.run(*words, *([target] if target else []), path=f"{darwin.path}:{os.environ['PATH']}")
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert "this is Darwin" in line and 'type "vagrant up", then "vagrant ssh"' in line


def test_where_no_linux_is_run_experiment_names_the_vm(clone: Clone) -> None:
    start = "import runpy, sys; sys.platform = 'darwin'; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = clone.run(sys.executable, "-c", start, clone.folder / "run_experiment")
    assert 'type "vagrant up"' in failure(done)


def test_on_another_processor_the_lab_kernel_is_left_out(clone: Clone, machine: Machine) -> None:
    machine.system(processor="aarch64")
    done = provision(clone, machine, "kernel")
    expected = "kernel: none: the lab kernel runs on x86-64 only, this machine is aarch64: use --clock real\n"
    assert (done.returncode, done.stdout) == (0, expected)


def test_the_vm_is_set_up_by_root_alone(clone: Clone, machine: Machine) -> None:
    machine.put("id", "echo 1000")
    assert failure(provision(clone, machine, "vm")).endswith(f"so it needs root: sudo {clone.folder}/provision.sh vm")


# --- the environment: Mininet and Ryu on its Python

RYU = """\
import sys
from eventlet import wsgi
wsgi.ALREADY_HANDLED = object()  # gone since eventlet 0.30.3; ryu.app.wsgi imports it
from ryu import cfg
from ryu.base.app_manager import AppManager
from ryu.lib import hub
hub.patch()
cfg.CONF(["--ofp-listen-host=127.0.0.1", "--ofp-tcp-listen-port=" + sys.argv[1]], default_config_files=[])
AppManager.run_apps(["ryu.controller.ofp_handler"])
"""


def test_mininet_imports() -> None:
    program = "import mininet.net, mininet.cli, mininet.node"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.fixture
def controller_port() -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", RYU, str(port)])
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def connect(port: int, seconds: float) -> socket.socket:
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=seconds)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def receive(connection: socket.socket) -> tuple[int, int]:
    """Version and type of the next OpenFlow message (OpenFlow 1.3.5, section A.1)."""
    version, kind, length, _ = struct.unpack("!BBHI", connection.recv(8, socket.MSG_WAITALL))
    connection.recv(length - 8, socket.MSG_WAITALL)
    return version, kind


def test_ryu_starts_and_agrees_on_openflow_13(controller_port: int) -> None:
    with connect(controller_port, seconds=30) as connection:
        assert receive(connection)[1] == OFPT_HELLO
        connection.sendall(struct.pack("!BBHI", OFP13, OFPT_HELLO, 8, 1))
        assert receive(connection) == (OFP13, OFPT_FEATURES_REQUEST)
